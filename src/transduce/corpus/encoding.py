"""Encode pairs of sentences, drop those with unsuitable lengths, write and count the rest."""

import contextlib
import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from transduce.corpus.inputs import Pair
from transduce.corpus.token_files import SIDES, Counts, Ints, TokenType
from transduce.subwords import EOS, Codec

BATCH_PAIRS = 4_096  # encoded at once, unless they exceed the next limit
BATCH_CHARACTERS = 1 << 21

# Why pairs are dropped: see the docstring of `preparation`.
EMPTY, DUPLICATE, OVER_LONG, SKEWED = "empty", "equal to a held-out pair", "over-long", "skewed"
REASONS = (EMPTY, DUPLICATE, OVER_LONG, SKEWED)

Bools = npt.NDArray[np.bool_]
Encoded = tuple[list[list[int]], list[list[int]]]  # sources and targets, without </s>
Parts = list[str | int]
# Returns both sides of a pair in parts (`Coder.encode_parts`); it gets the numbers of its corpus
# and of the pair in it.
Augment = Callable[[int, int, Pair], tuple[Parts, Parts]]


@dataclass(frozen=True)
class LengthRules:
    """Decides which pairs are dropped because of their lengths."""

    max_len: int
    max_skew: float

    def check(self, source: Ints, target: Ints) -> tuple[Bools, Bools]:
        """Return which pairs are over-long, and which of the others are skewed."""
        shorter, longer = np.minimum(source, target), np.maximum(source, target)
        over_long = longer > self.max_len
        return over_long, ~over_long & (longer > self.max_skew * shorter + 10)


@dataclass(frozen=True)
class Part:
    """The pairs of one corpus in a split."""

    pairs: Iterable[Pair]
    held_out: Set[str] = frozenset()  # keys of pairs to drop, from all corpora
    own: int = 0  # how many of them were held out of this corpus
    tags: tuple[str, ...] = ()  # before each source sentence


def write_split(
    split: str,
    parts: Iterable[Part],
    *,
    codec: Codec,
    rules: LengthRules,
    folder: Path,
    augment: Augment | None = None,
) -> list[Counts]:
    """Encode corpora into the four files of a split; count the kept and dropped pairs of each."""
    with contextlib.ExitStack() as stack:
        dtype = token_type_of(codec)
        sides = [_SideWriter(folder / f"{split}.{side}", dtype, stack) for side in SIDES]
        return [
            _write_part(
                part, sides, codec, rules, functools.partial(augment, n) if augment else None
            )
            for n, part in enumerate(parts)
        ]


def _write_part(
    part: Part,
    sides: list["_SideWriter"],
    codec: Codec,
    rules: LengthRules,
    augment: Callable[[int, Pair], tuple[Parts, Parts]] | None,
) -> Counts:
    dropped = dict.fromkeys(REASONS, 0)
    before = [side.begin_part() for side in sides]
    kept = 0
    usable = drop_unusable(part.pairs, part.held_out, dropped)

    def encode_part(batch: list[Pair], begin: int) -> Encoded:
        if augment is None:
            return encode(codec, batch, part.tags)
        marked = [augment(number, pair) for number, pair in enumerate(batch, start=begin)]
        return _encode_parts(codec, marked, part.tags)

    for encoded in _encode_batches(encode_part, batches(usable)):
        over_long, skewed = rules.check(*map(lengths_of, encoded))
        dropped[OVER_LONG] += int(over_long.sum())
        dropped[SKEWED] += int(skewed.sum())
        keep = ~(over_long | skewed)
        kept += int(keep.sum())
        for side, sentences in zip(sides, encoded, strict=True):
            side.append(list(itertools.compress(sentences, keep)))
    dropped[DUPLICATE] -= part.own  # the held-out pairs themselves are not duplicates
    source, target = sides
    return Counts(
        read=kept + sum(dropped.values()),
        pairs=kept,
        source_tokens=source.size - before[0],
        target_tokens=target.size - before[1],
        source_longest=source.longest,
        target_longest=target.longest,
        dropped=dropped,
    )


