"""The exponential moving average of the weights, an alternative to the mean of checkpoints."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from transduce.checkpoints.checkpoint import load_tensors_into, weights_of

PREFIX = "ema."  # of the names of its tensors in a checkpoint


class MovingAverage:
    """Averages the weights on their device; without a decay, it is empty."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.current = weights_of(model) if decay else {}
        self.weights = {name: weight.detach().clone() for name, weight in self.current.items()}

    @torch.no_grad()
    def restart(self) -> None:
        """Begin with the model's current weights."""
        for name, average in self.weights.items():
            average.copy_(self.current[name])

    @torch.no_grad()
    def update(self, steps: int, skipped: Tensor) -> None:
        """Add the current weights after `steps` earlier updates, unless this one was skipped.

        The decay rises with the steps, min(decay, t / (9 + t)), so that the average forgets the
        first weights. `skipped` is 0 or 1, and stays on the device.
        """
        if not self.weights:
            return
        decay = min(self.decay, steps / (9 + steps))
        averages = list(self.weights.values())
        changes = torch._foreach_sub(list(self.current.values()), averages)  # noqa: SLF001
        torch._foreach_mul_(changes, (1 - skipped) * (1 - decay))
        torch._foreach_add_(averages, changes)

    def state(self) -> dict[str, Tensor]:
        """Return the average as the tensors of a checkpoint."""
        return {PREFIX + name: weight for name, weight in self.weights.items()}

    def load(self, tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
        """Restore the average from the tensors of a checkpoint; return the other tensors."""
        own = {
            name.removeprefix(PREFIX): tensor
            for name, tensor in tensors.items()
            if name.startswith(PREFIX)
        }
        load_tensors_into(self.weights, own, path)
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(PREFIX)}
