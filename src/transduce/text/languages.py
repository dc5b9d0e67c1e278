"""Language codes: from file names, and without script or region."""

import re
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


def language_code(language: str | None) -> str:
    """Return a language without script and region: zh for zh-CN and zh_Hans."""
    return (language or "").replace("_", "-").split("-")[0].lower()


def _suffix(path: str | Path) -> str:
    """Return the last suffix of a file name that is not in `STORAGE_SUFFIXES`."""
    suffixes = [suffix.removeprefix(".") for suffix in PurePath(path).suffixes]
    while suffixes and suffixes[-1].lower() in STORAGE_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
