"""Settings that depend on how fast this machine trains, chosen before the first step.

Two things are measured: the fastest number of CPU threads, because fewer are often faster on a busy
machine, and the number of steps that a time budget allows, which limits the warm-up. The measured
passes are discarded: random states and counts are restored.
"""

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from transduce.batching.packed import Ints
from transduce.checkpoints.checkpoint import random_states, restore_random_states
from transduce.config import TrainConfig
from transduce.corpus.updates import DataPosition, Updates
from transduce.runs.folder import RunConfig
from transduce.system.formatting import pluralize
from transduce.system.processes import cores, thread_counts
from transduce.system.progress import Progress
from transduce.training.gradient import GradientStep
from transduce.training.optimizer import fit_ramp

SAMPLE = 2_000  # target tokens in a measured pass on a CPU; larger updates take proportionally long
PASSES = 3  # for each number of threads, after one that is not counted
MORE_PASSES, PAUSE = 8, 1.0  # more passes if the machine is busy, and the seconds before each
SHARE_OF_STEPS = 0.9  # fraction of a time budget; validating and saving take the rest
FEWEST_STEPS = 300  # with fewer, a model learns little more than frequent words (docs/results.md)


def fit(
    gradient_step: GradientStep, config: RunConfig, updates: Updates, progress: Progress
) -> TrainConfig:
    """Return the settings for a new run, with threads and warm-up adapted to the machine."""
    train = fit_threads(gradient_step, config.train, progress)
    seconds = 1.0
    if train.seconds is not None and train.warmup_cap < 1:
        seconds, _ = gradient_step.processes.agree(measure_step(gradient_step), stop=False)
    steps = planned_steps(train, updates, seconds)
    if steps is None:
        return train
    from_nothing = not (config.origin and config.origin.weights)
    return fit_to_steps(train, steps, progress, from_nothing=from_nothing)


def fit_threads(gradient_step: GradientStep, train: TrainConfig, progress: Progress) -> TrainConfig:
    """Set the fastest number of threads, in the settings and in torch, if it is not set.

    Results depend on it in their last bits, so with `deterministic` nothing is measured.
    """
    if train.threads is not None:
        return train
    fixed = train.deterministic or gradient_step.processes.world > 1
    candidates = [cores()] if fixed else thread_counts()
    if len(candidates) == 1:
        return train.replace(threads=candidates[0])
    paces = measure_threads(gradient_step, candidates)
    torch.set_num_threads(paces[0].threads)
    progress.say("; ".join(map(str, paces)) + f": {paces[0].threads} chosen")
    return train.replace(threads=paces[0].threads)


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of gradient computation with a given number of threads."""

    threads: int
    tokens_per_second: float

    def __str__(self) -> str:
        return f"{self.tokens_per_second:,.0f} tokens/s with {pluralize(self.threads, 'thread')}"


@contextlib.contextmanager
def _discarded(gradient_step: GradientStep) -> Iterator[None]:
    """Restore counts and random states afterwards; the next update overwrites the gradients."""
    counts, random = gradient_step.counts.clone(), random_states(gradient_step.device)
    try:
        yield
    finally:
        gradient_step.counts.copy_(counts)
        restore_random_states(random, gradient_step.device)


def measure_threads(gradient_step: GradientStep, candidates: Sequence[int]) -> list[Pace]:
    """Time the gradient of a small update with each number of threads; return the fastest first.

    The candidates take turns, so that a short load on the machine affects all of them equally. If
    the largest number of threads is not the fastest, something else is using the machine. Measuring
    then continues for some seconds, because the load may pass and the choice is kept for the whole
    run.
    """
    sentences = _sample(gradient_step)
    tokens = int(gradient_step.part.target.lengths_of(sentences).sum())
    seconds: dict[int, list[float]] = {threads: [] for threads in candidates}

    def measure_each() -> None:
        for threads in candidates:
            torch.set_num_threads(threads)
            seconds[threads].append(_timed(gradient_step, sentences))

    def ranked() -> list[Pace]:
        paces = [Pace(threads, tokens / statistics.mean(s)) for threads, s in seconds.items()]
        return sorted(paces, key=lambda pace: -pace.tokens_per_second)

    with _discarded(gradient_step):
        measure_each()  # starts threads, fills caches
        for times in seconds.values():
            times.clear()
        for _ in range(PASSES):
            measure_each()
        for _ in range(MORE_PASSES):
            if ranked()[0].threads == max(candidates):
                break
            time.sleep(PAUSE)
            measure_each()
    return ranked()


def measure_step(gradient_step: GradientStep) -> float:
    """Return how many seconds the gradient of an update takes with the current settings."""
    if gradient_step.device.type == "cpu":
        sentences, whole = _sample(gradient_step), gradient_step.config.batch_tokens
    else:
        sentences, whole = gradient_step.layout.updates(np.random.default_rng(0))[0], 0
    tokens = int(gradient_step.part.target.lengths_of(sentences).sum())
    with _discarded(gradient_step):
        _timed(gradient_step, sentences)  # compiles kernels, fills caches
        seconds = min(_timed(gradient_step, sentences) for _ in range(PASSES))
    return seconds * max(1.0, whole / tokens)


def _sample(gradient_step: GradientStep) -> Ints:
    """Return an update of at most about `SAMPLE` tokens."""
    update = gradient_step.layout.updates(np.random.default_rng(0))[0]
    total = gradient_step.part.target.lengths_of(update).cumsum()
    return update[: max(1, int(np.searchsorted(total, SAMPLE, side="right")))]


def _timed(gradient_step: GradientStep, sentences: Ints) -> float:
    update = gradient_step.prepare(sentences, DataPosition(), 0.0)
    gradient_step.synchronise()
    began = time.perf_counter()
    gradient_step.model.train()
    gradient_step.compute(update)
    gradient_step.synchronise()
    return time.perf_counter() - began


def planned_steps(config: TrainConfig, updates: Updates, step_seconds: float) -> int | None:
    """Estimate the number of steps in a run; None if it has no limit."""
    limits = []
    if config.steps is not None:
        limits.append(float(config.steps))
    if config.epochs is not None:
        limits.append(float(config.epochs * updates.per_epoch()))
    if config.seconds is not None:
        share = 1.0 if config.timed == "steps" else SHARE_OF_STEPS
        limits.append(share * config.seconds / step_seconds)
    return max(1, int(min(limits))) if limits else None


def fit_to_steps(
    config: TrainConfig, steps: int, progress: Progress, *, from_nothing: bool
) -> TrainConfig:
    """Return settings whose warm-up fits a run of about `steps`; warn if the run is too short.

    A run that ends within its warm-up learns next to nothing. A run that starts from trained
    weights needs only a few steps.
    """
    fitted = fit_ramp(config, steps)
    if fitted != config:
        progress.say(
            f"warm-up {pluralize(fitted.ramp or 0, 'step')} instead of {config.warmup:,}, because "
            f"the run has about {steps:,}; the peak rate stays the same (--set warmup=N keeps N)"
        )
    rise = fitted.ramp or fitted.warmup
    if steps <= rise:
        progress.say(
            f"warning: the run ends after about {pluralize(steps, 'step')}, within its warm-up of "
            f"{rise:,}, and learns next to nothing: train longer, or set a lower warmup"
        )
    elif steps < FEWEST_STEPS and from_nothing:
        progress.say(
            f"warning: about {steps:,} steps are too few to learn to translate: give it at least "
            f"{FEWEST_STEPS:,} (--steps, --time), or a smaller model or smaller batches"
        )
    return fitted