class _SideWriter:
    """Appends sentences to the two files of one side."""

    def __init__(self, stem: Path, token_type: TokenType, stack: contextlib.ExitStack) -> None:
        self.tokens, self.offsets = (
            stack.enter_context(stem.with_name(f"{stem.name}.{what}").open("wb"))
            for what in ("tokens", "offsets")
        )
        self.token_type = token_type
        self.size = self.longest = 0
        self.offsets.write(np.zeros(1, "<i8").data)

    def begin_part(self) -> int:
        """Begin another corpus; return the number of tokens up to now."""
        self.longest = 0
        return self.size

    def append(self, sentences: list[list[int]]) -> None:
        """Append sentences, each followed by `</s>`."""
        lengths = lengths_of(sentences)
        flat = itertools.chain.from_iterable((*sentence, EOS) for sentence in sentences)
        self.tokens.write(np.fromiter(flat, self.token_type, int(lengths.sum())).data)
        self.offsets.write((self.size + lengths.cumsum()).astype("<i8").data)
        self.size += int(lengths.sum())
        self.longest = max(self.longest, int(lengths.max(initial=0)))


def drop_unusable(
    pairs: Iterable[Pair], held_out: Set[str], dropped: dict[str, int]
) -> Iterator[Pair]:
    """Yield the pairs that are neither blank nor held out; count the others in `dropped`."""
    for pair in pairs:
        if not pair[0].strip() or not pair[1].strip():
            dropped[EMPTY] += 1
        elif held_out and pair_key(*pair) in held_out:
            dropped[DUPLICATE] += 1
        else:
            yield pair


def batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Group pairs into batches with a limited number of pairs and characters."""
    batch: list[Pair] = []
    characters = 0
    for pair in pairs:
        batch.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(batch) == BATCH_PAIRS or characters > BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _encode_batches(
    encode_batch: Callable[[list[Pair], int], Encoded], batches: Iterable[list[Pair]]
) -> Iterator[Encoded]:
    """Encode each batch while the next one is read and the previous one is written.

    `encode_batch` gets a batch and the number of pairs before it.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending: Future[Encoded] | None = None
        before = 0
        for batch in batches:
            submitted = pool.submit(encode_batch, batch, before)
            before += len(batch)
            if pending:
                yield pending.result()
            pending = submitted
        if pending:
            yield pending.result()


def encode(codec: Codec, batch: list[Pair], tags: tuple[str, ...] = ()) -> Encoded:
    """Return the ids of both sides of a batch of pairs; the tags come before each source."""
    texts, translations = ([pair[side] for pair in batch] for side in (0, 1))
    sources = _tagged(codec, codec.source.encode_batch(texts), tags)
    return sources, codec.target.encode_batch(translations)


def _encode_parts(codec: Codec, batch: list[tuple[Parts, Parts]], tags: tuple[str, ...]) -> Encoded:
    texts, translations = ([pair[side] for pair in batch] for side in (0, 1))
    sources = _tagged(codec, codec.source.encode_parts(texts), tags)
    return sources, codec.target.encode_parts(translations)


def _tagged(codec: Codec, sources: list[list[int]], tags: tuple[str, ...]) -> list[list[int]]:
    tag_ids = [piece for tag in tags for piece in codec.source.tag_ids(tag)]
    return [tag_ids + ids for ids in sources] if tag_ids else sources


def lengths_of(sentences: list[list[int]]) -> Ints:
    """Return the lengths of sentences, `</s>` included."""
    return np.fromiter(map(len, sentences), np.int64, len(sentences)) + 1


def pair_key(source: str, target: str) -> str:
    """Return a key that is equal for pairs that a model cannot tell apart."""
    return unicodedata.normalize("NFC", f"{source.strip()}\t{target.strip()}")


def token_type_of(codec: Codec) -> TokenType:
    """Return the numpy type that ids are stored as."""
    return "<u2" if max(len(codec.source), len(codec.target)) <= 1 << 16 else "<u4"
