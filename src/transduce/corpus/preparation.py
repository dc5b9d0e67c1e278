"""From text to a corpus: which pairs are kept, dropped or held out for validation.

The text is read in three passes, without keeping it in memory: one to check and count it and to
draw the held-out pairs, one to learn subwords, one to encode.

The rules apply in this order; the manifest counts the pairs for each:

held out    Without validation text, 1% of the pairs (at least 1, at most 2,000) are drawn at random
            with the seed, from those that no rule below drops. The model is never trained on them.
            Subwords are not learned from them either, except from a pair that replaces a dropped
            one. Of several corpora, each holds out its own 1%, with at most about 2,000 in all.
empty       A side is blank: dropped.
equal       Equal to a held-out pair, except for outer white space: dropped.
over-long   A side has more than `max_len` subwords, `</s>` included: dropped.
skewed      The longer side has more than `max_skew` times the subwords of the shorter, plus 10:
            dropped, because it is unlikely to be a translation.

From validation text, only empty, over-long and skewed pairs are dropped.

With `spans` or `terms`, a share of the training pairs is changed (see `augmentation`), and the
lengths are those of the changed pairs.
"""

import contextlib
import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from transduce.config import TrainConfig
from transduce.corpus.augmentation import Augmentation, check_markers
from transduce.corpus.encoding import (
    LengthRules,
    Part,
    pair_key,
    token_type_of,
    write_split,
)
from transduce.corpus.inputs import InputFile, Inputs, InputText, Pair
from transduce.corpus.learning import extend, learn, sample_lines
from transduce.corpus.quality import ValidationPairs, refuse_equal_sides
from transduce.corpus.scanning import ScannedText, hold_out, numbers_to_hold_out
from transduce.corpus.token_files import (
    MANIFEST,
    SUBWORDS,
    TOKEN_FILES,
    Corpus,
    CorpusCounts,
    Counts,
    Manifest,
    open_corpus,
)
from transduce.errors import BadInput, BadRun
from transduce.subwords import Codec
from transduce.system.files import atomic_folder, sha256, write_checksummed
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress, Silent
from transduce.text.corpora import CorpusText, Files, with_names

Write = Callable[..., list[Counts]]  # `write_split` for one codec and folder


def prepare(
    corpora: Sequence[CorpusText],
    folder: Path,
    *,
    valid: Files | None = None,
    languages: tuple[str, str],
    train: TrainConfig,
    max_len: int,
    codec: Codec | None = None,
    more_subwords: int = 0,
    extended_from: str | None = None,
    may_replace: bool = True,
    shared: bool = False,
    progress: Progress | None = None,
) -> Corpus:
    """Make a corpus in `folder` from one or more texts; see the docstring of this module.

    An existing corpus is used if its inputs and settings are the same. Otherwise it is replaced, or
    refused without `may_replace`. Subwords are learned unless a `codec` is given. `more_subwords`
    are added to it; if the codec has them already, `extended_from` is the hash of the original.
    A `shared` corpus keeps the pairs that it held out for the first run, whatever the seed is now.
    """
    progress = progress or Silent()
    corpora = with_names(corpora)
    held_out = {c.name for c in corpora if c.name and valid is None and c.valid is None}
    settings = _settings(codec, train, max_len, languages, held_out=bool(held_out))
    if codec and more_subwords:
        settings |= {"codec": extended_from or codec.sha256, "more": more_subwords}
    settings |= _structure(corpora, codec)
    _refuse_foreign(folder)
    with contextlib.ExitStack() as stack:
        texts = Inputs.of(corpora, valid, folder, stack, languages)
        if existing := _open_unchanged(folder, texts.files, settings, shared, progress):
            return existing
        if not may_replace:
            raise BadRun(
                f"{folder} was prepared from other text or with other settings than {texts.name}: "
                "continue with the same, or choose another folder for a new run"
            )
        for text in texts.texts:
            if not text.tsv:
                refuse_equal_sides(text)
        before = [file.size_and_time() for file in texts.files]
        with atomic_folder(folder, (MANIFEST, SUBWORDS, *TOKEN_FILES)) as temporary:
            codec, counts, valid_counts = _build(
                *(texts, temporary),
                codec=codec,
                more_subwords=0 if extended_from else more_subwords,
                train=train,
                max_len=max_len,
                progress=progress,
            )
            if [file.size_and_time() for file in texts.files] != before:
                raise BadInput(f"{texts.name} changed while it was being read: run this again")
            manifest = _manifest(
                *(temporary, codec, counts, valid_counts, languages, settings, texts.files)
            )
            write_checksummed(temporary / MANIFEST, manifest.to_json())
    _report(manifest, held_out, progress)
    return open_corpus(folder)


