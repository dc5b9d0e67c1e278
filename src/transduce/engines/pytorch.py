"""The engine of this house: the model itself, on torch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce import kernels
from transduce.batches import CrossView, make_batch
from transduce.checkpoint import load_model
from transduce.config import SearchConfig
from transduce.decoding import Decoder
from transduce.errors import BadInput
from transduce.folder import RunConfig
from transduce.hypotheses import Hypothesis, Ints, Job
from transduce.machine import choose_device, cores
from transduce.model import Transformer
from transduce.search import Constrain, log_probabilities
from transduce.transducer import Transducer


class TorchEngine:
    """A model that searches, or several that vote."""

    def __init__(
        self,
        models: Sequence[Transducer],
        forbidden: Sequence[int],
        *,
        constrain: Constrain | None = None,
    ) -> None:
        self.models = [model.eval() for model in models]
        self.decoder = Decoder(self.models, forbidden, constrain=constrain)
        device = self.decoder.device.type
        large = max(model.config.d_model for model in self.models) > 256
        # Sentences that are best side by side; on a CPU more of a large model take memory alone.
        self.batch = 512 if device == "cuda" else 32 if large else 64
        together = f"{len(self.models)} models with " if len(self.models) > 1 else ""
        self.name = f"{together}torch on {device}"

    @classmethod
    def load(
        cls,
        runs: Sequence[Path],
        configs: Sequence[RunConfig],
        forbidden: Sequence[int],
        device: str,
        *,
        constrain: Constrain | None = None,
    ) -> Self:
        """Load the models of run folders."""
        on = choose_device(device)
        if on.type == "cpu":
            torch.set_num_threads(cores())
        models = [load_model(*run, on)[0] for run in zip(runs, configs, strict=True)]
        if on.type == "cpu":
            return cls([model.pack() for model in models], forbidden, constrain=constrain)
        if on.type != "cuda":
            return cls(models, forbidden, constrain=constrain)
        if kernels.installed():
            try:
                kernels.try_out(on)
            except Exception:  # whatever compilers and drivers come up with
                kernels.switch(on=False)  # torch's do the same, more slowly
        narrow = [model.narrow(torch.float16) for model in models]
        return cls(narrow, forbidden, constrain=constrain)

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's place and its outputs."""
        return self.decoder.search(jobs, config, batch)

    def lanes(self) -> list[Self]:
        """Return this engine alone: all cores, or the GPU, work on one search."""
        return [self]

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of given targets, </s> included."""
        return log_probabilities(self.models, pairs)

    @torch.inference_mode()
    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return the decoder's attention to the source, the mean of the last layer's heads.

        Of all layers the last finds most links, at the step that writes a token: on the corpus that
        comes along 93% and 95% of the words whose source is known, with six layers and with two;
        the layer below it finds 83% and 39%, the step that reads the token 25% and 8%.
        """
        each = [attended(transformer(model), pairs) for model in self.models]
        return [
            torch.stack(weights).mean(0).float().cpu().numpy()
            for weights in zip(*each, strict=True)
        ]


def transformer(model: Transducer) -> Transformer:
    """Return a model that is a Transformer, or say that it is none."""
    if not isinstance(model, Transformer):
        raise BadInput(
            f"architecture = {model.config.architecture!r}: only a Transformer has attention in "
            "layers and heads to look at"
        )
    return model


def attended(model: Transformer, pairs: Sequence[tuple[Ints, Ints]]) -> list[Tensor]:
    """Return the last layer's attention to the source, the mean of its heads. (target, source)."""
    batch = make_batch(list(pairs)).to(model.output.device)
    assert isinstance(batch.cross, CrossView)
    memory, x = model.asked(batch)
    *_, last = model.decoder
    found: list[Tensor] = [x] * len(pairs)
    begin = 0
    for row, sentence in enumerate(batch.order):
        source, target = map(len, pairs[sentence])
        own = memory[batch.cross.index[row, :source]]
        weights = last.cross_attention.weights(x[begin : begin + target], own)  # (H, Q, K)
        found[sentence] = weights.mean(0)
        begin += target
    return found
