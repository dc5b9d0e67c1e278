"""The learning rates that runs recorded, beside those computed from Eq. 3 and their settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadRun
from transduce.runs.folder import RunConfig
from transduce.runs.history import History, Row, read_history
from transduce.system.formatting import pluralize
from transduce.training.optimizer import learning_rate

PAPER, PAPERS_D_MODEL = TrainConfig(), ModelConfig().d_model
TOLERANCE = 1e-6  # relative; rates are recorded with all digits
ROUNDING = 0.001  # seconds; times are recorded in milliseconds


@dataclass(frozen=True, slots=True)
class Recorded:
    """A training run, as its folder describes it."""

    name: str  # in tables and pictures
    folder: Path
    config: RunConfig
    history: History

    @classmethod
    def read(cls, folder: Path, name: str) -> Self:
        """Read a run folder; refuse parsers and runs that have not trained yet."""
        config = RunConfig.load(folder)
        config.require("translation", folder)
        history = read_history(folder, name)
        if not any("learning_rate" in row for row in history.rows):
            raise BadRun(f"{folder} has logged no training step yet: train it further")
        return cls(name, folder, config, history)

    @property
    def train(self) -> TrainConfig:
        """The settings of training."""
        return self.config.train

    @property
    def d_model(self) -> int:
        """The width of the model, which Eq. 3 depends on."""
        return self.config.model.d_model

    @property
    def last_step(self) -> int:
        """The last step that was logged."""
        return int(max(row["step"] for row in self.history.rows))


@dataclass(frozen=True, slots=True)
class Rate:
    """The learning rate of one step, as recorded and as computed.

    A cooldown in a run that is limited by its time depends on the time of each step. Only some
    times are recorded, so the computed rate is then known within `low` and `high`.
    """

    step: int
    recorded: float
    low: float
    high: float

    @property
    def computed(self) -> float:
        """The computed rate."""
        return (self.low + self.high) / 2

    @property
    def deviation(self) -> float:
        """The distance of the recorded rate from the computed ones, relative to them."""
        outside = max(self.low - self.recorded, self.recorded - self.high, 0.0)
        return outside and (outside / self.high if self.high else float("inf"))

    @property
    def width(self) -> float:
        """How far the computed rate is unknown, relative to its highest value."""
        return (self.high - self.low) / self.high if self.high else 0.0


def equation_3(step: int, d_model: int, warmup: int) -> float:
    """Return the rate of Eq. 3 alone (paper 5.3)."""
    return learning_rate(step, d_model, PAPER.replace(warmup=warmup))


def rates_of(run: Recorded) -> list[Rate]:
    """Return the rate of each logged step."""
    rates = []
    before: Row = {}
    for row in run.history.rows:
        step = int(row["step"])
        if "learning_rate" not in row or step < 1:
            continue
        least, most = _parts_done(run.train, step, before, row)
        high, low = (learning_rate(step, run.d_model, run.train, done) for done in (least, most))
        rates.append(Rate(step, row["learning_rate"], low, high))
        before = row
    return rates


def _parts_done(config: TrainConfig, step: int, before: Row, row: Row) -> tuple[float, float]:
    """Return the least and the most of the run that may have been done before this step."""
    least, most = [0.0], [0.0]
    if config.steps is not None:
        least.append((step - 1) / config.steps)
        most.append((step - 1) / config.steps)
    if config.seconds is not None:
        least.append((before.get("seconds", 0.0) - ROUNDING) / config.seconds)
        most.append((row.get("seconds", config.seconds) + ROUNDING) / config.seconds)
    if config.epochs is not None:
        least.append(before.get("epoch", 0.0) / config.epochs)
        most.append((row.get("epoch", config.epochs) + 1) / config.epochs)
    return min(1.0, max(least)), min(1.0, max(most))


def departures(config: TrainConfig) -> list[str]:
    """Describe how the rates of a run differ from Eq. 3 with the same warm-up."""
    found = []
    if config.lr_scale != 1:
        found.append(f"lr_scale = {config.lr_scale:g} multiplies it")
    if config.ramp is not None and config.ramp < config.warmup:
        found.append(
            f"ramp = {config.ramp:,}: it reaches its peak at this step and keeps it until step "
            f"{config.warmup:,}"
        )
    if config.schedule == "constant":
        found.append("schedule = constant: it keeps its peak after the warm-up")
    if config.cooldown:
        found.append(
            f"cooldown = {config.cooldown:g}: it falls to 0 over the last {config.cooldown:.0%}"
        )
    if config.residual_lr != 1:
        found.append(
            f"residual_lr = {config.residual_lr:g} also multiplies it for the last matrix of each "
            "sub-layer"
        )
    if config.optimizer != "adam":
        found.append(f"the optimizer is {config.optimizer}, not Adam")
    return found


def describe_agreement(rates: dict[str, list[Rate]]) -> str:
    """Say whether the recorded rates are the computed ones, and how far apart they are at most."""
    count = sum(map(len, rates.values()))
    name, worst = max(
        ((name, rate) for name, each in rates.items() for rate in each),
        key=lambda pair: pair[1].deviation,
    )
    width = max((rate.width for each in rates.values() for rate in each), default=0.0)
    within = f"at most {worst.deviation:.1g} apart, relatively" if worst.deviation else "exactly"
    steps = pluralize(count, "recorded step")
    if worst.deviation <= TOLERANCE and width:
        return (
            f"The recorded learning rates agree with those computed from the settings at {steps}. "
            "In a cooldown by time the computed ones depend on the time of each step; the recorded "
            f"times leave up to {width:.1%} open."
        )
    if worst.deviation <= TOLERANCE:
        return (
            f"The recorded learning rates are those computed from the settings, {within}, at "
            f"{steps}."
        )
    wrong = [rate for each in rates.values() for rate in each if rate.deviation > TOLERANCE]
    return (
        f"The recorded learning rates are not those computed from the settings at {len(wrong):,} "
        f"of {steps}: in {name} at step {worst.step:,} {worst.recorded:.4g} was recorded and "
        f"{worst.computed:.4g} computed, {worst.deviation:.1%} apart. Its settings were changed "
        "when it was resumed, or its log is not its own."
    )


def peak(rates: Sequence[Rate]) -> Rate:
    """Return the highest recorded rate."""
    return max(rates, key=lambda rate: rate.recorded)
