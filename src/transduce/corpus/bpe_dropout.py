"""BPE dropout: the training text in other subwords in every epoch (Provilkov et al. 2020).

Encoding the text again would take minutes. Instead, each distinct word is segmented a few times per
epoch, and each of its occurrences takes one of these segmentations at random. The result depends
only on the seed and the epoch.

Differs: the paper has no BPE dropout.
"""

import contextlib
import functools
import threading
from typing import TypeGuard

import numpy as np

from transduce.config import TrainConfig
from transduce.corpus.token_files import Corpus, Ints, Side, Split, Tokens
from transduce.errors import BadSetting
from transduce.subwords import Codec, Coder, Subwords
from transduce.subwords.merging import NONE, Ids, Merges, Ragged, ranges

# Segmentations of a word per epoch: min(occurrences, max(VARIANTS, sqrt(occurrences))).
VARIANTS = 8
MAX_TOKENS = 8  # longer words are cut, so that text without spaces has words that repeat
MAX_SYMBOLS = 96  # words of more bytes keep their segmentation
CHUNK = 1 << 20  # words encoded at once, to save memory


class BPEDropout:
    """The training text of each epoch, with merges dropped with probability p."""

    def __init__(
        self,
        part: Split,
        codec: Codec,
        p: float,
        *,
        seed: int,
        longest: int,
        ahead_from: int | None = None,
    ) -> None:
        """With `ahead_from`, a thread encodes that epoch now, and each later one in advance."""
        self.part, self.codec, self.p = part, codec, p
        self.seed, self.longest = seed, longest
        if not any(_is_bpe(coder) for coder in (codec.source, codec.target)):
            raise BadSetting(
                f"bpe_dropout = {p:g}: expected bpe subwords, but these are {codec.kind}: "
                "only bpe has merges to skip; set it to 0"
            )
        self.epoch, self.split = -1, part
        self.prepared: dict[int, Split] = {}
        self.thread: threading.Thread | None = None
        self.ahead = ahead_from is not None
        if ahead_from is not None:
            self._start(ahead_from)

    @classmethod
    def of(
        cls, corpus: Corpus, config: TrainConfig, *, longest: int, ahead_from: int | None
    ) -> "BPEDropout | None":
        """Return the BPE dropout of a training run, if it has any."""
        if not config.bpe_dropout:
            return None
        return cls(
            *(corpus.train, corpus.codec, config.bpe_dropout),
            seed=config.seed,
            longest=longest,
            ahead_from=ahead_from,
        )

    def __call__(self, epoch: int) -> Split:
        """Return the training text of an epoch."""
        if epoch == self.epoch:
            return self.split
        if self.thread is not None:
            self.thread.join()
        prepared = self.prepared.pop(epoch, None)
        self.epoch, self.split = epoch, self._encode(epoch) if prepared is None else prepared
        self.prepared.clear()
        if self.ahead:
            self._start(epoch + 1)
        return self.split

    @functools.cached_property
    def words(self) -> tuple["Words | None", "Words | None"]:
        """The words of both sides; None if a side's subwords are not BPE."""
        source, target = self.codec.source, self.codec.target
        return Words.of(self.part.source, source), Words.of(self.part.target, target)

    def _encode(self, epoch: int) -> Split:
        sides = [
            words.encode(self.p, np.random.default_rng([self.seed, epoch, number]), self.longest)
            if words
            else side
            # Not 0, which would give the random numbers of [seed, epoch]: those of the updates.
            for number, (words, side) in enumerate(
                zip(self.words, (self.part.source, self.part.target), strict=True), start=1
            )
        ]
        return Split(*sides)

    def _start(self, epoch: int) -> None:
        def encode() -> None:
            with contextlib.suppress(Exception):  # `__call__` tries again, and raises it
                self.prepared[epoch] = self._encode(epoch)

        self.thread = threading.Thread(target=encode, daemon=True)
        self.thread.start()


def _is_bpe(coder: Coder) -> TypeGuard[Subwords]:
    return isinstance(coder, Subwords) and coder.kind == "bpe"


