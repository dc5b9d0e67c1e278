"""The training state in a checkpoint: everything except weights and optimizer state."""

import dataclasses
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from transduce.config import TrainConfig
from transduce.corpus.updates import DataPosition
from transduce.errors import BadRun


@dataclass(slots=True)
class Window:
    """Sums since the last logged step."""

    tokens: int = 0
    smoothed: float = 0.0
    nll: float = 0.0
    divergence: float = 0.0  # of the two passes of R-Drop or SimCut
    seconds: float = 0.0  # only the steps, without validation and saving
    skipped: int = 0  # updates skipped because of a non-finite gradient
    skipped_tokens: int = 0  # tokens in these updates
    in_a_row: int = 0  # consecutive updates skipped up to now


@dataclass(slots=True)
class State:
    """The progress of a run."""

    step: int = 0
    seconds: float = 0.0
    position: DataPosition = field(default_factory=DataPosition)
    epochs: float = 0.0  # passes over the data so far
    window: Window = field(default_factory=Window)
    best_loss: float = math.inf
    best_step: int = 0
    best_hash: str = ""  # hash of best.safetensors
    worse: int = 0  # validations since the best
    validated: int = 0  # the step of the last validation

    def part_done(self, config: TrainConfig) -> float:
        """Return the fraction of a run that is done, 0 to 1."""
        parts = [0.0]
        if config.steps is not None:
            parts.append(self.step / config.steps)
        if config.seconds is not None:
            parts.append(self.seconds / config.seconds)
        if config.epochs is not None:
            parts.append(self.epochs / config.epochs)
        return min(1.0, max(parts))

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        value = asdict(self)
        value["place"] = value.pop("position")
        value["best_loss"] = None if math.isinf(self.best_loss) else self.best_loss
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "State":
        """Create a state from the content of state.json, which may have more fields."""
        names = {field.name for field in dataclasses.fields(cls)}
        try:
            fields = {name: value[name] for name in names & value.keys()} | {
                "position": DataPosition(**value["place"]),
                "window": Window(**value["window"]),
                "best_loss": math.inf if value["best_loss"] is None else value["best_loss"],
            }
            return cls(**fields)
        except (KeyError, TypeError) as error:
            raise BadRun(f"the training state of a checkpoint is damaged: {error}") from None
