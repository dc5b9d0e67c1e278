"""Read files of other toolkits: YAML, and shell scripts that call them. Nothing is executed."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from transduce.errors import BadInput, MissingExtra

MAX_SIZE = 1 << 18  # bytes; a configuration has a few thousand, and YAML is slow to parse
MAX_DEPTH = 20
BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# Includes 5e-4, which YAML 1.1 reads as text.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
ENDS = re.compile(r"[<>|;&\n][()<>|;&\n]*")  # these end a shell command
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
ASSIGNMENT = re.compile(r"(\w+)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a script."""

    words: list[str]
    environment: dict[str, str]  # variables set for it or before it


def read(path: Path) -> str:
    """Return the text of a small file."""
    if not path.is_file():  # a device or a pipe might never end
        raise BadInput(f"{path} is {'not a regular file' if path.exists() else 'missing'}")
    if path.stat().st_size > MAX_SIZE:
        raise BadInput(f"{path} is larger than {MAX_SIZE >> 10} KiB: expected a configuration")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(
            f"{path} is not text: expected a YAML file, or a script with the training command; "
            "checkpoints (.pt) are never opened, because reading one can run code"
        ) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping of plain values; refuse tags, aliases and other features.

    Only the parser of PyYAML is used, which yields events: no tag becomes an object.
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
        raise BadInput(f"{path}{where} is not YAML: {problem}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise BadInput(f"{path} is not a configuration: expected keys and values")
    return documents[0]


class _Values:
    """Builds plain values from a stream of YAML events."""

    def __init__(self, path: Path, events: Iterator[Any]) -> None:
        self._path, self._events = path, events

    def documents(self) -> Iterator[Any]:
        """Yield the value of each document."""
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                yield self._value(next(self._events), 0)

    def _value(self, event: Any, depth: int) -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent":  # with many of them, a small file can expand to a huge one
            self._refuse(event, f"repeats *{event.anchor}: write the values out")
        if event.tag is not None:
            self._refuse(event, f"has the tag {event.tag!r:.60}: expected plain values")
        if depth > MAX_DEPTH:
            self._refuse(event, f"is nested more than {MAX_DEPTH} deep")
        if kind == "ScalarEvent":
            return event.value if event.style else _plain(event.value)
        if kind == "SequenceStartEvent":
            return [self._value(part, depth + 1) for part in self._until("SequenceEndEvent")]
        mapping: dict[str, Any] = {}
        for key in self._until("MappingEndEvent"):
            if type(key).__name__ != "ScalarEvent":
                self._refuse(key, "has a key that is not a word")
            if key.value in mapping:  # YAML would silently drop the first
                self._refuse(key, f"has {key.value} again")
            mapping[key.value] = self._value(next(self._events), depth + 1)
        return mapping

    def _until(self, end: str) -> Iterator[Any]:
        while type(event := next(self._events)).__name__ != end:
            yield event

    def _refuse(self, event: Any, what: str) -> NoReturn:
        raise BadInput(f"{self._path}, line {event.start_mark.line + 1} {what}")


def _plain(text: str) -> str | float | bool | None:
    """Return the value of an unquoted word."""
    lower = text.lower()
    if lower in ("", "~", "null"):
        return None
    if lower in BOOLEANS:
        return BOOLEANS[lower]
    if NUMBER.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return text


def flat(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a tree with their paths: model.encoder.num_layers."""
    for key, value in tree.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and value:
            yield from flat(value, f"{name}.")
        else:
            yield name, value


def read_commands(path: Path) -> list[Command]:
    """Read the commands of a script, with the variables that it sets itself."""
    commands: list[Command] = []
    variables: dict[str, str] = {}
    for line in _split_commands(path):
        local: dict[str, str] = {}
        words = line[line[:1] == ["export"] :]
        while words and (match := ASSIGNMENT.fullmatch(words[0])):
            local[match[1]] = _substitute(match[2], variables)
            words = words[1:]
        if words:
            commands.append(Command(_expand(words, variables | local), variables | local))
        else:
            variables |= local
    return commands


def _split_commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command, without comments and redirections."""
    text = re.sub(r"\\\r?\n", " ", read(path))
    text = re.sub(r"(?m)^\s*(\$\s+|#.*)", "", text)  # prompts of a terminal, comments
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    command: list[str] = []
    comment = redirected = False
    try:
        for word in [*lexer, "\n"]:
            if "\n" in word:
                comment = redirected = False
            if comment or word.startswith("#"):
                comment = True
            elif ENDS.fullmatch(word.strip("()")):
                redirected = ">" in word or "<" in word
                if redirected and command and command[-1].isdigit():
                    command.pop()  # the number of a stream, as in 2>&1
                if not redirected and command:
                    yield command
                    command = []
            elif redirected:
                redirected = False
            elif word.strip("()"):
                command.append(word)
    except ValueError:
        raise BadInput(f"{path} has a quote that is never closed") from None


def _substitute(word: str, variables: dict[str, str]) -> str:
    return VARIABLE.sub(lambda match: variables.get(match[1] or match[2], match[0]), word)


def _expand(words: list[str], variables: dict[str, str]) -> list[str]:
    """Substitute known variables; one that is a whole word may expand to several words."""
    expanded = []
    for word in words:
        filled = _substitute(word, variables)
        alone = filled != word and VARIABLE.fullmatch(word)
        expanded += filled.split() if alone else [filled]
    return expanded
