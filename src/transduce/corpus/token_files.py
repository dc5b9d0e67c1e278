"""The corpus: pairs of sentences as memory-mapped token files, with a manifest of what is in them.

A sentence is stored as its subwords and `</s>`.

    corpus/
      manifest.json            counts, settings, the inputs' and the files' hashes
      subwords.json
      train.source.tokens      uint16, or uint32 where the vocabulary needs it, little-endian
      train.source.offsets     int64, one more than there are sentences, little-endian
      train.target.…, valid.source.…, valid.target.…

`preparation` makes it.
"""

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from transduce.errors import BadRun
from transduce.settings.types import dataclass_from_json
from transduce.subwords import EOS, Codec
from transduce.system.files import read_checksummed, sha256
from transduce.system.formatting import pluralize

FORMAT = 1
MANIFEST, SUBWORDS = "manifest.json", "subwords.json"
SPLITS, SIDES = ("train", "valid"), ("source", "target")
TOKEN_TYPES = ("<u2", "<u4")  # as numpy writes them
TOKEN_FILES = [
    f"{part}.{side}.{what}"
    for part, side, what in itertools.product(SPLITS, SIDES, ("tokens", "offsets"))
]

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Side:
    """The sentences of one language of a part: one flat run of tokens, and where each begins."""

    tokens: Tokens
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Tokens:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def take(self, indices: Ints) -> tuple[Tokens, Ints]:
        """Return the tokens of some sentences end to end, and how many each has."""
        lengths = self.lengths_of(indices)
        shift = self.offsets[indices] - (lengths.cumsum() - lengths)
        return self.tokens[np.repeat(shift, lengths) + np.arange(lengths.sum())], lengths

    def lengths_of(self, indices: Ints) -> Ints:
        """Return the number of tokens of some sentences, `</s>` included."""
        return self.offsets[indices + 1] - self.offsets[indices]

    @property
    def lengths(self) -> Ints:
        """The number of each sentence's tokens, `</s>` included."""
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class Split:
    """The pairs to train on, or those to validate on."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source)

    def pair(self, index: int) -> tuple[Tokens, Tokens]:
        """Return the tokens of a sentence and of its translation."""
        return self.source[index], self.target[index]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What became of the pairs of one part: `read` is `pairs` and all that were dropped."""

    read: int
    pairs: int
    source_tokens: int  # `</s>` included, here and below
    target_tokens: int
    source_longest: int
    target_longest: int
    dropped: dict[str, int]  # how many, by reason

    def __str__(self) -> str:
        lost = sum(self.dropped.values())
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.dropped.items() if n)
        return (
            f"{pluralize(self.pairs, 'pair')}, {self.source_tokens:,} and "
            f"{self.target_tokens:,} tokens; "
            + (f"dropped {pluralize(lost, 'pair')}: {reasons}" if lost else "none dropped")
        )


@dataclass(frozen=True, kw_only=True)
class InputRecord:
    """A text that the corpus was made of, as it was then."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a corpus holds and what it was made of."""

    languages: tuple[str, str]
    vocabulary: tuple[int, int]  # of the source and of the target
    token_type: str  # numpy's name for it
    train: Counts
    valid: Counts
    settings: dict[str, Any]  # those that change what is stored
    inputs: list[InputRecord]
    files: dict[str, dict[str, Any]]  # name: its size and sha256
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as a JSON object."""
        return {"format": FORMAT, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Make the manifest of what `to_json` returned."""
        fields = {name: field for name, field in value.items() if name != "format"}
        for name, kind in (("languages", str), ("vocabulary", int)):
            source, target = fields[name]
            fields[name] = _checked(source, kind), _checked(target, kind)
        for name in SPLITS:
            counts = dict(fields[name])
            for count in (*counts.pop("dropped").values(), *counts.values()):
                _checked(count, int)
            fields[name] = Counts(**fields[name])
        fields["inputs"] = [dataclass_from_json(InputRecord, one) for one in fields["inputs"]]
        for name in (SUBWORDS, *TOKEN_FILES):
            _checked(fields["files"][name]["size"], int)
            _checked(fields["files"][name]["sha256"], str)
        if fields["token_type"] not in TOKEN_TYPES:
            raise ValueError(f"token_type = {fields['token_type']!r:.60}")
        _checked(fields["settings"], dict)
        _checked(fields["versions"], dict)
        return cls(**fields)


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus, open for reading."""

    train: Split
    valid: Split
    codec: Codec
    manifest: Manifest

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of the source's and the target's language."""
        return self.manifest.languages


