"""A parallel text to train on, with its weight among others, its tag and its languages."""

import dataclasses
import itertools
import math
import numbers
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from transduce.errors import BadInput
from transduce.text.languages import STORAGE_SUFFIXES, Pair, guess_languages
from transduce.text.reading import STDIN, path_exists

MAX_WEIGHT = 1_000
MAX_NAME = 60  # characters
FORM = "FILE[,FILE][:en-de][=WEIGHT][@TAG]"
LANGUAGES = r"[A-Za-z]\w{0,19}-[A-Za-z]\w{0,19}"
TAG = r"[A-Za-z][A-Za-z0-9_-]{0,39}"  # a letter first: no subword begins with "<" and a letter
RESERVED = frozenset({"pad", "s", "unk"})  # special tokens without < and >

Files = tuple[str | Path, str | Path | None]  # two texts, or one TSV


@dataclass(frozen=True)
class CorpusText:
    """A parallel text: two files, or one TSV.

    `weight` is how often a sentence is seen per epoch; 0.5 is half of the sentences in each epoch.
    `tag` adds the token <tag> before each source sentence; translating with the tag then gives
    translations like those of this corpus. `valid` is validation text for this corpus alone. `name`
    stands for the corpus in metrics and counts, by default the common part of the file names.
    `languages` are codes such as "en-de", by default those in the file names.
    """

    source: str | Path
    target: str | Path | None = None
    weight: float = 1.0
    tag: str | None = None
    valid: Files | None = None
    name: str | None = None
    languages: str | Pair | None = None
    reverse: bool = False  # the preceding corpus in the other direction: see `reversed`

    def __post_init__(self) -> None:
        """Refuse a weight, tag, name or languages that cannot be used."""
        weight: Any = self.weight
        shown = str(self.source)
        number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)  # NumPy's too
        if not number or not 0 < weight <= MAX_WEIGHT:
            raise BadInput(
                f"the weight of {shown} is {weight!r:.60}: expected a number above 0, at most "
                f"{MAX_WEIGHT:,}, such as 0.5"
            )
        if self.tag is not None and (not _matches(TAG, self.tag) or self.tag in RESERVED):
            raise BadInput(
                f"the tag of {shown} is {self.tag!r:.60}: expected a letter, then letters, digits, "
                "hyphens and underscores, at most 40, and not pad, s or unk"
            )
        if self.name is not None and not _matches(rf"[\w.-]{{1,{MAX_NAME}}}", self.name):
            raise BadInput(
                f"the name of {shown} is {self.name!r:.60}: expected letters, digits, dots, "
                f"hyphens and underscores, at most {MAX_NAME}"
            )
        if isinstance(self.languages, str):
            pair = guess_languages("", None, self.languages)  # refuses anything but two codes
            object.__setattr__(self, "languages", pair)
        object.__setattr__(self, "weight", float(weight))

    @property
    def files(self) -> Files:
        """The files of both sides, or one TSV."""
        return self.source, self.target

    @property
    def pair(self) -> Pair | None:
        """The codes in `languages`."""
        assert not isinstance(self.languages, str)
        return self.languages

    def in_languages(self, pair: Pair) -> "CorpusText":
        """Return the same text with these languages."""
        return dataclasses.replace(self, languages=pair)

    def reversed(self) -> "CorpusText":
        """Return the same text in the other direction, to follow this one."""
        pair = self.pair
        name = f"{self.name}-reversed"[-MAX_NAME:] if self.name else None
        languages = (pair[1], pair[0]) if pair else None
        return dataclasses.replace(self, languages=languages, name=name, reverse=True)

    @classmethod
    def parse(cls, text: str) -> "CorpusText":
        """Parse FILE[,FILE][:en-de][=WEIGHT][@TAG]; names of existing files are these files."""
        rest, weight, tag, languages = text, 1.0, None, None
        if not _names_files(text) and (tagged := re.fullmatch(f"(.+)@({TAG})", text, re.DOTALL)):
            rest, tag = tagged[1], tagged[2]
        if not _names_files(rest):
            whole = rest
            rest, equals, number = whole.rpartition("=")
            try:
                weight = float(number) if equals else 1.0
            except ValueError:
                weight = math.nan
            if not equals or (math.isnan(weight) and not path_exists(rest.split(",")[0])):
                rest, weight = whole, 1.0  # the sign belongs to the name of a file
            elif math.isnan(weight):
                raise BadInput(
                    f"--corpus {text}: the weight is {number!r:.60}: expected a number above 0"
                )
        if not _names_files(rest) and (stated := re.fullmatch(f"(.+):({LANGUAGES})", rest)):
            rest, languages = stated[1], stated[2]
        files = [rest] if path_exists(rest) else rest.split(",")
        if len(files) > 2 or not all(files):
            raise BadInput(
                f"--corpus {text}: expected {FORM}: one TSV, or the source and the target with a "
                "comma between them"
            )
        target = files[1] if len(files) == 2 else None
        return cls(files[0], target, weight, tag, languages=languages)


def with_names(corpora: Iterable[CorpusText]) -> list[CorpusText]:
    """Name the corpora that have no name; refuse a name that is given twice."""
    corpora = list(corpora)
    taken: set[str] = set()
    for corpus in corpora:
        if corpus.name in taken:
            raise BadInput(f"two corpora have the name {corpus.name}: give each its own")
        taken |= {corpus.name} if corpus.name else set()
    return [corpus if corpus.name else _with_name(corpus, taken) for corpus in corpora]


def _with_name(corpus: CorpusText, taken: set[str]) -> CorpusText:
    """Name a corpus after its files; add a number to a name that is taken."""
    name = unused_name(_stem(corpus), taken)
    taken.add(name)
    return dataclasses.replace(corpus, name=name)


def unused_name(text: str, taken: Collection[str]) -> str:
    """Return a valid name like `text` that is not taken; if needed, it ends with a number."""
    name = re.sub(r"[^\w.-]+", "-", text)[:MAX_NAME]
    numbered = (f"{name[: MAX_NAME - 8]}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([name], numbered) if name not in taken)


def _names_files(text: str) -> bool:
    """Return whether a text is the name of a file, or two names with a comma between them."""
    files = text.split(",")
    return path_exists(text) or (len(files) == 2 and all(map(_is_file_name, files)))


def _is_file_name(text: str) -> bool:
    return bool(text) and path_exists(text)  # Path("") is the current folder


def _matches(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _stem(corpus: CorpusText) -> str:
    """Return the part that the names of both files begin with, without endings."""
    if str(corpus.source) == STDIN:
        return "stdin"
    names = [PurePath(path).name for path in corpus.files if path is not None]
    common = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    stem = PurePath("".join(letters[0] for letters in common) or names[0])
    while stem.suffix.removeprefix(".").lower() in STORAGE_SUFFIXES:
        stem = stem.with_suffix("")
    return re.sub(r"[^\w.-]+", "-", stem.name).strip(".-_")[:50] or "corpus"
