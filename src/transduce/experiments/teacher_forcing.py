"""Perplexity and accuracy of given translations under teacher forcing, with bootstrap intervals.

T tokens in a sentence, including </s>; V vocabulary size; S sentences.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from transduce.batching.packed import make_batch
from transduce.checkpoints.checkpoint import load_model
from transduce.evaluation.bootstrap import bootstrap_samples, percentile_interval
from transduce.experiments.statistics import SAMPLES, Estimate
from transduce.runs.folder import SUBWORDS, RunConfig
from transduce.subwords import EOS, Codec
from transduce.system.devices import choose_device
from transduce.system.progress import Progress

BATCH = 32  # sentences

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Scores of one given translation: each token is predicted from the true tokens before it."""

    nll: npt.NDArray[np.float64]  # (T,) negative log-likelihood
    correct: npt.NDArray[np.bool_]  # (T,) whether the most likely token is the true one


@torch.inference_mode()
def score_tokens(run: Path, pairs: Pairs, device: str, progress: Progress) -> list[TokenScores]:
    """Score given translations with the model of a run."""
    config = RunConfig.load(run)
    codec = Codec.load(config.verified(run, SUBWORDS))
    model, _ = load_model(run, config, choose_device(device))
    longest = config.model.max_len - 1
    tokens = [
        (
            np.array([*codec.source.encode(source)[:longest], EOS]),
            np.array([*codec.target.encode(target)[:longest], EOS]),
        )
        for source, target in pairs
    ]
    scores: dict[int, TokenScores] = {}
    with progress.track(f"scoring with {run.name}", len(pairs), "sentences") as advance:
        for first in range(0, len(tokens), BATCH):
            sentences = tokens[first : first + BATCH]
            batch = make_batch(sentences).to(model.output.device)
            log_p = torch.log_softmax(model.logits(model(batch)).float(), dim=-1)  # (T, V)
            nll = -log_p.gather(1, batch.labels[:, None]).flatten().double().cpu().numpy()
            correct = (log_p.argmax(1) == batch.labels).cpu().numpy()
            begin = 0
            for number in batch.order.tolist():
                end = begin + len(sentences[number][1])
                scores[first + number] = TokenScores(nll[begin:end], correct[begin:end])
                begin = end
            advance(len(sentences))
    return [scores[number] for number in range(len(pairs))]


def perplexity(scores: Sequence[TokenScores]) -> Estimate:
    """Return the perplexity per subword."""
    nll = [sentence.nll for sentence in scores]
    return _per_token(nll, lambda mean: math.exp(min(mean, 100.0)))


def accuracy(scores: Sequence[TokenScores]) -> Estimate:
    """Return the percentage of subwords that the model ranked first."""
    return _per_token([sentence.correct for sentence in scores], lambda mean: 100 * mean)


def _per_token(values: Sequence[npt.NDArray[Any]], convert: Callable[[float], float]) -> Estimate:
    """Return the mean over the tokens of all sentences, converted, with its interval."""
    totals = np.array([[tokens.sum(), len(tokens)] for tokens in values], np.float64).T  # (2, S)
    draws = np.stack(list(bootstrap_samples(len(values), SAMPLES)))  # (samples, S)
    sampled_sums, sampled_tokens = totals @ draws.T
    low, high = percentile_interval(map(convert, (sampled_sums / sampled_tokens).tolist()))
    total, tokens = totals.sum(1).tolist()
    return Estimate(convert(total / tokens), low, high)
