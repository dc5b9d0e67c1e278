"""The catalogue of data sets: their archives, addresses, hashes and splits.

`catalogue.toml` contains the data and explains its fields.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from transduce.datasets.pocket.splits import SPLITS, SplitName

__all__ = ["POCKET", "SPLITS", "Archive", "Cleaning", "DataSet", "Location", "Source", "SplitName"]

POCKET = "pocket"
UNKNOWN = "none stated"


@dataclass(frozen=True, slots=True)
class Archive:
    """A file to download: its addresses, size and hash."""

    file: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None

    @property
    def hash(self) -> tuple[str, str] | None:
        """The algorithm and value of the known hash."""
        if self.sha256:
            return "sha256", self.sha256
        return ("md5", self.md5) if self.md5 else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "file": self.file,
            "urls": list(self.urls),
            "bytes": self.size,
            "sha256": self.sha256,
            "md5": self.md5,
        }


@dataclass(frozen=True, slots=True)
class Location:
    """Where one side of a text is: an archive, and the name or pattern of a member."""

    archive: str
    member: str = ""  # empty if the file is not an archive
    column: int | None = None  # in a TSV file


@dataclass(frozen=True, slots=True)
class Source:
    """A parallel text."""

    locations: tuple[Location, Location]
    format: str  # see catalogue.toml
    keep: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Which training pairs are left out, and how many are held out for validation."""

    ratio: float
    longest: int
    held_out: int


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set: its archives, and the texts of each split."""

    name: str
    title: str
    languages: tuple[str, str]
    licence: str = UNKNOWN
    terms: str = ""
    about: str = ""
    pairs: int | None = None
    space: int | None = None
    archives: Mapping[str, Archive] = field(default_factory=dict)
    sources: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)  # by split
    clean: Cleaning | None = None
    published_pairs: Mapping[str, int] = field(default_factory=dict)  # by split

    @property
    def splits(self) -> tuple[SplitName, ...]:
        """The splits that are written; the built-in corpus has all three."""
        if not self.sources:
            return SPLITS
        held_out = {"valid"} if self.clean else set()
        return tuple(split for split in SPLITS if split in self.sources or split in held_out)

    @property
    def download(self) -> int | None:
        """The known number of bytes to download."""
        return sum(archive.size or 0 for archive in self.archives.values()) or None

    def to_json(self) -> dict[str, Any]:
        """Return a description as a JSON object."""
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "languages": list(self.languages),
            "pairs": self.pairs,
            "licence": self.licence,
            "terms": self.terms,
            "download_bytes": self.download,
            "text_bytes": self.space,
            "parts": list(self.splits),
            "archives": [archive.to_json() for archive in self.archives.values()],
        }

    def archives_of(self, splits: tuple[str, ...]) -> dict[str, Archive]:
        """Return the archives that some splits are made from."""
        from_train = {"train"} if self.clean and "valid" in splits else set()
        files = {
            location.archive
            for split in {*splits, *from_train}
            for source in self.sources.get(split, ())
            for location in source.locations
        }
        return {file: archive for file, archive in self.archives.items() if file in files}


def names() -> list[str]:
    """Return the names in the catalogue, the built-in corpus first."""
    return [POCKET, *_tables()["sets"]]


def find(name: str) -> DataSet:
    """Return a data set from the catalogue."""
    if name == POCKET:
        return DataSet(
            name=POCKET,
            title="The built-in corpus: sentences of a small grammar of English and German",
            languages=("en", "de"),
            licence="MIT",
            terms="as transduce itself",
            about="nothing to download: the sentences are generated, always the same",
            pairs=20_000,
            space=2_000_000,
        )
    table = _tables()["sets"][name]
    languages = (table["languages"][0], table["languages"][1])
    archives: dict[str, Archive] = {}
    sources: dict[str, tuple[Source, ...]] = {
        split: tuple(_source(entry, languages, archives) for entry in table[split])
        for split in SPLITS
        if split in table
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
        sources=sources,
        clean=Cleaning(**table["clean"]) if "clean" in table else None,
        published_pairs=table.get("known", {}),
    )


def _source(
    entry: dict[str, Any], languages: tuple[str, str], archives: dict[str, Archive]
) -> Source:
    """Read one text of a split, and add its archives to `archives`."""
    if "sacrebleu" in entry:
        from transduce.datasets.libraries import from_sacrebleu

        test_set = from_sacrebleu(entry["sacrebleu"], "-".join(languages))
        archives.update(test_set.archives)
        return test_set.sources["test"][0]
    first, second = (Location(*entry[language]) for language in languages)
    for location in (first, second):
        fields = _tables()["archives"][location.archive]
        urls = tuple(fields["urls"])
        archives[location.archive] = Archive(location.archive, **{**fields, "urls": urls})
    return Source((first, second), entry["format"], frozenset(entry.get("keep", ())))


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
