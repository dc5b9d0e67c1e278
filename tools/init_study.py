"""Compare initial weights: measure after how many steps the decoder uses the source.

    python tools/init_study.py train.en train.de --condition lr_scale=1 --condition lr_scale=2

Trains a model for each seed, condition and value of `init`, without checkpoints, and prints a table
with the mean over seeds. A condition is a list of settings, separated by commas. Measured on the
first 200 validation sentences, every --every steps: the negative log-likelihood per token, and
source use (docs/training.md). A run ends early if its loss is not finite. No training starts after
--seconds; as seeds are the outer loop, the table then has fewer seeds in every row.
"""

import argparse
import contextlib
import gc
import json
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from transduce.config import ModelConfig, TrainConfig, apply_settings
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import Corpus, Split, open_corpus
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig
from transduce.system.devices import choose_device
from transduce.system.processes import cores
from transduce.system.progress import Silent
from transduce.text.corpora import CorpusText
from transduce.text.languages import guess_languages
from transduce.training.optimizer import fit_ramp, fit_residual_lr
from transduce.training.trainer import Trainer
from transduce.training.validation import measure_loss, measure_source_use, select

INITS = "xavier,depth-scaled,centred,small,admin,deepnet"
VALIDATED = 200  # sentences
FOUND = 0.5  # source use from which the source counts as found, in nats
COLLAPSED = 0.5  # increase of the loss above its minimum that counts as divergence, in nats


@dataclass(frozen=True, kw_only=True)
class Study:
    """The options that all trainings share."""

    corpus: Path
    preset: str
    settings: dict[str, str]
    steps: int
    every: int
    device: str
    jobs: int
    deadline: float  # of time.time()


@dataclass(kw_only=True)
class Outcome:
    """The result of one training."""

    condition: str
    init: str
    seed: int
    steps: list[int] = field(default_factory=list)  # of the validations
    nll: list[float] = field(default_factory=list)
    source_use: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def found_at(self) -> float:
        """The first validated step at which the source is used; infinity if it never is."""
        pairs = zip(self.steps, self.source_use, strict=True)
        return next((step for step, use in pairs if use > FOUND), math.inf)

    @property
    def diverged(self) -> bool:
        """Whether the loss is not finite at the end, or far above its minimum."""
        return not math.isfinite(self.nll[-1]) or self.nll[-1] > min(self.nll) + COLLAPSED

    def __str__(self) -> str:
        return (
            f"{self.condition or 'default'}, {self.init}, seed {self.seed}: source found at step "
            f"{shown(self.found_at)}, nll {self.nll[-1]:.3f}, source use "
            f"{self.source_use[-1]:.2f}{', diverged' * self.diverged} ({self.seconds:.1f} s)"
        )


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def shown(step: float) -> str:
    """Format a step that may not have been reached."""
    return f"{step:.0f}" if math.isfinite(step) else "never"


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """Parse name=value."""
    pairs = [text.partition("=") for text in texts if text]
    return {name: value for name, _, value in pairs}


