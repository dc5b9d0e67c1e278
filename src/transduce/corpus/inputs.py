"""The texts that a corpus is made from: read several times, and compared with earlier versions."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from transduce.corpus.token_files import SIDES, InputRecord
from transduce.errors import BadInput
from transduce.system.files import sha256, working_folder
from transduce.system.progress import Advance
from transduce.text.corpora import CorpusText, Files
from transduce.text.reading import STDIN, display_name, read_pairs

Pair = tuple[str, str]

REPORTED = 4_096  # pairs between progress reports


@dataclass(frozen=True)
class InputFile:
    """A text file that can be read several times, and its name in messages."""

    path: Path
    name: str

    def matches(self, record: InputRecord) -> bool:
        """Return whether the file is unchanged: same size, and same name and time or same hash."""
        size, mtime_ns = self.size_and_time()
        if size != record.size:
            return False
        if (self.name, mtime_ns) == (record.path, record.mtime_ns):
            return True
        try:
            return sha256(self.path) == record.sha256
        except OSError:
            return False  # reading the file will report the reason

    def size_and_time(self) -> tuple[int, int]:
        """Return the file's size and modification time."""
        try:
            status = self.path.stat()
        except OSError:
            return -1, -1  # reading the file will report the reason
        return status.st_size, status.st_mtime_ns

    def to_record(self) -> InputRecord:
        """Return the record that `matches` compares with later."""
        size, mtime_ns = self.size_and_time()
        return InputRecord(path=self.name, size=size, mtime_ns=mtime_ns, sha256=sha256(self.path))


@dataclass(frozen=True)
class InputText:
    """A parallel text that can be read several times."""

    source: str | Path
    target: str | Path | None
    files: list[InputFile]
    name: str
    tsv: bool  # one file with both sides, which may be equal
    languages: tuple[str, str] | None = None  # to choose from a file with several
    reverse: bool = False  # the first side is the target

    @classmethod
    def of(
        cls,
        given: Files,
        folder: Path,
        stack: contextlib.ExitStack,
        languages: tuple[str, str] | None = None,
    ) -> Self:
        """Open a text; a pipe is copied to a temporary folder that lasts as long as `stack`."""
        source, target = given
        paths = [source] if target is None else [source, target]
        name = " and ".join(map(display_name, paths))
        if all(map(_can_be_reread, paths)):
            files = [InputFile(Path(path), str(Path(path).resolve())) for path in paths]
            return cls(source, target, files, name, target is None, languages)
        copy = stack.enter_context(working_folder(folder))
        source_copy, target_copy = (copy / side for side in SIDES)
        with source_copy.open("wb") as sources, target_copy.open("wb") as targets:
            for sentence, translation in read_pairs(source, target, languages=languages):
                sources.write(sentence.encode() + b"\n")
                targets.write(translation.encode() + b"\n")
        files = [InputFile(source_copy, name), InputFile(target_copy, name)]
        return cls(source_copy, target_copy, files, name, target is None)

    def pairs(self, advance: Advance) -> Iterator[Pair]:
        """Yield the pairs, and report progress."""
        number = 0
        pairs = read_pairs(self.source, self.target, languages=self.languages)
        for number, pair in enumerate(pairs, start=1):
            yield pair[::-1] if self.reverse else pair
            if number % REPORTED == 0:
                advance(REPORTED)
        advance(number % REPORTED)

    def reversed(self) -> "InputText":
        """Return the same text with its sides swapped."""
        return dataclasses.replace(self, reverse=not self.reverse)


@dataclass(frozen=True)
class CorpusInput:
    """The text of a corpus, and its own validation text if it has one."""

    corpus: CorpusText
    text: InputText
    valid: InputText | None

    @property
    def name(self) -> str:
        """The name of the corpus."""
        return self.corpus.name or ""

    def reversed(self, corpus: CorpusText) -> "CorpusInput":
        """Return the same texts with their sides swapped, as those of another corpus."""
        valid = self.valid.reversed() if self.valid else None
        return CorpusInput(corpus, self.text.reversed(), valid)


@dataclass(frozen=True)
class Inputs:
    """The texts of all corpora, and a validation text apart from them, if there is one."""

    corpora: list[CorpusInput]
    valid: InputText | None

    @classmethod
    def of(
        cls,
        corpora: Sequence[CorpusText],
        valid: Files | None,
        folder: Path,
        stack: contextlib.ExitStack,
        languages: tuple[str, str] | None = None,
    ) -> Self:
        """Open all texts; see `InputText.of`."""
        given = [
            *(text for c in corpora if not c.reverse for text in (c.files, c.valid)),
            valid,
        ]
        if sum(STDIN in map(str, files or ()) for files in given) > 1:
            raise BadInput("standard input is named for two texts: expected files for all but one")
        for corpus in corpora:
            if valid and corpus.valid:
                raise BadInput(
                    f"there is validation text for all corpora and for {corpus.name} alone: give "
                    "one of them"
                )

        def opened(files: Files | None, pair: tuple[str, str] | None = None) -> InputText | None:
            return InputText.of(files, folder, stack, pair or languages) if files else None

        inputs: list[CorpusInput] = []
        for corpus in corpora:
            if corpus.reverse:  # it follows the same corpus in the other direction
                inputs.append(inputs[-1].reversed(corpus))
                continue
            text = InputText.of(corpus.files, folder, stack, corpus.pair or languages)
            inputs.append(CorpusInput(corpus, text, opened(corpus.valid, corpus.pair)))
        return cls(inputs, opened(valid))

    @property
    def texts(self) -> list[InputText]:
        """All texts, training text first in each corpus."""
        pairs = [(c.text, c.valid) for c in self.corpora if not c.corpus.reverse]
        texts = [*(text for pair in pairs for text in pair), self.valid]
        return [text for text in texts if text]

    @property
    def files(self) -> list[InputFile]:
        """The files of all texts."""
        return [file for text in self.texts for file in text.files]

    @property
    def name(self) -> str:
        """The names of the training texts."""
        return ", ".join(dict.fromkeys(corpus.text.name for corpus in self.corpora))


def _can_be_reread(path: str | Path) -> bool:
    """Return whether a path is not a pipe; a missing file is reported when it is read."""
    return str(path) != STDIN and (
        Path(path).is_file() or Path(path).is_dir() or not Path(path).exists()
    )


def require_rereadable(paths: Iterable[Path], kind: str) -> None:
    """Refuse files that are missing, or that could not be read again when resuming."""
    for path in paths:
        if str(path) != STDIN and not path.exists():
            raise BadInput(f"{path} does not exist: expected {kind}")
        if not path.is_file():
            raise BadInput(
                f"{path} is not a regular file: expected {kind} that can be read again, because "
                "this resumes after a stop"
            )
