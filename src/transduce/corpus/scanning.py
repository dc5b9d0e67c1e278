"""The first pass over a text: check and count it, and draw the pairs to hold out for validation."""

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.corpus.encoding import LengthRules, batches, encode, lengths_of, pair_key
from transduce.corpus.inputs import InputText, Pair
from transduce.corpus.quality import PairStatistics, ValidationPairs
from transduce.subwords import Codec
from transduce.system.progress import Progress

MAX_HELD_OUT = 2_000


@dataclass(frozen=True)
class Scan:
    """The results of the first pass over a text."""

    read: int
    usable: int  # neither side blank
    characters: tuple[int, int]
    candidates: list[Pair]  # to hold out, in random order, all different
    statistics: PairStatistics


def scan_text(
    text: InputText, seed: int, progress: Progress, valid: ValidationPairs | None = None
) -> Scan:
    """Check and count a text, and draw a uniform sample of its pairs."""
    rng = random.Random(seed)
    sample: list[Pair] = []
    size = 2 * MAX_HELD_OUT  # some may turn out to be over-long or skewed
    read = usable = source_characters = target_characters = 0
    statistics = PairStatistics(valid)
    with progress.track(f"reading {text.name}", None, "pairs") as advance:
        for pair in text.pairs(advance):
            read += 1
            source, target = pair
            if not (stripped := source.strip()) or not (translation := target.strip()):
                continue
            usable += 1
            statistics.add(stripped, translation)
            source_characters += len(source)
            target_characters += len(target)
            if len(sample) < size:
                sample.append(pair)
            elif (index := int(rng.random() * usable)) < size:  # reservoir sampling
                sample[index] = pair
    rng.shuffle(sample)
    different = {pair_key(*pair): pair for pair in sample}
    characters = (source_characters, target_characters)
    return Scan(read, usable, characters, list(different.values()), statistics)


@dataclass(frozen=True)
class ScannedText:
    """A text after the first pass."""

    text: InputText
    scan: Scan
    tags: tuple[str, ...]  # before each source sentence
    reverse: bool = False  # of a text that is used in the other direction, too
    frequency: float = 1.0  # how often its lines are read to learn subwords

    @classmethod
    def of(
        cls,
        text: InputText,
        seed: int,
        progress: Progress,
        *,
        tags: tuple[str, ...] = (),
        valid: ValidationPairs | None = None,
    ) -> "ScannedText":
        """Scan a text; compare it with the validation texts, if given."""
        return cls(text, scan_text(text, seed, progress, valid), tags)

    def reversed(self, text: InputText, tags: tuple[str, ...]) -> "ScannedText":
        """Return the same for `text`, which is this text with its sides swapped."""
        characters = self.scan.characters[::-1]
        candidates = [(target, source) for source, target in self.scan.candidates]
        scan = dataclasses.replace(self.scan, characters=characters, candidates=candidates)
        return ScannedText(text, scan, tags, reverse=True)

    def pairs(self, task: str, progress: Progress) -> Iterator[Pair]:
        """Yield the pairs, and show the progress."""
        with progress.track(task, self.scan.read, "pairs") as advance:
            yield from self.text.pairs(advance)


def numbers_to_hold_out(usable: Sequence[int]) -> list[int]:
    """Return how many pairs to hold out of each corpus: 1%, at least 1, at most 2,000 in all."""
    wanted = [max(1, pairs // 100) for pairs in usable]
    total = sum(wanted)
    if total <= MAX_HELD_OUT:
        return wanted
    return [max(1, number * MAX_HELD_OUT // total) for number in wanted]


def hold_out(
    candidates: list[Pair], wanted: int, codec: Codec, rules: LengthRules, tags: tuple[str, ...]
) -> list[Pair]:
    """Return the first candidates that no rule drops."""
    chosen: list[Pair] = []
    for batch in batches(candidates):
        if len(chosen) >= wanted:
            break
        over_long, skewed = rules.check(*map(lengths_of, encode(codec, batch, tags)))
        chosen += itertools.compress(batch, ~(over_long | skewed))
    return chosen[:wanted]
