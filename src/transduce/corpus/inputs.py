"""The texts that a corpus is made of: read several times, and known again."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from transduce.corpus.token_files import SIDES, InputRecord
from transduce.system.files import sha256, working_folder
from transduce.system.progress import Advance
from transduce.text.reading import STDIN, display_name, read_pairs

Pair = tuple[str, str]

REPORTED = 4_096  # pairs between two reports of progress


@dataclass(frozen=True)
class InputFile:
    """A file of text that can be read again, and the name that people know it by."""

    path: Path
    name: str

    def agrees(self, old: InputRecord) -> bool:
        """Tell whether this is the text of then: by its name, size and time, else by its hash."""
        size, mtime_ns = self.facts()
        if size != old.size:
            return False
        if (self.name, mtime_ns) == (old.path, old.mtime_ns):
            return True
        try:
            return sha256(self.path) == old.sha256
        except OSError:
            return False  # reading it will say why

    def facts(self) -> tuple[int, int]:
        """Return what changes when the file does: its size and its time."""
        try:
            now = self.path.stat()
        except OSError:
            return -1, -1  # reading it will say why
        return now.st_size, now.st_mtime_ns

    def describe(self) -> InputRecord:
        """Return what is remembered of the text."""
        size, mtime_ns = self.facts()
        return InputRecord(path=self.name, size=size, mtime_ns=mtime_ns, sha256=sha256(self.path))


@dataclass(frozen=True)
class InputText:
    """A text of pairs that can be read more than once."""

    source: str | Path
    target: str | Path | None
    files: list[InputFile]
    name: str

    @classmethod
    def of(
        cls,
        source: str | Path,
        target: str | Path | None,
        folder: Path,
        stack: contextlib.ExitStack,
    ) -> Self:
        """Copy what comes through a pipe beside `folder`, for as long as `stack` is open."""
        given = [source] if target is None else [source, target]
        name = " and ".join(map(display_name, given))
        if all(map(_lasts, given)):
            files = [InputFile(Path(path), str(Path(path).resolve())) for path in given]
            return cls(source, target, files, name)
        spool = stack.enter_context(working_folder(folder))
        left, right = (spool / side for side in SIDES)
        with left.open("wb") as sources, right.open("wb") as targets:
            for sentence, translation in read_pairs(source, target):
                sources.write(sentence.encode() + b"\n")
                targets.write(translation.encode() + b"\n")
        return cls(left, right, [InputFile(left, name), InputFile(right, name)], name)

    def pairs(self, advance: Advance) -> Iterator[Pair]:
        """Yield the pairs, and report them."""
        number = 0
        for number, pair in enumerate(read_pairs(self.source, self.target), start=1):
            yield pair
            if number % REPORTED == 0:
                advance(REPORTED)
        advance(number % REPORTED)


def _lasts(path: str | Path) -> bool:
    """Tell whether a path can be read more than once; one that is not there can, and fails."""
    return str(path) != STDIN and (
        Path(path).is_file() or Path(path).is_dir() or not Path(path).exists()
    )