def configure(study: Study, corpus: Corpus, outcome: Outcome) -> tuple[ModelConfig, TrainConfig]:
    """Return the settings of a training."""
    preset = find_preset(study.preset)
    chosen = study.settings | parse_settings(outcome.condition.split(","))
    chosen |= {"init": outcome.init, "seed": str(outcome.seed), "steps": str(study.steps)}
    model, train = apply_settings(chosen, preset.model, preset.train)
    sizes = len(corpus.codec.source), len(corpus.codec.target)
    model = model.replace(source_vocabulary=sizes[0], target_vocabulary=sizes[1])
    train = train.replace(epochs=None, seconds=None, threads=max(1, cores() // study.jobs))
    if "residual_lr" not in chosen:
        train = fit_residual_lr(train, model)
    return model, fit_ramp(train, study.steps)


def run(study: Study, outcome: Outcome) -> Outcome | None:
    """Train one model; None if there is no time left."""
    if time.time() > study.deadline:
        return None
    gc.collect()  # frees the GPU memory of the training before
    began = time.monotonic()
    corpus = open_corpus(study.corpus)
    first = np.arange(min(VALIDATED, len(corpus.valid)))
    part = Split(select(corpus.valid.source, first), select(corpus.valid.target, first))
    model, train = configure(study, corpus, outcome)
    device = choose_device(study.device)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        config = RunConfig(model=model, train=train, device=device.type)
        trainer = Trainer(Path(folder), config, corpus, device, Silent())
        stack.enter_context(contextlib.closing(trainer.prefetcher))
        stack.enter_context(trainer.log)
        stack.enter_context(trainer.saver)
        for step in range(1, study.steps + 1):
            trainer.update()
            if step % study.every == 0 or step == study.steps:
                validate(trainer, part, outcome)
                if not math.isfinite(outcome.nll[-1]):
                    break
    return replace(outcome, seconds=time.monotonic() - began)


@torch.inference_mode()
def validate(trainer: Trainer, part: Split, outcome: Outcome) -> None:
    """Append the loss and the source use."""
    _, nll = measure_loss(trainer.gradient_step, part)
    outcome.steps.append(trainer.state.step)
    outcome.nll.append(nll)
    use = measure_source_use(trainer.gradient_step, part, nll, VALIDATED)
    outcome.source_use.append(use or 0.0)


def run_all(study: Study, outcomes: list[Outcome]) -> Iterator[Outcome]:
    """Train all models, up to `jobs` at once, and yield their results in order."""
    if study.jobs == 1:
        yield from (done for outcome in outcomes if (done := run(study, outcome)))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(study.jobs, mp_context=context) as pool:
        results = pool.map(run, [study] * len(outcomes), outcomes)
        yield from (done for done in results if done)


def table(outcomes: list[Outcome]) -> list[str]:
    """Return the lines of a Markdown table: one row for each condition and scheme."""
    found = f"steps until source use > {FOUND:g} (median; never)"
    heads = ("condition", "init", "seeds", found, "nll at the end", "source use", "diverged")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for key in dict.fromkeys((outcome.condition, outcome.init) for outcome in outcomes):
        rows = [outcome for outcome in outcomes if (outcome.condition, outcome.init) == key]
        steps = [row.found_at for row in rows]
        nll = [row.nll[-1] for row in rows]
        use = [row.source_use[-1] for row in rows]
        lines.append(
            f"| {key[0] or 'default'} | {key[1]} | {len(rows)} "
            f"| {shown(statistics.median_high(steps))}; {steps.count(math.inf)} "
            f"| {statistics.fmean(nll):.3f} ({min(nll):.3f} to {max(nll):.3f}) "
            f"| {statistics.fmean(use):.2f} ({min(use):.2f} to {max(use):.2f}) "
            f"| {sum(row.diverged for row in rows)} |"
        )
    return lines


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("source", type=Path, help="training text in the source language")
    parser.add_argument("target", type=Path, help="training text in the target language")
    parser.add_argument("--valid", type=Path, nargs=2, help="validation text; default: held out")
    parser.add_argument(
        "--corpus", type=Path, default=Path("init-study-corpus"), help="token files"
    )
    parser.add_argument("--preset", default="base")
    parser.add_argument("--set", action="append", default=[], help="a setting of all trainings")
    parser.add_argument("--condition", action="append", help="settings to compare: lr_scale=2,N=3")
    parser.add_argument("--inits", default=INITS, help="separated by commas")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=25, help="steps between validations")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start none after these")
    parser.add_argument("--out", type=Path, help="a file for the curves, in JSON lines")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Train all models and print the table."""
    options = make_parser().parse_args(arguments)
    deadline = time.time() + options.seconds
    settings = parse_settings(options.set)
    preset = find_preset(options.preset)
    inits = options.inits.split(",")
    for init in inits:  # refuses mistakes before anything is prepared
        model, train = apply_settings(settings | {"init": init}, preset.model, preset.train)
    prepare(
        [CorpusText(options.source, options.target)],
        options.corpus,
        valid=options.valid and tuple(options.valid),
        languages=guess_languages(options.source, options.target, None),
        train=train,
        max_len=model.max_len,
    )
    study = Study(
        corpus=options.corpus,
        preset=options.preset,
        settings=settings,
        steps=options.steps,
        every=options.every,
        device=options.device,
        jobs=options.jobs,
        deadline=deadline,
    )
    planned = [
        Outcome(condition=condition, init=init, seed=seed)
        for seed in range(1, options.seeds + 1)
        for condition in options.condition or [""]
        for init in inits
    ]
    outcomes = []
    for outcome in run_all(study, planned):
        say(str(outcome))
        outcomes.append(outcome)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
    say("")
    for line in table(outcomes):
        say(line)


if __name__ == "__main__":
    main()