class Words:
    """The words of one side of a split. A type is a distinct word."""

    @classmethod
    def of(cls, side: Side, coder: Coder) -> "Words | None":
        """Return the words of a side, if its subwords are BPE."""
        return cls(side, Merges(coder)) if _is_bpe(coder) else None

    def __init__(self, side: Side, merges: Merges) -> None:
        self.merges, self.token_type = merges, side.tokens.dtype
        starts, lengths = _find_words(side.tokens, merges)
        self.types, self.standard = _number_types(side.tokens, starts, lengths, merges.size)
        self.offsets = np.searchsorted(starts, side.offsets)  # (S + 1,): words before each sentence
        counts = np.bincount(self.types, minlength=len(self.standard.lengths))
        # The segmentations of a type: `number` rows from `first` on. The rows up to the number of
        # types are the standard segmentations.
        self.first = np.arange(len(counts), dtype=np.int32)
        self.number = np.ones(len(counts), dtype=np.float32)
        self.groups = self._groups(counts)
        rows = len(counts)
        for types, _, _ in self.groups:
            occurrences = counts[types]
            roots = np.sqrt(occurrences).astype(np.int64)
            number = np.minimum(occurrences, np.maximum(VARIANTS, roots))
            self.number[types] = number
            self.first[types] = rows + number.cumsum() - number
            rows += int(number.sum())
        self.rows = rows

    def _groups(self, counts: Ints) -> list[tuple[Ints, Ids, Ids]]:
        """Return the types that can be segmented differently: types, symbols and ranks by length.

        A type of which BPE makes other tokens than it has is left out: it consists of two words
        (`Merges.joined`).
        """
        merges, groups = self.merges, []
        tokens = self.standard
        ends = merges.symbols.lengths[tokens.flat].cumsum()
        lengths = np.diff(np.concatenate([[0], ends[tokens.offsets[1:] - 1]]))
        for length in range(2, MAX_SYMBOLS + 1):
            types: Ints = np.flatnonzero((lengths == length) & (counts > 0))
            symbols = merges.decompose(tokens.take(types).flat).reshape(-1, length)
            ranks = merges.ranks(symbols[:, :-1], symbols[:, 1:])
            usual = np.zeros(len(types), dtype=bool)
            for rows, merged in merges.segment(symbols, ranks, 0.0, np.random.default_rng(0)):
                same = tokens.lengths[types[rows]] == merged.shape[1]
                expected = tokens.take(types[rows[same]]).flat.reshape(-1, merged.shape[1])
                usual[rows[same]] = (merged[same] == expected).all(axis=1)
            usual &= (ranks != NONE).any(axis=1)
            if usual.any():
                groups.append((types[usual], symbols[usual], ranks[usual]))
        return groups

    def encode(self, p: float, random: np.random.Generator, longest: int) -> Side:
        """Return the text with each merge dropped with probability p.

        A sentence that would have more than `longest` tokens keeps its standard segmentation.
        """
        segmentations = self._draw(p, random)
        firsts = np.unique(np.searchsorted(self.offsets, np.arange(0, len(self.types), CHUNK)))
        parts, lengths = [], []
        for begin, end in zip(firsts, [*firsts[1:], len(self.offsets) - 1], strict=True):
            offsets = self.offsets[begin : end + 1]
            types = self.types[offsets[0] : offsets[-1]]
            choice = random.random(len(types), np.float32) * self.number[types]
            rows = self.first[types] + choice.astype(np.int32)
            words = offsets - offsets[0]
            tokens = segmentations.lengths[rows]
            count = np.add.reduceat(tokens, words[:-1])
            long = np.flatnonzero(count > longest)
            if len(long):
                again = ranges(words[long], words[long + 1] - words[long])
                rows[again] = types[again]
                count = np.add.reduceat(segmentations.lengths[rows], words[:-1])
            parts.append(segmentations.take(rows).flat)
            lengths.append(count)
        offsets = np.concatenate([[0], np.concatenate(lengths).cumsum()])
        return Side(np.concatenate(parts), offsets)

    def _draw(self, p: float, random: np.random.Generator) -> Ragged:
        """Return the standard segmentation of each type, followed by random ones."""
        known = len(self.standard.lengths)
        lengths = np.concatenate([self.standard.lengths, np.zeros(self.rows - known, np.int64)])
        blocks = []
        for types, symbols, ranks in self.groups:
            repeated = np.repeat(np.arange(len(types)), self.number[types].astype(np.int64))
            base = self.first[types[0]]
            for rows, tokens in self.merges.segment(symbols[repeated], ranks[repeated], p, random):
                blocks.append((base + rows, tokens))
                lengths[base + rows] = tokens.shape[1]
        flat = np.empty(lengths.sum(), dtype=self.token_type)
        flat[: len(self.standard.flat)] = self.standard.flat
        result = Ragged.of(flat, lengths)
        for rows, tokens in blocks:
            flat[result.offsets[rows, None] + np.arange(tokens.shape[1])] = tokens
        return result


def _find_words(tokens: Tokens, merges: Merges) -> tuple[Ints, Ints]:
    """Return where each word begins, and its length in tokens; `</s>` is a word of its own."""
    begins = np.ones(len(tokens), dtype=bool)
    np.logical_not(merges.joined(tokens), out=begins[1:])
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(tokens))
    long = np.flatnonzero(lengths > MAX_TOKENS)
    if len(long):
        pieces = -(-lengths[long] // MAX_TOKENS)
        within = MAX_TOKENS * ranges(np.zeros_like(pieces), pieces)
        begins[np.repeat(starts[long], pieces) + within] = True
        starts = np.flatnonzero(begins)
        lengths = np.diff(starts, append=len(tokens))
    return starts, lengths


def _number_types(
    tokens: Tokens, starts: Ints, lengths: Ints, vocabulary: int
) -> tuple[Ids, Ragged]:
    """Give each distinct word a number; return that of each word, and the tokens of each number.

    The numbers are the nodes of a trie: a word of one token has the number of that token. A node
    that is only the beginning of words has a number too.
    """
    types = tokens[starts].astype(np.int32)
    active = np.flatnonzero(lengths > 1)
    examples, sizes = [], []
    count = vocabulary
    for depth in range(1, MAX_TOKENS):
        keys = types[active].astype(np.int64) * vocabulary + tokens[starts[active] + depth]
        unique, where, inverse = np.unique(keys, return_index=True, return_inverse=True)
        types[active] = count + inverse
        count += len(unique)
        examples.append(starts[active[where]])
        sizes.append(np.full(len(unique), depth + 1))
        active = active[lengths[active] > depth + 1]
    of_all = np.concatenate(sizes)
    longer = tokens[ranges(np.concatenate(examples), of_all)]
    flat = np.concatenate([np.arange(vocabulary, dtype=tokens.dtype), longer])
    return types, Ragged.of(flat, np.concatenate([np.ones(vocabulary, np.int64), of_all]))
