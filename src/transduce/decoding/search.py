"""From a model to translations: beam search, greedy search, sampling, scoring (paper 6.1).

S sentences, k hypotheses of each, R = S * k rows, V words.

The rules: each step takes the best continuations of a sentence's live hypotheses, as many as the
sentence has places. A hypothesis that ends keeps its place, with its score; so a sentence has at
most `beam` of them, ended and live together. It is done when none lives, or when no living one
could still beat those that ended, however it went on. An output that reaches its limit must end
there.

A step is tensors from end to end and asks nothing of the processor, so a GPU can record it once and
repeat it.
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

BLOCK = 64  # words among which the best is found at once
NONE = -1  # no word is forced


class Constraint(Protocol):
    """What each hypothesis may go on with, where not every sequence of words makes sense.

    It keeps a state of each hypothesis, (S, k), in tensors that it changes in place.
    """

    def begin(self, slots: Tensor, classes: Tensor, limits: Tensor) -> None:
        """Begin new sentences in some slots: the classes that their jobs tell, and the limits.

        (n,), (n, source), (n,); behind the last class of a sentence stands `NONE`.
        """

    def allowed(self) -> Tensor:
        """Return which words may come next; at least one for each that lives. (R, V)."""

    def follow(self, words: Tensor, parents: Tensor) -> None:
        """Go on with these words after those hypotheses. (S, k), (S, k)."""

    def keep(self, slots: Tensor) -> None:
        """Go on with some of the slots."""


# Makes a constraint for so many slots, with so many hypotheses each, for sources of at most so many
# tokens, on a device.
Constrain = Callable[[int, int, int, torch.device], Constraint]


class Beams:
    """The hypotheses of the sentences that are searched side by side; several models vote."""

    # What there is of each sentence, but for the caches.
    STATE = (
        *("tokens", "totals", "places", "limits", "bounds", "live"),
        *("forced", "draws", "history", "ended", "ended_count", "ended_scores"),
    )

    def __init__(
        self,
        models: Sequence[Transducer],
        config: SearchConfig,
        forbidden: Sequence[int],
        slots: int,
        room: tuple[int, int],
        cached: tuple[int, int],
        constrain: Constrain | None = None,
    ) -> None:
        """Make slots for sentences; `room` for a source and an output, `cached` as yet."""
        assert config.nbest == 1 or not config.sample
        self.models, self.config, self.room = models, config, room
        self.k = k = 1 if config.sample else config.beam
        device = models[0].output.device
        self.caches = [model.cache(slots, k, cached) for model in models]
        self.constraint = constrain(slots, k, room[0], device) if constrain else None
        ints: dict[str, Any] = {"dtype": torch.int64, "device": device}
        self.forbidden = torch.tensor(list(forbidden), **ints)
        steps = room[1]
        self.penalties = torch.tensor(
            [length_penalty(length, config) for length in range(steps + 2)], device=device
        )
        self.tokens = torch.full((slots, k), BOS, **ints)  # the last of each hypothesis
        self.totals = torch.zeros(slots, k, device=device)  # log-probabilities; -inf: not alive
        self.places = torch.zeros(slots, 1, **ints)  # that no hypothesis has ended in
        self.limits = torch.ones(slots, **ints)  # of the output's length, </s> included
        self.bounds = torch.ones(slots, device=device)  # the largest penalty
        self.live = torch.zeros(slots, dtype=torch.bool, device=device)
        self.forced = torch.full((slots, steps), NONE, **ints)  # words of prefixes
        self.draws = torch.zeros(slots, steps if config.sample else 0, device=device).to(
            widest_float(device)
        )
        # Of each step the words, and the hypotheses that they carry on.
        self.history = torch.zeros(slots, steps, k, 2, dtype=torch.int32, device=device)
        # Of each that ended its log-probability, its length without </s>, and whom it carried on;
        # the last column is for those that did not end.
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
        # All hypotheses of a sentence begin alike, so only the first is alive.
        self.totals.index_fill_(0, slots, -math.inf)
        self.totals[:, 0].index_fill_(0, slots, 0.0)
        self.places.index_fill_(0, slots, self.k)
        self.limits.index_copy_(0, slots, limits)
        self.bounds.index_copy_(0, slots, self.penalties[limits])
        self.live.index_fill_(0, slots, value=True)
        self.forced.index_copy_(0, slots, forced)
        self.draws.index_copy_(0, slots, draws)
        self.ended_count.index_fill_(0, slots, 0)
        self.ended_scores.index_fill_(0, slots, -math.inf)

    def keep(self, slots: Tensor) -> None:
        """Go on with some of the slots."""
        for name in self.STATE:
            setattr(self, name, getattr(self, name)[slots])
        for cache in self.caches:
            cache.keep(slots)
        if self.constraint is not None:
            self.constraint.keep(slots)

    def step(self, source: int, steps: int) -> None:
        """Add one word to every hypothesis; no source and no output is longer than told."""
        now = self.caches[0].lengths.long()  # (S,)
        for cache in self.caches:
            cache.begin_step(source, steps)
        if self.config.sample:
            word, totals = self._drawn(now)
            parent = torch.zeros_like(word)
        else:
            word, totals, parent = self._best(now)
        ends = (word == EOS) & (totals > -math.inf) & self.live[:, None]
        self._end(ends, totals, now, parent)
        self.totals.copy_(totals.masked_fill(ends, -math.inf))
        self.tokens.copy_(word)
        step = torch.stack([word, parent], dim=-1).int()[:, None]  # (S, 1, k, 2)
        self.history.scatter_(1, now[:, None, None, None].expand_as(step), step)
        if self.constraint is not None:
            self.constraint.follow(word, parent)
        for cache in self.caches:
            cache.end_step(parent, self.live)
        needed = self.ended_scores[:, : self.k].topk(self.config.nbest).values[:, -1]
        self.live &= best_possible(self.totals.amax(1), self.bounds) > needed

    def _best(self, now: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best continuations of each sentence: words, totals, whom they carry on."""
        k = self.k
        log_p, forced, its_own = self._log_probabilities(now)
        best, word = largest(log_p, k)  # k of each row suffice for k of all
        best = torch.where(forced == NONE, best, -math.inf)
        best[:, :1] = torch.where(forced == NONE, best[:, :1], its_own)
        word = torch.where(forced == NONE, word, forced)
        candidates = self.totals.view(-1, 1) + best  # (R, count)
        count = candidates.size(-1)
        totals, choice = candidates.view(-1, k * count).topk(k)  # (S, k), best first
        word = word.view(-1, k * count).gather(1, choice)
        # Ended hypotheses keep their places.
        beyond = torch.arange(k, device=totals.device) >= self.places
        return word, totals.masked_fill(beyond, -math.inf), choice // count

    def _drawn(self, now: Tensor) -> tuple[Tensor, Tensor]:
        """Draw a word for each sentence, which has one hypothesis. -> words, totals."""
        log_p, forced, its_own = self._log_probabilities(now)
        likely = _cut(log_p / self.config.temperature, self.config)
        ordered, word = likely.sort(dim=-1, descending=True)
        cumulated = ordered.softmax(-1).to(self.draws.dtype).cumsum(-1)
        threshold = self.draws.gather(1, now[:, None]) * cumulated[:, -1:]
        choice = torch.searchsorted(cumulated, threshold, right=True)
        allowed = (ordered > -math.inf).sum(-1, keepdim=True)
        word = word.gather(1, choice.minimum(allowed - 1).clamp(min=0))  # none allowed: NaN
        gain = torch.where(forced == NONE, log_p.gather(1, word), its_own)
        return torch.where(forced == NONE, word, forced), self.totals + gain

    def _log_probabilities(self, now: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return those of all next words, the word that must come if any must, and its own.

        Of several models the probabilities are averaged. -> (R, V), (R, 1), (R, 1).
        """
        here = now.minimum(self.limits - 1)  # one that is done may have no position left
        positions = here[:, None].expand(-1, self.k).flatten()
        each = [
            model.step(self.tokens.flatten(), positions, cache).log_softmax(-1)
            for model, cache in zip(self.models, self.caches, strict=True)
        ]
        log_p = torch.stack(each).logsumexp(0) - math.log(len(each)) if each[1:] else each[0]
        forced = self.forced.gather(1, now[:, None])
        forced = forced.masked_fill((now + 1 >= self.limits)[:, None], EOS)
        forced = forced.expand(-1, self.k).reshape(-1, 1)
        its_own = log_p.gather(1, forced.clamp(min=0))
        if self.constraint is not None:
            log_p = log_p.masked_fill(~self.constraint.allowed(), -math.inf)
        return log_p.index_fill_(1, self.forbidden, -math.inf), forced, its_own

    def _end(self, ends: Tensor, totals: Tensor, now: Tensor, parent: Tensor) -> None:
        """Remember the hypotheses that end. (S, k), (S, k), (S,), (S, k)."""
        column = torch.where(ends, self.ended_count + ends.cumsum(1) - 1, self.k)
        value = torch.stack([totals, now[:, None].expand_as(totals), parent], dim=-1)
        self.ended.scatter_(1, column[..., None].expand_as(value), value)
        self.ended_scores.scatter_(1, column, totals / self.penalties[now + 1][:, None])
        ended = ends.sum(1, keepdim=True)
        self.ended_count += ended
        self.places -= ended

    def found(
        self, ended: Tensor, counts: Tensor, history: Tensor, totals: Tensor
    ) -> list[list[Hypothesis]]:
        """Return the outputs of finished sentences, best first, from the state kept of them.

        A sentence with a NaN among its totals has none: once there, it stays.

        (n, k + 1, 3), (n, 1), (n, steps, k, 2), (n, k), on the CPU.
        """
        best: list[list[tuple[Hypothesis, int, int]]] = []
        counts = counts.flatten().masked_fill(totals.isnan().any(1), 0)
        for values, count in zip(ended.tolist(), counts.tolist(), strict=True):
            length = [int(one[1]) for one in values[:count]]
            scored = [
                (one[0] / length_penalty(steps + 1, self.config), one[0], steps, int(one[2]))
                for one, steps in zip(values, length, strict=False)
            ]
            scored.sort(key=lambda one: -one[0])
            best.append(
                [
                    (Hypothesis([], total, score), steps, parent)
                    for score, total, steps, parent in scored[: self.config.nbest]
                ]
            )
        _trace(best, history.numpy())
        return [[hypothesis for hypothesis, _, _ in one] for one in best]


def _trace(best: list[list[tuple[Hypothesis, int, int]]], history: npt.NDArray[np.int32]) -> None:
    """Fill the tokens of hypotheses in, from their last step back to the first."""
    flat = [(n, *one) for n, some in enumerate(best) for one in some]
    if not flat:
        return
    sentence = np.array([n for n, *_ in flat])
    steps = np.array([steps for _, _, steps, _ in flat])
    at = np.array([parent for *_, parent in flat])
    tokens = np.zeros((len(flat), int(steps.max(initial=0))), dtype=np.int64)
    for step in reversed(range(tokens.shape[1])):
        word, parent = history[sentence, step, at].T
        tokens[:, step] = word
        at = np.where(step < steps, parent, at)
    for (_, hypothesis, length, _), row in zip(flat, tokens.tolist(), strict=True):
        hypothesis.tokens.extend(row[:length])


def best_possible(totals: Tensor, longest: Tensor) -> Tensor:
    """Return the best score that a living hypothesis could still reach.

    Its log-probability only falls, and is divided at most by the longest output's penalty.
    """
    return totals / longest


def largest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of each row and where they are: `topk`, several times as fast.

    They are all in the k blocks that have the largest maxima. (R, V) -> (R, k), (R, k).
    """
    V = x.size(1)
    k, blocks = min(k, V), V // BLOCK
    if blocks <= k:
        values, places = x.topk(k)
        return values, places
    body = x[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    chosen = body.amax(-1).topk(k, sorted=False).indices  # (R, k)
    inside = body.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)
    values, choice = torch.cat([inside, x[:, blocks * BLOCK :]], dim=1).topk(k)
    within = chosen.gather(1, (choice // BLOCK).clamp(max=k - 1)) * BLOCK + choice % BLOCK
    behind = choice - k * BLOCK + blocks * BLOCK
    return values, torch.where(choice < k * BLOCK, within, behind)


def _cut(log_p: Tensor, config: SearchConfig) -> Tensor:
    """Keep the `top_k` likeliest words, and of these the fewest whose probabilities reach `top_p`.

    The likeliest word is always kept: float32 rounds the smallest values of `top_p` to 0.
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
    """Return the log-probability of each token of given targets, </s> included.

    Tokens of both sides end in </s>. Of several models the probabilities are averaged.
    """
    results: list[list[float]] = [[] for _ in pairs]
    with torch.inference_mode():
        batch = make_batch(list(pairs)).to(models[0].output.device)
        outputs = [model(batch) for model in models]
        begin = 0
        for sentence in batch.order:
            end = begin + len(pairs[sentence][1])
            each = [
                torch.log_softmax(model.logits(x[begin:end]).float(), dim=-1)
                for model, x in zip(models, outputs, strict=True)
            ]
            log_p = torch.stack(each).logsumexp(0) - math.log(len(each)) if each[1:] else each[0]
            results[sentence] = log_p.gather(1, batch.labels[begin:end, None]).flatten().tolist()
            begin = end
    return results