def open_corpus(folder: Path) -> Corpus:
    """Open a prepared corpus, after checking that every file is as it was written."""
    if not (folder / MANIFEST).exists():
        raise BadRun(f"{folder} holds no corpus: expected a folder with a {MANIFEST}")
    try:
        return _opened(folder)
    except BadRun as error:
        raise BadRun(f"{error}; delete {folder} to prepare it anew") from None


def _opened(folder: Path) -> Corpus:
    content = read_checksummed(folder / MANIFEST, FORMAT, "corpora")
    try:
        manifest = Manifest.from_json(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadRun(f"{folder / MANIFEST} is damaged: {error!r}") from None
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
            raise BadRun(f"{path} is damaged: its content does not agree with the manifest")
    codec = Codec.load(folder / SUBWORDS)
    if manifest.vocabulary != (len(codec.source), len(codec.target)):
        raise BadRun(f"{folder / SUBWORDS} has other subwords than the manifest says")
    train = _part(folder / "train", manifest, manifest.train.pairs)
    valid = _part(folder / "valid", manifest, manifest.valid.pairs)
    return Corpus(train, valid, codec, manifest)


def _checked(value: Any, kind: type[Any]) -> Any:
    """Return a value of a manifest that is of this type; no number there is below 0."""
    if type(value) is not kind or (kind is int and value < 0):
        raise TypeError(f"{value!r:.60} where {kind.__name__} is expected")
    return value


def _part(stem: Path, manifest: Manifest, pairs: int) -> Split:
    source, target = (
        _side(stem.with_name(f"{stem.name}.{side}"), manifest.token_type, vocabulary)
        for side, vocabulary in zip(SIDES, manifest.vocabulary, strict=True)
    )
    if not len(source) == len(target) == pairs:
        raise BadRun(f"{stem}.*.offsets are damaged: they do not all have {pairs:,} sentences")
    return Split(source, target)


def _side(stem: Path, token_type: str, vocabulary: int) -> Side:
    """Map one side into memory; no sentence may reach outside of what there is."""
    names = [stem.with_name(f"{stem.name}.{what}") for what in ("tokens", "offsets")]
    # As plain arrays: every slice of numpy's memmap class costs a microsecond more.
    try:
        tokens = np.asarray(np.memmap(names[0], token_type, mode="r"))
        offsets = np.asarray(np.memmap(names[1], "<i8", mode="r"))
    except ValueError as error:
        raise BadRun(f"{stem}.* is damaged: its tokens or offsets are none ({error})") from None
    ends = offsets[1:]
    ascend = np.all(offsets[:-1] < ends)  # a difference of hostile ones would wrap around
    if not len(ends) or offsets[0] != 0 or ends[-1] != len(tokens) or not ascend:
        raise BadRun(f"{names[1]} is damaged: its offsets do not ascend from 0 to the end")
    blocks = [tokens[begin : begin + (1 << 24)] for begin in range(0, len(tokens), 1 << 24)]
    if max(int(block.max()) for block in blocks) >= vocabulary:
        raise BadRun(f"{names[0]} is damaged: it holds ids beyond the {vocabulary:,} subwords")
    ended = sum(np.count_nonzero(block == EOS) for block in blocks)
    if ended != len(ends) or np.any(tokens[ends - 1] != EOS):
        raise BadRun(f"{names[0]} is damaged: not every sentence ends with </s>, once")
    return Side(tokens, offsets)
