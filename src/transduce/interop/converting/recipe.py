"""Write a draft as a recipe: TOML with comments that give the outcome of every key."""

import json
import math
import os
import re
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transduce.interop.converting.draft import Draft, Pair
from transduce.interop.converting.keys import Entry

WIDTH = 100
HEADINGS = {
    "taken": "Taken over",
    "changed": "Changed",
    "not taken": "Not taken",
}
PRESET = "base"


def write(
    draft: Draft,
    departures: Sequence[str],
    entries: Sequence[Entry],
    files: Sequence[Path],
    folder: Path,
) -> str:
    """Return the text of a recipe for this folder."""
    keys = draft.keys
    about = f"Converted from {keys.toolkit}: {', '.join(path.name for path in files)}"
    steps = keys.settings.pop("steps", None)
    lines = [f"about = {toml(about)}", ""]
    lines += _comments("", [f"To do: {note}" for note in draft.to_do])
    lines += ["[data]", *_data(draft, folder), "", "[train]", f"preset = {toml(PRESET)}"]
    if steps and steps[0] != "none":
        lines.append(f"steps = {steps[0]}  # {_plain(steps[1])}")
    lines += ["", "[settings]"]
    if steps and steps[0] == "none":
        lines.append('steps = "none"  # epochs end the run')
    lines += [
        f"{name} = {toml(value)}  # {_plain(origin)}"
        for name, (value, origin) in keys.settings.items()
    ]
    if "test" in draft.text:
        lines += ["", "[evaluate]"]
        lines += [f"{name} = {toml(value)}" for name, value in draft.evaluate.items()]
        lines += [] if draft.evaluate else ["beam = 4", "alpha = 0.6"]
    for outcome, heading in HEADINGS.items():
        listed = [
            f"{entry.key} = {entry.value}: {entry.note}"
            for entry in entries
            if entry.outcome == outcome
        ]
        lines += ["", *_comments(f"{heading} ({len(listed)} of {len(entries)} keys)", listed)]
    heading = f"Where {keys.toolkit} departs from the paper by default, and this recipe does not"
    lines += ["", *_comments(heading, departures)]
    text = "\n".join(lines) + "\n"
    assert tomllib.loads(text)["settings"], "a recipe has settings"
    return text


def _data(draft: Draft, folder: Path) -> Iterator[str]:
    text = draft.text
    if "train" in text:
        source, target = _names(text["train"], folder)
        yield f"source = {toml(source)}"
        yield f"target = {toml(target)}"
    else:
        for side, language in zip(("source", "target"), draft.languages, strict=True):
            yield f"{side} = {toml(f'your-raw-text.{_plain(language)}')}  # to do"
    for part in ("valid", "test"):
        if part in text:
            yield f"{part} = {toml(_names(text[part], folder))}"


def _names(pair: Pair, folder: Path) -> list[str]:
    """Return two paths relative to the folder of the recipe."""
    base = folder.absolute()
    return [
        str(path)
        if path.is_absolute() and not path.is_relative_to(base)
        else os.path.relpath(path.absolute(), base)
        for path in pair
    ]


def _comments(heading: str, notes: Sequence[str]) -> list[str]:
    """Return comment lines: each note begins with a dash and is wrapped."""
    lines = [f"# {heading}:"] if heading and notes else []
    for note in notes:
        lines += textwrap.wrap(
            _plain(note),
            WIDTH,
            initial_indent="# - " if heading else "# ",
            subsequent_indent="#   " if heading else "# ",
            break_on_hyphens=False,
        )
    return lines


def _plain(note: str) -> str:
    """Return a note as one short line without characters that are not allowed in comments."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]+", " ", note)[:400]


def toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        assert math.isfinite(value)
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return re.sub(r"[\x7f\ud800-\udfff]", "_", text)
    return str(value)
