"""More subwords for a text of another kind, so that those that a model knows stay as they are.

Byte-level BPE merges neighbours in the order in which the merges were learned. New merges go to the
end of that order: a word is first cut as it always was, then pieces of it may be joined further.
So every old piece keeps its id and its meaning, a word in which no new merge applies is cut as
before, and a new piece put back into its parts gives the old cut of any text.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from transduce.errors import BadSetting
from transduce.subwords.codec import Codec
from transduce.subwords.learned import Subwords, slices

FIRST = (
    0x10000  # of the letters that stand for pieces while merges are learned; no space among them
)
MOST = 0x110000 - FIRST
LINES = 4_096  # encoded at once
# Some of what is learned is dropped: see `_new_merges`. So much more of it is learned.
SPARE = 1.25


def check_extensible(codec: Codec, of: str) -> None:
    """Refuse subwords to which none can be added so that the old ones stay; `of` names the run."""
    for side in (codec.source, codec.target):
        if not isinstance(side, Subwords) or side.kind != "bpe":
            raise BadSetting(
                f"the subwords of {of} are of the kind {side.kind}, to which none can be added so "
                "that the old ones stay: expected bpe, learned here; leave --extend-vocabulary "
                "away to keep them as they are"
            )


def extend_subwords(old: Subwords, lines: Iterable[str], more: int) -> Subwords:
    """Return `old` with at most `more` new subwords, learned of the lines; the same for the same.

    There are fewer where the text has no more that occur twice.
    """
    stored = old.to_json()
    vocabulary, merges = stored["model"]["vocab"], stored["model"]["merges"]
    assert old.kind == "bpe"
    assert len(vocabulary) <= MOST
    for left, right in _new_merges(old, _learned(_letters(old, lines), len(old), more)):
        if len(vocabulary) == len(old) + more:
            break
        merges.append([left, right])
        vocabulary[left + right] = len(vocabulary)
    return Subwords.from_json(stored)


def decompose_new_pieces(new: Subwords, old: int) -> list[list[int]]:
    """Return of which of the first `old` pieces each of the others is made, in the order of ids."""
    merges = new.to_json()["model"]["merges"]
    ids = {name: number for number, name in enumerate(new.names)}
    parts = [[number] for number in range(old)]
    for left, right in merges[len(merges) - (len(new) - old) :]:  # one merge for each new piece
        parts.append(parts[ids[left]] + parts[ids[right]])
    return parts[old:]


def _letters(old: Subwords, lines: Iterable[str]) -> Iterator[str]:
    """Write lines with one letter for each old piece, and a space between words."""
    some = slices(lines)
    while batch := list(itertools.islice(some, LINES)):
        for words in old.encode_words(batch):
            yield " ".join("".join(chr(FIRST + piece) for piece in word) for word in words)


def _learned(lines: Iterable[str], old: int, more: int) -> list[tuple[list[int], list[int]]]:
    """Learn merges of the letters that stand for pieces: of each, the pieces left and right."""
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
    """Yield the merges whose result is new, by the names of pieces.

    One that gives a piece that there is already, cut differently, would change what that piece is
    made of, and with it old merges might come into play; it is left out, with all that builds upon
    it.
    """
    known = set(old.names)
    made: dict[tuple[int, ...], str] = {(n,): name for n, name in enumerate(old.names)}
    for left, right in learned:
        first, second = made.get(tuple(left)), made.get(tuple(right))
        if first is None or second is None or first + second in known:
            continue
        known.add(first + second)
        made[*left, *right] = first + second
        yield first, second
