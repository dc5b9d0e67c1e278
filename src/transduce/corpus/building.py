"""Fill the folder of a corpus: scan the texts, hold pairs out, learn subwords, encode."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from transduce.config import TrainConfig
from transduce.corpus.augmentation import Augmentation
from transduce.corpus.encoding import LengthRules, Part, pair_key, write_split
from transduce.corpus.inputs import Inputs, InputText, Pair
from transduce.corpus.languages import language_warnings
from transduce.corpus.learning import extend, learn, sample_lines
from transduce.corpus.quality import ValidationPairs
from transduce.corpus.scanning import ScannedText, hold_out, numbers_to_hold_out
from transduce.corpus.token_files import SUBWORDS, CorpusCounts, Counts
from transduce.corpus.updates import temperature_factors
from transduce.errors import BadInput
from transduce.subwords import TO, Codec
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text.corpora import CorpusText
from transduce.text.languages import UNKNOWN
from transduce.text.languages import Pair as Languages

Write = Callable[..., list[Counts]]  # `write_split` for one codec and folder


def tags_of(corpora: Sequence[CorpusText], codec: Codec | None) -> list[tuple[str, ...]]:
    """Return the tags before each source sentence of each corpus.

    The target language comes first, if there are several, then the tag of the corpus.
    """
    targets = {corpus.pair[1] for corpus in corpora if corpus.pair}
    tokens = len(targets) > 1 or bool(codec and codec.languages)
    return [
        (
            *([TO + corpus.pair[1]] if tokens and corpus.pair else []),
            *([corpus.tag] if corpus.tag else []),
        )
        for corpus in corpora
    ]


def build_corpus(
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
    given = [corpus.corpus for corpus in texts.corpora]
    valid, scanned = _scan_all(texts, tags_of(given, codec), scan)
    corpora = _with_frequencies(scanned, given, train.data_temperature)
    separate = valid[0] if texts.valid else None
    for corpus in corpora:
        warnings = corpus.scan.statistics.warnings(corpus.text.name)
        for warning in warnings if not corpus.reverse else ():
            progress.say(warning)
    for warning in _language_warnings(given, corpora, valid):
        progress.say(warning)
    wanted = _numbers_to_hold_out(corpora, valid)
    if codec is None or more_subwords:
        sample = functools.partial(sample_lines, corpora, wanted, progress)
        codec = extend(codec, more_subwords, sample) if codec else learn(corpora, sample, train)
        sizes = f"{len(codec.source):,}" + ("" if codec.joint else f" and {len(codec.target):,}")
        progress.say(f"{'extended to' if more_subwords else 'learned'} {sizes} subwords")
    codec.save(folder / SUBWORDS)
    chosen: list[list[Pair]] = []
    for corpus, number in zip(corpora, wanted, strict=True):
        chosen.append(
            [(target, source) for source, target in chosen[-1]]
            if corpus.reverse
            else hold_out(corpus.scan.candidates, number, codec, rules, corpus.tags)
        )
    write = functools.partial(write_split, codec=codec, rules=rules, folder=folder)
    valid_counts = _write_valid([separate] if separate else valid, corpora, chosen, write, progress)
    train_counts = _write_train(corpora, chosen, write, codec, train, progress)
    own_counts = [None] * len(corpora) if separate else valid_counts
    counts = [
        CorpusCounts(name=c.name or "", tag=c.tag, languages=c.pair, train=written, valid=held_out)
        for c, written, held_out in zip(given, train_counts, own_counts, strict=True)
    ]
    return codec, counts, Counts.total(valid_counts)


def _language_warnings(
    given: Sequence[CorpusText],
    corpora: Sequence[ScannedText],
    valid: Sequence[ScannedText | None],
) -> list[str]:
    """Return warnings about the languages of all texts, training text first."""
    samples: dict[tuple[str, Languages], list[Pair]] = {}  # a file may have several pairs
    for scanned in (corpora, valid):
        for corpus, text in zip(given, scanned, strict=True):
            if text and not corpus.reverse:
                samples.setdefault((text.text.name, corpus.pair or UNKNOWN), text.scan.candidates)
    return language_warnings([(*text, sample) for text, sample in samples.items()])


def _with_frequencies(
    scanned: Sequence[ScannedText], corpora: Sequence[CorpusText], temperature: float
) -> list[ScannedText]:
    """Add how often lines are read to learn subwords: as often as they are sampled."""
    counts = [text.scan.usable for text in scanned]
    factors = temperature_factors(counts, [corpus.pair for corpus in corpora], temperature)
    return [
        dataclasses.replace(text, frequency=factor)
        for text, factor in zip(scanned, factors, strict=True)
    ]


def _scan_all(
    texts: Inputs, tags: Sequence[tuple[str, ...]], scan: Callable[..., ScannedText]
) -> tuple[list[ScannedText | None], list[ScannedText]]:
    """Scan the validation text of each corpus, if it has one, and its training text."""
    # The validation text comes first, so that the training text can be compared with it.
    language = tags[0][:1] if tags[0] and tags[0][0].startswith(TO) else ()
    separate = scan(texts.valid, tags=language) if texts.valid else None
    valid: list[ScannedText | None] = []
    for corpus, own in zip(texts.corpora, tags, strict=True):
        if corpus.valid is None:
            valid.append(separate)
        elif corpus.corpus.reverse and (forward := valid[-1]):
            valid.append(forward.reversed(corpus.valid, own))
        else:
            valid.append(scan(corpus.valid, tags=own))
    pairs = ValidationPairs({text.text.name: text.scan.statistics for text in valid if text})
    corpora: list[ScannedText] = []
    for corpus, own in zip(texts.corpora, tags, strict=True):
        if corpus.corpus.reverse:
            corpora.append(corpora[-1].reversed(corpus.text, own))
        else:
            corpora.append(scan(corpus.text, tags=own, valid=pairs))
    return valid, corpora


def _write_valid(
    texts: Sequence[ScannedText | None],
    corpora: Sequence[ScannedText],
    chosen: list[list[Pair]],
    write: Write,
    progress: Progress,
) -> list[Counts]:
    """Write the validation texts; where there is none, the pairs chosen from a corpus."""
    parts = [
        Part(text.pairs("encoding the validation text", progress), tags=text.tags)
        if text
        else Part(pairs, tags=corpus.tags)
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
        Part(corpus.pairs("encoding", progress), held_out, len(own), corpus.tags)
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
