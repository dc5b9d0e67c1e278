"""Non-finite or huge losses, gradients, weights and moments.

The rule (`GradientStep.skip_nonfinite`): an update whose gradient has a norm that is not finite, or
over 1e18, is skipped: weights and Adam's moments stay unchanged, and it is reported and counted as
`skipped` in metrics.jsonl. Ten in a row end the run, and so do a non-finite validation loss and,
before anything is saved, a non-finite weight or moment; the error names the last intact checkpoint,
and the same command resumes from it.
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
    """Replace a method by `around`, whose first argument is the original method."""
    inner = getattr(owner, name)
    with mock.patch.object(owner, name, lambda *args, **kwargs: around(inner, *args, **kwargs)):
        yield


def after_steps(
    steps: set[int], spoil: Callable[[Trainer], None]
) -> contextlib.AbstractContextManager[None]:
    """Call `spoil` after these steps; the first is 1."""

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
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        gradient = gradients[int(which * len(gradients))].view(-1)
        if calls[0] in steps:
            (gradient if whole else gradient[:1]).copy_(torch.tensor(value))

    return wrapped(GradientStep, "compute", around)


def bad_weights(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value, which = draw.choice(BAD), draw.random()

    def spoil(trainer: Trainer) -> None:
        weights = list(trainer.model.parameters())
        weights[int(which * len(weights))].view(-1)[:1] = value

    return after_steps({min(steps)}, spoil)


def huge_weights(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    def spoil(trainer: Trainer) -> None:
        trainer.model.output.mul_(1e30)

    return after_steps({min(steps)}, spoil)


def bad_moments(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value, which, kind = draw.choice(BAD), draw.random(), draw.choice(["exp_avg", "exp_avg_sq"])

    def spoil(trainer: Trainer) -> None:
        states = list(trainer.optimizer.state.values())
        states[int(which * len(states))][kind].view(-1)[:1] = value

    return after_steps({min(steps)}, spoil)


def bad_validation(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    value = draw.choice(BAD)
    result = Validation(value, value)

    @contextlib.contextmanager
    def patched() -> Iterator[None]:
        with mock.patch("transduce.training.trainer.validate", return_value=result):
            yield

    return patched()


def bad_from_here(draw: random.Random, steps: set[int]) -> contextlib.AbstractContextManager[None]:
    return bad_gradient(draw, set(range(min(steps), STEPS + 1)))


def without_updates(steps: set[int]) -> contextlib.AbstractContextManager[None]:
    """Leave out the updates of these steps."""
    calls = [0]

    def around(inner: Callable[..., Any], self: Adam) -> None:
        calls[0] += 1
        if calls[0] not in steps:
            inner(self)

    return wrapped(Adam, "step", around)


SKIPPED: dict[str, Fault] = {"loss": bad_loss, "gradient": bad_gradient}
ENDED: dict[str, Fault] = {
    "weights": bad_weights,
    "huge weights": huge_weights,
    "moments": bad_moments,
    "validation": bad_validation,
    "every gradient from a step on": bad_from_here,
}


class Trial:
    """A text, and the weights that it gives without faults."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder / f"seed-{seed}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.files = write_pairs(self.folder, "text", tiny_pairs(300))
        self.reference = learned(self.run("reference"))

    def run(self, name: str, **changes: str) -> Path:
        """Train; the corpus is prepared once."""
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

    def skip(self, kind: str, steps: set[int], draw: random.Random, name: str) -> str:
        """Spoil some updates; return what is wrong with the result, if anything."""
        with SKIPPED[kind](draw, steps):
            out = self.run(name)
        with without_updates(steps):
            expected = learned(self.run(f"{name}-not-made"))
        counted = sum(line.get("skipped", 0) for line in lines(out))
        if learned(out) != expected:
            return "the weights are not those of a run without these updates"
        return "" if counted == len(steps) else f"{counted} updates counted, not {len(steps)}"

    def end(self, kind: str, steps: set[int], draw: random.Random, name: str) -> str:
        """Inject a fault that ends the run, then resume; return what is wrong with the result."""
        try:
            with ENDED[kind](draw, steps):
                self.run(name)
        except Diverged as error:
            before = checkpoints(self.folder / name)
            if before and not any(str(checkpoint) in str(error) for checkpoint in before[-1:]):
                return f"the error does not name the last checkpoint: {error}"
        else:
            return "the run was not ended"
        if wrong := self.find_nonfinite(name):
            return wrong
        out = self.run(name)
        same = learned(out) == self.reference
        return "" if same else "the weights are not those of the run without faults"

    def diverge(self, kind: str, steps: set[int], draw: random.Random, name: str) -> str:
        """Train with a huge learning rate: nothing non-finite is saved."""
        with contextlib.suppress(Diverged):
            self.run(name, lr_scale=str(10 ** draw.uniform(3, 9)), warmup="1")
        return self.find_nonfinite(name)

    def find_nonfinite(self, name: str) -> str:
        """Return which file of a run has non-finite values, if any."""
        for path in sorted((self.folder / name).rglob("*.safetensors")):
            tensors = load_tensors(path).values()
            if not all(tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()):
                return f"{path} has non-finite values"
        return ""


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("step-*"))


def learned(run: Path) -> dict[str, str]:
    """Return the hashes of all weights of a run."""
    return {name: value for name, value in snapshot(run).items() if name.endswith(".safetensors")}


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Inject `count` faults, of each kind in turn."""
    skipped = Tally("updates skipped: the run is as without them, and they are counted", seed)
    ended = Tally("runs ended: nothing non-finite is saved, and they resume identically", seed)
    diverged = Tally("huge learning rates: nothing non-finite is saved", seed)
    trial = Trial(folder, seed)
    ways = [*SKIPPED, *ENDED, "rate"]
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        kind, name = ways[number % len(ways)], f"run-{number}"
        if kind in SKIPPED:
            steps = set(draw.sample(range(1, STEPS + 1), draw.randint(1, 4)))
            record(skipped, trial.skip, kind, steps, draw, name)
        elif kind in ENDED:
            # Ten spoilt updates in a row end a run.
            last = STEPS - 11 if kind == "every gradient from a step on" else STEPS - 1
            record(ended, trial.end, kind, {draw.randint(1, last)}, draw, name)
        else:
            record(diverged, trial.diverge, kind, set(), draw, name)
        for path in (name, f"{name}-not-made"):
            shutil.rmtree(trial.folder / path, ignore_errors=True)
    return [skipped, ended, diverged]


def record(
    count: Tally,
    spoil: Callable[[str, set[int], random.Random, str], str],
    kind: str,
    steps: set[int],
    draw: random.Random,
    name: str,
) -> None:
    """Count the outcome of a fault."""
    try:
        wrong = spoil(kind, steps, draw, name)
    except Exception as error:  # any error is a finding
        wrong = f"{type(error).__name__}: {error}"
    if wrong:
        count.fail(f"{name}, seed {count.seed}: {kind} at {sorted(steps)}: {wrong}")
    else:
        count.hold(kind)
