"""From text to a corpus: which pairs are kept, dropped or held out for validation.

The text is read in three passes, without keeping it in memory: one to check and count it and to
draw the held-out pairs, one to learn subwords, one to encode.

The rules apply in this order; the manifest counts the pairs for each:

held out    Without validation text, 1% of the pairs (at least 1, at most 2,000) are drawn at random
            with the seed, from those that no rule below drops. The model is never trained on them.
            Subwords are not learned from them either, except from a pair that replaces a dropped
            one.
empty       A side is blank: dropped.
equal       Equal to a held-out pair, except for outer white space: dropped.
over-long   A side has more than `max_len` subwords, `</s>` included: dropped.
skewed      The longer side has more than `max_skew` times the subwords of the shorter, plus 10:
            dropped, because it is unlikely to be a translation.

From validation text, only empty, over-long and skewed pairs are dropped.
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
    LengthRules,
    batches,
    drop_unusable,
    encode,
    lengths_of,
    pair_key,
    token_type_of,
    write_split,
)
from transduce.corpus.inputs import InputFile, InputText, Pair
from transduce.corpus.quality import PairStatistics, refuse_equal_sides
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
from transduce.subwords import Codec, Coder, Subwords, default_vocabulary_size, extend_subwords
from transduce.system.files import atomic_folder, sha256, write_checksummed
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress, Silent

MAX_HELD_OUT = 2_000
# Subwords are learned from a random sample of about this size. With all 180 million characters of
# Europarl, held-out text had only 0.01% fewer tokens.
LEARN_CHARACTERS = 100_000_000

Sample = Callable[[tuple[int, ...]], Iterator[str]]  # lines from one side or both


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
    more_subwords: int = 0,
    extended_from: str | None = None,
    may_replace: bool = True,
    progress: Progress | None = None,
) -> Corpus:
    """Make a corpus in `folder` from two files or one TSV; see the docstring of this module.

    An existing corpus is used if its inputs and settings are the same. Otherwise it is replaced, or
    refused without `may_replace`. Subwords are learned unless a `codec` is given. `more_subwords`
    are added to it; if the codec has them already, `extended_from` is the hash of the original.
    """
    progress = progress or Silent()
    settings = _settings(codec, train, max_len, languages, held_out=valid is None)
    if codec and more_subwords:
        settings |= {"codec": extended_from or codec.sha256, "more": more_subwords}
    _refuse_foreign(folder)
    with contextlib.ExitStack() as stack:
        text = InputText.of(source, target, folder, stack)
        valid_text = InputText.of(*valid, folder, stack) if valid else None
        files = [*text.files, *(valid_text.files if valid_text else [])]
        if existing := _open_unchanged(folder, files, settings, progress):
            return existing
        if not may_replace:
            raise BadRun(
                f"{folder} was prepared from other text or with other settings than {text.name}: "
                "continue with the same, or choose another folder for a new run"
            )
        if target is not None:  # a TSV may have equal columns
            refuse_equal_sides(text)
        if valid_text and valid and valid[1] is not None:
            refuse_equal_sides(valid_text)
        before = [file.size_and_time() for file in files]
        with atomic_folder(folder, (MANIFEST, SUBWORDS, *TOKEN_FILES)) as temporary:
            codec, counts, valid_counts = _build(
                *(text, valid_text, temporary),
                codec=codec,
                more_subwords=0 if extended_from else more_subwords,
                train=train,
                max_len=max_len,
                progress=progress,
            )
            if [file.size_and_time() for file in files] != before:
                raise BadInput(f"{text.name} changed while it was being read: run this again")
            manifest = _manifest(
                *(temporary, codec, counts, valid_counts, languages, settings, files)
            )
            write_checksummed(temporary / MANIFEST, manifest.to_json())
    progress.say(f"train: {counts}")
    progress.say(f"valid: {valid_counts}" + ("" if valid else ", held out of the same text"))
    return open_corpus(folder)


def _settings(
    codec: Codec | None,
    train: TrainConfig,
    max_len: int,
    languages: tuple[str, str],
    *,
    held_out: bool,
) -> dict[str, Any]:
    """Return the settings that a corpus depends on."""
    return {
        "vocabulary": None if codec else train.vocabulary,
        "joint": codec.joint if codec else train.joint,
        "subwords": codec.kind if codec else train.subwords,
        "codec": codec.sha256 if codec else None,
        "max_skew": train.max_skew,
        "max_len": max_len,
        "seed": train.seed if held_out else None,  # nothing else depends on it
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
    """Describe a filled folder and how it was made."""
    return Manifest(
        languages=languages,
        vocabulary=(len(codec.source), len(codec.target)),
        token_type=token_type_of(codec),
        train=train,
        valid=valid,
        settings=settings,
        inputs=[file.to_record() for file in files],
        files={
            name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in (SUBWORDS, *TOKEN_FILES)
        },
        versions={"tokenizers": tokenizers.__version__, "numpy": np.__version__},
    )


def _refuse_foreign(folder: Path) -> None:
    """Refuse to replace a folder that is not a corpus."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BadInput(f"{folder} is a file: expected a folder for the corpus")
    names = {path.name for path in folder.iterdir()}
    foreign = names - {MANIFEST, SUBWORDS, *TOKEN_FILES} if MANIFEST in names else names
    if foreign:
        raise BadInput(
            f"{folder} holds {min(foreign)}, which is not part of a corpus: "
            "expected a new folder for the corpus"
        )


