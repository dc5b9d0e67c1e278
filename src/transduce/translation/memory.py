"""A translation memory: translations that exist already, found by their source."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from transduce.errors import BadInput
from transduce.markup.inline import Tag
from transduce.markup.protected import STAND_IN, Protected, find_literal, restore, stand_ins
from transduce.text.reading import read_pairs


class Memory:
    """Translations of sentences and texts, which are used instead of the model's.

    A sentence must be equal to a source of the memory; only white space may differ. Of several
    translations of one source the last is used.

    >>> memory = Memory.of([("Two dogs run.", "Zwei Hunde rennen.")])
    >>> memory.find("Two  dogs run. ")
    'Zwei Hunde rennen.'
    """

    def __init__(self, translations: Mapping[str, str]) -> None:
        self.translations = translations

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Return the memory of pairs; those with a blank side are left out."""
        clean = ((_key(source), " ".join(target.split())) for source, target in pairs)
        return cls({source: target for source, target in clean if source and target})

    @classmethod
    def load(
        cls, path: str | Path | Sequence[str | Path], languages: tuple[str, str] | None = None
    ) -> Self:
        """Read a memory from TMX, XLIFF or a table, or from several files.

        `languages` are those of the model. The last translation of a source is used, and so later
        files come before earlier ones.
        """
        translations: dict[str, str] = {}
        for each in [path] if isinstance(path, str | Path) else path:
            memory = cls.of(read_pairs(each, None, languages=languages))
            if not len(memory):
                raise BadInput(f"{each} has no pair with text on both sides: it is no memory")
            translations.update(memory.translations)
        return cls(translations)

    def __len__(self) -> int:
        return len(self.translations)

    def find(self, text: str) -> str | None:
        """Return the translation of a text, or None."""
        return self.translations.get(_key(text))

    def find_protected(self, sentence: str, protected: Protected) -> str | None:
        """Return the translation of a sentence with stand-ins, if it has all spans of the sentence.

        A text with the tags of a document is never found, because nothing is known about the places
        of its tags in the translation.
        """
        spans: Sequence[str | Tag] = [protected.spans[index] for index in stand_ins(sentence)]
        if protected.elements or any(isinstance(span, Tag) for span in spans):
            return None
        target = self.find(restore(sentence, protected.spans))
        # A private-use character could be taken for a stand-in.
        if target is None or STAND_IN.search(target):
            return None
        kept = all(len(find_literal(target, str(span))) == spans.count(span) for span in {*spans})
        return target if kept else None


def _key(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
