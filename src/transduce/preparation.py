"""From text to a corpus: what is kept, what is dropped and counted, what is held out.

The text is read three times and never held: once to check and count it and to draw what is held
out, once to learn subwords, once to encode.

What happens to a pair, in this order, each counted in the manifest:

held out    Where no validation text is given, 1% of the pairs (at least 1, at most 2,000) is drawn
            from the seed among those that none of the rules below drops. They validate and are
            never trained on; subwords are not learned from them either, unless a pair was drawn
            late, in the place of one that these rules drop.
empty       A side is blank: dropped.
twin        Its text equals a held-out pair's, but for outer spaces: dropped.
over-long   A side has more than `max_len` subwords, `</s>` included: dropped.
skewed      The longer side has more than `max_skew` times the subwords of the shorter, and 10 more:
            dropped, for such a pair is hardly a translation.

Validation text that is given is taken as it is, but for the last two rules and blanks.
"""

import contextlib
import functools
import itertools
import random
import unicodedata
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from transduce.config import TrainConfig
from transduce.corpus import (
    MANIFEST,
    SIDES,
    SUBWORDS,
    TOKEN_FILES,
    Corpus,
    Counts,
    Ints,
    Manifest,
    open_corpus,
)
from transduce.errors import BadInput, BadRun
from transduce.files import replacing_folder, sha256, write_sealed
from transduce.inputs import InputFile, InputText, Pair
from transduce.progress import Progress, Silent
from transduce.subwords import EOS, Codec, Subwords, default_vocabulary

HELD_OUT_MOST = 2_000
# Subwords are learned on a random sample of about this size. Europarl's 180 million characters in
# whole gave subwords that write held-out text with 0.01% fewer tokens.
LEARN_CHARACTERS = 100_000_000
BATCH_PAIRS = 4_096  # encoded at once
BATCH_CHARACTERS = 1 << 21  # or fewer, where sentences are long

# Why pairs are dropped: see above.
EMPTY, TWIN, OVER_LONG, SKEWED = "empty", "equal to a held-out pair", "over-long", "skewed"
REASONS = (EMPTY, TWIN, OVER_LONG, SKEWED)

Bools = npt.NDArray[np.bool_]
Encoded = tuple[list[list[int]], list[list[int]]]  # sources and targets, without </s>


def prepare(
    source: str | Path,
    target: str | Path | None,
    folder: Path,
    *,
    valid: tuple[str | Path, str | Path | None] | None = None,
    languages: tuple[str, str],
    train: TrainConfig,
    max_len: int,
    codec: Codec | None = None,
    anew: bool = True,
    progress: Progress | None = None,
) -> Corpus:
    """Make the corpus of two files, or of one TSV, in `folder`; see the head of this file.

    A corpus that is there already is used if its inputs and settings are these. If not, it is made
    `anew`, or refused where a run has begun to learn from it. Subwords are learned unless a `codec`
    is given.
    """
    progress = progress or Silent()
    settings = {
        "vocabulary": None if codec else train.vocabulary,
        "joint": codec.joint if codec else train.joint,
        "subwords": codec.kind if codec else train.subwords,
        "codec": codec.sha256 if codec else None,
        "max_skew": train.max_skew,
        "max_len": max_len,
        "seed": None if valid else train.seed,  # what is held out is all that is drawn from it
        "languages": list(languages),
    }
    _require_ours(folder)
    with contextlib.ExitStack() as stack:
        text = InputText.of(source, target, folder, stack)
        given = InputText.of(*valid, folder, stack) if valid else None
        files = [*text.files, *(given.files if given else [])]
        old = _unchanged(folder, files, settings, progress)
        if old:
            return old
        if not anew:
            raise BadRun(
                f"{folder} was prepared from other text or with other settings than {text.name}: "
                "go on with the same, or choose another folder for a new run"
            )
        before = [file.facts() for file in files]
        with replacing_folder(folder, (MANIFEST, SUBWORDS, *TOKEN_FILES)) as beside:
            codec, counts, counts_valid = _build(
                text, given, beside, codec=codec, train=train, max_len=max_len, progress=progress
            )
            if [file.facts() for file in files] != before:
                raise BadInput(f"{text.name} changed while it was being read: run this again")
            manifest = Manifest(
                languages=languages,
                vocabulary=(len(codec.source), len(codec.target)),
                token_type=_token_type(codec),
                train=counts,
                valid=counts_valid,
                settings=settings,
                inputs=[file.describe() for file in files],
                files={
                    name: {"size": (beside / name).stat().st_size, "sha256": sha256(beside / name)}
                    for name in (SUBWORDS, *TOKEN_FILES)
                },
                versions={"tokenizers": tokenizers.__version__, "numpy": np.__version__},
            )
            write_sealed(beside / MANIFEST, manifest.to_json())
    progress.say(f"train: {counts}")
    progress.say(f"valid: {counts_valid}" + ("" if valid else ", held out of the same text"))
    return open_corpus(folder)


