"""Beam search, greedy search, sampling and scoring (paper 6.1).

S sentences, k hypotheses per sentence, R = S * k rows, V words.

Each step takes the best continuations of a sentence's live hypotheses. A hypothesis that ends keeps
its place in the beam, with its score, so a sentence has at most `beam` hypotheses, ended and live
together. A sentence is done when no hypothesis is live, or when no live hypothesis could still beat
the ended ones. An output that reaches its length limit must end there.

A step consists of tensor operations only and never waits for the device, so that a GPU can record
it once as a CUDA graph and replay it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce.batching.packed import Tokens, make_batch
from transduce.config import SearchConfig
from transduce.model.base import Transducer
from transduce.subwords import BOS, EOS
from transduce.system.devices import widest_float
from transduce.translation.types import Hypothesis, length_penalty

BLOCK = 64  # words per block in `fast_topk`
NONE = -1  # no forced word


class Constraint(Protocol):
    """The words that may continue each hypothesis, if not every sequence of words is valid.

    It keeps a state for each hypothesis, (S, k), in tensors that it changes in place.
    """

    def begin(self, slots: Tensor, classes: Tensor, limits: Tensor) -> None:
        """Begin new sentences in some slots, with their jobs' word classes and length limits.

        (n,), (n, source), (n,); classes are padded with `NONE`.
        """

    def allowed(self) -> Tensor:
        """Return which words may come next: at least one for each live hypothesis. (R, V)."""

    def follow(self, words: Tensor, parents: Tensor) -> None:
        """Append these words to the parent hypotheses. (S, k), (S, k)."""

    def keep(self, slots: Tensor) -> None:
        """Remove all slots but these."""


# Makes a constraint from the number of slots, hypotheses per slot and tokens in the longest source,
# and the device.
Constrain = Callable[[int, int, int, torch.device], Constraint]


class Beams:
    """The hypotheses of all sentences in the batch.

    Several models form an ensemble: their probabilities are averaged.
    """

    # The tensors with one row per slot, apart from the caches.
    STATE: tuple[str, ...] = (
        *("tokens", "totals", "free_places", "limits", "largest_penalties", "live"),
        *("forced", "draws", "history", "ended", "ended_count", "ended_scores"),
    )
    phrases = 0, 0  # capacity for required phrases and their tokens: see lexical.py

    def __init__(
        self,
        models: Sequence[Transducer],
        config: SearchConfig,
        forbidden: Sequence[int],
        slots: int,
        capacity: tuple[int, int],
        cached: tuple[int, int],
        constrain: Constrain | None = None,
    ) -> None:
        """Make empty slots.

        `capacity` is the maximum number of source tokens and output steps; `cached` is the initial
        capacity of the caches.
        """
        assert config.nbest == 1 or not config.sample
        self.models, self.config, self.capacity = models, config, capacity
        self.k = k = 1 if config.sample else config.beam
        device = models[0].output.device
        self.caches = [model.cache(slots, k, cached) for model in models]
        self.constraint = constrain(slots, k, capacity[0], device) if constrain else None
        ints: dict[str, Any] = {"dtype": torch.int64, "device": device}
        self.forbidden = torch.tensor(list(forbidden), **ints)
        steps = capacity[1]
        self.penalties = torch.tensor(
            [length_penalty(length, config) for length in range(steps + 2)], device=device
        )
        self.tokens = torch.full((slots, k), BOS, **ints)  # each hypothesis's last token
        self.totals = torch.zeros(slots, k, device=device)  # log-probabilities; -inf: not live
        self.free_places = torch.zeros(slots, 1, **ints)  # not taken by ended hypotheses
        self.limits = torch.ones(slots, **ints)  # output length, </s> included
        self.largest_penalties = torch.ones(slots, device=device)  # at the length limits
        self.live = torch.zeros(slots, dtype=torch.bool, device=device)
        self.forced = torch.full((slots, steps), NONE, **ints)  # the words of prefixes
        self.draws = torch.zeros(slots, steps if config.sample else 0, device=device).to(
            widest_float(device)
        )
        # For each step: the words, and the parent hypotheses that they continue.
        self.history = torch.zeros(slots, steps, k, 2, dtype=torch.int32, device=device)
        # For each ended hypothesis: its log-probability, its length without </s>, and its parent
        # hypothesis. The last column is a dummy for hypotheses that did not end.
        self.ended = torch.zeros(slots, k + 1, 3, device=device)
        self.ended_count = torch.zeros(slots, 1, **ints)
        self.ended_scores = torch.full((slots, k + 1), -math.inf, device=device)

    def begin(
        self, slots: Tensor, limits: Tensor, classes: Tensor, forced: Tensor, draws: Tensor
    ) -> None:
        """Begin new sentences in some slots. (n,), (n,), (n, source), (n, steps), (n, steps)."""
        if self.constraint is not None:
            self.constraint.begin(slots, classes, limits)
        self.tokens.index_fill_(0, slots, BOS)
        # All hypotheses of a sentence would begin identically, so only the first is live.
        self.totals.index_fill_(0, slots, -math.inf)
        self.totals[:, 0].index_fill_(0, slots, 0.0)
        self.free_places.index_fill_(0, slots, self.k)
        self.limits.index_copy_(0, slots, limits)
        self.largest_penalties.index_copy_(0, slots, self.penalties[limits])
        self.live.index_fill_(0, slots, value=True)
        self.forced.index_copy_(0, slots, forced)
        self.draws.index_copy_(0, slots, draws)
        self.ended_count.index_fill_(0, slots, 0)
        self.ended_scores.index_fill_(0, slots, -math.inf)

    def keep(self, slots: Tensor) -> None:
        """Remove all slots but these."""
        for name in self.STATE:
            setattr(self, name, getattr(self, name)[slots])
        for cache in self.caches:
            cache.keep(slots)
        if self.constraint is not None:
            self.constraint.keep(slots)

    def step(self, source: int, steps: int) -> None:
        """Append one word to every hypothesis.

        No source has more than `source` tokens, and no output more than `steps` words including
        this one.
        """
        lengths = self.caches[0].lengths.long()  # words written so far, (S,)
        for cache in self.caches:
            cache.begin_step(source, steps)
        if self.config.sample:
            word, totals = self._sample(lengths)
            parent = torch.zeros_like(word)
        else:
            word, totals, parent = self._best_continuations(lengths)
        ends = (word == EOS) & (totals > -math.inf) & self.live[:, None]
        self._store_ended(ends, totals, lengths, parent)
        self.totals.copy_(totals.masked_fill(ends, -math.inf))
        self.tokens.copy_(word)
        step = torch.stack([word, parent], dim=-1).int()[:, None]  # (S, 1, k, 2)
        self.history.scatter_(1, lengths[:, None, None, None].expand_as(step), step)
        if self.constraint is not None:
            self.constraint.follow(word, parent)
        for cache in self.caches:
            cache.end_step(parent, self.live)
        self.live &= self._can_still_win()

    def _can_still_win(self) -> Tensor:
        """Return whether a live hypothesis can still reach its sentence's `nbest`. (S,)."""
        needed = self.ended_scores[:, : self.k].topk(self.config.nbest).values[:, -1]
        return best_possible(self.totals.amax(1), self.largest_penalties) > needed

    def _best_continuations(self, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best continuations of each sentence: words, totals, parents. (S, k) each."""
        k = self.k
        log_p, forced, forced_log_p = self._log_probabilities(lengths)
        best, word = fast_topk(log_p, k)  # the k best of all rows are among the k best of each
        best = torch.where(forced == NONE, best, -math.inf)
        best[:, :1] = torch.where(forced == NONE, best[:, :1], forced_log_p)
        word = torch.where(forced == NONE, word, forced)
        candidates = self.totals.view(-1, 1) + best  # (R, count)
        count = candidates.size(-1)
        totals, choice = candidates.view(-1, k * count).topk(k)  # (S, k), best first
        word = word.view(-1, k * count).gather(1, choice)
        taken = torch.arange(k, device=totals.device) >= self.free_places  # by ended hypotheses
        return word, totals.masked_fill(taken, -math.inf), choice // count

    def _sample(self, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Sample a word for each sentence, which has one hypothesis. Return words and totals."""
        log_p, forced, forced_log_p = self._log_probabilities(lengths)
        truncated = _truncate(log_p / self.config.temperature, self.config)
        ordered, word = truncated.sort(dim=-1, descending=True)
        cumulative = ordered.softmax(-1).to(self.draws.dtype).cumsum(-1)
        threshold = self.draws.gather(1, lengths[:, None]) * cumulative[:, -1:]
        choice = torch.searchsorted(cumulative, threshold, right=True)
        allowed = (ordered > -math.inf).sum(-1, keepdim=True)
        last = (allowed - 1).clamp(min=0)  # with NaN, no word is allowed
        word = word.gather(1, choice.minimum(last))
        gain = torch.where(forced == NONE, log_p.gather(1, word), forced_log_p)
        return torch.where(forced == NONE, word, forced), self.totals + gain

    def _log_probabilities(self, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-probabilities of all next words, and the forced words with theirs.

        (R, V), (R, 1), (R, 1). Where no word is forced, the forced word is `NONE`.
        """
        positions = lengths.minimum(self.limits - 1)  # a finished sentence may have none left
        positions = positions[:, None].expand(-1, self.k).flatten()
        each = [
            model.step(self.tokens.flatten(), positions, cache).log_softmax(-1)
            for model, cache in zip(self.models, self.caches, strict=True)
        ]
        log_p = _average(each)
        forced = self.forced.gather(1, lengths[:, None])
        forced = forced.masked_fill((lengths + 1 >= self.limits)[:, None], EOS)
        forced = forced.expand(-1, self.k).reshape(-1, 1)
        forced_log_p = log_p.gather(1, forced.clamp(min=0))
        if self.constraint is not None:
            log_p = log_p.masked_fill(~self.constraint.allowed(), -math.inf)
        return log_p.index_fill_(1, self.forbidden, -math.inf), forced, forced_log_p

    def _store_ended(self, ends: Tensor, totals: Tensor, lengths: Tensor, parent: Tensor) -> None:
        """Store the hypotheses that end. (S, k), (S, k), (S,), (S, k)."""
        column = torch.where(ends, self.ended_count + ends.cumsum(1) - 1, self.k)
        value = torch.stack([totals, lengths[:, None].expand_as(totals), parent], dim=-1)
        self.ended.scatter_(1, column[..., None].expand_as(value), value)
        self.ended_scores.scatter_(1, column, totals / self.penalties[lengths + 1][:, None])
        count = ends.sum(1, keepdim=True)
        self.ended_count += count
        self.free_places -= count

    def hypotheses(
        self, ended: Tensor, counts: Tensor, history: Tensor, totals: Tensor
    ) -> list[list[Hypothesis]]:
        """Return the outputs of finished sentences, best first, from copies of their state.

        A sentence with a NaN among its totals has no outputs: a NaN stays in all later steps.

        (n, k + 1, 3), (n, 1), (n, steps, k, 2), (n, k), on the CPU. A fourth value of each ended
        hypothesis, if there is one, is what it lacks: less of it comes before a better score.
        """
        best: list[list[tuple[Hypothesis, int, int]]] = []
        counts = counts.flatten().masked_fill(totals.isnan().any(1), 0)
        for values, count in zip(ended.tolist(), counts.tolist(), strict=True):
            rows = []
            for total, steps, parent, *missing in values[:count]:
                score = total / length_penalty(int(steps) + 1, self.config)
                hypothesis = Hypothesis([], total, score)
                rows.append(((*missing, -score), (hypothesis, int(steps), int(parent))))
            rows.sort(key=lambda row: row[0])
            best.append([row for _, row in rows[: self.config.nbest]])
        _trace_back(best, history.numpy())
        return [[hypothesis for hypothesis, _, _ in row] for row in best]


def _trace_back(
    best: list[list[tuple[Hypothesis, int, int]]], history: npt.NDArray[np.int32]
) -> None:
    """Fill in the tokens of hypotheses, from the last step back to the first."""
    flat = [(sentence, *row) for sentence, rows in enumerate(best) for row in rows]
    if not flat:
        return
    sentences = np.array([sentence for sentence, *_ in flat])
    steps = np.array([steps for _, _, steps, _ in flat])
    parents = np.array([parent for *_, parent in flat])
    tokens = np.zeros((len(flat), int(steps.max(initial=0))), dtype=np.int64)
    for step in reversed(range(tokens.shape[1])):
        word, parent = history[sentences, step, parents].T
        tokens[:, step] = word
        parents = np.where(step < steps, parent, parents)
    for (_, hypothesis, length, _), row in zip(flat, tokens.tolist(), strict=True):
        hypothesis.tokens.extend(row[:length])


def best_possible(totals: Tensor, largest_penalty: Tensor) -> Tensor:
    """Return the best score that a live hypothesis could still reach.

    Its log-probability can only fall, and is divided by at most the longest output's penalty.
    """
    return totals / largest_penalty


def fast_topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values of each row and their indices: `topk`, several times as fast.

    The k largest are all in the k blocks with the largest maxima. (R, V) -> (R, k), (R, k).
    """
    V = x.size(1)
    k, blocks = min(k, V), V // BLOCK
    if blocks <= k:
        values, indices = x.topk(k)
        return values, indices
    body = x[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = body.amax(-1).topk(k, sorted=False).indices  # (R, k)
    inside = body.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)
    values, choice = torch.cat([inside, x[:, blocks * BLOCK :]], dim=1).topk(k)
    within = chosen.gather(1, (choice // BLOCK).clamp(max=k - 1)) * BLOCK + choice % BLOCK
    behind = choice - k * BLOCK + blocks * BLOCK
    return values, torch.where(choice < k * BLOCK, within, behind)


def _truncate(log_p: Tensor, config: SearchConfig) -> Tensor:
    """Top-k and nucleus sampling.

    Keep the `top_k` most likely words, and among these the smallest set whose probabilities sum to
    `top_p`. The most likely word is always kept: float32 rounds the smallest `top_p` values to 0.
    """
    if 0 < config.top_k < log_p.size(-1):
        least = log_p.topk(config.top_k, dim=-1).values[:, -1:]
        log_p = log_p.masked_fill(log_p < least, -math.inf)
    if config.top_p < 1:
        ordered, word = log_p.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        beyond = before >= config.top_p
        beyond[:, 0] = False
        log_p = log_p.masked_fill(beyond.gather(1, word.argsort(-1)), -math.inf)
    return log_p


def log_probabilities(
    models: Sequence[Transducer], pairs: Sequence[tuple[Tokens, Tokens]]
) -> list[list[float]]:
    """Return the log-probability of each token of the given targets, </s> included.

    Sources and targets end in </s>. The probabilities of several models are averaged.
    """
    results: list[list[float]] = [[] for _ in pairs]
    with torch.inference_mode():
        batch = make_batch(list(pairs)).to(models[0].output.device)
        outputs = [model(batch) for model in models]
        begin = 0
        for sentence in batch.order:
            end = begin + len(pairs[sentence][1])
            log_p = _average(
                [
                    torch.log_softmax(model.logits(x[begin:end]).float(), dim=-1)
                    for model, x in zip(models, outputs, strict=True)
                ]
            )
            results[sentence] = log_p.gather(1, batch.labels[begin:end, None]).flatten().tolist()
            begin = end
    return results


def _average(log_p: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the mean of probabilities, from their logarithms."""
    if len(log_p) == 1:
        return log_p[0]
    return torch.stack(list(log_p)).logsumexp(0) - math.log(len(log_p))
