"""A parallel text to train on, with its weight among others and its tag."""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from transduce.errors import BadInput
from transduce.text.languages import STORAGE_SUFFIXES
from transduce.text.reading import STDIN, path_exists

MAX_WEIGHT = 1_000
FORM = "FILE[,FILE][=WEIGHT][@TAG]"
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
    """

    source: str | Path
    target: str | Path | None = None
    weight: float = 1.0
    tag: str | None = None
    valid: Files | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse a weight, tag or name that cannot be used."""
        weight, shown = self.weight, str(self.source)
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 < weight <= MAX_WEIGHT:
            raise BadInput(
                f"the weight of {shown} is {weight!r:.60}: expected a number above 0, at most "
                f"{MAX_WEIGHT:,}, such as 0.5"
            )
        if self.tag is not None and (not re.fullmatch(TAG, self.tag) or self.tag in RESERVED):
            raise BadInput(
                f"the tag of {shown} is {self.tag!r:.60}: expected a letter, then letters, digits, "
                "hyphens and underscores, at most 40, and not pad, s or unk"
            )
        if self.name is not None and not re.fullmatch(r"[\w.-]{1,60}", self.name):
            raise BadInput(
                f"the name of {shown} is {self.name!r:.60}: expected letters, digits, dots, "
                "hyphens and underscores, at most 60"
            )

    @property
    def files(self) -> Files:
        """The files of both sides, or one TSV."""
        return self.source, self.target

    @classmethod
    def parse(cls, text: str) -> "CorpusText":
        """Parse FILE[,FILE][=WEIGHT][@TAG]; a text that is the name of a file is that file."""
        rest, weight, tag = text, 1.0, None
        if not path_exists(text) and (tagged := re.fullmatch(f"(.+)@({TAG})", text, re.DOTALL)):
            rest, tag = tagged[1], tagged[2]
        if not path_exists(rest):
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
        files = [rest] if path_exists(rest) else rest.split(",")
        if len(files) > 2 or not all(files):
            raise BadInput(
                f"--corpus {text}: expected {FORM}: one TSV, or the source and the target with a "
                "comma between them"
            )
        return cls(files[0], files[1] if len(files) == 2 else None, weight, tag)


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
    stem = _stem(corpus)
    numbered = (f"{stem}-{number}" for number in itertools.count(2))
    name = next(name for name in itertools.chain([stem], numbered) if name not in taken)
    taken.add(name)
    return dataclasses.replace(corpus, name=name)


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
