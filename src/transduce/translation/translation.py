"""What comes of a text: its translations, best first."""

from dataclasses import dataclass
from typing import Any, SupportsIndex, overload

from transduce.translation.alignment import Links
from transduce.translation.notebook import table


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation of a text."""

    text: str
    score: float  # the log-probability over the length penalty; higher is better
    log_probability: float  # natural logarithm, of the whole output with its end
    tokens: tuple[str, ...]  # the subwords, as people read them
    alignment: Links | None = None  # which words translate which; None where nobody asked

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold; the alignment only where it was asked for."""
        value: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "log_probability": self.log_probability,
            "tokens": list(self.tokens),
        }
        if self.alignment is not None:
            value["alignment"] = [list(link) for link in self.alignment]
        return value


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence of a text."""

    gap: str  # what stands before its translation
    source: str
    candidates: tuple[Candidate, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        candidates = [one.to_json() for one in self.candidates]
        return {"gap": self.gap, "source": self.source, "candidates": candidates}


@dataclass(frozen=True, slots=True)
class Translation:
    """The translations of one text, best first."""

    source: str
    candidates: tuple[Candidate, ...]
    parts: int = 1  # more than 1: sentences, or what was cut, translated one by one and joined
    cut: bool = False  # a sentence was longer than the model's limit

    @property
    def text(self) -> str:
        """The best translation."""
        return self.candidates[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
        return self.candidates[0].score

    @property
    def log_probability(self) -> float:
        """The log-probability of the best translation."""
        return self.candidates[0].log_probability

    @property
    def tokens(self) -> tuple[str, ...]:
        """The subwords of the best translation."""
        return self.candidates[0].tokens

    @property
    def alignment(self) -> Links | None:
        """The links between the text's words and those of the best translation."""
        return self.candidates[0].alignment

    def to_json(self, *, candidates: bool = False) -> dict[str, Any]:
        """Return what JSON can hold: the best translation, and all of them with `candidates`."""
        value = {"source": self.source, **self.candidates[0].to_json()}
        if candidates:
            value["candidates"] = [one.to_json() for one in self.candidates]
        if self.parts > 1:
            value["parts"] = self.parts
        return value

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the text, and all its translations with their scores."""
        return Translations([self])._repr_html_()


class Translations(list[Translation]):
    """The translations of several texts: a list, which a notebook shows as a table."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> Translation: ...

    @overload
    def __getitem__(self, place: slice) -> "Translations": ...

    def __getitem__(self, place: SupportsIndex | slice) -> "Translation | Translations":
        """Return one of them, or some, which are shown as all are."""
        if isinstance(place, slice):
            return Translations(super().__getitem__(place))
        return super().__getitem__(place)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: each text once, its translations beside it."""
        rows = [
            (one.source if rank == 0 else "", candidate.text, f"{candidate.score:.2f}")
            for one in self
            for rank, candidate in enumerate(one.candidates)
        ]
        return table(("text", "translation", "score"), rows)
