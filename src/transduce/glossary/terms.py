"""Entries of a glossary, and where they occur."""

from dataclasses import dataclass
from typing import Literal

Where = Literal["anywhere", "start", "inside", "whole"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A term and its translation."""

    source: str
    target: str
    case: bool = False  # match case exactly
    where: Where = "anywhere"  # in the sentence


@dataclass(frozen=True, slots=True)
class Match:
    """An occurrence of a term in a source."""

    entry: Entry
    start: int
    end: int
