"""The files of a corpus: pairs of sentences as memory-mapped tokens, and a manifest.

A sentence is stored as its subwords followed by `</s>`.

    corpus/
      manifest.json            counts, settings, hashes of inputs and files
      subwords.json
      train.source.tokens      uint16, or uint32 for large vocabularies, little-endian
      train.source.offsets     int64, one more than the number of sentences, little-endian
      train.target.…, valid.source.…, valid.target.…

`preparation` writes them.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from transduce.errors import BadRun
from transduce.settings.types import check_fields, dataclass_from_json
from transduce.subwords import Codec
from transduce.system.files import read_checksummed, sha256
from transduce.system.formatting import pluralize
from transduce.text.languages import Pair

FORMAT = 1
MANIFEST, SUBWORDS = "manifest.json", "subwords.json"
SPLITS, SIDES = ("train", "valid"), ("source", "target")
TOKEN_FILES = [
    f"{split}.{side}.{content}"
    for split, side, content in itertools.product(SPLITS, SIDES, ("tokens", "offsets"))
]

TokenType = Literal["<u2", "<u4"]  # numpy's names for little-endian uint16 and uint32
Tokens = npt.NDArray[np.unsignedinteger[Any]]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a split: the tokens of all sentences in one array, and their offsets."""

    tokens: Tokens
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Tokens:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def take(self, indices: Ints) -> tuple[Tokens, Ints]:
        """Return the concatenated tokens of the given sentences, and their lengths."""
        lengths = self.lengths_of(indices)
        shift = self.offsets[indices] - (lengths.cumsum() - lengths)
        return self.tokens[np.repeat(shift, lengths) + np.arange(lengths.sum())], lengths

    def part(self, begin: int, end: int) -> "Side":
        """Return the sentences `begin` to `end`."""
        return Side(self.tokens, self.offsets[begin : end + 1])

    def lengths_of(self, indices: Ints) -> Ints:
        """Return the lengths of the given sentences in tokens, `</s>` included."""
        return self.offsets[indices + 1] - self.offsets[indices]

    @property
    def lengths(self) -> Ints:
        """The lengths of all sentences in tokens, `</s>` included."""
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class Split:
    """The training pairs or the validation pairs."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source)

    def pair(self, index: int) -> tuple[Tokens, Tokens]:
        """Return the tokens of a sentence and its translation."""
        return self.source[index], self.target[index]

    def part(self, begin: int, end: int) -> "Split":
        """Return the pairs `begin` to `end`."""
        return Split(self.source.part(begin, end), self.target.part(begin, end))


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts for one split; `read` is `pairs` plus all dropped pairs."""

    read: int
    pairs: int
    source_tokens: int  # `</s>` included, here and below
    target_tokens: int
    source_longest: int
    target_longest: int
    dropped: dict[str, int]  # by reason

    def __str__(self) -> str:
        dropped = sum(self.dropped.values())
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.dropped.items() if n)
        return (
            f"{pluralize(self.pairs, 'pair')}, {self.source_tokens:,} and "
            f"{self.target_tokens:,} tokens; "
            + (f"dropped {pluralize(dropped, 'pair')}: {reasons}" if dropped else "none dropped")
        )

    @classmethod
    def total(cls, counts: Sequence["Counts"]) -> "Counts":
        """Return the counts of several corpora together."""
        return cls(
            read=sum(part.read for part in counts),
            pairs=sum(part.pairs for part in counts),
            source_tokens=sum(part.source_tokens for part in counts),
            target_tokens=sum(part.target_tokens for part in counts),
            source_longest=max(part.source_longest for part in counts),
            target_longest=max(part.target_longest for part in counts),
            dropped={
                reason: sum(part.dropped[reason] for part in counts) for reason in counts[0].dropped
            },
        )


@dataclass(frozen=True, kw_only=True)
class CorpusCounts:
    """One of several corpora; they follow one another in the token files."""

    name: str
    tag: str | None = None
    languages: Pair | None = None  # None in old manifests: those of the manifest
    train: Counts
    valid: Counts | None = None  # None: the validation set is a text of its own

    @classmethod
    def from_json(cls, value: Any) -> "CorpusCounts":
        """Create the counts from a JSON object; raise a TypeError if a field is wrong."""
        counts = dataclass_from_json(cls, value)
        return dataclasses.replace(
            counts,
            languages=(counts.languages[0], counts.languages[1]) if counts.languages else None,
            train=dataclass_from_json(Counts, counts.train),
            valid=dataclass_from_json(Counts, counts.valid) if counts.valid else None,
        )


