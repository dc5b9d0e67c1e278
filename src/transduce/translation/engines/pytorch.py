"""Our own engine: the PyTorch model, with the search in `decoding`."""

import copy
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce.batching.packed import make_batch
from transduce.checkpoints.checkpoint import load_model
from transduce.config import SearchConfig
from transduce.decoding.scheduler import Decoder
from transduce.decoding.search import Constrain, log_probabilities
from transduce.errors import BadInput, BadRun
from transduce.model.attention_maps import source_weights
from transduce.model.base import Transducer
from transduce.model.ops import graphs
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig
from transduce.system.devices import choose_device
from transduce.system.processes import cores
from transduce.translation.types import Hypothesis, Ints, Job

T = TypeVar("T")
NAMES = {torch.float16: "float16", torch.bfloat16: "bf16", torch.float32: "float32"}

logger = logging.getLogger("transduce")


class TorchEngine:
    """Searches with a model or an ensemble; any number of threads may use it.

    If a value exceeds the range of float16, the sentence is computed again in a wider format.
    """

    def __init__(
        self,
        models: Sequence[Transducer],
        forbidden: Sequence[int],
        *,
        constrain: Constrain | None = None,
    ) -> None:
        self.models = [model.eval() for model in models]
        self.decoder = Decoder(self.models, forbidden, constrain=constrain)
        self.forbidden, self.constrain = forbidden, constrain
        self._wide: TorchEngine | None = None
        self._widening = threading.Lock()
        device = self.decoder.device.type
        large = max(model.config.d_model for model in self.models) > 256
        # With a large model on a CPU, larger batches are not faster and take more memory.
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
        """Load the models from run folders."""
        chosen = choose_device(device)
        if chosen.type == "cpu":
            torch.set_num_threads(cores())
        models = [load_model(*run, chosen)[0] for run in zip(runs, configs, strict=True)]
        if chosen.type == "cpu":
            return cls([model.pack() for model in models], forbidden, constrain=constrain)
        if chosen.type != "cuda":
            return cls(models, forbidden, constrain=constrain)
        dtype = torch.float16
        if not all(_fits(model, dtype) for model in models):
            dtype = _wider(dtype)
            logger.warning("weights exceed the range of float16: computing in %s", NAMES[dtype])
        for model in models:
            problem = model.kernels.select(model.config, dtype, chosen, training=False)
            if problem:
                logger.warning(problem)
        narrow = [model.narrow(dtype) for model in models]
        return cls(narrow, forbidden, constrain=constrain)

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's index and its hypotheses."""
        overflowed = []
        for index, hypotheses in self.decoder.search(jobs, config, batch):
            if hypotheses:
                yield index, hypotheses
            else:
                overflowed.append(index)
        if overflowed:
            retried = [jobs[index] for index in overflowed]
            for number, hypotheses in self._widened().search(retried, config, batch):
                yield overflowed[number], hypotheses

    def _widened(self) -> "TorchEngine":
        """Return an engine with the same models in a number format with a wider range."""
        dtype = self.models[0].dtype
        if dtype == torch.float32:
            raise BadRun(
                "the model computes values that are not finite (NaN or infinity) in float32: its "
                "weights are too large or damaged; choose an earlier checkpoint"
            )
        with self._widening:
            if self._wide is None:
                wide = _wider(dtype)
                logger.warning(
                    "values exceed the range of %s: the sentences concerned are computed in %s",
                    *(NAMES[dtype], NAMES[wide]),
                )
                copies = [copy.deepcopy(model).narrow(wide) for model in self.models]
                self._wide = TorchEngine(copies, self.forbidden, constrain=self.constrain)
            return self._wide

    def lanes(self) -> list[Self]:
        """Return only this engine: all cores, or the GPU, work on one search."""
        return [self]

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of the given targets, </s> included."""
        graphs.use(self.decoder.device)
        scores = log_probabilities(self.models, pairs)
        return self._recompute_nonfinite(scores, pairs, TorchEngine.score)

    @torch.inference_mode()
    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return the decoder's attention to the source, averaged over the last layer's heads.

        The attention of the last layer, at the step that writes a token, gives the best links. On
        the built-in corpus they are correct for 93% of the words with six layers, 95% with two. The
        layer below reaches 83% and 39%; the step that reads the token, 25% and 8%.
        """
        graphs.use(self.decoder.device)
        each = [cross_attention(transformer(model), pairs) for model in self.models]
        alignments = [
            torch.stack(weights).mean(0).float().cpu().numpy()
            for weights in zip(*each, strict=True)
        ]
        return self._recompute_nonfinite(alignments, pairs, TorchEngine.align)

    def _recompute_nonfinite(
        self,
        results: list[T],
        pairs: Sequence[tuple[Ints, Ints]],
        compute: "Callable[[TorchEngine, list[tuple[Ints, Ints]]], list[T]]",
    ) -> list[T]:
        """Recompute the infinite or NaN results in a wider number format."""
        nonfinite = [index for index, result in enumerate(results) if not _is_finite(result)]
        if nonfinite:
            recomputed = compute(self._widened(), [pairs[index] for index in nonfinite])
            for index, result in zip(nonfinite, recomputed, strict=True):
                results[index] = result
        return results


def _is_finite(result: Any) -> bool:
    return bool(np.isfinite(result).all())


def _wider(dtype: torch.dtype) -> torch.dtype:
    """Return the fastest number format with a wider range that the GPU supports."""
    if dtype == torch.float16 and torch.cuda.is_available():
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if has_bf16 else torch.float32
    return torch.float32


def _fits(model: Transducer, dtype: torch.dtype) -> bool:
    """Return whether all weights are in the range of a number format."""
    limit = torch.finfo(dtype).max
    return all(
        bool(weight.abs().amax() <= limit) for weight in model.parameters() if weight.numel()
    )


def transformer(model: Transducer) -> Transformer:
    """Return the model if it is a Transformer; refuse other architectures."""
    if not isinstance(model, Transformer):
        raise BadInput(
            f"architecture = {model.config.architecture!r}: only a Transformer has attention "
            "layers and heads to inspect"
        )
    return model


def cross_attention(model: Transformer, pairs: Sequence[tuple[Ints, Ints]]) -> list[Tensor]:
    """Return the last layer's attention to the source, averaged over heads. (target, source)."""
    batch = make_batch(list(pairs)).to(model.output.device)
    by_pair = dict(zip(batch.order.tolist(), source_weights(model, batch), strict=True))
    return [by_pair[number][:, : len(source)] for number, (source, _) in enumerate(pairs)]
