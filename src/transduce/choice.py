"""Which weights translate when a run has ended: the mean of its last checkpoints, or the best."""

from pathlib import Path

from torch import Tensor

from transduce.checkpoint import average_checkpoints, load_tensors
from transduce.config import TrainConfig
from transduce.errors import BadRun
from transduce.folder import BEST, hash_of
from transduce.state import State


def chosen(run: Path, recipe: TrainConfig, state: State) -> tuple[dict[str, Tensor], str]:
    """Return the weights that translate, and in words which these are (paper 6.1)."""
    if recipe.select == "average":
        return average_checkpoints(run, recipe.average)
    return load_tensors(_best(run, state)), f"best validation loss, at step {state.best_step:,}"


def _best(run: Path, state: State) -> Path:
    """Return the file of the weights with the lowest validation loss."""
    path = run / BEST
    if state.best_hash and path.is_file() and hash_of(path) != state.best_hash:
        raise BadRun(
            f"{path} does not hold the weights of step {state.best_step:,}, which were the best: "
            "train further, or take the mean (--set select=average)"
        )
    return path
