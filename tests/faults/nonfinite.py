"""Losses, gradients, weights and moments that are no numbers, or beyond all measure.

The rule (`GradientStep.skip_nonfinite`): an update whose gradient has a norm that is not finite, or
over 1e18, is skipped: weights and Adam's moments stay as they are, and it is said and counted as
`skipped` in metrics.jsonl. Ten in a row end the run, and so do a validation loss that is
no number and, before anything is saved, a weight or a moment that is none; the error names the last
checkpoint that is whole, and the same command goes on from it.
"""

import contextlib
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from conftest import TINY, snapshot, threads_kept, tiny_pairs, write_pairs

from faults.tally import Tally
from transduce.checkpoints.checkpoint import load_tensors
from transduce.errors import Diverged
from transduce.training.gradient import GradientStep, Objective
from transduce.training.optimizer import Adam
from transduce.training.train import train
from transduce.training.trainer import Trainer
from transduce.training.validation import Validation

COUNT = 100
STEPS = 30
SETTINGS = TINY | {
    "steps": str(STEPS),
    "save_every": "4",
    "validate_every": "10",
    "validate_bleu": "0",
    "log_every": "3",
    "warmup": "20",
    "keep": "30",
    "batch_tokens": "200",
}
BAD = (math.nan, math.inf, -math.inf)
Fault = Callable[[random.Random, set[int]], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def wrapped(owner: type, name: str, around: Callable[..., Any]) -> Iterator[None]:
    """Let `around`, which gets the function that it wraps first, stand in for a method."""
    inner = getattr(owner, name)
    with mock.patch.object(owner, name, lambda *args, **kwargs: around(inner, *args, **kwargs)):
        yield


def at(
    steps: set[int], spoil: Callable[[Trainer], None]
) -> contextlib.AbstractContextManager[None]:
    """Spoil something after these steps, the first being 1."""

    def around(inner: Callable[[Trainer], Any], self: Trainer) -> Any:
        done = inner(self)
        if self.state.step in steps:
            with torch.no_grad():
                spoil(self)
        return done

    return wrapped(Trainer, "update", around)


def bad_loss(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value, calls = draw.choice(BAD), [0]

    def around(inner: Callable[..., Any], self: Objective, batch: Any) -> Any:
        smoothed, nll = inner(self, batch)
        if not self.model.training:
            return smoothed, nll
        calls[0] += 1  # one for each step
        return (smoothed * value, nll * value) if calls[0] in steps else (smoothed, nll)

    return wrapped(Objective, "forward", around)


def bad_gradient(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value, whole, calls = draw.choice([*BAD, 1e30]), draw.random() < 0.5, [0]
    which = draw.random()

    def around(inner: Callable[..., Any], self: GradientStep, update: Any) -> None:
        inner(self, update)
        calls[0] += 1
        gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
        one = gradients[int(which * len(gradients))].view(-1)
        if calls[0] in steps:
            (one if whole else one[:1]).copy_(torch.tensor(value))

    return wrapped(GradientStep, "compute", around)


def bad_weights(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value, which = draw.choice(BAD), draw.random()

    def spoil(trainer: Trainer) -> None:
        weights = list(trainer.model.parameters())
        weights[int(which * len(weights))].view(-1)[:1] = value

    return at({min(steps)}, spoil)


def huge_weights(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    def spoil(trainer: Trainer) -> None:
        trainer.model.output.mul_(1e30)

    return at({min(steps)}, spoil)


def bad_moments(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value, which, kind = draw.choice(BAD), draw.random(), draw.choice(["exp_avg", "exp_avg_sq"])

    def spoil(trainer: Trainer) -> None:
        states = list(trainer.optimizer.state.values())
        states[int(which * len(states))][kind].view(-1)[:1] = value

    return at({min(steps)}, spoil)


def bad_validation(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value = draw.choice(BAD)
    found = Validation(value, value)

    @contextlib.contextmanager
    def patched() -> Iterator[None]:
        with mock.patch("transduce.training.trainer.validate", return_value=found):
            yield

    return patched()


def bad_from_here(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    return bad_gradient(draw, set(range(min(steps), STEPS + 1)))


def not_made(steps: set[int]) -> contextlib.AbstractContextManager[None]:
    """What a refused update is to be like: one that was never made."""
    calls = [0]

    def around(inner: Callable[..., Any], self: Adam) -> None:
        calls[0] += 1
        if calls[0] not in steps:
            inner(self)

    return wrapped(Adam, "step", around)


REFUSED: dict[str, Fault] = {"loss": bad_loss, "gradient": bad_gradient}
ENDED: dict[str, Fault] = {
    "weights": bad_weights,
    "weights beyond all measure": huge_weights,
    "moments": bad_moments,
    "validation": bad_validation,
    "every gradient from one on": bad_from_here,
}


class Trial:
    """A text, and what it teaches where nothing goes wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder / f"seed-{seed}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.files = write_pairs(self.folder, "text", tiny_pairs(300))
        self.sound = learned(self.run("sound"))

    def run(self, name: str, **changes: str) -> Path:
        """Train; the corpus is made once."""
        out = self.folder / name
        with threads_kept():
            return train(
                *self.files,
                out=out,
                corpus=self.folder / "corpus",
                preset="tiny",
                settings=SETTINGS | changes,
                device="cpu",
            )

    def refuse(self, kind: str, steps: set[int], draw: random.Random, name: str) -> str:
        """Spoil some updates; return what is wrong with what came of it, if anything is."""
        with REFUSED[kind](draw, steps):
            out = self.run(name)
        with not_made(steps):
            expected = learned(self.run(f"{name}-not-made"))
        counted = sum(line.get("skipped", 0) for line in lines(out))
        if learned(out) != expected:
            return "the weights are not those of a run without these updates"
        return "" if counted == len(steps) else f"{counted} updates counted, not {len(steps)}"

    def end(self, kind: str, steps: set[int], draw: random.Random, name: str) -> str:
        """Spoil what ends a run; go on; return what is wrong with what came of it."""
        try:
            with ENDED[kind](draw, steps):
                self.run(name)
        except Diverged as error:
            before = checkpoints(self.folder / name)
            if before and not any(f"{one}, which is whole" in str(error) for one in before[-1:]):
                return f"the error does not name the last checkpoint: {error}"
        else:
            return "the run came to its end"
        if wrong := self.not_numbers(name):
            return wrong
        out = self.run(name)
        same = learned(out) == self.sound
        return "" if same else "the weights are not those of the undisturbed run"

    def race(self, kind: str, steps: set[int], draw: random.Random, name: str) -> str:
        """Train at a rate beyond all measure: whatever comes of it, numbers are saved."""
        with contextlib.suppress(Diverged):
            self.run(name, lr_scale=str(10 ** draw.uniform(3, 9)), warmup="1")
        return self.not_numbers(name)

    def not_numbers(self, name: str) -> str:
        """Tell which file of a run holds what is no number, if one does."""
        for path in sorted((self.folder / name).rglob("*.safetensors")):
            tensors = load_tensors(path).values()
            if not all(one.isfinite().all() for one in tensors if one.is_floating_point()):
                return f"{path} holds what is no number"
        return ""


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("step-*"))


def learned(run: Path) -> dict[str, str]:
    """Return the hashes of all that a run has learned."""
    return {name: value for name, value in snapshot(run).items() if name.endswith(".safetensors")}


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Spoil so many runs, by turns in all ways."""
    refused = Tally("updates refused: the run is as without them, and they are counted", seed)
    ended = Tally("runs ended: nothing that is no number is saved, and they go on identical", seed)
    raced = Tally("rates beyond all measure: nothing that is no number is saved", seed)
    trial = Trial(folder, seed)
    ways = [*REFUSED, *ENDED, "rate"]
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        kind, name = ways[number % len(ways)], f"run-{number}"
        if kind in REFUSED:
            steps = set(draw.sample(range(1, STEPS + 1), draw.randint(1, 4)))
            judged(refused, trial.refuse, kind, steps, draw, name)
        elif kind in ENDED:
            # The last ten must all be spoilt for a run to end by them alone.
            last = STEPS - 11 if kind == "every gradient from one on" else STEPS - 1
            judged(ended, trial.end, kind, {draw.randint(1, last)}, draw, name)
        else:
            judged(raced, trial.race, kind, set(), draw, name)
        for path in (name, f"{name}-not-made"):
            shutil.rmtree(trial.folder / path, ignore_errors=True)
    return [refused, ended, raced]


def judged(
    count: Tally,
    spoil: Callable[[str, set[int], random.Random, str], str],
    kind: str,
    steps: set[int],
    draw: random.Random,
    name: str,
) -> None:
    """Count what came of a fault."""
    try:
        wrong = spoil(kind, steps, draw, name)
    except Exception as error:  # whatever it is, it is what the trial looks for
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        count.fail(f"{name}, seed {count.seed}: {kind} at {sorted(steps)}: {wrong}")
    else:
        count.hold(kind)
