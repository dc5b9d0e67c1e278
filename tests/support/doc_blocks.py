"""The code blocks of documentation pages, and the commands in them."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

FENCE = re.compile(r"^( *)```(\S*)")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
WITH_A_SERVICE = "<!-- with a service -->"
# A page whose commands were run on another machine says so once.
ELSEWHERE = "run elsewhere, on another day"
PARSED = "<!-- commands of this page are parsed, not run -->"
RUN = ("console", "python")
# Commands in which `transduce` is the name of a package or of an image.
NAME_ONLY = [["pip", "install"], ["pip", "uninstall"], ["docker", "build"]]
SHOWN = ("", "text", "toml", "yaml", "json")  # not run; toml is parsed


@dataclass(frozen=True)
class Block:
    """A block of code."""

    page: Path
    line: int  # of its first line
    language: str
    text: str
    reason: str | None  # why it is not run
    service: bool  # whether it needs a running service

    @property
    def where(self) -> str:
        """The position of the block, for messages."""
        return f"{self.page.name}, line {self.line}"

    def commands(self) -> list[str]:
        """Return the commands of a console block; continued lines are joined."""
        joined = self.text.replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    def ours(self) -> Iterator[list[str]]:
        """Yield the words after `transduce` of each of our commands."""
        lines = self.commands() if self.language == "console" else self._lines()
        for line in lines:
            for stage in stages(line):
                if "transduce" in stage.words and stage.words[:2] not in NAME_ONLY:
                    yield stage.words[stage.words.index("transduce") + 1 :]

    def _lines(self) -> list[str]:
        """Return the lines of a script that start one of our commands."""
        begins = ("transduce ", "torchrun ", "srun torchrun ", "time transduce ", "$ transduce ")
        joined = self.text.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ") for line in joined if line.startswith(begins)]


@dataclass
class Stage:
    """One program of a command line, with its input and output."""

    words: list[str] = field(default_factory=list)
    read: str | None = None
    write: str | None = None
    piped: bool = False  # from the program before

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables set before its name."""
        return dict(word.split("=", 1) for word in self._set())

    @property
    def command(self) -> list[str]:
        """The program and its arguments."""
        return self.words[len(self._set()) :]

    def _set(self) -> list[str]:
        count = 0
        while count < len(self.words) and re.match(r"[A-Z_]+=", self.words[count]):
            count += 1
        return self.words[:count]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    parsed = any(line.strip() == PARSED for line in lines)
    result = []
    begin: int | None = None
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if match and begin is None:
            begin, language = number, match[2]
        elif match and begin is not None:
            above = _above(lines, begin)
            reason = NOT_RUN.fullmatch(above)
            body = textwrap.dedent("\n".join(lines[begin + 1 : number]) + "\n")
            skipped = reason[1] if reason else ELSEWHERE if parsed else None
            result.append(Block(page, begin + 1, language, body, skipped, above == WITH_A_SERVICE))
            begin = None
    assert begin is None, f"{page.name}: the block of line {begin} does not end"
    return result


def _above(lines: list[str], number: int) -> str:
    """Return the last line above that is not blank."""
    before = [line.strip() for line in lines[:number] if line.strip()]
    return before[-1] if before else ""


def stages(line: str) -> list[Stage]:
    """Split a shell line into programs; only pipes, && and redirection are supported."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&<>;")
    lexer.whitespace_split = True
    programs = [Stage()]
    words = iter(lexer)
    for word in words:
        if word in ("|", "&&"):
            programs.append(Stage(piped=word == "|"))
        elif word == ">":
            programs[-1].write = next(words)
        elif word == "<":
            programs[-1].read = next(words)
        else:
            programs[-1].words.append(word)
    return programs
