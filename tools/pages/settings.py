"""The page of the settings, made from the fields of the configurations."""

import re

from transduce.config import GROUPS, all_settings
from transduce.settings.aliases import NO_EQUIVALENT
from transduce.settings.base import SettingInfo, format_value

PAGE = "settings.md"
INTRODUCTION = """\
# Settings

Every setting with its default, which is the paper's where the paper has one. Presets change some of
them; what is not set is chosen from the data and the machine. A setting without a section is not in
the paper. [`transduce settings`](commands/settings.md) prints this list.

Settings of the model and of training are given as `--set NAME=VALUE` to [`transduce
train`](commands/train.md), in the `[settings]` of a [recipe](recipes.md), and as `settings={…}` to
[`train`](api/training.md#train) in Python. The names that other toolkits have for a setting work in
these places too."""
WHERE = {
    "model": "The architecture: `ModelConfig` in Python.",
    "training": "How a model is trained: `TrainConfig` in Python.",
    "search": "How translations are searched: options of [`transduce "
    "translate`](commands/translate.md), arguments of "
    "[`Translator.translate`](api/translating.md#translator), `SearchConfig` in Python.",
}
HEAD = ("setting", "default", "values", "paper", "meaning", "other names")


def page() -> str:
    """Write the page."""
    parts = [INTRODUCTION]
    for group in GROUPS:
        rows = [_row(one) for one in all_settings().values() if one.group == group]
        parts += [f"## {group.capitalize()}", WHERE[group], _table(rows)]
    parts += ["## Names that mean something else elsewhere", _elsewhere()]
    return "\n\n".join(parts) + "\n"


def _row(one: SettingInfo) -> tuple[str, ...]:
    values = re.sub(r"'([^']+)'", r"`\1`", one.values)
    aliases = ", ".join(f"`{alias}`" for alias in one.aliases)
    name, default = f"`{one.name}`", f"`{format_value(one.default)}`"
    return name, default, values, one.paper, _names(one.meaning), aliases


def _elsewhere() -> str:
    """List the names that are refused, with what to set instead."""
    groups: dict[str, list[str]] = {}
    for name, why in NO_EQUIVALENT.items():
        groups.setdefault(why, []).append(f"`{name}`")
    return "\n".join(f"- {', '.join(names)}: {_names(why)}." for why, names in groups.items())


def _names(text: str) -> str:
    """Write the names of settings in a sentence as code."""
    return re.sub(r"(?<![`\w])(\w+_\w+)(?![`\w(])", r"`\1`", text)


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [HEAD, ("---",) * len(HEAD), *rows])
