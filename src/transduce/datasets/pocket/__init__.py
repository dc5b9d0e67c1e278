"""The corpus that comes along: a small synchronous grammar of English and German.

It needs no download, and its translations are right by construction, so that a model can be scored
by exact match. German asks more of it than English: three genders, three cases, three declensions
of the adjective, verbs that stand second or last and fall into two parts. More than four hundred
English words, far more than a million different pairs.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from transduce.datasets.pocket.chance import Dice, weighted
from transduce.datasets.pocket.grammar import CONSTRUCTIONS
from transduce.datasets.pocket.parts import Part, belongs, half
from transduce.datasets.pocket.sentences import echoes, repeats_itself
from transduce.errors import BadInput, BadSetting, did_you_mean
from transduce.system.files import atomic_write

__all__ = ["LANGUAGES", "Part", "pairs", "stream", "write", "write_pairs"]

LANGUAGES = ("en", "de")
PARTS: tuple[Part, ...] = ("train", "valid", "test")
MENU = weighted(CONSTRUCTIONS)
PATIENCE = 100_000  # sentences drawn in a row without a new one


def pairs(count: int, part: Part = "train", seed: int = 1) -> list[tuple[str, str]]:
    """Return `count` different pairs of one part, English first; the same for the same seed.

    Whatever the seeds and the counts, the parts share no English and no German sentence, and one
    English sentence has one German translation. The held-out parts ask for more than memory: of
    all couples of an adjective and a noun, of a verb and a noun, and of a verb and a construction
    (a modal verb, a conjunction, a relative clause, the passive), 5% are reserved by a checksum of
    their German lemmas. They never meet in a sentence of "train", and each sentence of "valid" and
    "test" has such a couple; by itself, each half of it is common in training.
    """
    if count < 0:
        raise BadInput(f"count = {count}: expected 0 pairs or more")
    if part not in PARTS:
        raise BadSetting(
            f"there is no part {part}.{did_you_mean(part, PARTS)} The parts are: {', '.join(PARTS)}"
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
        while repeats_itself(sentence) or not belongs(sentence, part):
            sentence = construction(dice)  # the same, so that all parts have the same mixture
        pair = sentence.write()
        in_vain += 1
        if pair.en in seen or (part != "train" and half(pair.de) != part) or echoes(pair.en):
            continue
        seen.add(pair.en)
        in_vain = 0
        yield pair.en, pair.de


def write(folder: Path, train: int, held: int, seed: int = 1) -> dict[str, tuple[Path, Path]]:
    """Write so many pairs to train on, and so many of each held-out part; return the files."""
    counts = zip(PARTS, (train, held, held), strict=True)
    return {part: write_pairs(folder, part, pairs(count, part, seed)) for part, count in counts}


def write_pairs(
    folder: Path, stem: str, pairs: Iterable[tuple[str, str]], languages: Sequence[str] = LANGUAGES
) -> tuple[Path, Path]:
    """Write pairs as two files of lines."""
    pairs = list(pairs)
    paths = folder / f"{stem}.{languages[0]}", folder / f"{stem}.{languages[1]}"
    for side, path in enumerate(paths):
        with atomic_write(path) as beside:
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            beside.write_text(lines, encoding="utf-8", newline="\n")
    return paths
