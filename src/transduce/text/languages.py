"""Language codes: from file names, and without script or region."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from transduce.errors import BadInput
from transduce.text.compression import COMPRESSIONS

# Suffixes that say how a text is stored, not its language.
STORAGE_SUFFIXES = frozenset(COMPRESSIONS).union(
    (
        "txt",
        "tsv",
        "csv",
        "tmx",
        "xliff",
        "xlf",
        "sdlxliff",
        "raw",
        "tok",
        "src",
        "tgt",
        "ref",
        "out",
        "hyp",
        "log",
        "dat",
    )
)
UNKNOWN = ("src", "tgt")  # languages of texts whose names have no codes
SHOWN = 20  # pairs that a message lists
CODE = re.compile(r"[a-z]{2,3}(_[a-z]{2,4})?", re.IGNORECASE)

Pair = tuple[str, str]  # the codes of source and target


def guess_languages(
    source: str | Path, target: str | Path | None, given: str | None = None
) -> Pair:
    """Return the languages: as given ("en-de"), else from the file names, else src and tgt.

    Two files are named like train.en and train.de (or train.en.xz, train.de.txt), one TSV like
    train.en-de.tsv.
    """
    if given is not None:
        codes = given.split("-")
        if len(codes) != 2 or not all(re.fullmatch(r"\w+", code) for code in codes):
            raise BadInput(
                f"languages {given!r}: expected two codes with a hyphen between them, such as en-de"
            )
        return codes[0], codes[1]
    codes = _suffix(source).split("-") if target is None else [_suffix(source), _suffix(target)]
    if len(codes) == 2 and all(map(CODE.fullmatch, codes)):
        return codes[0], codes[1]
    return UNKNOWN


def list_pairs(pairs: Iterable[Pair]) -> str:
    """Return different pairs of languages as words, the first ones if there are many."""
    words = [*dict.fromkeys(map(" to ".join, pairs))]
    rest = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + rest


def choose_pair(pairs: Sequence[Pair], source: str | None, target: str | None) -> Pair:
    """Return the source and target language for a model that was trained on some pairs.

    A language that is not given is the only one that fits the other. The source may remain unknown.
    It may be any language of the model: the pair may be one that the model was not trained on.
    """
    known = {language for pair in pairs for language in pair}
    targets = [*dict.fromkeys(right for left, right in pairs if source in (None, left))]
    if target is None and len(targets) > 1:
        raise BadInput(
            f"the model translates to {', '.join(targets)}: choose one of them as the target "
            f"language, such as --to {targets[0]}"
        )
    if target is None and targets:
        target = targets[0]
    if source is not None and (source not in known or target in (None, source)):
        to = f" to {target:.60}" if target else ""
        raise BadInput(
            f"the model does not translate from {source:.60}{to}: it translates {list_pairs(pairs)}"
        )
    sources = [left for left, right in pairs if right == target]
    if not sources or target is None:
        raise BadInput(
            f"the model does not translate to {target:.60}: it translates {list_pairs(pairs)}"
        )
    return source or (sources[0] if len(sources) == 1 else UNKNOWN[0]), target


def language_code(language: str | None) -> str:
    """Return a language without script and region: zh for zh-CN and zh_Hans."""
    return (language or "").replace("_", "-").split("-")[0].lower()


def _suffix(path: str | Path) -> str:
    """Return the last suffix of a file name that is not in `STORAGE_SUFFIXES`."""
    suffixes = [suffix.removeprefix(".") for suffix in PurePath(path).suffixes]
    while suffixes and suffixes[-1].lower() in STORAGE_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
