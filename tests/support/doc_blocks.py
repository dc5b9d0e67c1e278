"""Blocks of code in the pages, and what a reader would do with them."""

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
# A page whose commands were run elsewhere, on another day, says so once.
ELSEWHERE = "run elsewhere, on another day"
PARSED = "<!-- commands of this page are parsed, not run -->"
RUN = ("console", "python")
# Commands to which the word is a name, of a package or of an image.
NAMES_IT = [["pip", "install"], ["pip", "uninstall"], ["docker", "build"]]
SHOWN = ("", "text", "toml", "yaml", "json")  # for the eye; toml is read


@dataclass(frozen=True)
class Block:
    """A block of code."""

    page: Path
    line: int  # where it begins
    language: str
    text: str
    reason: str | None  # why it is not run
    service: bool  # whether it needs a running service

    @property
    def where(self) -> str:
        """The place of the block, for messages."""
        return f"{self.page.name}, line {self.line}"

    def commands(self) -> list[str]:
        """Return the commands of a console block, those of several lines as one."""
        joined = self.text.replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]

    def ours(self) -> Iterator[list[str]]:
        """Yield the words of each of our commands, however it is started, `transduce` left out."""
        lines = self.commands() if self.language == "console" else self._lines()
        for line in lines:
            for stage in stages(line):
                if "transduce" in stage.words and stage.words[:2] not in NAMES_IT:
                    yield stage.words[stage.words.index("transduce") + 1 :]

    def _lines(self) -> list[str]:
        """Return the lines of a script, or of a block without a language, that begin a command."""
        begins = ("transduce ", "torchrun ", "srun torchrun ", "time transduce ", "$ transduce ")
        joined = self.text.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ") for line in joined if line.startswith(begins)]


@dataclass
class Stage:
    """One program of a line, and where its input and output go."""

    words: list[str] = field(default_factory=list)
    read: str | None = None
    write: str | None = None
    piped: bool = False  # from the program before

    @property
    def environment(self) -> dict[str, str]:
        """The variables that are set before its name."""
        return dict(one.split("=", 1) for one in self._set())

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
    found = []
    begin: int | None = None
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if match and begin is None:
            begin, language = number, match[2]
        elif match and begin is not None:
            above = _above(lines, begin)
            reason = NOT_RUN.fullmatch(above)
            body = textwrap.dedent("\n".join(lines[begin + 1 : number]) + "\n")
            why = reason[1] if reason else ELSEWHERE if parsed else None
            found.append(Block(page, begin + 1, language, body, why, above == WITH_A_SERVICE))
            begin = None
    assert begin is None, f"{page.name}: the block of line {begin} does not end"
    return found


def _above(lines: list[str], number: int) -> str:
    """Return the last line above that is not blank."""
    before = [line.strip() for line in lines[:number] if line.strip()]
    return before[-1] if before else ""


def stages(line: str) -> list[Stage]:
    """Split a line of the shell into programs: pipes, && and files are known, and nothing else."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&<>;")
    lexer.whitespace_split = True
    found = [Stage()]
    words = iter(lexer)
    for word in words:
        if word in ("|", "&&"):
            found.append(Stage(piped=word == "|"))
        elif word == ">":
            found[-1].write = next(words)
        elif word == "<":
            found[-1].read = next(words)
        else:
            found[-1].words.append(word)
    return found
