"""Train a parser on gold trees and on trees that parsers made of raw text (paper 6.3, Table 4).

DIR/
  experiment.json       the trees, the raw text and the settings
  cut/                  with a share of gold trees: gold.trees, rest.trees, rest.words, unseen.trees
  parser/               the supervised parser, trained on gold trees alone; row.json: its scores
  parser-2/ …           the same with other seeds, to parse raw text only
  unlabelled/           the trees of the raw text (`parsing.automatic`)
  semi-supervised/      the parser trained on both; row.json
  ensemble/             row.json: the scores of all parsers of gold trees, searching jointly
  result.json           the scores; if it exists, nothing is trained or scored again
  test.gold.trees, unseen.gold.trees     for EVALB; each row has its parses: test.parsed.trees, …
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transduce.corpus.inputs import InputFile
from transduce.errors import BadInput
from transduce.experiments.experiment_folder import (
    EXPERIMENT,
    FORMAT,
    RESULT,
    change_options,
    read_result,
    save_result,
    write_lines,
)
from transduce.experiments.parser_experiment import (
    GOLD,
    PARSED,
    PARSER,
    ParserExperiment,
    Result,
    Scores,
    gold_trees,
    scores_from_json,
)
from transduce.experiments.statistics import ResampledF1
from transduce.parsing.automatic import SUMMARY, AutomaticTrees, Summary
from transduce.parsing.evaluation import score_tree
from transduce.parsing.raw_text import RawText, count_lines, keys_of, sentence_key
from transduce.parsing.training import SEARCH
from transduce.parsing.trees import Tree, normalize, read_trees
from transduce.presets import find_preset
from transduce.system.files import atomic_folder, read_checksummed, write_checksummed
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt
from transduce.training.settings import configure

SUPERVISED, STUDENT, ENSEMBLE = "supervised", "semi-supervised", "ensemble"
FOLDERS = {SUPERVISED: PARSER, STUDENT: STUDENT, ENSEMBLE: ENSEMBLE}
CUT, UNLABELLED, ROW = "cut", "unlabelled", "row.json"
GOLD_TREES, UNSEEN_TREES = "gold.trees", "unseen.trees"
REST_TREES, REST_WORDS = "rest.trees", "rest.words"
# The paper's parser has 16,000 subwords, and 32,000 if semi-supervised.
STUDENT_VOCABULARY = {"parse": 32_000}
MAX_PARSERS = 16
# Options that may change until automatic trees are selected: no parser depends on them before.
LATE = ("keep", "agreement", "weight", "student-steps", "student-vocabulary", "ensemble")


@dataclass(frozen=True, kw_only=True)
class RawOptions:
    """How raw text is parsed and used."""

    gold: float | None = None  # share of the trees to learn from; None: all
    unseen: float = 0.1  # share of the trees to hold out, with `gold`
    unlabelled: tuple[Path, ...] = ()
    words: bool = False  # whether the words of `unlabelled` are separated by spaces already
    lines: int | None = None  # most lines of raw text to parse
    parsers: int = 2
    raw_beam: int = 4
    keep: float = 0.5
    agreement: float = 0.9
    weight: float = 1.0
    student_steps: int | None = None
    student_vocabulary: int | None = None
    ensemble: bool = False

    def check(self) -> None:
        """Refuse impossible options."""
        gold = self.gold
        for name, value, fits, expected in (
            ("gold", gold, gold is None or 0 < gold < 1, "a share above 0, below 1"),
            ("unseen", self.unseen, 0 < self.unseen < 1, "a share above 0, below 1"),
            ("parsers", self.parsers, 1 <= self.parsers <= MAX_PARSERS, f"1 to {MAX_PARSERS}"),
            ("raw-beam", self.raw_beam, self.raw_beam >= 1, "at least 1"),
            ("keep", self.keep, 0 < self.keep <= 1, "a share above 0, up to 1"),
            ("agreement", self.agreement, 0 <= self.agreement <= 1, "an F1 from 0 to 1"),
            ("weight", self.weight, 0 < self.weight <= 1_000, "above 0, at most 1,000"),
        ):
            if not fits:
                raise BadInput(f"--{name} {value}: expected {expected}")
        SEARCH.replace(beam=self.raw_beam).check()
        if gold is not None and gold + self.unseen >= 1:
            raise BadInput(
                f"--gold {gold:g} and --unseen {self.unseen:g} leave no trees whose words could be "
                "raw text: expected a sum below 1"
            )
        if gold is None and not self.unlabelled:
            raise BadInput(
                "there is no raw text: give a file (--unlabelled FILE), or learn from a share of "
                "the trees (--gold 0.25) and use the words of the others"
            )
        if self.ensemble and self.parsers < 2:
            raise BadInput(
                "--ensemble scores several parsers together: expected --parsers 2 or more"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the options that results depend on, apart from the files."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "unlabelled"]
        return {name.replace("_", "-"): getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Row:
    """The scores of a parser or an ensemble."""

    test: Scores
    unseen: Scores | None  # on trees that no parser has seen in any form
    result: Result | None  # None: an ensemble

    @classmethod
    def from_json(
        cls,
        *,
        test: dict[str, Any],
        unseen: dict[str, Any] | None,
        result: dict[str, Any] | None,
    ) -> Self:
        """Make a row from the fields in row.json."""
        return cls(
            scores_from_json(test),
            scores_from_json(unseen) if unseen else None,
            Result.from_json(**result) if result else None,
        )


@dataclass(frozen=True, slots=True)
class SemiResult:
    """The result of the experiment."""

    rows: dict[str, Row]
    automatic: Summary

    @classmethod
    def from_json(cls, *, rows: dict[str, Any], automatic: dict[str, Any]) -> Self:
        """Make a result from the fields in result.json."""
        each = {name: Row.from_json(**row) for name, row in rows.items()}
        return cls(each, Summary.from_json(**automatic))


@dataclass(frozen=True, kw_only=True)
class SemiSupervised:
    """An experiment with a supervised and a semi-supervised parser."""

    base: ParserExperiment
    raw: RawOptions

    @property
    def folder(self) -> Path:
        """The folder of the experiment."""
        return self.base.folder

    @property
    def gold(self) -> Path:
        """The trees to learn from."""
        return self.base.train if self.raw.gold is None else self.folder / CUT / GOLD_TREES

    @property
    def student_settings(self) -> dict[str, str]:
        """The settings of the semi-supervised parser: the others', apart from two."""
        settings = dict(self.base.settings)
        if self.raw.student_steps is not None:
            settings.pop("seconds", None)
            settings["steps"] = str(self.raw.student_steps)
        vocabulary = self.raw.student_vocabulary
        if vocabulary is None and "vocabulary" not in settings:
            vocabulary = STUDENT_VOCABULARY.get(self.base.preset)
        return settings | ({} if vocabulary is None else {"vocabulary": str(vocabulary)})

    def open(self, progress: Progress) -> None:
        """Create the folder, or refuse one that was created with a different setup."""
        self.raw.check()
        for path in self.raw.unlabelled:
            if not path.is_file():
                problem = "is not a file" if path.exists() else "does not exist"
                raise BadInput(f"--unlabelled {path} {problem}: expected text, a sentence per line")
        configure(find_preset(self.base.preset), self.student_settings, None)
        if not (self.folder / EXPERIMENT).exists():  # bad text is reported before any training
            for path in self.raw.unlabelled:
                count_lines(path, progress)
            if self.raw.gold is not None and self.base.train.is_file():
                self._sizes()
        elif not (self.folder / UNLABELLED / SUMMARY).exists():
            options = self.raw.to_json()
            change_options(self.folder, {name: options[name] for name in LATE})
        files = [InputFile(path, str(path.resolve())) for path in self.raw.unlabelled]
        self.base.open_with(self.raw.to_json(), files, progress)

    def run(self, progress: Progress) -> SemiResult:
        """Do what is not done yet; return the result."""
        if (self.folder / RESULT).exists():
            return read_result(self.folder, SemiResult.from_json)
        if self.raw.gold is not None and not (self.folder / CUT).exists():
            self._cut()
        held = {"test": self.base.test} | self._unseen()
        sets = {name: gold_trees(path) for name, path in held.items()}
        rows = {SUPERVISED: self._trained(SUPERVISED, self.gold, sets, progress)}
        runs = [self.folder / PARSER, *self._more_parsers(progress)]
        work = self._automatic(runs)
        others = keys_of(tree for trees in sets.values() for tree in trees)
        automatic = work.run(others | keys_of(gold_trees(self.base.valid)), progress)
        progress.say(
            f"kept {automatic.kept:,} of {automatic.parsed:,} automatic trees"
            f" ({automatic.agreed:,} with agreement)"
        )
        if self.raw.ensemble:
            rows[ENSEMBLE] = self._ensemble(runs, sets, progress)
        rows[STUDENT] = self._trained(STUDENT, self.gold, sets, progress, work.trees)
        for name, trees in sets.items():
            write_lines(self.folder / GOLD.replace("test", name), trees)
        result = SemiResult(rows, automatic)
        save_result(self.folder, result)
        return result

    def resampled(self) -> dict[str, ResampledF1]:
        """Return the F1 of all rows on bootstrap samples, for the test and the unseen trees."""
        rows = [name for name, folder in FOLDERS.items() if (self.folder / folder / ROW).exists()]
        return {
            name: ResampledF1({row: self._tree_scores(row, name) for row in rows})
            for name in ("test", *self._unseen())
        }

    def _tree_scores(self, row: str, name: str) -> list[Any]:
        gold = read_trees(self.folder / GOLD.replace("test", name))
        parses = read_trees(self.folder / FOLDERS[row] / PARSED.replace("test", name))
        return [score_tree(*pair) for pair in zip(gold, parses, strict=True)]

    def _unseen(self) -> dict[str, Path]:
        return {} if self.raw.gold is None else {"unseen": self.folder / CUT / UNSEEN_TREES}

    def _cut(self) -> None:
        """Write the trees to learn from, those to hold out, and the words of all others.

        The file is in the order of the articles, so the parts are of different articles, apart
        from the two in which a cut lies. A sentence that occurs among the trees to learn from is
        not held out.
        """
        total, first, last = self._sizes()
        names = (GOLD_TREES, REST_TREES, REST_WORDS, UNSEEN_TREES)
        with atomic_folder(self.folder / CUT, names) as temporary:
            parts: dict[str, list[str]] = {name: [] for name in names}
            learned: set[str] = set()
            for number, tree in enumerate(read_trees(self.base.train)):
                normalized = normalize(tree)
                if normalized is None:
                    continue
                if number < first:
                    parts[GOLD_TREES].append(str(tree))
                    learned.add(sentence_key(normalized.words()))
                elif number >= total - last:
                    if sentence_key(normalized.words()) not in learned:
                        parts[UNSEEN_TREES].append(str(tree))
                else:
                    parts[REST_TREES].append(str(tree))
                    parts[REST_WORDS].append(" ".join(normalized.words()))
            for name, lines in parts.items():
                text = "".join(f"{line}\n" for line in lines)
                (temporary / name).write_text(text, encoding="utf-8", newline="\n")

    def _sizes(self) -> tuple[int, int, int]:
        """Return the number of trees: all, those to learn from, those to hold out."""
        assert self.raw.gold is not None
        total = sum(1 for _ in read_trees(self.base.train))
        first, last = (
            math.floor(total * share + 0.5) for share in (self.raw.gold, self.raw.unseen)
        )
        if min(first, last, total - first - last) < 1:
            raise BadInput(
                f"{self.base.train} has {total:,} trees, of which --gold and --unseen leave a part "
                "without any: expected more trees, or other shares"
            )
        return total, first, last

    def _more_parsers(self, progress: Progress) -> list[Path]:
        """Train the parsers that differ from the supervised one in their seed.

        Their weights are those that training selects, by validation loss.
        """
        _, config = configure(find_preset(self.base.preset), self.base.settings, None)
        runs = []
        for number in range(2, self.raw.parsers + 1):
            run = self.folder / f"{PARSER}-{number}"
            progress.say(f"parser {number} of {self.raw.parsers}")
            settings = {**self.base.settings, "seed": str(config.seed + number - 1)}
            runs.append(self.base.train_run(run, self.gold, progress, settings=settings))
        return runs

    def _automatic(self, runs: Sequence[Path]) -> AutomaticTrees:
        raw, cut = self.raw, self.folder / CUT
        rest = RawText(cut / REST_WORDS, words=True, gold=cut / REST_TREES)
        texts = [RawText(path, raw.words) for path in raw.unlabelled]
        return AutomaticTrees(
            folder=self.folder / UNLABELLED,
            parsers=runs,
            texts=([] if raw.gold is None else [rest]) + texts,
            lines=raw.lines,
            beam=raw.raw_beam,
            keep=raw.keep,
            agreement=raw.agreement,
            device=self.base.device,
        )

    def _trained(
        self,
        name: str,
        gold: Path,
        sets: Mapping[str, Sequence[Tree]],
        progress: Progress,
        automatic: Path | None = None,
    ) -> Row:
        """Train, choose and score a parser, unless that is done."""
        run = self.folder / FOLDERS[name]
        if (run / ROW).exists():
            return _read_row(run)
        progress.say(f"the {name} parser")
        settings = self.base.settings if automatic is None else self.student_settings
        self.base.train_run(
            run, gold, progress, settings=settings, automatic=automatic, weight=self.raw.weight
        )
        with signals_as_interrupt():
            weights = self.base.choose_weights(run, progress)
            scores = self._score([run], run, sets, progress)
        result = self.base.describe(run, gold, weights, scores["test"])
        return _save_row(run, Row(scores["test"], scores.get("unseen"), result))

    def _ensemble(
        self, runs: Sequence[Path], sets: Mapping[str, Sequence[Tree]], progress: Progress
    ) -> Row:
        """Score the parsers of gold trees together, unless that is done."""
        folder = self.folder / FOLDERS[ENSEMBLE]
        if (folder / ROW).exists():
            return _read_row(folder)
        with signals_as_interrupt():
            scores = self._score(runs, folder, sets, progress)
        return _save_row(folder, Row(scores["test"], scores.get("unseen"), None))

    def _score(
        self,
        runs: Sequence[Path],
        folder: Path,
        sets: Mapping[str, Sequence[Tree]],
        progress: Progress,
    ) -> dict[str, Scores]:
        """Score on each set of trees, and write the parses."""
        found = {}
        for name, gold in sets.items():
            guesses, found[name] = self.base.score(runs, gold, name, progress)
            write_lines(folder / PARSED.replace("test", name), guesses)
        return found


def _save_row(folder: Path, row: Row) -> Row:
    write_checksummed(folder / ROW, {"format": FORMAT, **dataclasses.asdict(row)})
    return row


def _read_row(folder: Path) -> Row:
    fields = read_checksummed(folder / ROW, FORMAT, "the scores of a parser")
    return Row.from_json(**{name: fields[name] for name in ("test", "unseen", "result")})
