"""What each training of an experiment may spend, and the schedule that fits it."""

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
FIRST, LONGEST = 3, 3.0  # steps that are not timed, and seconds at most that others are


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Steps, or seconds spent on steps alone; neither: the paper's 100,000 steps."""

    steps: int | None = None
    seconds: float | None = None

    @property
    def is_time(self) -> bool:
        """Whether time is what ends it."""
        return self.steps is None and self.seconds is not None

    def settings(self) -> dict[str, str]:
        """Return when a training ends, as settings."""
        if self.is_time:
            return {"seconds": f"{self.seconds:g}", "timed": "steps"}
        return {"steps": str(self.steps or PAPERS_STEPS)}

    def __str__(self) -> str:
        if self.seconds is not None and self.is_time:
            return format_duration(self.seconds)
        return pluralize(self.steps or PAPERS_STEPS, "step")


def schedule(steps: int, recipe: TrainConfig, validations: int, saves: int) -> dict[str, str]:
    """Return a schedule for about so many steps, as settings.

    Differs: of fewer than the paper's 100,000 steps a quarter warms up, or fewer if the preset has
    it so, to the highest rate of the preset; and over the last 0.4, or what the preset has, the
    rate falls to 0.
    """
    often = {
        "validate_every": str(max(1, steps // validations)),
        "save_every": str(max(1, steps // saves)),
    }
    if steps >= PAPERS_STEPS:
        return often
    warmup = max(1, min(recipe.warmup, steps // 4))
    scale = recipe.lr_scale * math.sqrt(warmup / recipe.warmup)
    cooldown = recipe.cooldown or COOLDOWN
    rates = {"warmup": str(warmup), "lr_scale": f"{scale:.4g}", "cooldown": f"{cooldown:g}"}
    return often | rates


def scheduled(recipe: Mapping[str, Any], budget: Budget) -> str:
    """Say what a schedule came to, of one training for all."""
    if not budget.is_time and (budget.steps or PAPERS_STEPS) >= PAPERS_STEPS:
        return "Warm-up and rates are the paper's."
    steps = "the steps that its pace promised" if budget.is_time else "all steps"
    falls = f"over the last {recipe['cooldown']:.0%} it falls to 0 (the paper: it never does)"
    return (
        f"The rate rises for {recipe['warmup']:,} steps in the first, a quarter of {steps} at most "
        "(the paper: 4,000), to the highest that its preset has"
        + (f"; {falls}." if recipe["cooldown"] else ".")
    )


def averaged(recipe: Mapping[str, Any]) -> str:
    """Say which weights translate."""
    if recipe["select"] == "best":
        return "the weights of the best validation"
    count = recipe["average"]
    if count == 1:
        return "the last weights"
    if recipe["select"] == "auto":
        return f"the mean of up to {count} checkpoints, by validation loss"
    return f"the mean of the last {count} checkpoints"


def pace(config: RunConfig, corpus: Corpus, device: torch.device, seconds: float) -> float:
    """Measure for so many seconds, or a few, how many steps a second a training makes here."""
    with tempfile.TemporaryDirectory(prefix="transduce-pace-") as scratch:
        trainer = Trainer(Path(scratch), config, corpus, device, Silent())
        with contextlib.closing(trainer.prefetcher), trainer.log:
            for _ in range(FIRST):
                trainer.update()
            trainer.gradient_step.synchronise()
            began, steps = time.monotonic(), 0
            while time.monotonic() - began < min(seconds, LONGEST):
                trainer.update()
                trainer.gradient_step.synchronise()
                steps += 1
            return steps / (time.monotonic() - began)
