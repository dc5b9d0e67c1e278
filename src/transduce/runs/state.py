"""Where a run stands, apart from its weights and its optimizer: what a checkpoint says of it."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from transduce.config import TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.errors import BadRun

LARGEST = 1e300  # what is beyond it, JSON's integers and NaN among it, is no number of ours


@dataclass(slots=True)
class Window:
    """Sums since the last logged step."""

    tokens: int = 0
    smoothed: float = 0.0
    nll: float = 0.0
    seconds: float = 0.0  # spent on steps alone
    skipped: int = 0  # updates that were skipped because of a non-finite gradient
    skipped_tokens: int = 0  # of these
    in_a_row: int = 0  # of them, up to now


@dataclass(slots=True)
class State:
    """Where a run stands."""

    step: int = 0
    seconds: float = 0.0
    position: DataPosition = field(default_factory=DataPosition)
    epochs: float = 0.0  # passes over the data so far
    window: Window = field(default_factory=Window)
    best_loss: float = math.inf
    best_step: int = 0
    best_hash: str = ""  # of the weights that it left
    worse: int = 0  # validations since the best
    validated: int = 0  # the step of the last validation

    def part_of(self, recipe: TrainConfig) -> float:
        """Return how much of a run is behind us, 0 to 1."""
        parts = [0.0]
        if recipe.steps is not None:
            parts.append(self.step / recipe.steps)
        if recipe.seconds is not None:
            parts.append(self.seconds / recipe.seconds)
        if recipe.epochs is not None:
            parts.append(self.epochs / recipe.epochs)
        return min(1.0, max(parts))

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        value = asdict(self)
        value["place"] = value.pop("position")
        value["best_loss"] = None if math.isinf(self.best_loss) else self.best_loss
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "State":
        """Read a state."""
        try:
            best = value["best_loss"]
            window = value["window"]
            return cls(
                step=_count(value["step"]),
                seconds=_number(value["seconds"]),
                position=_position(value["place"]),
                epochs=_number(value["epochs"]),
                window=Window(
                    tokens=_count(window["tokens"]),
                    smoothed=_number(window["smoothed"]),
                    nll=_number(window["nll"]),
                    seconds=_number(window["seconds"]),
                    # Older runs do not know these.
                    skipped=_count(window.get("skipped", 0)),
                    skipped_tokens=_count(window.get("skipped_tokens", 0)),
                    in_a_row=_count(window.get("in_a_row", 0)),
                ),
                best_loss=math.inf if best is None else _number(best),
                best_step=_count(value["best_step"]),
                best_hash=str(value.get("best_hash", "")),  # nor this
                worse=_count(value["worse"]),
                validated=_count(value["validated"]),
            )
        except (KeyError, TypeError) as error:
            raise BadRun(f"the training state of a checkpoint is damaged: {error}") from None


def _position(value: Any) -> DataPosition:
    return DataPosition(_count(value["epoch"]), _count(value["update"]))


def _count(value: Any) -> int:
    if type(value) is int and value >= 0:
        return value
    raise TypeError(f"{value!r:.60} is no count")


def _number(value: Any) -> float:
    if type(value) in (int, float) and abs(value) < LARGEST:
        return cast("float", value)
    raise TypeError(f"{value!r:.60} is no number")
