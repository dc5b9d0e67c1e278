"""Several training runs on one corpus with the same budget, translated and scored the same way.

    DIR/
      experiment.json      shared by all rows: texts, settings, budget
      references.txt       of the test set
      corpus/              token files, shared
      ROW/                 the run folder of a row; once finished, also contains
        result.json        its numbers, and the fingerprint of its settings
        translations.txt   of the test set, line by line

A row with both files is finished and needs no weights: its checkpoints are deleted, and so is
its model unless `keep_weights` is set. Rows may be trained in any order, in any number of calls.
"""

import gc
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.bench import hardware
from transduce.bench.flops import flops, weights_by_length
from transduce.config import SearchConfig
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import Corpus, Split, open_corpus
from transduce.errors import BadRun, BadSetting
from transduce.evaluation.metrics import require_tokeniser
from transduce.evaluation.scores import score
from transduce.experiments.budget import Budget, schedule, steps_per_second
from transduce.experiments.experiment_folder import (
    EXPERIMENT,
    RESULT,
    begin,
    read_result,
    require_same,
    save_result,
    write_lines,
)
from transduce.experiments.further_tests import FurtherTests
from transduce.experiments.rows import Data, Result, Row, Text
from transduce.experiments.side_by_side import run_side_by_side
from transduce.experiments.statistics import SAMPLES, Resampled
from transduce.model.architecture import count_parameters
from transduce.presets import find_preset
from transduce.runs.folder import MODEL, RunConfig, delete_weights, last_checkpoint
from transduce.runs.history import History, read_history
from transduce.system.devices import choose_device
from transduce.system.files import delete, remove_folder, require_regular
from transduce.system.formatting import format_duration, pluralize
from transduce.system.processes import cores, world_size
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.corpora import CorpusText
from transduce.text.reading import read_lines, read_pairs
from transduce.training.settings import configure, new_config
from transduce.training.train import train
from transduce.translation.translator import Translator

