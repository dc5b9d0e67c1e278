"""How fast a model trains here, side by side with peers that train the same on the same text.

The measure is target tokens per second: those that have a loss, padding not counted. A step is all
that `transduce train` does in one: the next batch, forward, loss, backward, update.
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
from transduce.bench.results import Comparison, Measured
from transduce.bench.workers import (
    Round,
    Saving,
    Seen,
    Worker,
    by_turns,
    library,
    named_peers,
    saving,
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
from transduce.text.languages import guess_languages
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.training.pacing import fit_threads
from transduce.training.settings import new_config
from transduce.training.trainer import Trainer

OURS = "transduce"
REPEATABLE = "deterministic"  # our own side once more, with the setting of that name
PEERS = {module.NAME: module for module in (huggingface, pytorch)}
NOISY = 1.25  # the fastest round by the slowest, beyond which the numbers say little


class Ours:
    """Our trainer, a step at a time."""

    def __init__(self, config: RunConfig, corpus: Path, device: str, run: Path) -> None:
        self.device = device
        run.mkdir()
        config.save(run)  # which makes the folder a run
        self.trainer = Trainer(run, config, open_corpus(corpus), torch.device(device), Silent())
        self.parameters = sum(p.numel() for p in weights_of(self.trainer.model).values())
        self.precision = self.trainer.gradient_step.precision

    @property
    def path(self) -> str:
        """How the trainer computes; the first step may have changed it."""
        return self.trainer.gradient_step.path

    def prepare(self, steps: int) -> None:
        """Leave everything to the steps: our batches are made within them."""

    def step(self) -> Seen:
        """Make one step, and tell what the trainer has worked on."""
        update = self.trainer.update()
        return Seen(update.tokens, update.used[0], *update.places)

    @property
    def writes(self) -> bool:
        """Whether a checkpoint is being written while steps are made."""
        return self.trainer.saver.busy

    def save(self) -> None:
        """Write a checkpoint, or begin to."""
        self.trainer.save(scheduled=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """What is trained on: files, or random words."""

    source: str | Path | None = None
    target: str | Path | None = None
    random: str | None = None  # mixed or equal
    corpus: Path | None = None  # where to keep the prepared files

    def require(self) -> None:
        """Refuse what is not one text."""
        if self.random is None:
            if self.source is None:
                raise BadInput("there is no text to train on: give a SOURCE, or --random mixed")
            return
        random_text.require(self.random)
        if self.source is not None:
            raise BadInput(f"--random {self.random} is a text of its own: give no SOURCE beside it")
        if self.corpus is not None:
            raise BadInput("--corpus keeps what was made of files: random text is made each time")

    def prepared(
        self, folder: Path, chosen: Sequence[tuple[ModelConfig, TrainConfig]], progress: Progress
    ) -> Corpus:
        """Make the corpus; the presets agree on all that it depends on but the size of batches."""
        model, recipe = chosen[0]
        if self.random is not None:
            made = random_text.random_corpus(
                folder,
                self.random,
                vocabulary=recipe.vocabulary or model.target_vocabulary,
                joint=recipe.joint,
                batch_tokens=max(recipe.batch_tokens for _, recipe in chosen),
                max_len=model.max_len,
                seed=recipe.seed,
            )
            progress.say(f"{self}: {made.manifest.train}")
            return made
        assert self.source is not None
        return prepare(
            self.source,
            self.target,
            folder,
            languages=guess_languages(self.source, self.target),
            train=recipe,
            max_len=model.max_len,
            progress=progress,
        )

    def __str__(self) -> str:
        if self.random is not None:
            return f"random words in sentences of {self.random} length"
        return " and ".join(str(path) for path in (self.source, self.target) if path is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is measured on a text: presets changed by settings, and who else takes part."""

    presets: Sequence[str]
    settings: Mapping[str, str]
    peers: Sequence[str] | None = None  # None: huggingface, if it is installed
    as_it_comes: bool = False  # peers keep the attention that they choose
    deterministic: bool = False  # our own side once more, with that setting
    saves: bool = False  # what our checkpoints cost
    steps: int
    rounds: int
    device: str

    def chosen(self) -> list[tuple[ModelConfig, TrainConfig]]:
        """Return the presets with the settings."""
        presets = (find_preset(name) for name in self.presets)
        return [
            configuration.apply_settings(self.settings, one.model, one.train) for one in presets
        ]


