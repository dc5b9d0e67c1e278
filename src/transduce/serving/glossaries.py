"""Glossaries: those of the service, and those that requests bring."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from transduce.errors import BadInput, TransduceError, did_you_mean
from transduce.glossary import Entry, Glossary, parse_flags
from transduce.markup import SpanRules
from transduce.serving.limits import TERM
from transduce.serving.models import ServedModel
from transduce.serving.problems import SHOWN, Problem
from transduce.serving.schemas import GlossaryEntry, GlossaryValue, TextOptions
from transduce.serving.service import in_background
from transduce.translation.segments import Preparation, preparation

Glossaries = Mapping[str, Glossary]


def load_glossaries(options: Sequence[str]) -> dict[str, Glossary]:
    """Read the glossaries of `serve --glossary [NAME=]FILE`; a file's name is the default name."""
    glossaries: dict[str, Glossary] = {}
    for option in options:
        name, separator, path = option.partition("=")
        if not separator or Path(option).exists():
            name, path = Path(option).stem, option
        if not name.strip():
            raise BadInput(f"--glossary {option}: expected a name before the =, or only a file")
        if name in glossaries:
            raise BadInput(
                f"--glossary {option}: there are two glossaries {name}; requests select one by its "
                "name, so give another one: --glossary NAME=FILE"
            )
        glossaries[name] = Glossary.load(path)
        glossaries[name].find("")  # makes its index before the first request
    return glossaries


def find_glossary(value: GlossaryValue | None, glossaries: Glossaries) -> Glossary | None:
    """Return the glossary of a request: one of the service, or its own entries."""
    if value is None:
        return None
    if isinstance(value, str):
        if value in glossaries:
            return glossaries[value]
        name = value[:SHOWN]
        names = f" The glossaries are: {', '.join(glossaries) or 'none'}"
        raise Problem(400, f"there is no glossary {name}.{did_you_mean(name, glossaries) or names}")
    try:
        glossary = Glossary.of(value if isinstance(value, dict) else [*map(_entry, value)])
    except TransduceError as error:
        raise Problem(400, str(error)) from None
    glossary.find("")  # makes its index
    return glossary


async def make_preparation(
    parameters: TextOptions, model: ServedModel, *, split: bool = True, tag: str | None = None
) -> Preparation:
    """Return how to prepare the texts of a request."""
    value = parameters.glossary
    size = 0 if value is None or isinstance(value, str) else TERM * len(value)
    glossary = await in_background(partial(find_glossary, value, model.glossaries), size)
    # Words only: the expressions of strangers could take forever.
    keep = SpanRules(words=parameters.keep) if parameters.keep else None
    return preparation(split=split, tag=tag, keep=keep, glossary=glossary)


def _entry(entry: GlossaryEntry) -> Entry:
    flags = parse_flags(" ".join(entry.flags), f"the entry {entry.source!r:.60}")
    return Entry(entry.source, entry.target, *flags)
