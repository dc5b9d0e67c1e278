"""The settings page, generated from the fields of the configurations."""

import re

from pages.markdown import table
from transduce.config import GROUPS, all_settings
from transduce.settings.aliases import NO_EQUIVALENT
from transduce.settings.base import SettingInfo, format_value

PAGE = "settings.md"
INTRODUCTION = """\
# Settings

Every setting with its default, which is the paper's value where the paper gives one. Presets change
some of them, and some are chosen from the data and the machine unless you set them. A setting
without a section is not in the paper. [`transduce settings`](commands/settings.md) prints the list.

Settings of the model and of training are given as `--set NAME=VALUE` to [`transduce
train`](commands/train.md), in the `[settings]` of a [recipe](recipes.md), and as `settings={…}` to
[`train`](api/training.md#train) in Python. The names that other toolkits use work there too."""
WHERE = {
    "model": "The architecture: `ModelConfig` in Python.",
    "training": "How a model is trained: `TrainConfig` in Python.",
    "search": "Beam search and sampling: options of [`transduce "
    "translate`](commands/translate.md), arguments of "
    "[`Translator.translate`](api/translating.md#translator), `SearchConfig` in Python.",
}
HEAD = ("setting", "default", "values", "paper", "meaning", "other names")


def page() -> str:
    """Write the page."""
    parts = [INTRODUCTION]
    for group in GROUPS:
        rows = [_row(setting) for setting in all_settings().values() if setting.group == group]
        parts += [f"## {group.capitalize()}", WHERE[group], table(HEAD, rows)]
    parts += ["## Names from other toolkits that mean something else here", _elsewhere()]
    return "\n\n".join(parts) + "\n"


def _row(setting: SettingInfo) -> tuple[str, ...]:
    values = re.sub(r"'([^']+)'", r"`\1`", setting.values)
    aliases = ", ".join(f"`{alias}`" for alias in setting.aliases)
    name, default = f"`{setting.name}`", f"`{format_value(setting.default)}`"
    return name, default, values, setting.paper, _names(setting.meaning), aliases


def _elsewhere() -> str:
    """List the names that are refused, and what to set instead."""
    groups: dict[str, list[str]] = {}
    for name, reason in NO_EQUIVALENT.items():
        groups.setdefault(reason, []).append(f"`{name}`")
    return "\n".join(f"- {', '.join(names)}: {_names(text)}." for text, names in groups.items())


def _names(text: str) -> str:
    """Write the names of settings in a sentence as code."""
    return re.sub(r"(?<![`\w])(\w+_\w+)(?![`\w(])", r"`\1`", text)
