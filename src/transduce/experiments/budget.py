"""The budget for each training run of an experiment, and a schedule that fits it."""

import contextlib
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transduce.config import TrainConfig
from transduce.corpus.token_files import Corpus
from transduce.runs.folder import RunConfig
from transduce.system.formatting import format_duration, pluralize
from transduce.system.progress import Silent
from transduce.training.trainer import Trainer

PAPERS_STEPS = 100_000
COOLDOWN = 0.4
WARMUP_STEPS = 3  # not timed
LONGEST_TIMING = 3.0  # seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Steps, or seconds spent in steps; the default is the paper's 100,000 steps."""

    steps: int = PAPERS_STEPS
    seconds: float | None = None  # replaces steps

    @property
    def is_time(self) -> bool:
        """Whether the budget is a time."""
        return self.seconds is not None

    def settings(self) -> dict[str, str]:
        """Return the settings that end a training run."""
        if self.is_time:
            return {"seconds": f"{self.seconds:g}", "timed": "steps"}
        return {"steps": str(self.steps)}

    def __str__(self) -> str:
        if self.seconds is not None:
            return format_duration(self.seconds)
        return pluralize(self.steps, "step")


def schedule(steps: int, config: TrainConfig, validations: int, saves: int) -> dict[str, str]:
    """Return the settings for a schedule of about `steps` steps.

    Differs: with fewer than the paper's 100,000 steps, warm-up takes at most a quarter of the
    steps and reaches the preset's peak rate; over the last 40%, or the preset's cooldown, the rate
    falls to 0.
    """
    intervals = {
        "validate_every": str(max(1, steps // validations)),
        "save_every": str(max(1, steps // saves)),
    }
    if steps >= PAPERS_STEPS:
        return intervals
    warmup = max(1, min(config.warmup, steps // 4))
    scale = config.lr_scale * math.sqrt(warmup / config.warmup)
    cooldown = config.cooldown or COOLDOWN
    rates = {"warmup": str(warmup), "lr_scale": f"{scale:.4g}", "cooldown": f"{cooldown:g}"}
    return intervals | rates


def describe_schedule(recipe: Mapping[str, Any], budget: Budget) -> str:
    """Describe the schedule of the training runs, with the numbers of the first."""
    if not budget.is_time and budget.steps >= PAPERS_STEPS:
        return "Warm-up and learning rates are the paper's."
    steps = "the steps expected from its speed" if budget.is_time else "all steps"
    falls = f"it falls to 0 over the last {recipe['cooldown']:.0%} (the paper: never)"
    return (
        f"The learning rate of the first rises for {recipe['warmup']:,} steps, a quarter of "
        f"{steps} at most (the paper: 4,000), to the peak of its preset"
        + (f"; {falls}." if recipe["cooldown"] else ".")
    )


def describe_weights(recipe: Mapping[str, Any]) -> str:
    """Describe the weights used for translation."""
    if recipe["select"] == "best":
        return "the weights of the best validation"
    count = recipe["average"]
    if count == 1:
        return "the last weights"
    if recipe["select"] == "auto":
        return f"the mean of up to {count} checkpoints, by validation loss"
    return f"the mean of the last {count} checkpoints"


def steps_per_second(
    config: RunConfig, corpus: Corpus, device: torch.device, seconds: float
) -> float:
    """Measure the training speed for a few seconds."""
    with tempfile.TemporaryDirectory(prefix="transduce-pace-") as scratch:
        trainer = Trainer(Path(scratch), config, corpus, device, Silent())
        with contextlib.closing(trainer.prefetcher), trainer.log:
            for _ in range(WARMUP_STEPS):
                trainer.update()
            trainer.gradient_step.synchronise()
            start, steps = time.monotonic(), 0
            while time.monotonic() - start < min(seconds, LONGEST_TIMING):
                trainer.update()
                trainer.gradient_step.synchronise()
                steps += 1
            return steps / (time.monotonic() - start)
