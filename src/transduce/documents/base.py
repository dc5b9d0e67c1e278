"""The interface of all document formats."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from transduce.markup import Inline


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentOptions:
    """How to read and write documents."""

    languages: tuple[str, str]  # of the model: source, target
    overwrite: bool = False  # replace targets that are translated or approved
    columns: tuple[str, ...] = ()  # of CSV: names, or numbers from 1; the texts to translate
    keys: tuple[str, ...] = ()  # of JSON: translate the values of these keys; none: all texts
    width: int = 42  # of a line of subtitles, in characters
    max_markup: int | None = None  # bytes of XML with text in a Word document, unpacked


@dataclass(slots=True)
class Unit:
    """A text of a document that is translated on its own, such as a paragraph."""

    source: Inline
    where: str = ""  # for messages: "paragraph 12"
    target: Inline | None = None  # its translation


@dataclass(slots=True)
class Document(ABC):
    """A document that was read. Set the target of each unit, then write it."""

    units: list[Unit] = field(default_factory=list)
    # What is not translated, in words for people: "2 tracked deletions". Shown once, as a note.
    left_alone: list[str] = field(default_factory=list)

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the content of the translated file; units without a target stay as they were."""


def list_left_alone(counts: Mapping[str, int]) -> list[str]:
    """Return the notes about what is not translated: "2 fields" of {"field(s)": 2}."""
    return [
        f"{count:,} {what.replace('(s)', '' if count == 1 else 's')}"
        for what, count in counts.items()
        if count > 0
    ]
