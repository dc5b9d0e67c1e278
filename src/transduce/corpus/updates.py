"""Which sentences form an update of the weights.

The updates depend only on the seed, the epoch, `batch_tokens` and the weights of the corpora, so a
position in the data is two numbers, and resuming is exact. In shapes, S is the number of sentences.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from transduce.corpus.token_files import Ints, Manifest
from transduce.errors import BadInput
from transduce.system.formatting import pluralize

POOL = 200  # batches sorted together: enough for similar lengths, and the order stays random
MAX_EPOCH = 500_000_000  # sentences; an epoch's arrays have 8 bytes for each


@dataclass(frozen=True, slots=True)
class DataPosition:
    """The next update to compute: its epoch and its number in that epoch, both from 0."""

    epoch: int = 0
    update: int = 0


class Updates:
    """An endless stream of updates, each an array of sentence indices."""

    def __init__(
        self,
        deal: Callable[[int, np.random.Generator], list[Ints]],
        *,
        seed: int,
        position: DataPosition = DataPosition(),
    ) -> None:
        """Start at `position`; `deal` divides the sentences of an epoch into updates."""
        self.deal, self.seed, self.position = deal, seed, position
        self._epoch = -1
        self._updates: list[Ints] = []
        # A run resumed on a different device may have fewer updates per epoch.
        if position.update and position.update >= self.per_epoch():
            self.position = DataPosition(position.epoch + 1)

    def __iter__(self) -> Iterator[Ints]:
        """Return the stream itself."""
        return self

    def __next__(self) -> Ints:
        """Return the sentences of the next update."""
        epoch, number = self.position.epoch, self.position.update
        updates = self._updates_in(epoch)
        last = number + 1 == len(updates)
        self.position = DataPosition(epoch + 1) if last else DataPosition(epoch, number + 1)
        return updates[number]

    def per_epoch(self) -> int:
        """Return the number of updates in the current epoch."""
        return len(self._updates_in(self.position.epoch))

    def _updates_in(self, epoch: int) -> list[Ints]:
        if epoch != self._epoch:
            self._updates = self.deal(epoch, np.random.default_rng([self.seed, epoch]))
            self._epoch = epoch
        return self._updates


@dataclass(frozen=True, slots=True)
class Mixture:
    """Corpora, one after another in the token files, and how often each is seen per epoch.

    With a temperature T above 1, a pair of languages with n_i sentences per epoch is sampled in
    proportion to n_i^(1/T), and an epoch has as many sentences as before (Arivazhagan et al. 2019).
    """

    sizes: tuple[int, ...]  # sentences
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls, manifest: Manifest, weights: tuple[float, ...], temperature: float = 1.0
    ) -> "Mixture":
        """Return the mixture of prepared corpora; without weights, all are 1."""
        sizes = tuple(corpus.train.pairs for corpus in manifest.corpora)
        sizes = sizes or (manifest.train.pairs,)  # manifests without `corpora`
        weights = weights or (1.0,) * len(sizes)
        if temperature != 1:
            pairs = [corpus.languages for corpus in manifest.corpora] or [None]
            counts = [size * weight for size, weight in zip(sizes, weights, strict=True)]
            factors = temperature_factors(counts, pairs, temperature)
            weights = tuple(w * factor for w, factor in zip(weights, factors, strict=True))
        if all(size * weight < 1 for size, weight in zip(sizes, weights, strict=True)):
            raise BadInput(
                f"the corpora have {pluralize(sum(sizes), 'pair')}, and their weights leave less "
                "than one of each per epoch: expected higher weights"
            )
        epoch = sum(size * weight for size, weight in zip(sizes, weights, strict=True))
        if epoch > max(MAX_EPOCH, sum(sizes)):
            raise BadInput(
                f"the corpora have {pluralize(sum(sizes), 'pair')}, and their weights make an "
                f"epoch of {epoch:,.0f} sentences: expected at most {MAX_EPOCH:,}; divide all "
                "weights by the same number"
            )
        return cls(sizes, weights)

    def draw(self, random: np.random.Generator) -> Ints | None:
        """Return the sentences of an epoch; None is every sentence once, without a random draw.

        A corpus of n sentences and weight w is taken floor(w) times, and n (w - floor(w)) of its
        sentences once more. That number is rounded up or down at random, and so is exact in
        expectation.
        """
        if all(weight == 1 for weight in self.weights):
            return None
        parts, first = [], 0
        for size, weight in zip(self.sizes, self.weights, strict=True):
            corpus = np.arange(first, first + size)
            parts += [corpus] * math.floor(weight)
            more = size * (weight % 1)
            if more:
                count = math.floor(more) + (random.random() < more % 1)
                parts.append(random.permutation(corpus)[:count])
            first += size
        return np.concatenate(parts)


def temperature_factors(
    counts: Sequence[float], pairs: Sequence[Hashable], temperature: float
) -> list[float]:
    """Return a factor on the weight of each corpus; `counts` are its sentences per epoch.

    The share of a pair with n becomes n^(1/T) divided by the sum of these over all pairs. Corpora
    in the same languages keep their proportions.
    """
    totals: dict[Hashable, float] = {}
    for count, pair in zip(counts, pairs, strict=True):
        totals[pair] = totals.get(pair, 0) + count
    if temperature == 1 or not all(totals.values()):
        return [1.0] * len(counts)
    whole = sum(totals.values())
    shares = {pair: (count / whole) ** (1 / temperature) for pair, count in totals.items()}
    wanted = sum(shares.values())
    factors = {pair: shares[pair] / wanted * whole / totals[pair] for pair in totals}
    # One pair, or pairs of equal size, keep weights of exactly 1.
    return [1.0 if math.isclose(factors[pair], 1) else factors[pair] for pair in pairs]


def group(
    source: Ints,
    target: Ints,
    batch_tokens: int,
    random: np.random.Generator,
    sentences: Ints | None = None,
) -> list[Ints]:
    """Divide sentences (default: all) into updates of at most `batch_tokens` per side.

    Sentences are shuffled, then sorted by length within pools (paper 5.1: "batched together by
    approximate sequence length"), and the updates are shuffled again. A sentence longer than
    `batch_tokens` forms its own update.
    """
    updates = []
    for pool in pools(np.maximum(source, target), batch_tokens, random, sentences):
        ordered = pool[np.lexsort((source[pool], target[pool]))]
        updates += cut(ordered, source, target, (batch_tokens, batch_tokens))
    return [updates[i] for i in random.permutation(len(updates))]


def balance(
    source: Ints,
    target: Ints,
    batch_tokens: int,
    limits: tuple[int, int],
    random: np.random.Generator,
    sentences: Ints | None = None,
) -> list[Ints]:
    """Divide sentences (default: all) into updates that fill the limit for each side.

    Like `group`, but sentences are ordered so that both sides fill up together.
    """
    updates = []
    tokens = np.maximum(source / limits[0], target / limits[1]) * batch_tokens
    for pool in pools(tokens.astype(np.int64), batch_tokens, random, sentences):
        updates += cut(_balanced(pool, source, target, limits), source, target, limits)
    return [updates[i] for i in random.permutation(len(updates))]


def _balanced(pool: Ints, source: Ints, target: Ints, limits: tuple[int, int]) -> Ints:
    """Sort sentences by length, in an order in which both sides fill at the same pace."""
    filled_source, filled_target = source[pool] / limits[0], target[pool] / limits[1]
    order = np.argsort(filled_source + filled_target, kind="stable")
    excess = (filled_source - filled_target)[order]
    more, less = np.maximum(excess, 0).cumsum(), np.maximum(-excess, 0).cumsum()
    # Merge sentences with a source excess and those with a target excess by their running sums.
    return pool[order][np.argsort(np.where(excess > 0, more, less), kind="stable")]


def pools(
    tokens: Ints, batch_tokens: int, random: np.random.Generator, sentences: Ints | None = None
) -> list[Ints]:
    """Shuffle sentences (default: all) and divide them into pools of `POOL` batches each."""
    shuffled = random.permutation(len(tokens) if sentences is None else sentences)
    total = tokens[shuffled].cumsum()
    return np.split(shuffled, np.flatnonzero(np.diff(total // (POOL * batch_tokens))) + 1)


def cut(ordered: Ints, source: Ints, target: Ints, limits: tuple[int, int]) -> list[Ints]:
    """Cut a sequence of sentences wherever the next one would exceed the limit for either side."""
    totals = np.stack([source[ordered], target[ordered]]).cumsum(axis=1)  # (2, S)
    cuts, begin = [], 0
    used = np.zeros((2, 1), dtype=np.int64)
    while begin < len(ordered):
        # Both totals only grow, so bisection finds the first sentence that does not fit.
        end = min(
            int(np.searchsorted(side, base + limit, side="right"))
            for side, base, limit in zip(totals, used[:, 0], limits, strict=True)
        )
        end = max(end, begin + 1)
        cuts.append(ordered[begin:end])
        used = totals[:, end - 1 : end]
        begin = end
    return cuts
