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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from transduce.config import TrainConfig
from transduce.corpus.encoding import (
    REASONS,
    Rules,
    encode,
    in_batches,
    key_of,
    lengths_of,
    token_type_of,
    usable,
    write_part,
)
from transduce.corpus.inputs import InputFile, InputText, Pair
from transduce.corpus.suspects import PairCounts, refuse_equal_sides
from transduce.corpus.token_files import (
    MANIFEST,
    SUBWORDS,
    TOKEN_FILES,
    Corpus,
    Counts,
    Manifest,
    open_corpus,
)
from transduce.errors import BadInput, BadRun
from transduce.subwords import Codec, Subwords, default_vocabulary_size, extend_subwords
from transduce.system.files import atomic_folder, sha256, write_checksummed
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress, Silent

HELD_OUT_MOST = 2_000
# Subwords are learned on a random sample of about this size. Europarl's 180 million characters in
# whole gave subwords that write held-out text with 0.01% fewer tokens.
LEARN_CHARACTERS = 100_000_000

Sample = Callable[[tuple[int, ...]], Iterator[str]]  # lines of one side, or of both


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
    more: int = 0,
    base: str | None = None,
    anew: bool = True,
    progress: Progress | None = None,
) -> Corpus:
    """Make the corpus of two files, or of one TSV, in `folder`; see the head of this file.

    A corpus that is there already is used if its inputs and settings are these. If not, it is made
    `anew`, or refused where a run has begun to learn from it. Subwords are learned unless a `codec`
    is given; with `more`, so many are added to it, and `base` is the hash of what they are added to
    if the codec has them already.
    """
    progress = progress or Silent()
    settings = _settings(codec, train, max_len, languages, drawn=valid is None)
    if codec and more:
        settings |= {"codec": base or codec.sha256, "more": more}
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
        for one, other_side in ((text, target), (given, valid[1] if valid else None)):
            if one and other_side is not None:
                refuse_equal_sides(one)
        before = [file.facts() for file in files]
        with atomic_folder(folder, (MANIFEST, SUBWORDS, *TOKEN_FILES)) as beside:
            codec, counts, counts_valid = _build(
                *(text, given, beside),
                codec=codec,
                more=0 if base else more,
                train=train,
                max_len=max_len,
                progress=progress,
            )
            if [file.facts() for file in files] != before:
                raise BadInput(f"{text.name} changed while it was being read: run this again")
            manifest = _manifest(beside, codec, counts, counts_valid, languages, settings, files)
            write_checksummed(beside / MANIFEST, manifest.to_json())
    progress.say(f"train: {counts}")
    progress.say(f"valid: {counts_valid}" + ("" if valid else ", held out of the same text"))
    return open_corpus(folder)


def _settings(
    codec: Codec | None,
    train: TrainConfig,
    max_len: int,
    languages: tuple[str, str],
    *,
    drawn: bool,
) -> dict[str, Any]:
    """Return all that a corpus depends on, but for its texts; `drawn`: some is held out of them."""
    return {
        "vocabulary": None if codec else train.vocabulary,
        "joint": codec.joint if codec else train.joint,
        "subwords": codec.kind if codec else train.subwords,
        "codec": codec.sha256 if codec else None,
        "max_skew": train.max_skew,
        "max_len": max_len,
        "seed": train.seed if drawn else None,  # what is held out is all that is drawn from it
        "languages": list(languages),
    }


