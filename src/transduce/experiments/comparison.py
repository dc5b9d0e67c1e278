"""Several trainings on one corpus, each for the same budget, translated and scored the same way.

    DIR/
      experiment.json      what all of them share: the texts, the settings, the budget
      references.txt       of the test set
      corpus/              token files, shared
      ROW/                 a run folder, and of a finished one
        result.json        what came out, and of which settings
        translations.txt   of the test set, line by line

A row that has its last two files is finished, wherever its weights are: checkpoints are deleted,
and so is the model unless it is to be kept. Rows come in any order, in any number of sittings.
"""

import dataclasses
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.bench import hardware
from transduce.bench.flops import flops
from transduce.config import SearchConfig
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import Corpus
from transduce.errors import BadRun, BadSetting
from transduce.evaluation.metrics import require_tokeniser
from transduce.evaluation.scores import score
from transduce.experiments.budget import Budget, pace, schedule
from transduce.experiments.experiment_folder import (
    BEGUN,
    OTHERWISE,
    require_experiment,
    require_fields,
    require_files,
    require_new,
    require_settings,
)
from transduce.experiments.rows import FORMAT, RESULT, Data, Result, Row
from transduce.model.architecture import count_parameters
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig, delete_weights, last_checkpoint
from transduce.runs.history import read
from transduce.system.devices import choose_device
from transduce.system.files import (
    atomic_write,
    delete,
    read_checksummed,
    require_regular,
    write_checksummed,
)
from transduce.system.formatting import format_duration, pluralize
from transduce.system.processes import cores, world_size
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.reading import read_lines, read_pairs
from transduce.training.settings import begun, settled
from transduce.training.train import train
from transduce.translation.translator import Translator

