"""The result of translating a text: its translations, best first."""

from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, overload

from transduce.markup.inline import Inline
from transduce.translation.alignment import Links
from transduce.translation.guard import Flag
from transduce.translation.notebook import table


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation of a text."""

    text: str
    score: float  # log-probability divided by the length penalty; higher is better
    log_probability: float  # natural logarithm; the whole output, including </s>
    tokens: tuple[str, ...]  # the subwords, in readable form
    alignment: Links | None = None  # (source word, target word) pairs; None if not requested

    def to_json(self) -> dict[str, Any]:
        """Return the candidate as a JSON object, with the alignment if it was requested."""
        value: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "log_probability": self.log_probability,
            "tokens": list(self.tokens),
        }
        if self.alignment is not None:
            value["alignment"] = [list(link) for link in self.alignment]
        return value


# How a span came into a translation: written by the model, or placed by word alignment. Or the
# translation has it more often than the text, or joined with a letter or digit: 15 km for 5 km. Or
# it is a placeholder without a name, such as %s, and its place among the others is another one.
Placed = Literal["copied", "aligned", "repeated", "joined", "reordered"]


@dataclass(frozen=True, slots=True)
class PlacedSpan:
    """A protected span of a text, and how it came into the best translation."""

    text: str
    placed: Placed  # all but "copied" are worth a look

    @property
    def is_doubtful(self) -> bool:
        """Whether the translation does not have it once, alone and in its order."""
        return self.placed not in ("copied", "aligned")

    def to_json(self) -> dict[str, str]:
        """Return the span as a JSON object."""
        return {"text": self.text, "placed": self.placed}


@dataclass(frozen=True, slots=True)
class UsedTerm:
    """A term of the glossary in a text, and whether the best translation has its translation."""

    source: str
    target: str
    found: bool

    def to_json(self) -> dict[str, str | bool]:
        """Return the term as a JSON object."""
        return {"source": self.source, "target": self.target, "found": self.found}


@dataclass(frozen=True, slots=True)
class TranslatedSentence:
    """A sentence of a text, with its translations."""

    gap: str  # the white space before its translation
    source: str
    candidates: tuple[Candidate, ...]
    terms: tuple[UsedTerm, ...] = ()  # of the best candidate, like the flags and spans
    flags: tuple[Flag, ...] = ()
    spans: tuple[PlacedSpan, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the sentence as a JSON object."""
        return {
            "gap": self.gap,
            "source": self.source,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "terms": [term.to_json() for term in self.terms],
            "flags": [flag.to_json() for flag in self.flags],
            "spans": [span.to_json() for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class UsedMemory:
    """A sentence of a text whose translation comes from the translation memory."""

    source: str
    target: str

    def to_json(self) -> dict[str, str]:
        """Return the sentence and its translation as a JSON object."""
        return {"source": self.source, "target": self.target}


@dataclass(frozen=True, slots=True)
class Translation:
    """The translations of one text, best first."""

    source: str
    candidates: tuple[Candidate, ...]
    parts: int = 1  # segments translated separately: sentences, or pieces of over-long ones
    cut: bool = False  # a sentence was longer than the model's limit
    content: Inline | None = None  # the best translation with its tags, if the text was an Inline
    spans: tuple[PlacedSpan, ...] = ()  # all protected spans are in the translation
    terms: tuple[UsedTerm, ...] = ()
    flags: tuple[Flag, ...] = ()  # what the guard found wrong with the best translation
    memory: tuple[UsedMemory, ...] = ()  # sentences that the model did not translate

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
        """The links between the words of the text and of the best translation."""
        return self.candidates[0].alignment

    def to_json(self, *, candidates: bool = False) -> dict[str, Any]:
        """Return the best translation as a JSON object; with `candidates`, all of them."""
        value = {"source": self.source, **self.candidates[0].to_json()}
        if candidates:
            value["candidates"] = [candidate.to_json() for candidate in self.candidates]
        if self.parts > 1:
            value["parts"] = self.parts
        for name in ("spans", "terms", "flags", "memory"):
            if items := getattr(self, name):
                value[name] = [item.to_json() for item in items]
        return value

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the text, and all its translations with their scores."""
        return Translations([self])._repr_html_()


class Translations(list[Translation]):
    """The translations of several texts: a list, which a notebook shows as a table."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Translation: ...

    @overload
    def __getitem__(self, index: slice) -> "Translations": ...

    def __getitem__(self, index: SupportsIndex | slice) -> "Translation | Translations":
        """Return one translation, or a slice, which a notebook shows as a table too."""
        if isinstance(index, slice):
            return Translations(super().__getitem__(index))
        return super().__getitem__(index)

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: each text once, with its translations next to it."""
        rows = [
            (translation.source if rank == 0 else "", candidate.text, f"{candidate.score:.2f}")
            for translation in self
            for rank, candidate in enumerate(translation.candidates)
        ]
        return table(("text", "translation", "score"), rows)
