"""What the model reads of a sentence: spans as they are, as sentinels, or left out."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from transduce.markup.inline import Tag
from transduce.markup.protected import STAND_IN, span_index
from transduce.subwords import Coder

OBJECT = "\ufffc"  # stands for a special token in `ModelInput.text`
WORD = re.compile(r"\w")
CLOSING = ",.;:!?)]}"


class Mode(Enum):
    """How spans are shown to the model."""

    TEXT = "text"  # as they are; single tags are left out
    SENTINELS = "sentinels"  # for models that were trained to copy them
    CUT = "cut"  # left out


@dataclass(frozen=True, slots=True)
class ModelInput:
    """A sentence as the model reads it."""

    parts: list[str | int]  # text and ids of special tokens
    text: str  # the same with one character for each special token
    positions: Sequence[int]  # of each character of `text` in the sentence
    sentinels: tuple[int, ...] = ()  # the span that each sentinel stands for


@dataclass(frozen=True, slots=True)
class ShownTerm:
    """A term of the sentence whose translation the model is shown."""

    start: int
    end: int
    translation: str


def model_input(
    sentence: str,
    spans: Sequence[str | Tag],
    mode: Mode,
    coder: Coder,
    terms: Sequence[ShownTerm] = (),
) -> ModelInput:
    """Return what the model reads of a sentence with stand-ins."""
    if not terms and not STAND_IN.search(sentence):
        return ModelInput([sentence], sentence, range(len(sentence)))
    builder = _Builder()
    sentinels: list[int] = []
    terms_at = {term.start: term for term in terms}
    begins, shows, ends = coder.term_markers or (None, None, None)
    term_end, shown = -1, ""
    for position, character in enumerate(sentence):
        if position in terms_at and begins is not None:
            term_end, shown = terms_at[position].end, terms_at[position].translation
            builder.begin_term(begins, position)
        if not STAND_IN.match(character):
            builder.add_text(character, position)
        else:
            span = spans[span_index(character)]
            if mode is Mode.SENTINELS and len(sentinels) < len(coder.sentinels):
                builder.add_special(coder.sentinels[len(sentinels)], position)
                sentinels.append(span_index(character))
            elif mode is Mode.TEXT and isinstance(span, str):
                builder.add_text(span, position)
            else:
                builder.leave_out()
        if position + 1 == term_end and shows is not None and ends is not None:
            builder.add_special(shows, position)
            builder.add_text(f" {shown}", position)
            builder.add_special(ends, position)
    return ModelInput(builder.parts(), builder.text, builder.positions, tuple(sentinels))


class _Builder:
    """Collects the characters and special tokens of a model input."""

    def __init__(self) -> None:
        self.characters: list[str | int] = []
        self.positions: list[int] = []
        self._gap = False  # a span was left out here

    @property
    def text(self) -> str:
        """The input with one character for each special token."""
        return "".join(c if isinstance(c, str) else OBJECT for c in self.characters)

    def add_text(self, text: str, position: int) -> None:
        """Add the characters of a text that stands at one position of the sentence."""
        if self._gap and text:
            after_space = not self.characters or self.characters[-1] == " "
            if after_space and text == " ":
                return  # one space is enough
            if self.characters and after_space and text in CLOSING:
                self.characters.pop()
                self.positions.pop()
            self._gap = False
        self.characters += text
        self.positions += [position] * len(text)

    def add_special(self, token: int, position: int) -> None:
        """Add a special token."""
        self._gap = False
        self.characters.append(token)
        self.positions.append(position)

    def begin_term(self, token: int, position: int) -> None:
        """Add the marker of a term: the space before the term goes between the two."""
        if self.characters and self.characters[-1] == " ":
            self.characters.pop()
            self.positions.pop()
        self.add_special(token, position)
        self.add_text(" ", position)

    def leave_out(self) -> None:
        """Leave out a span."""
        self._gap = True

    def parts(self) -> list[str | int]:
        """Return the input as text and ids."""
        parts: list[str | int] = []
        for is_text, group in itertools.groupby(self.characters, lambda c: isinstance(c, str)):
            characters = list(group)
            parts += ["".join(map(str, characters))] if is_text else characters
        return parts
