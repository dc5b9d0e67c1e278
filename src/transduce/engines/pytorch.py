"""The engine of this house: the model itself, on torch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from transduce.batches import make_batch
from transduce.checkpoint import load_model
from transduce.config import SearchConfig
from transduce.decoding import Decoder
from transduce.folder import RunConfig
from transduce.hypotheses import Hypothesis, Ints, Job
from transduce.machine import choose_device, cores
from transduce.model import Transformer
from transduce.search import log_probabilities


class TorchEngine:
    """A model that searches, or several that vote."""

    def __init__(self, models: Sequence[Transformer], forbidden: Sequence[int]) -> None:
        self.models = [model.eval() for model in models]
        self.decoder = Decoder(self.models, forbidden)
        device = self.decoder.device.type
        self.batch = 512 if device == "cuda" else 32  # sentences that are best side by side
        self.name = f"torch on {device}"

    @classmethod
    def load(cls, run: Path, config: RunConfig, forbidden: Sequence[int], device: str) -> Self:
        """Load the model of a run folder."""
        on = choose_device(device)
        if on.type == "cpu":
            torch.set_num_threads(cores())
        model, _ = load_model(run, config, on)
        return cls([model.narrow(torch.float16) if on.type == "cuda" else model], forbidden)

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's place and its outputs."""
        return self.decoder.search(jobs, config, batch)

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of given targets, </s> included."""
        return log_probabilities(self.models, pairs)

    @torch.inference_mode()
    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return the decoder's attention to the source, the mean of the last layer's heads."""
        device = self.decoder.device
        found = []
        for pair in pairs:
            weights = self.models[0].weights(make_batch([pair]).to(device)).cross[-1]
            found.append(weights.mean(0).float().cpu().numpy())
        return found
