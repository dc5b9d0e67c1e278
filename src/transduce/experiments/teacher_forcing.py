"""What trained models make of given translations: perplexity and accuracy, with intervals.

T tokens of a sentence, </s> the last; V words.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from transduce.batching.packed import make_batch
from transduce.checkpoints.checkpoint import load_model
from transduce.evaluation.bootstrap import bootstrap_samples, percentile_interval
from transduce.runs.folder import SUBWORDS, RunConfig
from transduce.subwords import EOS, Codec
from transduce.system.devices import choose_device
from transduce.system.progress import Progress

SAMPLES = 1000  # for intervals
TOGETHER = 32  # sentences that are judged side by side

Pairs = Sequence[tuple[str, str]]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Forced:
    """What a model makes of one given translation, each token after the true ones before it."""

    nll: npt.NDArray[np.float64]  # (T,)
    right: npt.NDArray[np.bool_]  # (T,) where the likeliest word is the true one


@torch.inference_mode()
def forced(run: Path, pairs: Pairs, device: str, progress: Progress) -> list[Forced]:
    """Let a trained model judge given translations."""
    config = RunConfig.load(run)
    codec = Codec.load(config.verified(run, SUBWORDS))
    model, _ = load_model(run, config, choose_device(device))
    longest = config.model.max_len - 1
    tokens = [
        tuple(
            np.array([*side.encode(text)[:longest], EOS])
            for side, text in zip((codec.source, codec.target), pair, strict=True)
        )
        for pair in pairs
    ]
    found: dict[int, Forced] = {}
    with progress.track(f"judging by {run.name}", len(pairs), "sentences") as advance:
        for begin in range(0, len(tokens), TOGETHER):
            some = [(source, target) for source, target in tokens[begin : begin + TOGETHER]]
            batch = make_batch(some).to(model.output.device)
            log_p = torch.log_softmax(model.logits(model(batch)).float(), dim=-1)  # (T, V)
            nll = -log_p.gather(1, batch.labels[:, None]).flatten().double().cpu().numpy()
            right = (log_p.argmax(1) == batch.labels).cpu().numpy()
            at = 0
            for sentence in batch.order.tolist():
                end = at + len(some[sentence][1])
                found[begin + sentence] = Forced(nll[at:end], right[at:end])
                at = end
            advance(len(some))
    return [found[number] for number in range(len(pairs))]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, and the interval that holds 95% of what samples of the same sentences give."""

    value: float
    low: float
    high: float

    def show(self, digits: int = 2) -> str:
        """Write the value and its interval."""
        return f"{self.value:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def perplexity(judged: Sequence[Forced]) -> Estimate:
    """Return the perplexity per subword."""
    sums = np.array([one.nll.sum() for one in judged])
    return _ratio(sums, judged, lambda mean: math.exp(min(mean, 100.0)))


def accuracy(judged: Sequence[Forced]) -> Estimate:
    """Return the part of subwords that are the likeliest, in percent."""
    return _ratio(np.array([one.right.sum() for one in judged]), judged, lambda mean: 100 * mean)


def _ratio(
    sums: npt.NDArray[np.generic], judged: Sequence[Forced], show: Callable[[float], float]
) -> Estimate:
    """Return what `show` makes of a sum over all tokens, by their number."""
    both = np.stack([sums.astype(np.float64), [float(len(one.nll)) for one in judged]])  # (2, S)
    drawn = np.stack(list(bootstrap_samples(len(judged), SAMPLES)))  # (samples, S)
    parts, tokens = both @ drawn.T
    low, high = percentile_interval(show(one) for one in (parts / tokens).tolist())
    whole, count = both.sum(1).tolist()
    return Estimate(show(whole / count), low, high)
