"""The engine of this house: the model itself, on torch."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from transduce.batches import make_batch
from transduce.checkpoint import load_model
from transduce.config import SearchConfig
from transduce.folder import RunConfig
from transduce.hypotheses import Hypothesis, Ints, Job
from transduce.machine import choose_device, cores
from transduce.model import Transformer
from transduce.search import log_probabilities, search


class TorchEngine:
    """A model that searches."""

    def __init__(self, model: Transformer, forbidden: Sequence[int]) -> None:
        self.model = model.eval()
        self.forbidden = forbidden
        self.name = f"torch on {model.output.device.type}"

    @classmethod
    def load(cls, run: Path, config: RunConfig, forbidden: Sequence[int], device: str) -> Self:
        """Load the model of a run folder."""
        on = choose_device(device)
        if on.type == "cpu":
            torch.set_num_threads(cores())
        model, _ = load_model(run, config, on)
        return cls(model, forbidden)

    def search(
        self, jobs: Iterable[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's place and its outputs."""
        numbered = enumerate(jobs)
        while some := list(itertools.islice(numbered, batch)):
            found = search(
                self.model,
                [job.source for _, job in some],
                config,
                forbidden=self.forbidden,
                prefixes=[job.prefix for _, job in some],
                numbers=[job.number for _, job in some],
            )
            yield from zip((place for place, _ in some), found, strict=True)

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of given targets, </s> included."""
        return log_probabilities(self.model, pairs)

    @torch.inference_mode()
    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return the decoder's attention to the source, the mean of the last layer's heads."""
        device = self.model.output.device
        found = []
        for pair in pairs:
            weights = self.model.weights(make_batch([pair]).to(device)).cross[-1]
            found.append(weights.mean(0).float().cpu().numpy())
        return found
