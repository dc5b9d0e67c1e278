"""Checks for text that cannot be right: equal sides, copies, repeats, leaked validation pairs.

The pairs are checked while they are counted, before anything is learned. What is suspicious is
reported and kept: the checks never change what a model learns. Only one thing is refused: the same
text given as source and as target.
"""

from zlib import crc32

from transduce.corpus.inputs import InputText
from transduce.errors import BadInput
from transduce.system.files import sha256
from transduce.system.formatting import pluralize

# Shares of the pairs from which a warning is given; docs/training.md explains them.
COPIES, REPEATS, LEAKED = 0.05, 0.20, 0.01
MOST_KEYS = 1 << 17  # pairs that are remembered at once, about 15 MB


class PairCounts:
    """Counts pairs that are copies, that repeat another, or that validation text has too.

    Repeats are counted exactly among as many as `MOST_KEYS` different pairs. Of more pairs a random
    half is remembered, chosen by a hash, then a quarter, and so on, and the share is an estimate.
    The hash is the same in every process, and so is the estimate.
    """

    def __init__(self, valid: "PairCounts | None" = None) -> None:
        self.valid = valid
        self.pairs = self.copies = 0
        self.counts: dict[int, int] = {}  # by hash
        self.leaked: set[int] = set()  # hashes of validation pairs that occur here
        self.mask = 0  # a pair is remembered if its hash has none of these bits

    def add(self, source: str, target: str) -> None:
        """Count a pair; its sides have no outer spaces."""
        self.pairs += 1
        if source == target:
            self.copies += 1
        key = crc32(source.encode()) << 32 | crc32(target.encode())
        if not key & self.mask:
            self.counts[key] = self.counts.get(key, 0) + 1
            if len(self.counts) > MOST_KEYS:
                self._forget_half()
        if self.valid is not None and key in self.valid.counts:
            self.leaked.add(key)

    def _forget_half(self) -> None:
        self.mask = self.mask << 1 | 1
        self.counts = {key: n for key, n in self.counts.items() if not key & self.mask}

    def warnings(self, name: str) -> list[str]:
        """Say what is suspicious in a text, a line each, with numbers and what to do."""
        found = []
        if self.copies and self.copies >= COPIES * self.pairs:
            found.append(
                f"{self.share(self.copies)} of {name} have the same text on both sides, so the "
                "model learns to copy: remove those that are not translated"
            )
        remembered = sum(self.counts.values())
        repeats = remembered - len(self.counts)
        if repeats and repeats >= REPEATS * remembered:
            about = "about " if self.mask else ""
            number = round(self.pairs * repeats / remembered)
            found.append(
                f"{about}{self.share(number)} of {name} repeat an earlier pair, so the model sees "
                "these more often than others: remove duplicates unless that is intended"
            )
        return [f"warning: {one}" for one in (*found, *self._leaks(name))]

    def _leaks(self, name: str) -> list[str]:
        if self.valid is None:
            return []
        of_valid = self.valid.counts
        remembered = sum(of_valid.values())
        leaked = sum(of_valid[key] for key in self.leaked)
        if not leaked or leaked < LEAKED * remembered:
            return []
        number = round(self.valid.pairs * leaked / remembered)
        about = "about " if self.valid.mask else ""
        how_many = f"{about}{self.valid.share(number, 'validation pair')}"
        why = "so validation looks better than it is: remove them from the training text"
        return [f"{how_many} also occur in {name}, {why}"]

    def share(self, number: int, noun: str = "pair") -> str:
        """Write how many of the pairs that is."""
        of = pluralize(self.pairs, noun)
        return (
            f"all {of}"
            if number == self.pairs
            else f"{number:,} of {of} ({number / self.pairs:.1%})"
        )


def refuse_equal_sides(text: InputText) -> None:
    """Refuse one file, or two of the same content, as both sides of a text."""
    source, target = text.files
    size = source.facts()[0]
    if size <= 0 or size != target.facts()[0]:
        return
    same = source.path.resolve() == target.path.resolve()
    if same or sha256(source.path) == sha256(target.path):
        raise BadInput(
            f"{text.name} {'are the same file' if same else 'have the same content'}: expected a "
            "text and its translation (a model that copies can be trained on a TSV with two equal "
            "columns)"
        )
