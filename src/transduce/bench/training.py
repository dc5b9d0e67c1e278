"""Training speed of our model and of peers on the same text.

The measure is target tokens per second, without padding. A step is the whole step of `transduce
train`: the next batch, forward, loss, backward, update.
"""

import contextlib
import dataclasses
import itertools
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transduce import config as configuration
from transduce.bench import hardware, huggingface, peer, pytorch, random_text
from transduce.bench.flops import weights_by_length
from transduce.bench.results import Comparison, Measured
from transduce.bench.workers import (
    Round,
    Saving,
    StepTokens,
    Worker,
    choose_peers,
    library,
    measure,
    measure_saving,
    take_turns,
)
from transduce.checkpoints.checkpoint import weights_of
from transduce.config import ModelConfig, TrainConfig
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import Corpus, open_corpus
from transduce.errors import BadInput
from transduce.model.architecture import build
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig
from transduce.system.devices import choose_device
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.corpora import CorpusText
from transduce.text.languages import guess_languages
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.training.pacing import fit_threads
from transduce.training.settings import new_config
from transduce.training.trainer import Trainer

OURS = "transduce"
DETERMINISTIC = "deterministic"  # our side a second time, with this setting
PEERS = {module.NAME: module for module in (huggingface, pytorch)}
NOISY = 1.25  # ratio of the fastest to the slowest round above which a warning is shown


