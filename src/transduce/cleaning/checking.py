"""All rules over a text: single pairs in several processes, repeats in this one.

Blocks of pairs go to the processes, and their results come back in order, so that the result is the
same with any number of processes. In memory are a few blocks, and the hashes of kept pairs.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.cleaning.limits import MEANINGS, SCORE, Limits
from transduce.cleaning.repeats import Keys, KeyTable
from transduce.cleaning.rules import PairRules, rule_number, side_key
from transduce.errors import LostProcess
from transduce.system.progress import Advance

Pair = tuple[str, str]
Array = NDArray[Any]
Write = Callable[[Sequence[Pair], Sequence[str], int], None]

BLOCK = 1_000  # pairs
INLINE = 10  # blocks that are checked in this process before others are started
LONG = 20  # characters: a text that hardly occurs twice by chance
EXAMPLES = 5  # of each rule
BIN, BINS = 10, 50  # histograms of lengths: characters, and their number
RATIO_BINS = 60  # histogram of the ratio: 20 bins for each factor of 2, from 1/8 to 8 in all
STOPS = (signal.SIGINT, signal.SIGTERM)
KEPT = rule_number("")
NAMES = [*MEANINGS, ""]


@dataclass(frozen=True)
class Settings:
    """What to check; sent to every process."""

    rules: tuple[str, ...]
    limits: Limits
    languages: tuple[str, str]
    library: bool  # whether to identify languages with py3langid
    scored: bool = False

    @property
    def all_rules(self) -> tuple[str, ...]:
        """The rules, and that for scores if there are any."""
        return (*self.rules, SCORE) if self.scored else self.rules

    def pair_rules(self) -> PairRules:
        """Return the rules for single pairs."""
        return PairRules(self.rules, self.limits, self.languages, library=self.library)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for a block, before repeats: arrays as bytes, which are fast to send."""

    verdicts: bytes  # number of the rule that each pair breaks
    keys: bytes  # of the pairs that break none: four of 8 bytes each
    long_sides: bytes  # of these: 1 if the source is long enough to be compared, 2 if the target is
    histograms: Array  # lengths of sources and of targets, ratios


@dataclass
class Counts:
    """What was found in a text."""

    pairs: int = 0
    kept: int = 0
    removed: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    several_targets: int = 0  # kept pairs whose source came earlier with another target
    histograms: Array = field(default_factory=lambda: np.zeros((3, max(BINS, RATIO_BINS)), int))

    def add(self, block: Sequence[Pair], names: Sequence[str], histograms: Array) -> None:
        """Count a block of pairs, given with the rules that they break."""
        for number, (pair, rule) in enumerate(zip(block, names, strict=True), self.pairs + 1):
            if rule:
                self.removed[rule] = self.removed.get(rule, 0) + 1
                examples = self.examples.setdefault(rule, [])
                if len(examples) < EXAMPLES:
                    examples.append((number, *pair))
        self.pairs += len(block)
        self.kept += names.count("")
        self.histograms += histograms


class Repeats:
    """Finds pairs that repeat earlier ones, and those of the texts to compare with."""

    def __init__(self, settings: Settings, against: Iterable[str] = ()) -> None:
        self.rules, self.limits = settings.rules, settings.limits
        self.against = KeyTable()
        for block in blocks_of(against):
            self.against.add(_array(b"".join(map(side_key, block))))
        self.pairs, self.letters, self.sources, self.targets = (KeyTable() for _ in range(4))
        self.several_targets = 0

    def check(self, verdicts: Array, keys: Keys, long_sides: Array) -> None:
        """Set the verdicts of pairs that broke no rule so far and repeat something."""
        left = np.flatnonzero(verdicts == KEPT)
        rows = keys.reshape(-1, 4)

        def remove(rule: str, bad: Array) -> None:
            nonlocal left, rows, long_sides
            verdicts[left[bad]] = rule_number(rule)
            left, rows, long_sides = left[~bad], rows[~bad], long_sides[~bad]

        if "overlap" in self.rules and len(self.against):
            source, target = (self.against.contains(rows[:, column]) for column in (2, 3))
            long_source, long_target = long_sides & 1 > 0, long_sides & 2 > 0
            remove("overlap", source & target | source & long_source | target & long_target)
        if "duplicate" in self.rules:
            remove("duplicate", self.pairs.add(rows[:, 0]) > 1)
        if "near-duplicate" in self.rules:
            remove("near-duplicate", self.letters.add(rows[:, 1]) > 1)
        if "boilerplate" in self.rules:
            many = self.targets.add(rows[:, 3]) > self.limits.max_sources
            remove("boilerplate", many & (long_sides & 2 > 0))
        self.several_targets += int(np.count_nonzero(self.sources.add(rows[:, 2]) > 1))