def _require_ours(folder: Path) -> None:
    """Refuse to replace what is not a corpus."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BadInput(f"{folder} is a file: expected a folder for the corpus")
    found = {path.name for path in folder.iterdir()}
    foreign = found - {MANIFEST, SUBWORDS, *TOKEN_FILES} if MANIFEST in found else found
    if foreign:
        raise BadInput(
            f"{folder} holds {min(foreign)}, which is no part of a corpus: "
            "expected a folder of its own for the corpus"
        )


def _unchanged(
    folder: Path, files: list[InputFile], settings: dict[str, Any], progress: Progress
) -> Corpus | None:
    """Open the corpus that is there already if making it anew would give the same."""
    if not (folder / MANIFEST).exists():
        return None
    corpus = open_corpus(folder)
    old = corpus.manifest.inputs
    if corpus.manifest.settings != settings:
        progress.say(f"the settings have changed since {folder} was prepared: preparing it anew")
    elif len(files) != len(old) or not all(map(InputFile.agrees, files, old)):
        progress.say(f"the texts have changed since {folder} was prepared: preparing it anew")
    else:
        progress.say(f"using the corpus in {folder}: its texts and settings have not changed")
        return corpus
    return None


def _build(
    text: InputText,
    given: InputText | None,
    folder: Path,
    *,
    codec: Codec | None,
    train: TrainConfig,
    max_len: int,
    progress: Progress,
) -> tuple[Codec, Counts, Counts]:
    """Fill a folder with everything but the manifest."""
    rules = _Rules(max_len, train.max_skew)
    scan = _scan(text, train.seed, progress)
    in_valid = _scan(given, train.seed, progress).read if given else 0  # errors come early
    wanted = 0 if given else min(HELD_OUT_MOST, max(1, scan.usable // 100))
    if scan.usable <= wanted:
        raise BadInput(
            f"{text.name} has {scan.usable:,} pairs that are not blank: expected at least "
            + ("1 to train on" if given else "2, for one is held out; or give validation text")
        )
    if codec is None:
        drawn = {_key(*pair) for pair in scan.candidates[:wanted]}
        codec = _learn(text, scan, drawn, train, progress)
    codec.save(folder / SUBWORDS)
    write = functools.partial(_write_part, codec=codec, rules=rules, folder=folder)
    if given:
        with progress.track("encoding the validation text", in_valid, "pairs") as advance:
            valid = write("valid", given.pairs(advance), held_out=set())
        _require_some(valid, given, "validated on")
        held_out = set[str]()
    else:
        chosen = _held_out(scan.candidates, wanted, codec, rules)
        held_out = {_key(*pair) for pair in chosen}
        valid = write("valid", chosen, held_out=set())
        _require_some(valid, text, "held out")
    with progress.track("encoding", scan.read, "pairs") as advance:
        counts = write("train", text.pairs(advance), held_out=held_out)
    _require_some(counts, text, "trained on")
    return codec, counts, valid


@dataclass(frozen=True)
class _Scan:
    """What the first reading found."""

    read: int
    usable: int  # neither side blank
    characters: tuple[int, int]
    candidates: list[Pair]  # to hold out, in random order, no two equal


def _scan(text: InputText, seed: int, progress: Progress) -> _Scan:
    """Check and count a text, and draw pairs from it, each with the same chance."""
    chance = random.Random(seed)
    drawn: list[Pair] = []
    most = 2 * HELD_OUT_MOST  # some may turn out to be over-long or skewed
    read = usable = left = right = 0
    with progress.track(f"reading {text.name}", None, "pairs") as advance:
        for pair in text.pairs(advance):
            read += 1
            source, target = pair
            if not source.strip() or not target.strip():
                continue
            usable += 1
            left += len(source)
            right += len(target)
            if len(drawn) < most:
                drawn.append(pair)
            elif (place := int(chance.random() * usable)) < most:  # reservoir sampling
                drawn[place] = pair
    chance.shuffle(drawn)
    different = {_key(*pair): pair for pair in drawn}
    return _Scan(read, usable, (left, right), list(different.values()))


def _learn(
    text: InputText, scan: _Scan, left_out: set[str], train: TrainConfig, progress: Progress
) -> Codec:
    """Learn the subwords of a text, of both sides together or of each."""

    def lines(sides: tuple[int, ...]) -> Iterator[str]:
        chance = random.Random(0)  # not the run's seed: all runs on a text share their subwords
        share = LEARN_CHARACTERS / sum(scan.characters[side] for side in sides)
        with progress.track("learning subwords", scan.read, "pairs") as advance:
            for pair in _usable(text.pairs(advance), left_out, dict.fromkeys(REASONS, 0)):
                if chance.random() < share:
                    yield from (pair[side] for side in sides)

    def learned(*sides: int) -> Subwords:
        characters = sum(scan.characters[side] for side in sides)
        size = train.vocabulary or default_vocabulary(characters)
        assert train.subwords != "sentencepiece"  # which comes with imported models only
        return Subwords.learn(lines(sides), size, train.subwords)

    source = learned(0, 1) if train.joint else learned(0)
    codec = Codec(source, source if train.joint else learned(1))
    sizes = f"{len(codec.source):,}" + ("" if codec.joint else f" and {len(codec.target):,}")
    progress.say(f"learned {sizes} subwords")
    return codec


@dataclass(frozen=True)
class _Rules:
    """Which pairs are dropped for their lengths."""

    max_len: int
    max_skew: float

    def judge(self, source: Ints, target: Ints) -> tuple[Bools, Bools]:
        """Tell which pairs are over-long, and which of the others are skewed."""
        shorter, longer = np.minimum(source, target), np.maximum(source, target)
        over_long = longer > self.max_len
        return over_long, ~over_long & (longer > self.max_skew * shorter + 10)


def _held_out(candidates: list[Pair], wanted: int, codec: Codec, rules: _Rules) -> list[Pair]:
    """Choose the first candidates that the rules let pass."""
    chosen: list[Pair] = []
    for batch in _batches(candidates):
        over_long, skewed = rules.judge(*map(_lengths, _encode(codec, batch)))
        chosen += itertools.compress(batch, ~(over_long | skewed))
        if len(chosen) >= wanted:
            break
    return chosen[:wanted]


def _write_part(
    part: str,
    pairs: Iterable[Pair],
    *,
    held_out: set[str],
    codec: Codec,
    rules: _Rules,
    folder: Path,
) -> Counts:
    """Encode pairs into the four files of a part, and count what becomes of them."""
    dropped = dict.fromkeys(REASONS, 0)
    kept = 0
    with contextlib.ExitStack() as stack:
        token_type = _token_type(codec)
        sides = [_SideWriter(folder / f"{part}.{side}", token_type, stack) for side in SIDES]
        usable = _usable(pairs, held_out, dropped)
        for encoded in _encoded(codec, _batches(usable)):
            over_long, skewed = rules.judge(*map(_lengths, encoded))
            dropped[OVER_LONG] += int(over_long.sum())
            dropped[SKEWED] += int(skewed.sum())
            keep = ~(over_long | skewed)
            kept += int(keep.sum())
            for side, sentences in zip(sides, encoded, strict=True):
                side.append(list(itertools.compress(sentences, keep)))
    dropped[TWIN] -= len(held_out)  # each held-out pair itself came by once
    source, target = sides
    return Counts(
        read=kept + sum(dropped.values()),
        pairs=kept,
        source_tokens=source.size,
        target_tokens=target.size,
        source_longest=source.longest,
        target_longest=target.longest,
        dropped=dropped,
    )


class _SideWriter:
    """Appends sentences to the two files of a side."""

    def __init__(self, stem: Path, token_type: str, stack: contextlib.ExitStack) -> None:
        self.tokens, self.offsets = (
            stack.enter_context(stem.with_name(f"{stem.name}.{what}").open("wb"))
            for what in ("tokens", "offsets")
        )
        self.token_type = token_type
        self.size = self.longest = 0
        self.offsets.write(np.zeros(1, "<i8").data)

    def append(self, sentences: list[list[int]]) -> None:
        """Append sentences, each with its end."""
        lengths = _lengths(sentences)
        flat = itertools.chain.from_iterable((*sentence, EOS) for sentence in sentences)
        self.tokens.write(np.fromiter(flat, self.token_type, int(lengths.sum())).data)
        self.offsets.write((self.size + lengths.cumsum()).astype("<i8").data)
        self.size += int(lengths.sum())
        self.longest = max(self.longest, int(lengths.max(initial=0)))


def _usable(pairs: Iterable[Pair], held_out: set[str], dropped: dict[str, int]) -> Iterator[Pair]:
    """Let pass what is neither blank nor held out, and count the rest."""
    for pair in pairs:
        if not pair[0].strip() or not pair[1].strip():
            dropped[EMPTY] += 1
        elif held_out and _key(*pair) in held_out:
            dropped[TWIN] += 1
        else:
            yield pair


def _batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Gather pairs until there are many, or much of them."""
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