def _open_unchanged(
    folder: Path, files: list[InputFile], settings: dict[str, Any], progress: Progress
) -> Corpus | None:
    """Open the existing corpus if its texts and settings are unchanged."""
    if not (folder / MANIFEST).exists():
        return None
    corpus = open_corpus(folder)
    records = corpus.manifest.inputs
    if corpus.manifest.settings != settings:
        progress.say(f"the settings have changed since {folder} was prepared: preparing it again")
    elif len(files) != len(records) or not all(map(InputFile.matches, files, records)):
        progress.say(f"the texts have changed since {folder} was prepared: preparing it again")
    else:
        progress.say(f"using the corpus in {folder}: its texts and settings have not changed")
        return corpus
    return None


def _build(
    text: InputText,
    valid_text: InputText | None,
    folder: Path,
    *,
    codec: Codec | None,
    more_subwords: int,
    train: TrainConfig,
    max_len: int,
    progress: Progress,
) -> tuple[Codec, Counts, Counts]:
    """Fill a folder with everything but the manifest."""
    rules = LengthRules(max_len, train.max_skew)
    # The validation text comes first, so that the training text can be compared with it.
    valid_scan = _scan(valid_text, train.seed, progress) if valid_text else None
    scan = _scan(text, train.seed, progress, valid_scan.statistics if valid_scan else None)
    for warning in scan.statistics.warnings(text.name):
        progress.say(warning)
    wanted = 0 if valid_text else min(MAX_HELD_OUT, max(1, scan.usable // 100))
    if scan.usable <= wanted:
        raise BadInput(
            f"{text.name} has {pluralize(scan.usable, 'pair')} with text on both sides: expected "
            + ("at least 1" if valid_text else "at least 2 (1 is held out), or validation text")
        )
    if codec is None or more_subwords:
        candidates = {pair_key(*pair) for pair in scan.candidates[:wanted]}
        sample = functools.partial(_sample, text, scan, candidates, progress)
        codec = _extend(codec, more_subwords, sample) if codec else _learn(scan, sample, train)
        sizes = f"{len(codec.source):,}" + ("" if codec.joint else f" and {len(codec.target):,}")
        progress.say(f"{'extended to' if more_subwords else 'learned'} {sizes} subwords")
    codec.save(folder / SUBWORDS)
    write = functools.partial(write_split, codec=codec, rules=rules, folder=folder)
    if valid_text and valid_scan:
        with progress.track("encoding the validation text", valid_scan.read, "pairs") as advance:
            valid = write("valid", valid_text.pairs(advance), held_out=set())
        _require_some(valid, valid_text, "used for validation")
        held_out = set[str]()
    else:
        chosen = _hold_out(scan.candidates, wanted, codec, rules)
        held_out = {pair_key(*pair) for pair in chosen}
        valid = write("valid", chosen, held_out=set())
        _require_some(valid, text, "held out")
    with progress.track("encoding", scan.read, "pairs") as advance:
        counts = write("train", text.pairs(advance), held_out=held_out)
    _require_some(counts, text, "used for training")
    return codec, counts, valid


@dataclass(frozen=True)
class _Scan:
    """The results of the first pass over a text."""

    read: int
    usable: int  # neither side blank
    characters: tuple[int, int]
    candidates: list[Pair]  # to hold out, in random order, all different
    statistics: PairStatistics


def _scan(
    text: InputText, seed: int, progress: Progress, valid: PairStatistics | None = None
) -> _Scan:
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
    return _Scan(read, usable, characters, list(different.values()), statistics)


def _sample(
    text: InputText, scan: _Scan, held_out: set[str], progress: Progress, sides: tuple[int, ...]
) -> Iterator[str]:
    """Yield lines to learn subwords from, from one side or both."""
    rng = random.Random(0)  # not the run's seed, so that all runs on a text get the same subwords
    share = LEARN_CHARACTERS / sum(scan.characters[side] for side in sides)
    with progress.track("learning subwords", scan.read, "pairs") as advance:
        for pair in drop_unusable(text.pairs(advance), held_out, dict.fromkeys(REASONS, 0)):
            if rng.random() < share:
                yield from (pair[side] for side in sides)


def _learn(scan: _Scan, sample: Sample, train: TrainConfig) -> Codec:
    """Learn subwords from both sides together, or separately from each side."""

    def learn(*sides: int) -> Subwords:
        characters = sum(scan.characters[side] for side in sides)
        size = train.vocabulary or default_vocabulary_size(characters)
        assert train.subwords != "sentencepiece"  # for imported models only
        return Subwords.learn(sample(sides), size, train.subwords)

    source = learn(0, 1) if train.joint else learn(0)
    return Codec(source, source if train.joint else learn(1))


def _extend(codec: Codec, more: int, sample: Sample) -> Codec:
    """Add subwords learned from a text: from both sides together, or separately from each side."""

    def extend(subwords: Coder, *sides: int) -> Subwords:
        assert isinstance(subwords, Subwords)  # `check_extensible` was called before
        return extend_subwords(subwords, sample(sides), more)

    source = extend(codec.source, *((0, 1) if codec.joint else (0,)))
    return Codec(source, source if codec.joint else extend(codec.target, 1))


def _hold_out(candidates: list[Pair], wanted: int, codec: Codec, rules: LengthRules) -> list[Pair]:
    """Return the first candidates that no rule drops."""
    chosen: list[Pair] = []
    for batch in batches(candidates):
        over_long, skewed = rules.check(*map(lengths_of, encode(codec, batch)))
        chosen += itertools.compress(batch, ~(over_long | skewed))
        if len(chosen) >= wanted:
            break
    return chosen[:wanted]


def _require_some(counts: Counts, text: InputText, use: str) -> None:
    if not counts.pairs:
        raise BadInput(f"no pair of {text.name} can be {use}: {counts}")
