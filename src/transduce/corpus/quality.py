"""Warnings about training text: shifted lines, copies, repeats, and leaked validation pairs.

The pairs are checked in the first pass over the text. Suspicious pairs are reported but kept. Only
one thing is refused: the same text as both source and target.
"""

import math
from collections.abc import Mapping
from zlib import crc32

from transduce.corpus.inputs import InputText
from transduce.errors import BadInput
from transduce.system.files import sha256
from transduce.system.formatting import pluralize

# Fractions of the pairs from which a warning is given; docs/training.md explains them.
COPIES, REPEATS, LEAKED = 0.05, 0.20, 0.01
# Sides whose lengths have a lower correlation are not translations of each other, if there are
# enough pairs, and lengths vary by more than a standard deviation of 20%. Translations have
# 0.87 to 0.97, texts shifted by one line up to 0.37.
UNRELATED, MIN_PAIRS, MIN_VARIANCE = 0.4, 500, 0.04
MAX_KEYS = 1 << 17  # pairs stored at once, about 15 MB


class LengthCorrelation:
    """Pearson's correlation of the logarithms of the lengths of both sides."""

    def __init__(self) -> None:
        self.pairs = 0
        self.means = [0.0, 0.0]
        self.products = [0.0, 0.0, 0.0]  # source and source, source and target, target and target

    def add(self, source: str, target: str) -> None:
        """Add a pair that is not blank (Welford's update)."""
        self.pairs += 1
        before, after = math.log(len(source)), math.log(len(target))
        source_change, target_change = before - self.means[0], after - self.means[1]
        self.means[0] += source_change / self.pairs
        self.means[1] += target_change / self.pairs
        self.products[0] += source_change * (before - self.means[0])
        self.products[1] += source_change * (after - self.means[1])
        self.products[2] += target_change * (after - self.means[1])

    def value(self) -> float | None:
        """Return the correlation; None if there are too few pairs or all lengths are alike."""
        source, both, target = self.products
        if self.pairs < MIN_PAIRS or min(source, target) < MIN_VARIANCE * self.pairs:
            return None
        return both / math.sqrt(source * target)


class PairStatistics:
    """Counts copies, repeats, and pairs that are also in the validation text.

    The number of repeats is exact up to `MAX_KEYS` different pairs. Beyond that, a hash selects
    half of the pairs, then a quarter, and so on; the number is then an estimate, the same in every
    process.
    """

    def __init__(self, valid: "ValidationPairs | None" = None) -> None:
        self.valid = valid or ValidationPairs({})
        self.pairs = self.copies = 0
        self.counts: dict[int, int] = {}  # by hash
        self.leaked: set[int] = set()  # hashes of validation pairs that occur here
        self.lengths = LengthCorrelation()
        self.mask = 0  # a pair is stored if its hash has none of these bits

    def add(self, source: str, target: str) -> None:
        """Count a pair, given without outer white space."""
        self.pairs += 1
        if source == target:
            self.copies += 1
        if source and target:
            self.lengths.add(source, target)
        key = crc32(source.encode()) << 32 | crc32(target.encode())
        if not key & self.mask:
            self.counts[key] = self.counts.get(key, 0) + 1
            if len(self.counts) > MAX_KEYS:
                self._drop_half()
        if key in self.valid.keys:
            self.leaked.add(key)

    def _drop_half(self) -> None:
        self.mask = self.mask << 1 | 1
        self.counts = {key: n for key, n in self.counts.items() if not key & self.mask}

    def warnings(self, name: str) -> list[str]:
        """Return one line for each problem in a text, with numbers and advice."""
        problems = []
        correlation = self.lengths.value()
        if correlation is not None and correlation < UNRELATED:
            problems.append(
                f"the lengths of both sides of {name} are unrelated (correlation "
                f"{correlation:.2f}): lines may be shifted or shuffled; compare "
                "a few lines from the end of the text"
            )
        if self.copies and self.copies >= COPIES * self.pairs:
            problems.append(
                f"{self.share(self.copies)} of {name} have the same text on both sides, so the "
                "model learns to copy: remove those that are not translated"
            )
        stored = sum(self.counts.values())
        repeats = stored - len(self.counts)
        if repeats and repeats >= REPEATS * stored:
            about = "about " if self.mask else ""
            number = round(self.pairs * repeats / stored)
            problems.append(
                f"{about}{self.share(number)} of {name} repeat an earlier pair, so the model sees "
                "these more often than others: remove duplicates unless that is intended"
            )
        problems += self.valid.leaks(self.leaked, name)
        return [f"warning: {problem}" for problem in problems]

    def share(self, number: int, noun: str = "pair") -> str:
        """Format a number of pairs as a fraction of all pairs."""
        total = pluralize(self.pairs, noun)
        if number == self.pairs:
            return f"all {total}"
        return f"{number:,} of {total} ({number / self.pairs:.1%})"


class ValidationPairs:
    """The pairs of all validation texts, by the name of the text.

    One set has the hashes of all of them, so that a training pair is looked up once.
    """

    def __init__(self, texts: Mapping[str, PairStatistics]) -> None:
        self.texts = texts
        self.keys = frozenset[int]().union(*(text.counts for text in texts.values()))

    def leaks(self, leaked: set[int], name: str) -> list[str]:
        """Describe the leak of each validation text into the training text `name`."""
        problems = []
        for valid_name, valid in self.texts.items():
            stored = sum(valid.counts.values())
            found = sum(valid.counts.get(key, 0) for key in leaked)
            if not found or found < LEAKED * stored:
                continue
            about = "about " if valid.mask else ""
            share = valid.share(round(valid.pairs * found / stored), "validation pair")
            of = f" of {valid_name}" if len(self.texts) > 1 else ""
            problems.append(
                f"{about}{share}{of} also occur in {name}, so validation looks better than it is: "
                "remove them from the training text"
            )
        return problems


def refuse_equal_sides(text: InputText) -> None:
    """Refuse the same file, or two files with the same content, as both sides of a text."""
    source, target = text.files
    size, _ = source.size_and_time()
    if size <= 0 or size != target.size_and_time()[0]:
        return
    same = source.path.resolve() == target.path.resolve()
    if same or sha256(source.path) == sha256(target.path):
        raise BadInput(
            f"{text.name} {'are the same file' if same else 'have the same content'}: expected a "
            "text and its translation (a model that copies can be trained on a TSV with two equal "
            "columns)"
        )
