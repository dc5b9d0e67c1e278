"""The outputs of cleaning. They appear when all of them are complete."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from transduce.errors import BadInput
from transduce.system.files import atomic_write
from transduce.text.compression import COMPRESSIONS
from transduce.text.reading import STDIN

Pair = tuple[str, str]


class CleanFiles:
    """Writes kept pairs to two files or one TSV, and removed ones to a TSV with their rule.

    Kept texts are written byte for byte as they were read. The columns of removed pairs are the
    rule, the number of the line, the source and the target.
    """

    def __init__(self, clean: Sequence[Path], removed: Path | None) -> None:
        self.paths = [*clean, *([removed] if removed else [])]
        refuse_existing(self.paths)
        self._tsv = len(clean) == 1
        self._has_removed = removed is not None
        self._stack = contextlib.ExitStack()
        self._files: list[BinaryIO] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for path in self.paths:
                temporary = stack.enter_context(atomic_write(path))
                self._files.append(stack.enter_context(temporary.open("wb")))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def write(self, block: Sequence[Pair], rules: Sequence[str], first: int) -> None:
        """Write a block of pairs; the first one is line `first`."""
        kept = [pair for pair, rule in zip(block, rules, strict=True) if not rule]
        if self._tsv:
            self._files[0].write(_encode(_tsv_lines(block, rules, first)))
        else:
            for file, side in zip(self._files, zip(*kept, strict=True), strict=False):
                file.write(_encode(side))
        if self._has_removed and len(kept) < len(block):
            self._files[-1].write(
                _encode(
                    f"{rule}\t{number}\t{_cell(source)}\t{_cell(target)}"
                    for number, ((source, target), rule) in enumerate(
                        zip(block, rules, strict=True), first
                    )
                    if rule
                )
            )


def refuse_existing(paths: Sequence[Path]) -> None:
    """Refuse outputs that exist, standard output, and names that say that they are compressed."""
    for path in paths:
        if str(path) == STDIN:
            raise BadInput(f"{path} is no name for a file: outputs appear when they are complete")
        if os.path.lexists(path):
            raise BadInput(f"{path} exists already: choose a new name, or delete it")
        if path.suffix.removeprefix(".") in COMPRESSIONS:
            raise BadInput(f"{path} would not be compressed: choose a name without {path.suffix}")
    if len({path.resolve() for path in paths}) < len(paths):
        raise BadInput("an output is named twice: expected different files")


def _tsv_lines(block: Sequence[Pair], rules: Sequence[str], first: int) -> Iterator[str]:
    for number, ((source, target), rule) in enumerate(zip(block, rules, strict=True), first):
        if not rule:
            if "\t" in source or "\t" in target:
                raise BadInput(f"pair {number:,} has a tab: expected two files for --out")
            yield source.removesuffix("\r") + "\t" + target


def _encode(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _cell(text: str) -> str:
    return text.replace("\t", " ").removesuffix("\r")
