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

A corpus may be used in both directions: the reversed one follows it, and holds out the same pairs.
With several target languages, the token of the target language comes before each source sentence.

With `spans` or `terms`, a share of the training pairs is changed (see `augmentation`), and the
lengths are those of the changed pairs.
"""

import contextlib
import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from transduce.config import TrainConfig
from transduce.corpus.augmentation import check_markers
from transduce.corpus.building import build_corpus, tags_of
from transduce.corpus.encoding import token_type_of
from transduce.corpus.inputs import InputFile, Inputs
from transduce.corpus.quality import refuse_equal_sides
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
from transduce.system.progress import Progress, Silent
from transduce.text.corpora import CorpusText, Files, with_names
from transduce.text.languages import Pair as LanguagePair


def prepare(
    corpora: Sequence[CorpusText],
    folder: Path,
    *,
    valid: Files | None = None,
    languages: LanguagePair,
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
    corpora = [c if c.pair else c.in_languages(languages) for c in with_names(corpora)]
    held_out = {c.name for c in corpora if c.name and valid is None and c.valid is None}
    settings = _settings(codec, train, max_len, languages, held_out=bool(held_out))
    if codec and more_subwords:
        settings |= {"codec": extended_from or codec.sha256, "more": more_subwords}
    settings |= _structure(corpora, codec)
    _refuse_foreign(folder)
    with contextlib.ExitStack() as stack:
        texts = Inputs.of(corpora, valid, folder, stack, languages)
        if existing := _open_unchanged(folder, texts, settings, shared, may_replace, progress):
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
            codec, counts, valid_counts = build_corpus(
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
    languages: LanguagePair,
    *,
    held_out: bool,
) -> dict[str, Any]:
    """Return the settings that a corpus depends on; refuse a codec that lacks markers for them."""
    if codec:
        check_markers(codec, train)
    shares = {name: share for name in ("spans", "terms") if (share := getattr(train, name))}
    temperature = train.data_temperature
    sampled = {} if temperature == 1 or codec else {"data_temperature": temperature}
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
        **sampled,  # subwords are learned from sampled lines
    }


def _structure(corpora: Sequence[CorpusText], codec: Codec | None) -> dict[str, Any]:
    """Return what token files depend on with several corpora, which is not their weights."""
    if codec:
        for tag in itertools.chain.from_iterable(tags_of(corpora, codec)):
            codec.source.tag_ids(tag)  # refuses a tag that these subwords lack
    if len(corpora) == 1 and corpora[0].valid is None and corpora[0].tag is None:
        return {}
    several = len({corpus.pair for corpus in corpora}) > 1
    return {
        "corpora": [
            {
                "name": corpus.name,
                "tag": corpus.tag,
                "files": _number(corpus.files),
                "valid": _number(corpus.valid),
                **(
                    {"languages": [*(corpus.pair or ())], "reverse": corpus.reverse}
                    if several
                    else {}
                ),
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
    languages: LanguagePair,
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
    texts: Inputs,
    settings: dict[str, Any],
    shared: bool,
    may_replace: bool,
    progress: Progress,
) -> Corpus | None:
    """Open the existing corpus if its texts and settings are unchanged."""
    if not (folder / MANIFEST).exists():
        return None
    corpus = open_corpus(folder)
    files, records = texts.files, corpus.manifest.inputs
    if shared and settings["seed"] is not None:
        settings = settings | {"seed": corpus.manifest.settings.get("seed")}
    same = corpus.manifest.settings == settings
    if same and len(files) == len(records) and all(map(InputFile.matches, files, records)):
        progress.say(f"using the corpus in {folder}: its texts and settings have not changed")
        return corpus
    if may_replace:
        changed = "texts" if same else "settings"
        progress.say(f"the {changed} have changed since {folder} was prepared: preparing it again")
    return None
