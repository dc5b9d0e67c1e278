"""Files of other toolkits, read and never executed: YAML, and shell scripts that call them."""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.errors import BadInput, MissingExtra

LARGEST = 1 << 18  # bytes; a configuration has a few thousand, and YAML is slow to read
DEEPEST = 20
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
    """Read a YAML mapping of plain values; refuse what a configuration has no need of."""
    text = read(path)
    try:
        import yaml
    except ImportError:
        raise MissingExtra(f"the YAML of {path}", "PyYAML", "convert") from None
    try:
        _require_plain(path, yaml.parse(text, Loader=yaml.SafeLoader))
        _require_single(path, yaml.compose(text, Loader=yaml.SafeLoader))
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise BadInput(f"{path}{where} is no YAML of plain values: {problem}") from None
    if not isinstance(value, dict):
        raise BadInput(f"{path} is no configuration: expected keys and values")
    return value


def _require_plain(path: Path, events: Iterator[Any]) -> None:
    """Refuse what grows when it is read: aliases, and nesting without an end."""
    depth = 0
    for event in events:
        kind, line = type(event).__name__, event.start_mark.line + 1
        if kind == "AliasEvent":
            raise BadInput(f"{path}, line {line} repeats *{event.anchor}: write the values out")
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > DEEPEST:
            raise BadInput(f"{path}, line {line} is nested more than {DEEPEST} deep")


def _require_single(path: Path, node: Any) -> None:
    """Refuse a key that stands twice: YAML would drop the first without a word."""
    seen = set()
    for part in getattr(node, "value", []) if not isinstance(node and node.value, str) else []:
        key, value = part if isinstance(part, tuple) else (None, part)
        if key is not None:
            if key.value in seen:
                raise BadInput(f"{path}, line {key.start_mark.line + 1} has {key.value} again")
            if not isinstance(key.value, str):
                raise BadInput(f"{path}, line {key.start_mark.line + 1} has a key that is no word")
            seen.add(key.value)
        _require_single(path, value)


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
