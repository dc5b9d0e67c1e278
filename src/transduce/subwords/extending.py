"""Adding subwords to a BPE vocabulary for new text, with existing ids unchanged.

Byte-level BPE applies its merges in the order in which they were learned. New merges are appended:
a word is first split as before, then its pieces may be merged further. So every old piece keeps its
id and meaning, a word without new merges is split as before, and decomposing the new pieces of any
text gives its old pieces.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from transduce.errors import BadSetting
from transduce.subwords.codec import Codec
from transduce.subwords.learned import Subwords, slices

FIRST = 0x10000  # first code point that represents a piece; none of them is a space
MAX_PIECES = 0x110000 - FIRST
LINES = 4_096  # lines encoded at once
SPARE = 1.25  # learn more merges than needed, because `_new_merges` drops some


def check_extensible(codec: Codec, of: str) -> None:
    """Refuse subwords that cannot be extended; `of` names the run."""
    for side in (codec.source, codec.target):
        if not isinstance(side, Subwords) or side.kind != "bpe":
            raise BadSetting(
                f"the subwords of {of} are {side.kind}, which cannot be extended: expected bpe "
                "subwords learned by transduce; run without --extend-vocabulary to keep them"
            )
        for what, last in (("tags", side.tags), ("markers", side.markers)):
            if last:
                raise BadSetting(
                    f"the subwords of {of} are followed by {what} ({', '.join(last)}), so they "
                    "cannot be extended: run without --extend-vocabulary to keep them"
                )


def extend_subwords(old: Subwords, lines: Iterable[str], more: int) -> Subwords:
    """Return `old` with at most `more` new subwords, learned from the lines.

    Fewer are added if too few candidates occur at least twice. The result is deterministic.
    """
    stored = old.to_json()
    vocabulary, merges = stored["model"]["vocab"], stored["model"]["merges"]
    assert old.kind == "bpe"
    assert len(vocabulary) <= MAX_PIECES
    for left, right in _new_merges(old, _learn_merges(_as_characters(old, lines), len(old), more)):
        if len(vocabulary) == len(old) + more:
            break
        merges.append([left, right])
        vocabulary[left + right] = len(vocabulary)
    return Subwords.from_json(stored)


def decompose_new_pieces(new: Subwords, old: int) -> list[list[int]]:
    """Return, for each piece after the first `old`, the old pieces that it is made of."""
    merges = new.to_json()["model"]["merges"]
    ids = {name: number for number, name in enumerate(new.names)}
    parts = [[number] for number in range(old)]
    for left, right in merges[len(merges) - (len(new) - old) :]:  # one per new piece
        parts.append(parts[ids[left]] + parts[ids[right]])
    return parts[old:]


def _as_characters(old: Subwords, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines with one character per old piece, and spaces between words."""
    short_lines = slices(lines)
    while batch := list(itertools.islice(short_lines, LINES)):
        for words in old.encode_words(batch):
            yield " ".join("".join(chr(FIRST + piece) for piece in word) for word in words)


def _learn_merges(lines: Iterable[str], old: int, more: int) -> list[tuple[list[int], list[int]]]:
    """Learn merges of the characters that represent pieces; return the ids of both sides."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=old + round(SPARE * more) + 8,
        min_frequency=2,
        initial_alphabet=[chr(FIRST + piece) for piece in range(old)],
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [([*map(_piece, left)], [*map(_piece, right)]) for left, right in merges]


def _piece(letter: str) -> int:
    return ord(letter) - FIRST


def _new_merges(
    old: Subwords, learned: Sequence[tuple[list[int], list[int]]]
) -> Iterator[tuple[str, str]]:
    """Yield the merges whose result is new, as pairs of piece names.

    A merge that forms an existing piece from different parts is left out, with all merges that need
    it: it would change how that piece is formed, and old merges might apply to it.
    """
    known = set(old.names)
    names: dict[tuple[int, ...], str] = {(n,): name for n, name in enumerate(old.names)}
    for left, right in learned:
        first, second = names.get(tuple(left)), names.get(tuple(right))
        if first is None or second is None or first + second in known:
            continue
        known.add(first + second)
        names[*left, *right] = first + second
        yield first, second
