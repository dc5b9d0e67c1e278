"""Files of other toolkits, read and never executed: YAML, and shell scripts that call them."""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from transduce.errors import BadInput, MissingExtra

LARGEST = 1 << 18  # bytes; a configuration has a few thousand, and YAML is slow to read
DEEPEST = 20
BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# With 5e-4, which YAML 1.1 takes for a word, as nobody means it.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
ENDS = re.compile(r"[<>|;&]+")  # what ends a command of the shell
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
ASSIGNMENT = re.compile(r"(\w+)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a script."""

    words: list[str]
    environment: dict[str, str]  # what is set for it, or before it


def read(path: Path) -> str:
    """Return the text of a small file."""
    if not path.is_file():  # a device or a pipe might never end
        raise BadInput(f"{path} is {'no file' if path.exists() else 'missing'}")
    if path.stat().st_size > LARGEST:
        raise BadInput(f"{path} is larger than {LARGEST >> 10} KiB: it is no configuration")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(
            f"{path} is no text: expected a YAML file, or a script with the command that trains; "
            "checkpoints (.pt) are never opened, for reading one can run code"
        ) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping of plain values; refuse what a configuration has no need of.

    Of PyYAML only its parser is used, which makes nothing but events: no tag becomes an object.
    """
    text = read(path)
    try:
        import yaml
    except ImportError:
        raise MissingExtra(f"the YAML of {path}", "PyYAML", "convert") from None
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        documents = list(_Values(path, events).documents())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise BadInput(f"{path}{where} is no YAML: {problem}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise BadInput(f"{path} is no configuration: expected keys and values")
    return documents[0]


class _Values:
    """The values that a stream of YAML's events tells of."""

    def __init__(self, path: Path, events: Iterator[Any]) -> None:
        self._path, self._events = path, events

    def documents(self) -> Iterator[Any]:
        """Pass over the values of all documents."""
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                yield self._value(next(self._events), 0)

    def _value(self, event: Any, depth: int) -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent":  # with many of them a small file can stand for a huge one
            self._refuse(event, f"repeats *{event.anchor}: write the values out")
        if event.tag is not None:
            self._refuse(event, f"has the tag {event.tag!r:.60}: expected plain values")
        if depth > DEEPEST:
            self._refuse(event, f"is nested more than {DEEPEST} deep")
        if kind == "ScalarEvent":
            return event.value if event.style else _plain(event.value)
        if kind == "SequenceStartEvent":
            return [self._value(part, depth + 1) for part in self._until("SequenceEndEvent")]
        found: dict[str, Any] = {}
        for key in self._until("MappingEndEvent"):
            if type(key).__name__ != "ScalarEvent":
                self._refuse(key, "has a key that is no word")
            if key.value in found:  # YAML would drop the first without a word
                self._refuse(key, f"has {key.value} again")
            found[key.value] = self._value(next(self._events), depth + 1)
        return found

    def _until(self, end: str) -> Iterator[Any]:
        while type(event := next(self._events)).__name__ != end:
            yield event

    def _refuse(self, event: Any, what: str) -> NoReturn:
        raise BadInput(f"{self._path}, line {event.start_mark.line + 1} {what}")


def _plain(text: str) -> str | float | bool | None:
    """Return what a word without quotes stands for."""
    lower = text.lower()
    if lower in ("", "~", "null"):
        return None
    if lower in BOOLEANS:
        return BOOLEANS[lower]
    if NUMBER.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return text


def flat(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Pass over the values of a tree, named by their way: model.encoder.num_layers."""
    for key, value in tree.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and value:
            yield from flat(value, f"{name}.")
        else:
            yield name, value


def read_commands(path: Path) -> list[Command]:
    """Read the commands of a script, with the variables that it sets itself; nothing is run."""
    commands: list[Command] = []
    variables: dict[str, str] = {}
    for line in _lines(path):
        own: dict[str, str] = {}
        words = line[line[:1] == ["export"] :]
        while words and (match := ASSIGNMENT.fullmatch(words[0])):
            own[match[1]] = _filled(match[2], variables)
            words = words[1:]
        if words:
            commands.append(Command(_expanded(words, variables | own), variables | own))
        else:
            variables |= own
    return commands


def _lines(path: Path) -> Iterator[list[str]]:
    """Pass over the words of each command; a backslash or an open quote goes on below."""
    kept = ""
    lines = read(path).replace("\\\r\n", " ").replace("\\\n", " ").splitlines()
    for number, line in enumerate(lines, 1):
        kept = f"{kept}\n{line}" if kept else re.sub(r"^\s*(\$\s+|#.*)", "", line)
        lexer = shlex.shlex(kept, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:
            if number == len(lines):
                raise BadInput(f"{path} has a quote that is never closed") from None
            continue
        kept = ""
        yield from _parted(words)


def _parted(words: list[str]) -> Iterator[list[str]]:
    """Pass over the commands of one line."""
    found: list[str] = []
    skipping = False  # the file that output goes to
    for word in words:
        if word.startswith("#"):
            break
        if ENDS.fullmatch(word):
            skipping = ">" in word or "<" in word
            if skipping and found and found[-1].isdigit():
                found.pop()  # the number of a stream, as in 2>&1
            if not skipping and found:
                yield found
                found = []
        elif skipping:
            skipping = False
        elif word.strip("()"):
            found.append(word)
    if found:
        yield found


def _filled(word: str, variables: dict[str, str]) -> str:
    return VARIABLE.sub(lambda match: variables.get(match[1] or match[2], match[0]), word)


def _expanded(words: list[str], variables: dict[str, str]) -> list[str]:
    """Put in the variables that are known; one that is a whole word may hold several words."""
    found = []
    for word in words:
        filled = _filled(word, variables)
        alone = filled != word and VARIABLE.fullmatch(word)
        found += filled.split() if alone else [filled]
    return found


def program(word: str) -> str:
    """Return the name of a program without its folder."""
    return os.path.basename(word)  # noqa: PTH119 (a word of a script, no path of this machine)