def _settings(
    codec: Codec | None,
    train: TrainConfig,
    max_len: int,
    languages: tuple[str, str],
    *,
    held_out: bool,
) -> dict[str, Any]:
    """Return the settings that a corpus depends on; refuse a codec that lacks markers for them."""
    if codec:
        check_markers(codec, train)
    shares = {name: share for name in ("spans", "terms") if (share := getattr(train, name))}
    return {
        "vocabulary": None if codec else train.vocabulary,
        "joint": codec.joint if codec else train.joint,
        "subwords": codec.kind if codec else train.subwords,
        "codec": codec.sha256 if codec else None,
        "max_skew": train.max_skew,
        "max_len": max_len,
        "seed": train.seed if held_out or shares else None,  # nothing else depends on it
        "languages": list(languages),
        **shares,
    }


def _structure(corpora: Sequence[CorpusText], codec: Codec | None) -> dict[str, Any]:
    """Return what token files depend on with several corpora, which is not their weights."""
    if codec:
        for corpus in corpora:
            codec.source.tag_ids(corpus.tag)  # refuses a tag that these subwords lack
    if len(corpora) == 1 and corpora[0].valid is None and corpora[0].tag is None:
        return {}
    return {
        "corpora": [
            {
                "name": corpus.name,
                "tag": corpus.tag,
                "files": _number(corpus.files),
                "valid": _number(corpus.valid),
            }
            for corpus in corpora
        ]
    }


def _number(files: Files | None) -> int:
    return sum(path is not None for path in files or ())


def _manifest(
    folder: Path,
    codec: Codec,
    corpora: list[CorpusCounts],
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
        train=Counts.total([corpus.train for corpus in corpora]),
        valid=valid,
        settings=settings,
        inputs=[file.to_record() for file in files],
        files={
            name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in (SUBWORDS, *TOKEN_FILES)
        },
        versions={"tokenizers": tokenizers.__version__, "numpy": np.__version__},
        corpora=corpora,
    )


def _report(manifest: Manifest, held_out: Collection[str], progress: Progress) -> None:
    """Report what was kept and dropped, of each corpus and in all.

    `held_out` are the names of the corpora without validation text.
    """
    held = ", held out of the same text"
    for corpus in manifest.corpora if len(manifest.corpora) > 1 else []:
        progress.say(f"train, {corpus.name}: {corpus.train}")
        if corpus.valid:
            origin = held if corpus.name in held_out else ""
            progress.say(f"valid, {corpus.name}: {corpus.valid}{origin}")
    if held_out and len(held_out) < len(manifest.corpora):
        parts = [c.valid.pairs for c in manifest.corpora if c.valid and c.name in held_out]
        held = f"; {sum(parts):,} of the pairs held out of the training text"
    progress.say(f"train: {manifest.train}")
    progress.say(f"valid: {manifest.valid}{held if held_out else ''}")
    if all(corpus.tag and not corpus.valid for corpus in manifest.corpora):
        progress.say(
            "warning: every corpus has a tag but the validation text has none, so it is unlike "
            "all training text: leave the corpus that is most like it without a tag"
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
    folder: Path,
    files: list[InputFile],
    settings: dict[str, Any],
    shared: bool,
    progress: Progress,
) -> Corpus | None:
    """Open the existing corpus if its texts and settings are unchanged."""
    if not (folder / MANIFEST).exists():
        return None
    corpus = open_corpus(folder)
    records = corpus.manifest.inputs
    if shared and settings["seed"] is not None:
        settings = settings | {"seed": corpus.manifest.settings.get("seed")}
    if corpus.manifest.settings != settings:
        progress.say(f"the settings have changed since {folder} was prepared: preparing it again")
    elif len(files) != len(records) or not all(map(InputFile.matches, files, records)):
        progress.say(f"the texts have changed since {folder} was prepared: preparing it again")
    else:
        progress.say(f"using the corpus in {folder}: its texts and settings have not changed")
        return corpus
    return None