def _encoded(codec: Codec, batches: Iterable[list[Pair]]) -> Iterator[Encoded]:
    """Encode batches, each while the next is being read and the one before written."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        before: Future[Encoded] | None = None
        for batch in batches:
            now = pool.submit(_encode, codec, batch)
            if before:
                yield before.result()
            before = now
        if before:
            yield before.result()


def _encode(codec: Codec, batch: list[Pair]) -> Encoded:
    sources, targets = ([pair[side] for pair in batch] for side in (0, 1))
    return codec.source.encode_batch(sources), codec.target.encode_batch(targets)


def _lengths(sentences: list[list[int]]) -> Ints:
    """Return the lengths of sentences with their ends."""
    return np.fromiter(map(len, sentences), np.int64, len(sentences)) + 1


def _key(source: str, target: str) -> str:
    """Return what two pairs have in common if they are one to a model."""
    return unicodedata.normalize("NFC", f"{source.strip()}\t{target.strip()}")


def _token_type(codec: Codec) -> str:
    return "<u2" if max(len(codec.source), len(codec.target)) <= 1 << 16 else "<u4"


def _require_some(counts: Counts, text: InputText, use: str) -> None:
    if not counts.pairs:
        raise BadInput(f"no pair of {text.name} can be {use}: {counts}")
