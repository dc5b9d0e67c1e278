"""Further test sets of a table: every row translates them, and all rows are scored alike.

    DIR/
      further-tests.json         the files of each test set, and how many of its words are unknown
      further/NAME.references    the references
      further/NAME.sources       the sentences to translate
      ROW/further-NAME.txt       a row's translations

A test set can be added later only to rows whose weights were kept.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.corpus.inputs import InputFile
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun
from transduce.experiments.experiment_folder import ADVICE, write_lines
from transduce.experiments.findings import Table
from transduce.experiments.rows import Data, Result, Text
from transduce.experiments.statistics import Resampled
from transduce.system.files import read_checksummed, require_regular, write_checksummed
from transduce.system.progress import Progress
from transduce.text.languages import guess_languages, language_code
from transduce.text.reading import read_lines, read_pairs

FORMAT = 1
RECORD, FOLDER = "further-tests.json", "further"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,59}")
WORD = re.compile(r"\w+")
MOST_READ = 1_000_000  # training pairs whose words count as known
ANOTHER_DOMAIN = 2.0  # times as many unknown words as in the test set
FEW_UNKNOWN = 0.05  # share of unknown words below which a domain does not count as another

Tests = Mapping[str, Text]


@dataclass(frozen=True, slots=True)
class FurtherTests:
    """The further test sets of a table's folder: those given now, and those recorded before."""

    folder: Path
    given: Tests
    data: Data

    def check(self) -> None:
        """Refuse unusable names and texts, before anything is written."""
        for name, text in self.given.items():
            self._check(name, text)

    def open(self, progress: Progress) -> None:
        """Record new test sets; refuse one whose files are not those of its name before."""
        record = self._record()
        new = {}
        for name, text in self.given.items():
            files = _files(text)
            if name in record["tests"]:
                self._require_same(name, files, record["tests"][name]["inputs"])
            else:
                new[name] = text
        if not new:
            return
        known = self._known_words(progress)
        own = self.data.test or self.data.valid
        if own is not None:
            record["unknown"] = _unknown(known, (source for source, _ in read_pairs(*own)))
        for name, text in new.items():
            pairs = list(read_pairs(*text))
            sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
            write_lines(self._text(name, "sources"), sources)
            write_lines(self._text(name, "references"), references)
            record["tests"][name] = {
                "inputs": [dataclasses.asdict(file.to_record()) for file in _files(text)],
                "unknown": _unknown(known, sources),
            }
        write_checksummed(self.folder / RECORD, record)

    @property
    def names(self) -> list[str]:
        """The names of all test sets, those of earlier calls included."""
        return list(self._record()["tests"])

    def missing(self, run: Path) -> list[str]:
        """Return the test sets that a row has not translated."""
        return [name for name in self.names if not self.translations(run, name).exists()]

    def sources(self, name: str) -> list[str]:
        """Return the sentences to translate."""
        return list(read_lines(require_regular(self._text(name, "sources"))))

    def references(self, name: str) -> list[str]:
        """Return the references."""
        return list(read_lines(require_regular(self._text(name, "references"))))

    def translations(self, run: Path, name: str) -> Path:
        """Return the path of a row's translations."""
        return run / f"further-{name}.txt"

    def unknown(self, name: str | None = None) -> float | None:
        """Return the share of source words that training lacks, by default in the test set."""
        record = self._record()
        value = record["unknown"] if name is None else record["tests"][name]["unknown"]
        return None if value is None else float(value)

    def resample(self, name: str, rows: Iterable[str], language: str) -> Resampled:
        """Score the rows that have translated a test set."""
        paths = {row: self.translations(self.folder / row, name) for row in rows}
        lines = {
            row: list(read_lines(require_regular(path)))
            for row, path in paths.items()
            if path.exists()
        }
        return Resampled(lines, self.references(name), language)

    def _record(self) -> dict[str, Any]:
        path = self.folder / RECORD
        if not path.exists():
            return {"format": FORMAT, "tests": {}, "unknown": None}
        record = read_checksummed(path, FORMAT, "further test sets", {"tests": dict[str, Any]})
        return {name: value for name, value in record.items() if name != "sha256"}

    def _text(self, name: str, side: str) -> Path:
        return self.folder / FOLDER / f"{name}.{side}"

    def _check(self, name: str, text: Text) -> None:
        """Refuse unusable names, missing files, and texts in other languages."""
        if not NAME.fullmatch(name):
            raise BadInput(
                f"--also-test {name!r:.60}: expected a name of letters, digits, _ and dots, such "
                "as newstest2014=newstest2014.en-fr.tsv"
            )
        for file in _files(text):
            if not file.path.is_file():
                raise BadInput(f"--also-test {name}: {file.path} does not exist or is not a file")
        languages, expected = guess_languages(*text), self.data.pair()
        unnamed = ("src", "tgt")
        if unnamed not in (languages, expected) and _codes(languages) != _codes(expected):
            raise BadInput(
                f"--also-test {name}: its file names say {'-'.join(languages)}, but the systems "
                f"translate {'-'.join(expected)}"
            )

    def _require_same(
        self, name: str, files: Sequence[InputFile], before: Sequence[dict[str, Any]]
    ) -> None:
        recorded = [InputRecord(**content) for content in before]
        same = len(files) == len(recorded) and all(
            file.matches(record) for file, record in zip(files, recorded, strict=True)
        )
        if not same:
            paths = " and ".join(record.path for record in recorded)
            raise BadRun(
                f"--also-test {name}: in {self.folder} this name stands for {paths}, with other "
                f"content: {ADVICE}, or another name"
            )

    def _known_words(self, progress: Progress) -> set[str]:
        """Return the source words of the training text."""
        known: set[str] = set()
        with progress.track("reading the words of the training text", None, "pairs") as advance:
            for source, _ in islice(read_pairs(*self.data.train), MOST_READ):
                known.update(_words(source))
                advance(1)
        return known


