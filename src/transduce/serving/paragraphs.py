"""Lines and sentences of a text: a line of a request is translated like a line of a file."""

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.translation.segments import SegmentedText
from transduce.translation.translation import TranslatedSentence
from transduce.translation.translator import Translator

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """One text, translated."""

    lines: list[SegmentedText]
    ends: list[str]  # the line end of each line

    @property
    def characters(self) -> int:
        """The length of the text with its line ends."""
        return sum(len(line.text) + 1 for line in self.lines)

    def sentences(self, translator: Translator) -> list[list[TranslatedSentence]]:
        """Return the translated sentences of each line."""
        return [translator.sentences(line) for line in self.lines]

    def join(self, lines: Sequence[Sequence[TranslatedSentence]], rank: int = 0) -> str:
        """Return the text, joined from each sentence's candidate of this rank, or its last one."""
        parts = []
        for sentences, end in zip(lines, self.ends, strict=True):
            for sentence in sentences:
                candidate = sentence.candidates[min(rank, len(sentence.candidates) - 1)]
                parts.append(sentence.gap + candidate.text)
            parts.append(end)
        return "".join(parts)


def split_lines(text: str) -> tuple[list[str], list[str]]:
    r"""Return the lines of a text and their ends: \n, \r\n or, for the last, nothing or \r."""
    lines = text.removeprefix(BYTE_ORDER_MARK).split("\n")
    returns = ["\r" if line.endswith("\r") else "" for line in lines]
    ends = [f"{carriage_return}\n" for carriage_return in returns[:-1]]
    return [line.removesuffix("\r") for line in lines], [*ends, returns[-1]]