def compare(words: Text, plan: Plan, progress: Progress | None = None) -> list[Comparison]:
    """Measure how fast each preset trains on a text, and peers beside it."""
    progress = progress or Silent()
    on = choose_device(plan.device, mps=False)
    words.require()
    chosen = plan.chosen()
    names = named_peers(plan.peers, list(PEERS), progress)
    for name, (model, recipe) in itertools.product(names, chosen):
        peer.require(name, model, joint=recipe.joint)
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_interrupt("stopped: nothing was measured"))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transduce-bench-")))
        folder = words.corpus or scratch / "corpus"
        prepared = words.prepared(folder, chosen, progress)
        configs = [new_config(prepared, name, plan.settings, on, Silent()) for name in plan.presets]
        configs = [_with_threads(config, prepared, on, progress) for config in configs]
        machine = _machine(configs[0], names)
        found = []
        for number, config in enumerate(configs):
            run = scratch / f"run-{number}"
            sides = _measured(config, folder, run, names, plan, machine, progress)
            beside = run.with_name(f"{run.name}-saving")
            found.append(
                Comparison(
                    saving=_saving(config, folder, beside, plan) if plan.saves else None,
                    ours=sides[0],
                    peers=tuple(sides[1:]),
                    config=config,
                    text=str(words),
                    steps=plan.steps,
                    machine=machine,
                )
            )
    return found


def _with_threads(
    config: RunConfig, prepared: Corpus, device: torch.device, progress: Progress
) -> RunConfig:
    """Choose the number of CPU threads as training does; all sides then use it."""
    if config.train.threads is not None:
        return config
    model = build(config.model).to(device)
    gradient_step = GradientStep(model, config.train, prepared.train, Processes(), progress.say)
    return dataclasses.replace(config, train=fit_threads(gradient_step, config.train, progress))


def _machine(config: RunConfig, peers: Sequence[str]) -> dict[str, Any]:
    """Describe and measure this machine while nothing else works on it."""
    assert config.train.threads is not None
    libraries = dict.fromkeys(["torch", *map(library, peers)])
    return {
        **hardware.describe(config.device, config.train.threads, libraries),
        "matrix": hardware.matrix_rate(config.device, config.train.threads),
    }


def _measured(
    config: RunConfig,
    folder: Path,
    run: Path,
    peers: Sequence[str],
    plan: Plan,
    machine: Mapping[str, Any],
    progress: Progress,
) -> list[Measured]:
    """Measure our side and the peers on one preset."""
    sides = [OURS, *[REPEATABLE] * plan.deterministic, *peers]
    progress.say(
        f"measuring {' and '.join(sides)} with the preset {config.preset}: "
        f"{pluralize(plan.rounds, 'round')} of {pluralize(plan.steps, 'step')} each, by turns"
    )
    with contextlib.ExitStack() as stack:
        # One after the other: each has the machine for itself until it has made its first step.
        ours = stack.enter_context(Worker(OURS, Ours, config, folder, config.device, run))
        workers, started = [ours], [ours.started()]
        if plan.deterministic:
            recipe = config.train.replace(deterministic=True)
            same = dataclasses.replace(config, train=recipe)
            beside = run.with_name(f"{run.name}-{REPEATABLE}")
            worker = Worker(REPEATABLE, Ours, same, folder, config.device, beside)
            workers.append(stack.enter_context(worker))
            started.append(worker.started())
        for name in peers:
            arguments = (PEERS[name].Model, config, folder, config.device, started[0].precision)
            worker = Worker(
                *(name, peer.Peer, *arguments, plan.as_it_comes),
                imports=PEERS[name].IMPORTS,
                environment=peer.ENVIRONMENT,
            )
            workers.append(stack.enter_context(worker))
            started.append(worker.started())
        found = by_turns(workers, plan.steps, plan.rounds, _speed, progress)
    measured = [
        Measured(
            name=worker.name,
            model=config.model,
            started=first,
            rounds=tuple(own),
            matrix_rate=machine["matrix"]["flops_per_second"],
        )
        for worker, first, own in zip(workers, started, found, strict=True)
    ]
    if any(max(side.speeds) > NOISY * min(side.speeds) for side in measured):
        progress.say(
            f"rounds of one side differ by more than {NOISY - 1:.0%}: something else uses this "
            "machine, or the steps are too few; measure again"
        )
    return measured


def _saving(config: RunConfig, folder: Path, run: Path, plan: Plan) -> Saving:
    """Measure what a checkpoint costs: the median of the rounds."""
    arguments = (Ours, config, folder, config.device, run)
    with Worker("saving", *arguments, begin=saving) as worker:
        worker.started()
        found = [worker.measure(plan.steps) for _ in range(plan.rounds)]
    return Saving(*(statistics.median(times) for times in zip(*found, strict=True)))


def _speed(found: Round) -> str:
    return f"{found.target_tokens_per_second:,.0f} target tokens/s"