def _codes(languages: Iterable[str]) -> list[str]:
    return list(map(language_code, languages))


def _files(text: Text) -> list[InputFile]:
    paths = [Path(path) for path in text if path]
    return [InputFile(path, str(path.resolve())) for path in paths]


def _words(line: str) -> Iterator[str]:
    yield from WORD.findall(line.lower())


def _unknown(known: set[str], lines: Iterable[str]) -> float:
    """Return the share of the words of a text that are not known."""
    words = [word for line in lines for word in _words(line)]
    return sum(word not in known for word in words) / max(1, len(words))


def further_table(tests: FurtherTests, results: Mapping[str, Result], language: str) -> Table:
    """Return BLEU of each row on each further test set, compared with the first row."""
    first = next(iter(results))
    rows = []
    for name in tests.names:
        resampled = tests.resample(name, results, language)
        for row in resampled.whole:
            difference = interval = ""
            if row != first and first in resampled.whole:
                difference = f"{resampled.whole[row] - resampled.whole[first]:+z.2f}"
                low, high = resampled.difference(row, first)
                interval = f"{low:+.2f} to {high:+.2f}"
            estimate = resampled.estimate(row)
            rows.append(
                (
                    *(name, row, f"{estimate.value:.2f}"),
                    f"{estimate.low:.2f} to {estimate.high:.2f}",
                    *(difference, interval),
                )
            )
    columns = ("test set", "system", "BLEU", "95% interval", f"to {first}", "interval")
    return Table("The same models on further test sets", columns, tuple(rows))


def further_notes(
    tests: FurtherTests, results: Mapping[str, Result], names: Iterable[str]
) -> list[str]:
    """Say which test sets are from another domain, and which rows have not translated one."""
    notes, own = [], tests.unknown()
    for name in names:
        unknown = tests.unknown(name)
        assert unknown is not None
        beside = "" if own is None else f", of the test set {own:.1%}"
        note = f"{name}: {unknown:.1%} of its source words are not in the training text{beside}"
        if unknown > max(FEW_UNKNOWN, ANOTHER_DOMAIN * (own or 0.0)):
            note += "; it is from another domain, so low scores are expected"
        notes.append(f"{note}.")
    late = [row for row in results if tests.missing(tests.folder / row)]
    if late:
        notes.append(
            f"{', '.join(late)} did not translate every further test set: `--gather` was given, or "
            "their weights were deleted before (--keep-weights keeps them)."
        )
    return notes