def _manifest(
    folder: Path,
    codec: Codec,
    train: Counts,
    valid: Counts,
    languages: tuple[str, str],
    settings: dict[str, Any],
    files: list[InputFile],
) -> Manifest:
    """Tell what a folder that was filled holds, and what it was made of."""
    return Manifest(
        languages=languages,
        vocabulary=(len(codec.source), len(codec.target)),
        token_type=token_type_of(codec),
        train=train,
        valid=valid,
        settings=settings,
        inputs=[file.describe() for file in files],
        files={
            name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in (SUBWORDS, *TOKEN_FILES)
        },
        versions={"tokenizers": tokenizers.__version__, "numpy": np.__version__},
    )


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
    more: int,
    train: TrainConfig,
    max_len: int,
    progress: Progress,
) -> tuple[Codec, Counts, Counts]:
    """Fill a folder with everything but the manifest."""
    rules = Rules(max_len, train.max_skew)
    in_valid, of_valid = 0, None
    if given:  # first, so that the training text can be compared with it
        found = _scan(given, train.seed, progress)
        in_valid, of_valid = found.read, found.counts
    scan = _scan(text, train.seed, progress, of_valid)
    for warning in scan.counts.warnings(text.name):
        progress.say(warning)
    wanted = 0 if given else min(HELD_OUT_MOST, max(1, scan.usable // 100))
    if scan.usable <= wanted:
        raise BadInput(
            f"{text.name} has {pluralize(scan.usable, 'pair')} with text on both sides: expected "
            + ("at least 1" if given else "at least 2 (1 is held out), or validation text")
        )
    if codec is None or more:
        drawn = {key_of(*pair) for pair in scan.candidates[:wanted]}
        sample = functools.partial(_sample, text, scan, drawn, progress)
        codec = _extend(codec, more, sample) if codec else _learn(scan, sample, train)
        sizes = f"{len(codec.source):,}" + ("" if codec.joint else f" and {len(codec.target):,}")
        progress.say(f"{'extend_subwords to' if more else 'learned'} {sizes} subwords")
    codec.save(folder / SUBWORDS)
    write = functools.partial(write_part, codec=codec, rules=rules, folder=folder)
    if given:
        with progress.track("encoding the validation text", in_valid, "pairs") as advance:
            valid = write("valid", given.pairs(advance), held_out=set())
        _require_some(valid, given, "validated on")
        held_out = set[str]()
    else:
        chosen = _held_out(scan.candidates, wanted, codec, rules)
        held_out = {key_of(*pair) for pair in chosen}
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
    counts: PairCounts


def _scan(text: InputText, seed: int, progress: Progress, valid: PairCounts | None = None) -> _Scan:
    """Check and count a text, and draw pairs from it, each with the same chance."""
    chance = random.Random(seed)
    drawn: list[Pair] = []
    most = 2 * HELD_OUT_MOST  # some may turn out to be over-long or skewed
    read = usable = left = right = 0
    counts = PairCounts(valid)
    with progress.track(f"reading {text.name}", None, "pairs") as advance:
        for pair in text.pairs(advance):
            read += 1
            source, target = pair
            if not (plain := source.strip()) or not (translated := target.strip()):
                continue
            usable += 1
            counts.add(plain, translated)
            left += len(source)
            right += len(target)
            if len(drawn) < most:
                drawn.append(pair)
            elif (place := int(chance.random() * usable)) < most:  # reservoir sampling
                drawn[place] = pair
    chance.shuffle(drawn)
    different = {key_of(*pair): pair for pair in drawn}
    return _Scan(read, usable, (left, right), list(different.values()), counts)


def _sample(
    text: InputText, scan: _Scan, left_out: set[str], progress: Progress, sides: tuple[int, ...]
) -> Iterator[str]:
    """Yield lines to learn subwords from, of one side or of both."""
    chance = random.Random(0)  # not the run's seed: all runs on a text share their subwords
    share = LEARN_CHARACTERS / sum(scan.characters[side] for side in sides)
    with progress.track("learning subwords", scan.read, "pairs") as advance:
        for pair in usable(text.pairs(advance), left_out, dict.fromkeys(REASONS, 0)):
            if chance.random() < share:
                yield from (pair[side] for side in sides)


def _learn(scan: _Scan, sample: Sample, train: TrainConfig) -> Codec:
    """Learn the subwords of a text, of both sides together or of each."""

    def learned(*sides: int) -> Subwords:
        characters = sum(scan.characters[side] for side in sides)
        size = train.vocabulary or default_vocabulary_size(characters)
        assert train.subwords != "sentencepiece"  # which comes with imported models only
        return Subwords.learn(sample(sides), size, train.subwords)

    source = learned(0, 1) if train.joint else learned(0)
    return Codec(source, source if train.joint else learned(1))


def _extend(codec: Codec, more: int, sample: Sample) -> Codec:
    """Add the subwords of a text to those that there are, of both sides together or of each."""
    old = codec.source, codec.target

    def longer(side: int, *sides: int) -> Subwords:
        own = old[side]
        assert isinstance(own, Subwords)  # `require_extensible` has seen to it
        return extend_subwords(own, sample(sides), more)

    source = longer(0, 0, 1) if codec.joint else longer(0, 0)
    return Codec(source, source if codec.joint else longer(1, 1))


def _held_out(candidates: list[Pair], wanted: int, codec: Codec, rules: Rules) -> list[Pair]:
    """Choose the first candidates that the rules let pass."""
    chosen: list[Pair] = []
    for batch in in_batches(candidates):
        over_long, skewed = rules.judge(*map(lengths_of, encode(codec, batch)))
        chosen += itertools.compress(batch, ~(over_long | skewed))
        if len(chosen) >= wanted:
            break
    return chosen[:wanted]


def _require_some(counts: Counts, text: InputText, use: str) -> None:
    if not counts.pairs:
        raise BadInput(f"no pair of {text.name} can be {use}: {counts}")