REFERENCES, CORPUS, TRANSLATIONS = "references.txt", "corpus", "translations.txt"
ONLY_FOR_TRAINING = ("checkpoints", "best.safetensors")
SEARCH = SearchConfig()  # beam 4, alpha 0.6
SCHEDULED = ("validate_every", "save_every", "warmup", "lr_scale", "cooldown")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The caller's choices for a comparison."""

    out: Path
    data: Data
    budget: Budget = field(default_factory=Budget)
    settings: Mapping[str, str] = field(default_factory=dict)
    device: str = "auto"
    keep_weights: bool = False
    keep_checkpoints: Sequence[str] = ()  # rows whose checkpoints the caller deletes later
    further: Mapping[str, Text] = field(default_factory=dict)  # more test sets, by name
    gather: bool = False  # report finished rows and train nothing
    until: float | None = None  # a `time.monotonic` time after which no row is started
    jobs: int = 1  # rows trained side by side


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A folder of rows that share their texts, their budget and their search."""

    name: str  # table2, table3, …
    setup: Setup
    settings: Mapping[str, str]  # shared by all rows, including the budget
    validations: int = 2  # in total per row
    saves: int = 2
    rated: bool = False  # whether to measure the machine's speed

    @property
    def folder(self) -> Path:
        """The folder of the experiment."""
        return self.setup.out

    @property
    def data(self) -> Data:
        """The texts."""
        return self.setup.data

    @property
    def further_tests(self) -> FurtherTests:
        """The test sets beside that of the table."""
        return FurtherTests(self.folder, self.setup.further, self.data)

    def open_and_run(self, rows: Sequence[Row], progress: Progress) -> None:
        """Create or continue the folder; train, translate and score rows unless only gathering."""
        self.further_tests.check()
        self.open(rows)
        self.further_tests.open(progress)
        if not self.setup.gather:
            self.run(rows, progress)

    def open(self, rows: Sequence[Row]) -> None:
        """Create the folder, or refuse one that was started with a different setup."""
        self.data.require()
        for row in rows:  # refuse unknown presets and settings
            configure(find_preset(row.preset), row.settings, None)
        if (self.folder / EXPERIMENT).exists():
            require_same(self.folder, self._shared(), self.data.files)
            return
        choose_device(self.setup.device)
        begin(self.folder, self._shared(), self.data.files)

    def _shared(self) -> dict[str, Any]:
        return {
            "experiment": self.name,
            "languages": list(self.data.pair()),
            "parts": [len(text or ()) for text in (self.data.valid, self.data.test)],
            "settings": dict(sorted(self.settings.items())),
            "search": SEARCH.to_json(),
        }

    def result(self, row: Row) -> Result | None:
        """Return the result of a row, or None if it is not finished."""
        folder = self.folder / row.name
        if not ((folder / RESULT).exists() and (folder / TRANSLATIONS).exists()):
            return None
        result = read_result(folder, Result)
        if result.fingerprint != row.fingerprint:
            raise BadRun(
                f"{folder / RESULT} belongs to a run with other settings: "
                "delete the folder to train that row again"
            )
        return result

    def results(self, rows: Iterable[Row]) -> dict[str, Result]:
        """Return the results of the rows that are finished."""
        return {row.name: result for row in rows if (result := self.result(row))}

    def translations(self, name: str) -> list[str]:
        """Return a finished row's translations of the test set."""
        return list(read_lines(require_regular(self.folder / name / TRANSLATIONS)))

    def references(self) -> list[str]:
        """Return the references of the test set."""
        return list(read_lines(require_regular(self.folder / REFERENCES)))

    def resample(self, names: Iterable[str]) -> Resampled:
        """Score finished rows on bootstrap samples of the test set."""
        translations = {name: self.translations(name) for name in names}
        return Resampled(translations, self.references(), self.data.pair()[1])

    def corpus(self) -> Corpus:
        """Return the token files that all rows share."""
        return open_corpus(self.folder / CORPUS)

    def run(self, rows: Sequence[Row], progress: Progress) -> None:
        """Train, translate and score the rows that are not finished."""
        unfinished = [row for row in rows if self.result(row) is None]
        if done := len(rows) - len(unfinished):
            progress.say(f"{done} of {len(rows)} rows are finished already")
            for row in rows:
                if row not in unfinished:
                    self._translate_further(self.folder / row.name, progress)
        if not unfinished:
            return
        if world_size() > 1:
            raise BadSetting("rows are trained in one process: run this without torchrun")
        choose_device(self.setup.device)  # fails before the corpus is prepared
        require_tokeniser(self.data.pair()[1])
        with signals_as_interrupt():
            # The same row in every call, because its seed decides which pairs are held out.
            self._prepare(rows[0], progress)
            write_lines(self.folder / REFERENCES, [target for _, target in self.test_pairs()])
            if left := self._run_each(unfinished, progress):
                rest = ", ".join(row.name for row in left)
                progress.say(f"no time is left for {rest}: run the same command again to continue")

    def _run_each(self, rows: Sequence[Row], progress: Progress) -> Sequence[Row]:
        """Run rows while there is time; return those that were not started."""
        jobs = self.setup.jobs
        if jobs > 1 and len(rows) > 1:
            return run_side_by_side(self.run_row, rows, jobs, progress, self._has_time)
        for number, row in enumerate(rows):
            if not self._has_time():
                return rows[number:]
            progress.say(f"{row.name}: row {number + 1} of {len(rows)} to do")
            self.run_row(row, progress)
        return ()

    def _has_time(self) -> bool:
        return self.setup.until is None or time.monotonic() <= self.setup.until

    def _prepare(self, row: Row, progress: Progress) -> None:
        """Prepare the shared token files."""
        model, config = configure(find_preset(row.preset), row.settings, None)
        prepare(
            [CorpusText(*self.data.train)],
            self.folder / CORPUS,
            valid=self.data.valid,
            languages=self.data.pair(),
            train=config,
            max_len=model.max_len,
            progress=progress,
        )

    def test_pairs(self) -> list[tuple[str, str]]:
        """Return the sentences to translate and their references."""
        return list(read_pairs(*self.data.test)) if self.data.test else self.valid_pairs()

    def valid_pairs(self) -> list[tuple[str, str]]:
        """Return the validation pairs: the given ones, or those held out from the training text."""
        if self.data.valid:
            return list(read_pairs(*self.data.valid))
        corpus = self.corpus()
        return decode_pairs(corpus, corpus.valid)

    def run_row(self, row: Row, progress: Progress) -> None:
        """Train, translate and score one row, whose token files are prepared."""
        run, corpus = self.folder / row.name, self.corpus()
        source, target = self.data.train
        train(
            source,
            target,
            out=run,
            corpus=self.folder / CORPUS,
            valid=self.data.valid,
            languages=self.data.languages,
            preset=row.preset,
            settings=self._scheduled(row, corpus, progress),
            device=self.setup.device,
            progress=progress,
        )
        free_memory()
        outputs = self._translate(run, [source for source, _ in self.test_pairs()], progress)
        free_memory()
        write_lines(run / TRANSLATIONS, outputs)
        self._translate_further(run, progress)
        result = self._measure(row, run, corpus, outputs)
        save_result(run, result)
        if row.name not in self.setup.keep_checkpoints:
            delete_checkpoints(run)
        if not self.setup.keep_weights:
            delete_weights(run, "`transduce paper` deleted them; --keep-weights keeps them")
        progress.say(
            f"{row.name}: BLEU {result.bleu:.2f} ({result.low:.2f} to {result.high:.2f}), "
            f"perplexity {result.perplexity:.2f}, {pluralize(result.steps, 'step')} in "
            f"{format_duration(result.seconds)}"
        )

    def _scheduled(self, row: Row, corpus: Corpus, progress: Progress) -> dict[str, str]:
        """Return a row's settings; for a time budget, with a schedule that fits its speed."""
        seconds = self.setup.budget.seconds
        if seconds is None:
            return dict(row.settings)
        run = self.folder / row.name
        if (run / "config.json").exists():
            begun_with = RunConfig.load(run).train.to_json()
            return {name: str(begun_with[name]) for name in SCHEDULED} | dict(row.settings)
        device = choose_device(self.setup.device)
        config = new_config(corpus, row.preset, row.settings, device, Silent())
        speed = steps_per_second(config, corpus, device, seconds / 20)
        steps = round(seconds * speed)
        free_memory()
        progress.say(f"{row.name} makes about {pluralize(steps, 'step')} in {self.setup.budget}")
        return schedule(steps, config.train, self.validations, self.saves) | dict(row.settings)

    def _translate_further(self, run: Path, progress: Progress) -> None:
        """Translate the further test sets, unless that is done or the weights were deleted."""
        tests = self.further_tests
        for name in tests.missing(run) if (run / MODEL).exists() else ():
            progress.say(f"{run.name}: {name}")
            write_lines(
                tests.translations(run, name), self._translate(run, tests.sources(name), progress)
            )
            free_memory()

    def _translate(self, run: Path, sources: Sequence[str], progress: Progress) -> list[str]:
        translator = Translator.load(run, device=self.setup.device, engine="torch")
        with progress.track("translating", len(sources), "sentences") as advance:
            translations = translator.stream(
                sources, split=False, advance=advance, **SEARCH.to_json()
            )
            return [translation.text for translation in translations]

    def _measure(self, row: Row, run: Path, corpus: Corpus, outputs: Sequence[str]) -> Result:
        config, newest = RunConfig.load(run), last_checkpoint(run)
        assert newest is not None
        state = newest.state()
        (bleu,) = score(
            outputs,
            self.references(),
            metrics=("bleu",),
            language=corpus.languages[1],
            confidence=SAMPLES,
        )
        assert bleu.low is not None
        assert bleu.high is not None
        history = read_history(run, row.name)
        curve = validations(history)
        machine = hardware.describe(config.device, cores(), ["torch"])
        if self.rated:
            machine["matrix"] = hardware.matrix_rate(config.device, cores())
        speeds = history.curve("target_tokens_per_second", None).y
        tokens = corpus.manifest.train
        return Result(
            name=row.name,
            preset=row.preset,
            fingerprint=row.fingerprint,
            bleu=bleu.value,
            low=bleu.low,
            high=bleu.high,
            signature=bleu.signature,
            perplexity=curve[-1]["valid_perplexity"],
            parameters=count_parameters(config.model),
            steps=state["step"],
            epochs=state["epochs"],
            seconds=state["seconds"],
            tokens_per_second=sorted(speeds)[len(speeds) // 2] if speeds else 0.0,
            flops=state["epochs"]
            * flops(
                *(config.model, tokens.source_tokens, tokens.target_tokens),
                weights_by_length(config.model, corpus.train),
            ),
            model=config.model.to_json(),
            recipe=config.train.to_json(),
            curve=curve,
            machine=machine,
        )


def decode_pairs(corpus: Corpus, split: Split, most: int | None = None) -> list[tuple[str, str]]:
    """Return the pairs of a split as text; with `most`, that many, evenly spaced."""
    count = len(split) if most is None else min(most, len(split))
    codec = corpus.codec
    pairs = [split.pair(number * len(split) // count) for number in range(count)]
    return [
        (codec.source.decode(source.tolist()), codec.target.decode(target.tolist()))
        for source, target in pairs
    ]


def delete_checkpoints(run: Path) -> None:
    """Delete what only further training needs."""
    for name in ONLY_FOR_TRAINING:
        if (run / name).is_dir() and not (run / name).is_symlink():
            remove_folder(run / name)  # all or nothing, even if the process is killed
        else:
            delete(run / name)


def validations(history: History) -> list[dict[str, float]]:
    """Return the scores of each validation, with its step and time."""
    validated = [row for row in history.rows if "valid_perplexity" in row]
    times = history.seconds([row["step"] for row in validated])
    names = ("step", "valid_perplexity", "valid_bleu")
    return [
        {"seconds": round(time, 3)} | {name: row[name] for name in names if name in row}
        for row, time in zip(validated, times, strict=True)
    ]


def free_memory() -> None:
    """Release the GPU memory of models that are no longer used."""
    import torch

    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()
