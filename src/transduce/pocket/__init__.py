"""The corpus that comes along: a small synchronous grammar of English and German.

It needs no download, and its translations are right by construction, so that a model can be scored
by exact match. German asks more of it than English: three genders, three cases, three declensions
of the adjective, verbs that stand second or last and fall into two parts. About four hundred
lemmas; far more than a million different pairs.
"""

from collections.abc import Iterator
from itertools import islice

from transduce.errors import BadInput, BadSetting, did_you_mean
from transduce.pocket.grammar import CONSTRUCTIONS
from transduce.pocket.parts import Part, belongs, half
from transduce.pocket.sampling import Dice, weighted

__all__ = ["Part", "pairs", "stream"]

PARTS: tuple[Part, ...] = ("train", "valid", "test")
MENU = weighted({construction: weight for construction, weight in CONSTRUCTIONS.values()})
PATIENCE = 100_000  # sentences drawn in a row without a new one


def pairs(count: int, part: Part = "train", seed: int = 1) -> list[tuple[str, str]]:
    """Return `count` different pairs of one part, English first; the same for the same seed.

    Whatever the seeds and the counts, the parts share no English and no German sentence. And the
    held-out ones ask for more than memory: certain couples of an adjective and a noun, of a verb
    and a noun and of a verb and a construction, 4% of them all, chosen by a checksum of the two
    German words, never meet in a sentence of "train"; each sentence of "valid" and "test" has one
    of them. Both halves of the couple are common in training.

    >>> pairs(1, "test")
    [...]
    """
    if count < 0:
        raise BadInput(f"cannot make {count:,} pairs: the count must be 0 or more")
    if part not in PARTS:
        raise BadSetting(
            f"unknown part {part!r}: expected one of {', '.join(PARTS)}.{did_you_mean(part, PARTS)}"
        )
    found = list(islice(stream(part, seed), count))
    if len(found) < count:
        raise BadInput(f"the pocket corpus ran dry after {len(found):,} of {count:,} {part} pairs")
    return found


def stream(part: Part, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yield different pairs of one part, until no new one turns up."""
    dice = Dice(f"{part} {seed}")
    seen: set[str] = set()
    in_vain = 0
    while in_vain < PATIENCE:
        construction = dice.pick(MENU)
        sentence = construction(dice)
        while not belongs(sentence, part):  # drawn again, so that all parts have the same mixture
            sentence = construction(dice)
        pair = sentence.write()
        in_vain += 1
        if pair.en in seen or (part != "train" and half(pair.de) != part):
            continue
        seen.add(pair.en)
        in_vain = 0
        yield pair.en, pair.de