EXPERIMENT, REFERENCES, CORPUS = "experiment.json", "references.txt", "corpus"
TRANSLATIONS = "translations.txt"
FOR_TRAINING = ("checkpoints", "best.safetensors")  # what a finished row needs no more
SAMPLES = 1000  # for intervals
PACED = ("validate_every", "save_every", "warmup", "lr_scale", "cooldown")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A folder of rows that share their texts, their budget and their search."""

    name: str  # table2, table3
    folder: Path
    data: Data
    settings: Mapping[str, str]  # shared by all rows, the budget among them
    budget: Budget = field(default_factory=Budget)  # none in time: the settings tell it
    validations: int = 2  # in all, of each row
    saves: int = 2
    rated: bool = False  # whether to measure what the machine can do
    search: SearchConfig = field(default_factory=SearchConfig)
    device: str = "auto"
    keep_weights: bool = False

    def open(self, rows: Sequence[Row]) -> None:
        """Begin the folder for these rows, or refuse one that was begun with something else."""
        self.data.require()
        path = self.folder / EXPERIMENT
        if path.exists():
            self._require_same(read_checksummed(path, FORMAT, "an experiment", BEGUN))
            return
        require_new(self.folder)
        for row in rows:  # refused before anything is written
            settled(find_preset(row.preset), row.settings, None)
        choose_device(self.device)
        inputs = [dataclasses.asdict(file.to_record()) for file in self.data.files]
        write_checksummed(path, {"format": FORMAT, **self._shared(), "inputs": inputs})

    def _shared(self) -> dict[str, Any]:
        return {
            "experiment": self.name,
            "languages": list(self.data.pair()),
            "parts": [len(part or ()) for part in (self.data.valid, self.data.test)],
            "settings": dict(sorted(self.settings.items())),
            "search": self.search.to_json(),
        }

    def _require_same(self, before: Mapping[str, Any]) -> None:
        now = self._shared()
        require_experiment(self.folder, before["experiment"], now["experiment"])
        expected = {"search": dict[str, Any], "parts": list[int], "languages": list[str]}
        require_fields(self.folder / EXPERIMENT, before, expected)
        for kind in ("settings", "search"):
            require_settings(self.folder, before[kind], now[kind])
        require_files(self.folder, before["inputs"], self.data.files, "text")
        same = before["parts"] == now["parts"] and before["languages"] == now["languages"]
        if not same or len(before["inputs"]) != len(self.data.files):
            raise BadRun(
                f"{self.folder} was begun with other validation or test text, or other languages: "
                f"{OTHERWISE}"
            )

    def finished(self, row: Row) -> Result | None:
        """Return the result of a row that needs nothing more."""
        folder = self.folder / row.name
        if not ((folder / RESULT).exists() and (folder / TRANSLATIONS).exists()):
            return None
        result = Result.load(folder)
        if result.fingerprint != row.fingerprint:
            raise BadRun(
                f"{folder / RESULT} is of another run, with other settings: "
                "delete the folder to train that row anew"
            )
        return result

    def translations(self, row: Row) -> list[str]:
        """Return what a finished row made of the test set."""
        return list(read_lines(require_regular(self.folder / row.name / TRANSLATIONS)))

    def references(self) -> list[str]:
        """Return what the test set should have been translated to."""
        return list(read_lines(require_regular(self.folder / REFERENCES)))

    def run(self, rows: Sequence[Row], progress: Progress, until: float | None = None) -> None:
        """Train, translate and score the rows that are not finished.

        None is begun after the moment `until`, by the clock that only goes forward.
        """
        left = [row for row in rows if self.finished(row) is None]
        for row in left:  # what is mistyped is refused before anything is trained
            settled(find_preset(row.preset), row.settings, None)
        if done := len(rows) - len(left):
            progress.say(f"{done} of {len(rows)} rows are finished and stay as they are")
        if not left:
            return
        if world_size() > 1:
            raise BadSetting("rows are trained and translated in one process: leave torchrun away")
        choose_device(self.device)  # what is not there is told before the corpus is prepared
        require_tokeniser(self.data.pair()[1])
        with signals_as_interrupt():
            corpus = self._corpus(left[0], progress)
            test = self.test(corpus)
            _write(self.folder / REFERENCES, [right for _, right in test])
            for number, row in enumerate(left, start=1):
                if until is not None and time.monotonic() > until:
                    rest = ", ".join(one.name for one in left[number - 1 :])
                    progress.say(f"no time is left for {rest}: the same command goes on with them")
                    break
                progress.say(f"{row.name}: row {number} of {len(left)} to do")
                self._do(row, corpus, [source for source, _ in test], progress)

    def _corpus(self, row: Row, progress: Progress) -> Corpus:
        """Prepare the token files, which all rows share."""
        model, recipe = settled(find_preset(row.preset), row.settings, None)
        return prepare(
            *self.data.train,
            self.folder / CORPUS,
            valid=self.data.valid,
            languages=self.data.pair(),
            train=recipe,
            max_len=model.max_len,
            progress=progress,
        )

    def test(self, corpus: Corpus) -> list[tuple[str, str]]:
        """Return the sentences to translate and their references."""
        if given := self.data.test or self.data.valid:
            return list(read_pairs(*given))
        codec, part = corpus.codec, corpus.valid
        pairs = [part.pair(place) for place in range(len(part))]
        return [
            (codec.source.decode(source.tolist()), codec.target.decode(target.tolist()))
            for source, target in pairs
        ]

    def _do(self, row: Row, corpus: Corpus, sources: Sequence[str], progress: Progress) -> None:
        """Train, translate and score one row."""
        run = self.folder / row.name
        source, target = self.data.train
        train(
            source,
            target,
            out=run,
            corpus=self.folder / CORPUS,
            valid=self.data.valid,
            languages=self.data.languages,
            preset=row.preset,
            settings=self._settings(row, corpus, progress),
            device=self.device,
            progress=progress,
        )
        free_memory()
        outputs = self._translated(run, sources, progress)
        free_memory()
        _write(run / TRANSLATIONS, outputs)
        result = self._result(row, run, corpus, outputs)
        result.save(run)
        for name in FOR_TRAINING:
            delete(run / name)
        if not self.keep_weights:
            delete_weights(run, "`transduce paper` deleted them; --keep-weights keeps them")
        progress.say(
            f"{row.name}: BLEU {result.bleu:.2f} ({result.low:.2f} to {result.high:.2f}), "
            f"perplexity {result.perplexity:.2f}, {pluralize(result.steps, 'step')} in "
            f"{format_duration(result.seconds)}"
        )

    def _settings(self, row: Row, corpus: Corpus, progress: Progress) -> dict[str, str]:
        """Return a row's settings; where time is the budget, with a schedule for its pace."""
        if self.budget.seconds is None or not self.budget.is_time:
            return dict(row.settings)
        run = self.folder / row.name
        if (run / "config.json").exists():
            recipe = RunConfig.load(run).train.to_json()
            return {name: str(recipe[name]) for name in PACED} | dict(row.settings)
        device = choose_device(self.device)
        config = begun(corpus, row.preset, row.settings, device, Silent())
        measured = pace(config, corpus, device, self.budget.seconds / 20)
        steps = round(self.budget.seconds * measured)
        free_memory()
        progress.say(f"{row.name} makes about {pluralize(steps, 'step')} in {self.budget}")
        fit = schedule(steps, config.train, self.validations, self.saves)
        return fit | dict(row.settings)

    def _translated(self, run: Path, sources: Sequence[str], progress: Progress) -> list[str]:
        translator = Translator.load(run, device=self.device, engine="torch")
        with progress.track("translating", len(sources), "sentences") as advance:
            settings = self.search.to_json()
            found = translator.stream(sources, split=False, advance=advance, **settings)
            return [one.text for one in found]

    def _result(self, row: Row, run: Path, corpus: Corpus, outputs: Sequence[str]) -> Result:
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
        history = read(run, row.name)
        curve = validations(history.rows, history.seconds)
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
            flops=state["epochs"] * flops(config.model, tokens.source_tokens, tokens.target_tokens),
            model=config.model.to_json(),
            recipe=config.train.to_json(),
            curve=curve,
            machine=machine(config.device, rated=self.rated),
        )


def validations(
    rows: Sequence[Mapping[str, float]], seconds: Callable[[Sequence[float]], list[float]]
) -> list[dict[str, float]]:
    """Return what each validation found, after how many steps and how much time."""
    found = [row for row in rows if "valid_perplexity" in row]
    times = seconds([row["step"] for row in found])
    names = ("step", "valid_perplexity", "valid_bleu")
    return [
        {"seconds": round(time, 3)} | {name: row[name] for name in names if name in row}
        for row, time in zip(found, times, strict=True)
    ]


def machine(device: str, *, rated: bool = False) -> dict[str, Any]:
    """Describe what was trained on, and measure what it can do if it is to be rated."""
    found = hardware.describe(device, cores(), ["torch"])
    return found | ({"matrix": hardware.matrix_rate(device, cores())} if rated else {})


def free_memory() -> None:
    """Give back what a model held of a GPU's memory."""
    import torch

    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def _write(path: Path, lines: Sequence[str]) -> None:
    with atomic_write(path) as beside:
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
