"""A text is lines, a line is sentences: for a request what `translate` is for a file."""

from collections.abc import Sequence
from typing import Any

from transduce.translation.segments import SegmentedText
from transduce.translation.translator import Translator

BYTE_ORDER_MARK = "\ufeff"


def lines_of(text: str) -> tuple[list[str], list[str]]:
    r"""Return the lines of a text, and what ends each of them: \n, \r\n or, the last, nothing."""
    lines = text.removeprefix(BYTE_ORDER_MARK).split("\n")
    ends = ["\r\n" if line.endswith("\r") else "\n" for line in lines[:-1]]
    return [*(line.removesuffix("\r") for line in lines[:-1]), lines[-1]], [*ends, ""]


def paragraphs(
    translator: Translator, works: Sequence[SegmentedText], ends: Sequence[str]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the whole translation and, of each line, its sentences with their translations."""
    whole, found = [], []
    for work, end in zip(works, ends, strict=True):
        segments = translator.sentences(work)
        whole += [one.gap + one.candidates[0].text for one in segments]
        whole.append(end)
        found.append({"segments": [one.to_json() for one in segments]})
    return "".join(whole), found