@dataclass(frozen=True, kw_only=True)
class InputRecord:
    """A text file that the corpus was made from."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contents of a corpus and how it was made."""

    languages: Pair  # of the first corpus
    vocabulary: tuple[int, int]  # source and target size
    token_type: TokenType
    train: Counts
    valid: Counts
    settings: dict[str, Any]  # only the settings that affect the content
    inputs: list[InputRecord]
    files: dict[str, dict[str, Any]]  # size and sha256, by name
    versions: dict[str, str]
    corpora: list[CorpusCounts] = dataclasses.field(default_factory=list)  # [] in old manifests

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as a JSON object."""
        return {"format": FORMAT, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Create the manifest from a JSON object; raise a TypeError if a field is wrong."""
        fields = {name: field for name, field in value.items() if name != "format"}
        manifest = dataclass_from_json(cls, fields)
        for name in (SUBWORDS, *TOKEN_FILES):
            check_fields(manifest.files.get(name, {}), {"size": int, "sha256": str})
        return dataclasses.replace(
            manifest,
            languages=(manifest.languages[0], manifest.languages[1]),
            vocabulary=(manifest.vocabulary[0], manifest.vocabulary[1]),
            train=dataclass_from_json(Counts, manifest.train),
            valid=dataclass_from_json(Counts, manifest.valid),
            inputs=[dataclass_from_json(InputRecord, record) for record in manifest.inputs],
            corpora=[CorpusCounts.from_json(counts) for counts in manifest.corpora],
        )


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus, open for reading."""

    train: Split
    valid: Split
    codec: Codec
    manifest: Manifest

    @property
    def languages(self) -> Pair:
        """The language codes of source and target, of the first corpus."""
        return self.manifest.languages

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of languages of the corpora, if there are several."""
        pairs = dict.fromkeys(c.languages or self.languages for c in self.manifest.corpora)
        return tuple(pairs) if len(pairs) > 1 else ()

    @property
    def pair_of(self) -> dict[str, Pair]:
        """The languages of each corpus, by its name, if there are several pairs."""
        if not self.pairs:
            return {}
        return {c.name: c.languages or self.languages for c in self.manifest.corpora}

    @property
    def valid_parts(self) -> dict[str, Split]:
        """The validation pairs of each of several corpora; empty if there are no such parts."""
        parts, begin = {}, 0
        for corpus in self.manifest.corpora:
            if corpus.valid is None or len(self.manifest.corpora) == 1:
                return {}
            parts[corpus.name] = self.valid.part(begin, begin + corpus.valid.pairs)
            begin += corpus.valid.pairs
        return parts


def open_corpus(folder: Path) -> Corpus:
    """Open a corpus, after checking the hash of every file."""
    if not (folder / MANIFEST).exists():
        raise BadRun(f"{folder} is not a corpus: expected a folder with a {MANIFEST}")
    try:
        return _open(folder)
    except BadRun as error:
        raise BadRun(f"{error}; delete {folder} to prepare it again") from None


def _open(folder: Path) -> Corpus:
    content = read_checksummed(folder / MANIFEST, FORMAT, "corpora")
    try:
        manifest = Manifest.from_json(content)
    except TypeError as error:
        raise BadRun(f"{folder / MANIFEST} is damaged: {error}") from None
    for name in (SUBWORDS, *TOKEN_FILES):
        path, expected = folder / name, manifest.files[name]
        if not path.is_file():
            raise BadRun(f"{path} is missing")
        if path.stat().st_size != expected["size"]:
            raise BadRun(
                f"{path} is damaged: it has {path.stat().st_size:,} bytes, "
                f"expected {expected['size']:,}"
            )
        if sha256(path) != expected["sha256"]:
            raise BadRun(f"{path} is damaged: its content does not match the manifest")
    codec = Codec.load(folder / SUBWORDS)
    if manifest.vocabulary != (len(codec.source), len(codec.target)):
        raise BadRun(f"{folder / SUBWORDS} has other subwords than the manifest says")
    train = _open_split(folder / "train", manifest.token_type, manifest.train.pairs)
    valid = _open_split(folder / "valid", manifest.token_type, manifest.valid.pairs)
    for total, parts in (
        (manifest.train.pairs, [corpus.train for corpus in manifest.corpora]),
        (manifest.valid.pairs, [corpus.valid for corpus in manifest.corpora if corpus.valid]),
    ):
        if parts and sum(part.pairs for part in parts) != total:
            raise BadRun(f"{folder / MANIFEST} is damaged: its corpora do not have {total:,} pairs")
    return Corpus(train, valid, codec, manifest)


def _open_split(stem: Path, token_type: TokenType, pairs: int) -> Split:
    source, target = (_open_side(f"{stem}.{side}", token_type) for side in SIDES)
    if not len(source) == len(target) == pairs:
        raise BadRun(f"{stem}.*.offsets are damaged: they do not all have {pairs:,} sentences")
    return Split(source, target)


def _open_side(stem: str, token_type: TokenType) -> Side:
    """Map the files of one side into memory."""
    # Plain arrays, because slicing an np.memmap takes a microsecond longer.
    try:
        tokens = np.asarray(np.memmap(f"{stem}.tokens", token_type, mode="r"))
        offsets = np.asarray(np.memmap(f"{stem}.offsets", "<i8", mode="r"))
    except ValueError as error:
        raise BadRun(f"{stem}.* is damaged: not a whole number of items ({error})") from None
    ends = offsets[1:]
    increasing = np.all(offsets[:-1] < ends)  # differences could overflow
    if not len(ends) or offsets[0] != 0 or ends[-1] != len(tokens) or not increasing:
        raise BadRun(f"{stem}.offsets is damaged: offsets do not increase from 0 to the end")
    return Side(tokens, offsets)
