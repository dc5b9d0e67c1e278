"""Selecting the final weights of a run: a mean of its last weights, or the best."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from transduce.checkpoints.checkpoint import average_checkpoints, load_tensors
from transduce.config import TrainConfig
from transduce.errors import BadRun
from transduce.runs.arrays import hash_of
from transduce.runs.folder import BEST, Selection, checkpoints
from transduce.runs.state import State

LENGTHS = (1, 2, 3, 5, 10, 20)  # numbers of checkpoints whose means validation compares
END_OF_RUN = 0.1  # checkpoints in this last fraction of a run are averaged without comparing


def selection_at(config: TrainConfig, step: int) -> Selection:
    """Return the rule by which a run that ends at this step selects its weights."""
    alone = config.select in ("best", "ema")
    rule = config.select if alone else f"{config.select} {config.average}"
    return Selection(rule, step)


def select_weights(
    run: Path,
    config: TrainConfig,
    state: State,
    loss: Callable[[Mapping[str, Tensor]], float],
    moving_average: Mapping[str, Tensor],
) -> tuple[dict[str, Tensor], str]:
    """Return the final weights of a run, and a description of them (paper 6.1).

    `moving_average` is empty if the run has none. `loss` returns the validation loss of some
    weights.
    """
    moving = f"moving average of the weights at step {state.step:,}, decay {config.ema:g}"
    if config.select == "ema":
        return {**moving_average}, moving
    if config.select == "best":
        return load_tensors(_best(run, state)), f"best validation loss, at step {state.best_step:,}"
    lengths = _lengths(run, config.average)
    if config.select == "average" or (len(lengths) == 1 and not moving_average):
        return average_checkpoints(run, config.average)
    losses = {length: loss(average_checkpoints(run, length)[0]) for length in lengths}
    best = min(losses, key=lambda length: losses[length])
    tensors, description = average_checkpoints(run, best)
    counts = ", ".join(map(str, losses))
    values = ", ".join(f"{value:.4f}" for value in losses.values())
    compared = f"means of the last {counts} checkpoints: {values}"
    if moving_average:
        value = loss(moving_average)
        compared += f"; moving average: {value:.4f}"
        if value < losses[best]:
            tensors, description = {**moving_average}, moving
    return tensors, f"{description}, by validation loss ({compared})"


def _lengths(run: Path, most: int) -> list[int]:
    """Return the candidate numbers of last checkpoints to average; just one if none compete.

    The paper averages the end of a long run. If the checkpoints reach further back than the last
    tenth of the run, the oldest may be much worse than the newest.
    """
    steps = [checkpoint.step for checkpoint in checkpoints(run) if checkpoint.scheduled][-most:]
    if not steps or steps[-1] - steps[0] <= END_OF_RUN * steps[-1]:
        return [most]
    return sorted({length for length in LENGTHS if length <= len(steps)} | {len(steps)})


def _best(run: Path, state: State) -> Path:
    """Return the file with the weights that have the lowest validation loss."""
    path = run / BEST
    if state.best_hash and path.is_file() and hash_of(path) != state.best_hash:
        raise BadRun(
            f"{path} does not hold the weights of step {state.best_step:,}, which were the best: "
            "train further, or take the mean (--set select=average)"
        )
    return path