def _build(
    texts: Inputs,
    folder: Path,
    *,
    codec: Codec | None,
    more_subwords: int,
    train: TrainConfig,
    max_len: int,
    progress: Progress,
) -> tuple[Codec, list[CorpusCounts], Counts]:
    """Fill a folder with everything but the manifest."""
    rules = LengthRules(max_len, train.max_skew)
    scan = functools.partial(ScannedText.of, seed=train.seed, progress=progress)
    # The validation text comes first, so that the training text can be compared with it.
    separate = scan(texts.valid) if texts.valid else None
    valid = [
        scan(corpus.valid, tag=corpus.tag) if corpus.valid else separate for corpus in texts.corpora
    ]
    pairs = ValidationPairs({text.text.name: text.scan.statistics for text in valid if text})
    corpora = [scan(corpus.text, tag=corpus.tag, valid=pairs) for corpus in texts.corpora]
    for corpus in corpora:
        for warning in corpus.scan.statistics.warnings(corpus.text.name):
            progress.say(warning)
    wanted = _numbers_to_hold_out(corpora, valid)
    if codec is None or more_subwords:
        sample = functools.partial(sample_lines, corpora, wanted, progress)
        codec = extend(codec, more_subwords, sample) if codec else learn(corpora, sample, train)
        sizes = f"{len(codec.source):,}" + ("" if codec.joint else f" and {len(codec.target):,}")
        progress.say(f"{'extended to' if more_subwords else 'learned'} {sizes} subwords")
    codec.save(folder / SUBWORDS)
    chosen = [
        hold_out(corpus.scan.candidates, number, codec, rules, corpus.tag)
        for corpus, number in zip(corpora, wanted, strict=True)
    ]
    write = functools.partial(write_split, codec=codec, rules=rules, folder=folder)
    valid_counts = _write_valid([separate] if separate else valid, corpora, chosen, write, progress)
    train_counts = _write_train(corpora, chosen, write, codec, train, progress)
    counts = [
        CorpusCounts(name=corpus.name, tag=corpus.tag, train=train, valid=valid)
        for corpus, train, valid in zip(
            texts.corpora,
            train_counts,
            [None] * len(corpora) if separate else valid_counts,
            strict=True,
        )
    ]
    return codec, counts, Counts.total(valid_counts)


def _write_valid(
    texts: Sequence[ScannedText | None],
    corpora: Sequence[ScannedText],
    chosen: list[list[Pair]],
    write: Write,
    progress: Progress,
) -> list[Counts]:
    """Write the validation texts; where there is none, the pairs chosen from a corpus."""
    parts = [
        Part(text.pairs("encoding the validation text", progress), tag=text.tag)
        if text
        else Part(pairs, tag=corpus.tag)
        for text, corpus, pairs in zip(texts, corpora, chosen, strict=False)
    ]
    counts = write("valid", parts)
    for number, (text, corpus) in enumerate(zip(texts, corpora, strict=False)):
        use = "used for validation" if text else "held out"
        _require_some(counts[number], (text or corpus).text, use)
    return counts


def _write_train(
    corpora: Sequence[ScannedText],
    chosen: list[list[Pair]],
    write: Write,
    codec: Codec,
    train: TrainConfig,
    progress: Progress,
) -> list[Counts]:
    """Write the corpora without the pairs that were chosen from any of them."""
    keys = [{pair_key(*pair) for pair in pairs} for pairs in chosen]
    held_out = set[str]().union(*keys)
    parts = [
        Part(corpus.pairs("encoding", progress), held_out, len(own), corpus.tag)
        for corpus, own in zip(corpora, keys, strict=True)
    ]
    augmentation = Augmentation.of(codec, train, corpora, held_out, progress)
    counts = write("train", parts, augment=augmentation.apply if augmentation else None)
    for corpus, written in zip(corpora, counts, strict=True):
        _require_some(written, corpus.text, "used for training")
    return counts


def _numbers_to_hold_out(
    corpora: Sequence[ScannedText], valid: Sequence[ScannedText | None]
) -> list[int]:
    """Return how many pairs to hold out of each corpus: none if it has validation text."""
    without = [c.scan.usable for c, text in zip(corpora, valid, strict=True) if text is None]
    shares = iter(numbers_to_hold_out(without))
    wanted = [0 if text else next(shares) for text in valid]
    for corpus, text, number in zip(corpora, valid, wanted, strict=True):
        if corpus.scan.usable <= number:
            raise BadInput(
                f"{corpus.text.name} has {pluralize(corpus.scan.usable, 'pair')} with text on both "
                "sides: expected "
                + ("at least 1" if text else "at least 2 (1 is held out), or validation text")
            )
    return wanted


def _require_some(counts: Counts, text: InputText, use: str) -> None:
    if not counts.pairs:
        raise BadInput(f"no pair of {text.name} can be {use}: {counts}")