def check_pairs(
    pairs: Iterable[Pair],
    settings: Settings,
    *,
    against: Iterable[str] = (),
    workers: int = 1,
    write: Write | None = None,
    advance: Advance = lambda _: None,
) -> Counts:
    """Check a text, and return what was found.

    `write` gets each block of pairs with the names of the rules that they break ("" for a pair to
    keep), and the number of its first pair. `against` has the sides of texts to keep apart.
    """
    counts, repeats = Counts(), Repeats(settings, against)
    with contextlib.closing(_checked(blocks_of(pairs), settings, workers)) as results:
        for block, checked in results:
            verdicts = np.frombuffer(checked.verdicts, np.uint8).copy()
            long_sides = np.frombuffer(checked.long_sides, np.uint8)
            repeats.check(verdicts, _array(checked.keys), long_sides)
            names = [NAMES[verdict] for verdict in verdicts.tolist()]
            if write is not None:
                write(block, names, counts.pairs + 1)
            counts.add(block, names, checked.histograms)
            advance(len(block))
    counts.several_targets = repeats.several_targets
    return counts


def _checked(
    blocks: Iterator[list[Pair]], settings: Settings, workers: int
) -> Generator[tuple[list[Pair], Checked], None, None]:
    """Yield the blocks in order with their results."""
    check = partial(check_block, settings.pair_rules())
    for block in blocks if workers == 1 else itertools.islice(blocks, INLINE):
        yield block, check(block)
    following = next(blocks, None)
    if following is None:
        return
    context = multiprocessing.get_context("spawn")  # a fork would inherit locks of threads
    pool = ProcessPoolExecutor(workers, context, _start, (settings,))
    pending: deque[tuple[list[Pair], Future[Checked]]] = deque()
    try:
        with _stops_held():  # a process that is being started must get all that it reads
            pending.append((following, pool.submit(_check_in_process, following)))
        for block in blocks:
            pending.append((block, pool.submit(_check_in_process, block)))
            if len(pending) > 2 * workers + 1:
                yield _result(*pending.popleft())
        while pending:
            yield _result(*pending.popleft())
    except BrokenProcessPool:
        raise LostProcess(
            "a process that checks pairs has ended: nothing was written; if memory is short, use "
            "fewer --workers"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _stops_held() -> Iterator[None]:
    """Deliver Ctrl-C and SIGTERM after the block."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _result(block: list[Pair], future: "Future[Checked]") -> tuple[list[Pair], Checked]:
    return block, future.result()


def check_block(rules: PairRules, block: Sequence[Pair]) -> Checked:
    """Apply the rules for single pairs to a block."""
    verdicts, all_keys, long_sides = bytearray(), [], bytearray()
    for source, target in block:
        rule, keys = rules.check(source, target)
        verdicts.append(rule_number(rule))
        if not rule:
            all_keys.append(keys)
            long_sides.append((len(source) >= LONG) + 2 * (len(target) >= LONG))
    lengths = np.array([[len(source), len(target)] for source, target in block]).T
    ratio = np.log2(np.maximum(lengths[1], 1) / np.maximum(lengths[0], 1))
    bins = [np.minimum(side // BIN, BINS - 1) for side in lengths]
    bins.append(np.clip((ratio * 10).round().astype(int) + RATIO_BINS // 2, 0, RATIO_BINS - 1))
    width = max(BINS, RATIO_BINS)
    histograms = np.stack([np.bincount(values, minlength=width) for values in bins])
    return Checked(bytes(verdicts), b"".join(all_keys), bytes(long_sides), histograms)


_rules: PairRules | None = None  # of a process


def _start(settings: Settings) -> None:
    """Prepare a process: Ctrl-C is for its parent, and it ends when the parent is killed."""
    global _rules  # noqa: PLW0603
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    _rules = settings.pair_rules()


def _check_in_process(block: Sequence[Pair]) -> Checked:
    assert _rules is not None
    return check_block(_rules, block)


def blocks_of(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield lists of pairs or texts."""
    iterator = iter(items)
    while block := list(itertools.islice(iterator, BLOCK)):
        yield block


def _array(keys: bytes) -> Keys:
    return np.frombuffer(keys, np.uint64)
