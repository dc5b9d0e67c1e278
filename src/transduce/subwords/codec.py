"""The codec: the subwords of source and target, in one file."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transduce.errors import BadRun
from transduce.subwords.base import AnyKind, Coder
from transduce.subwords.learned import Subwords
from transduce.subwords.sentencepiece import SentencePiece
from transduce.subwords.symbols import Symbols
from transduce.system.files import checksum, read_checksummed, write_checksummed

FORMAT = 1
# The types of the fields of subwords.json.
FIELDS = {
    "kind": str,
    "source": dict[str, Any],
    "target_kind": str | None,
    "target": dict[str, Any] | None,
}


@dataclass(frozen=True)
class Codec:
    """The subwords of source and target; one shared object if both use the same subwords."""

    source: Coder
    target: Coder

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary (paper 5.1)."""
        return self.source.same_vocabulary(self.target)

    @property
    def kind(self) -> AnyKind:
        """The kind of the source's subwords."""
        kind = self.source.kind
        assert kind != "symbols"  # only targets have symbols
        return kind

    @property
    def languages(self) -> tuple[str, ...]:
        """The target languages that have a tag; none in models of one target language."""
        return self.source.languages

    def with_tags(self, tags: Sequence[str]) -> "Codec":
        """Return the same subwords, with tags in the source vocabulary."""
        if not tags:
            return self
        assert isinstance(self.source, Subwords)  # learned from text
        source = self.source.with_tags(tags)
        return Codec(source, source if self.joint else self.target)

    def with_markers(self, *, spans: bool, terms: bool) -> "Codec":
        """Return the same subwords, with sentinels on both sides or term markers for the source."""
        if not (spans or terms):
            return self
        assert isinstance(self.source, Subwords)  # learned from text
        source = self.source.with_markers(spans=spans, terms=terms)
        if self.joint or not spans:
            return Codec(source, source if self.joint else self.target)
        assert isinstance(self.target, Subwords)
        return Codec(source, self.target.with_markers(spans=True, terms=False))

    @functools.cached_property
    def sha256(self) -> str:
        """The hash of the content."""
        return checksum(self._content())

    def save(self, path: Path) -> None:
        """Write the codec to a file."""
        write_checksummed(path, self._content())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a codec from a file; raise BadRun if it is damaged or not a codec."""
        content = read_checksummed(path, FORMAT, "subwords", FIELDS)
        kind = content["kind"]
        try:
            source = _read(kind, content["source"])
            if content.get("target") is None:
                return cls(source, source)
            return cls(source, _read(content.get("target_kind") or kind, content["target"]))
        except Exception as error:  # `tokenizers` raises bare Exceptions, with multi-line messages
            reason = str(error).partition("\n")[0]
            raise BadRun(f"{path} is not a file of subwords: {reason}") from None

    def _content(self) -> dict[str, Any]:
        content = {"format": FORMAT, "kind": self.kind, "source": self.source.to_json()}
        if self.source is self.target:
            return content
        other = {} if self.target.kind == self.kind else {"target_kind": self.target.kind}
        return {**content, **other, "target": self.target.to_json()}


def _read(kind: Any, value: dict[str, Any]) -> Coder:
    if kind == Symbols.kind:
        return Symbols.from_json(value)
    return (SentencePiece if kind == SentencePiece.kind else Subwords).from_json(value)
