"""The data sets that are known by name: what they are made of, where it lies, and its hashes.

`catalogue.toml` holds them, and says what each line of it means.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from transduce.datasets.pocket import Part

PARTS: tuple[Part, ...] = ("train", "valid", "test")
POCKET = "pocket"
UNKNOWN = "none stated"


@dataclass(frozen=True, slots=True)
class Archive:
    """A file to download: where it lies, and how to know that it is the right one."""

    file: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None

    @property
    def hash(self) -> tuple[str, str] | None:
        """The name of the hash that is known, and its value."""
        if self.sha256:
            return "sha256", self.sha256
        return ("md5", self.md5) if self.md5 else None


@dataclass(frozen=True, slots=True)
class Place:
    """One language's half of a text: an archive, and a member of it or a pattern for its name."""

    archive: str
    member: str = ""  # of a file that is no archive, the file itself
    column: int | None = None  # of a table with tabs


@dataclass(frozen=True, slots=True)
class Source:
    """A text in two languages, line by line."""

    places: tuple[Place, Place]
    format: str  # as catalogue.toml explains
    keep: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Which pairs of a training text are left out, and how many are held out from it."""

    ratio: float
    longest: int
    held_out: int


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set: its archives, and the texts that make up each of its parts."""

    name: str
    title: str
    languages: tuple[str, str]
    licence: str = UNKNOWN
    terms: str = ""
    about: str = ""
    pairs: int | None = None
    space: int | None = None
    archives: Mapping[str, Archive] = field(default_factory=dict)
    parts: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    clean: Cleaning | None = None
    known: Mapping[str, int] = field(default_factory=dict)

    @property
    def made(self) -> tuple[Part, ...]:
        """The parts that it has in the end; what is made here has all."""
        if not self.parts:
            return PARTS
        held = {"valid"} if self.clean else set()
        return tuple(part for part in PARTS if part in self.parts or part in held)

    @property
    def download(self) -> int | None:
        """How many bytes there are to download, as far as that is known."""
        return sum(one.size or 0 for one in self.archives.values()) or None

    def needed(self, parts: tuple[str, ...]) -> dict[str, Archive]:
        """Return the archives that some parts are made of."""
        from_train = {"train"} if self.clean and "valid" in parts else set()
        wanted = {
            place.archive
            for part in {*parts, *from_train}
            for source in self.parts.get(part, ())
            for place in source.places
        }
        return {file: one for file, one in self.archives.items() if file in wanted}


def names() -> list[str]:
    """Return the names of the catalogue, the corpus that comes along first."""
    return [POCKET, *_tables()["sets"]]


def named(name: str) -> DataSet:
    """Return a data set of the catalogue."""
    if name == POCKET:
        return DataSet(
            name=POCKET,
            title="The corpus that comes along: a small grammar of English and German",
            languages=("en", "de"),
            licence="MIT",
            terms="as transduce itself",
            about="nothing to download: the sentences are made here, always the same",
            pairs=20_000,
            space=2_000_000,
        )
    table = _tables()["sets"][name]
    languages = (table["languages"][0], table["languages"][1])
    archives: dict[str, Archive] = {}
    parts: dict[str, tuple[Source, ...]] = {
        part: tuple(_source(entry, languages, archives) for entry in table[part])
        for part in PARTS
        if part in table
    }
    return DataSet(
        name=name,
        title=table["title"],
        languages=languages,
        licence=table["licence"],
        terms=table.get("terms", ""),
        about=table["about"],
        pairs=table["pairs"],
        space=table["space"],
        archives=archives,
        parts=parts,
        clean=Cleaning(**table["clean"]) if "clean" in table else None,
        known=table.get("known", {}),
    )


def _source(
    entry: dict[str, Any], languages: tuple[str, str], archives: dict[str, Archive]
) -> Source:
    """Read one text of a part, and add its archives to those of the set."""
    if "sacrebleu" in entry:
        from transduce.datasets.elsewhere import of_sacrebleu

        test = of_sacrebleu(entry["sacrebleu"], "-".join(languages))
        archives.update(test.archives)
        return test.parts["test"][0]
    first, second = (Place(*entry[language]) for language in languages)
    for place in (first, second):
        archives[place.archive] = _archive(place.archive)
    return Source((first, second), entry["format"], frozenset(entry.get("keep", ())))


def _archive(file: str) -> Archive:
    entry = _tables()["archives"][file]
    return Archive(
        file=file,
        urls=tuple(entry["urls"]),
        size=entry.get("size"),
        sha256=entry.get("sha256"),
        md5=entry.get("md5"),
    )


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
