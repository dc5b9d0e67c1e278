"""Lines and sentences of a text: a line of a request is translated like a line of a file."""

from collections.abc import Sequence
from typing import Any

from transduce.translation.segments import SegmentedText
from transduce.translation.translator import Translator

BYTE_ORDER_MARK = "\ufeff"


def split_lines(text: str) -> tuple[list[str], list[str]]:
    r"""Return the lines of a text and their ends: \n, \r\n or, for the last, nothing."""
    lines = text.removeprefix(BYTE_ORDER_MARK).split("\n")
    ends = ["\r\n" if line.endswith("\r") else "\n" for line in lines[:-1]]
    return [*(line.removesuffix("\r") for line in lines[:-1]), lines[-1]], [*ends, ""]


def paragraphs(
    translator: Translator, lines: Sequence[SegmentedText], ends: Sequence[str]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the whole translation and, for each line, its sentences with their translations."""
    text, found = [], []
    for line, end in zip(lines, ends, strict=True):
        sentences = translator.sentences(line)
        text += [sentence.gap + sentence.candidates[0].text for sentence in sentences]
        text.append(end)
        found.append({"segments": [sentence.to_json() for sentence in sentences]})
    return "".join(text), found