class OurTrainer:
    """Our trainer, a step at a time."""

    def __init__(self, config: RunConfig, corpus: Path, device: str, run: Path) -> None:
        self.device = device
        run.mkdir()
        config.save(run)  # makes the folder a run folder
        self.trainer = Trainer(run, config, open_corpus(corpus), torch.device(device), Silent())
        self.parameters = sum(p.numel() for p in weights_of(self.trainer.model).values())
        self.precision = self.trainer.gradient_step.precision

    @property
    def path(self) -> str:
        """The implementation; the first step may change it."""
        return self.trainer.gradient_step.path

    def prepare(self, steps: int) -> None:
        """Do nothing: our trainer makes its batches within the steps."""

    def step(self) -> StepTokens:
        """Train for one step."""
        update = self.trainer.update()
        by_length = weights_by_length(self.trainer.model.config, update.part, update.sentences)
        return StepTokens(update.tokens, update.used[0], *update.places, by_length)

    @property
    def writes(self) -> bool:
        """Whether a checkpoint is being written in the background."""
        return self.trainer.saver.busy

    def save(self) -> None:
        """Write a checkpoint, or start writing it in the background."""
        self.trainer.save(scheduled=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingText:
    """The training text: files, or random words."""

    source: str | Path | None = None
    target: str | Path | None = None
    random: str | None = None  # mixed or equal
    corpus: Path | None = None  # where to keep the prepared files

    def require(self) -> None:
        """Refuse a missing text, or more than one."""
        if self.random is None:
            if self.source is None:
                raise BadInput("there is no text to train on: give a SOURCE, or --random mixed")
            return
        random_text.require(self.random)
        if self.source is not None:
            raise BadInput(f"--random {self.random} replaces the text: give either it or a SOURCE")
        if self.corpus is not None:
            raise BadInput("--corpus cannot be used with --random: random text is not kept")

    def prepare(
        self, folder: Path, configs: Sequence[tuple[ModelConfig, TrainConfig]], progress: Progress
    ) -> Corpus:
        """Make the corpus; it is the same for all presets except for the batch size."""
        model, train = configs[0]
        if self.random is not None:
            corpus = random_text.random_corpus(
                folder,
                self.random,
                vocabulary=train.vocabulary or model.target_vocabulary,
                joint=train.joint,
                batch_tokens=max(train.batch_tokens for _, train in configs),
                max_len=model.max_len,
                seed=train.seed,
            )
            progress.say(f"{self}: {corpus.manifest.train}")
            return corpus
        assert self.source is not None
        return prepare(
            [CorpusText(self.source, self.target)],
            folder,
            languages=guess_languages(self.source, self.target),
            train=train,
            max_len=model.max_len,
            progress=progress,
        )

    def __str__(self) -> str:
        if self.random is not None:
            return f"random words in sentences of {self.random} length"
        return " and ".join(str(path) for path in (self.source, self.target) if path is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The presets with settings, the peers, and the extent of the measurement."""

    presets: Sequence[str]
    settings: Mapping[str, str]
    peers: Sequence[str] | None = None  # None: huggingface, if it is installed
    as_it_comes: bool = False  # keep the default attention of the peers
    deterministic: bool = False  # measure our side a second time, with this setting
    saves: bool = False  # measure the cost of checkpoints
    steps: int
    rounds: int
    device: str

    def configs(self) -> list[tuple[ModelConfig, TrainConfig]]:
        """Return the presets with the settings."""
        presets = (find_preset(name) for name in self.presets)
        return [
            configuration.apply_settings(self.settings, preset.model, preset.train)
            for preset in presets
        ]


def compare(text: TrainingText, plan: Plan, progress: Progress | None = None) -> list[Comparison]:
    """Measure the training speed of each preset and of the peers on a text."""
    progress = progress or Silent()
    device = choose_device(plan.device, mps=False)
    text.require()
    preset_configs = plan.configs()
    names = choose_peers(plan.peers, list(PEERS), progress)
    for name, (model, train) in itertools.product(names, preset_configs):
        peer.require(name, model, train)
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_interrupt("stopped: nothing was measured"))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transduce-bench-")))
        folder = text.corpus or scratch / "corpus"
        corpus = text.prepare(folder, preset_configs, progress)
        configs = [
            new_config(corpus, name, plan.settings, device, Silent()) for name in plan.presets
        ]
        configs = [_with_threads(config, corpus, device, progress) for config in configs]
        machine = _machine(configs[0], names)
        comparisons = []
        for number, config in enumerate(configs):
            run = scratch / f"run-{number}"
            sides = _measure(config, folder, run, names, plan, machine, progress)
            saving_run = run.with_name(f"{run.name}-saving")
            comparisons.append(
                Comparison(
                    saving=_measure_saving(config, folder, saving_run, plan)
                    if plan.saves
                    else None,
                    ours=sides[0],
                    peers=tuple(sides[1:]),
                    config=config,
                    text=str(text),
                    steps=plan.steps,
                    machine=machine,
                )
            )
    return comparisons


def _with_threads(
    config: RunConfig, corpus: Corpus, device: torch.device, progress: Progress
) -> RunConfig:
    """Choose the number of CPU threads as training does; all sides use it."""
    if config.train.threads is not None:
        return config
    model = build(config.model).to(device)
    gradient_step = GradientStep(model, config.train, corpus.train, Processes(), progress.say)
    return dataclasses.replace(config, train=fit_threads(gradient_step, config.train, progress))


def _machine(config: RunConfig, peers: Sequence[str]) -> dict[str, Any]:
    """Describe and measure this machine while it is idle."""
    assert config.train.threads is not None
    libraries = dict.fromkeys(["torch", *map(library, peers)])
    return {
        **hardware.describe(config.device, config.train.threads, libraries),
        "matrix": hardware.matrix_rate(config.device, config.train.threads),
    }


def _measure(
    config: RunConfig,
    folder: Path,
    run: Path,
    peers: Sequence[str],
    plan: Plan,
    machine: Mapping[str, Any],
    progress: Progress,
) -> list[Measured]:
    """Measure our side and the peers on one preset."""
    sides = [OURS, *[DETERMINISTIC] * plan.deterministic, *peers]
    progress.say(
        f"measuring {' and '.join(sides)} with the preset {config.preset}: "
        f"{pluralize(plan.rounds, 'round')} of {pluralize(plan.steps, 'step')} each, alternating"
    )
    with contextlib.ExitStack() as stack:
        workers, started = [], []

        def add(worker: Worker) -> None:
            """Start a side and wait: each has the machine to itself until its first step."""
            workers.append(stack.enter_context(worker))
            started.append(worker.started())

        add(Worker(OURS, OurTrainer, config, folder, config.device, run))
        if plan.deterministic:
            train = config.train.replace(deterministic=True)
            changed = dataclasses.replace(config, train=train)
            second = run.with_name(f"{run.name}-{DETERMINISTIC}")
            add(Worker(DETERMINISTIC, OurTrainer, changed, folder, config.device, second))
        for name in peers:
            arguments = (PEERS[name].Model, config, folder, config.device, started[0].precision)
            add(
                Worker(
                    *(name, peer.Peer, *arguments, plan.as_it_comes),
                    imports=PEERS[name].IMPORTS,
                    environment=peer.ENVIRONMENT,
                )
            )
        results = take_turns(workers, measure, plan.steps, plan.rounds, _speed, progress)
    measured = [
        Measured(
            name=worker.name,
            model=config.model,
            passes=2 if config.train.rdrop or config.train.simcut else 1,
            started=first,
            rounds=tuple(rounds),
            matrix_rate=machine["matrix"]["flops_per_second"],
        )
        for worker, first, rounds in zip(workers, started, results, strict=True)
    ]
    if any(max(side.speeds) > NOISY * min(side.speeds) for side in measured):
        progress.say(
            f"rounds of one side differ by more than {NOISY - 1:.0%}: something else uses this "
            "machine, or the steps are too few; measure again"
        )
    return measured


def _measure_saving(config: RunConfig, folder: Path, run: Path, plan: Plan) -> Saving:
    """Measure the cost of a checkpoint: the median of the rounds."""
    with Worker("saving", OurTrainer, config, folder, config.device, run) as worker:
        worker.started()
        costs = [worker.call(measure_saving, plan.steps) for _ in range(plan.rounds)]
    return Saving(*(statistics.median(times) for times in zip(*costs, strict=True)))


def _speed(timed: Round) -> str:
    return f"{timed.target_tokens_per_second:,.0f} target tokens/s"
