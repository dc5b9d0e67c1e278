"""Paragraphs to sentences, by the Wikimedia Foundation's sentencex."""

import importlib.util
import itertools
import re
import warnings
from collections.abc import Iterator

from transduce.errors import MissingExtra
from transduce.text.reading import language_code

MISSING = (
    "sentencex is not installed: a line of several sentences is translated whole, which may lose "
    "some of them; pip install 'transduce[split]'"
)
# Where a sentence may end: at a mark that something follows. The splitter knows these alone below
# U+0530, which is Latin, Greek and Cyrillic. A line without any needs no splitter.
MAY_END = re.compile(r"[!.:;?\u0530-\U0010ffff]\s*\S")
# White space of several bytes before a full stop: sentencex 1.0.32 panics at "A\u00a0.".
WIDE_SPACE = re.compile(r"[^\S\0-\x7f](?=\.)")
# The longest text that sentencex splits at once. Its time grows with the square of the length if
# quotation marks are unbalanced: 0.5 s for 20,000 characters.
WINDOW = 2_000


def is_installed() -> bool:
    """Tell whether the splitter is installed."""
    return importlib.util.find_spec("sentencex") is not None


def check_installed() -> bool:
    """Tell whether the splitter is installed, and warn where it is not."""
    if is_installed():
        return True
    warnings.warn(MISSING, stacklevel=2)
    return False


def split_line(line: str, language: str) -> list[tuple[str, str]]:
    """Return the sentences of a line, each after the white space before it.

    A line of one sentence is returned as it is, white space included: it is translated exactly as
    without splitting. A blank line has no sentences.
    """
    if not line.strip():
        return []
    found = split_text(line, language) if MAY_END.search(line) else []
    return found if len(found) > 1 else [("", line)]


def split_text(text: str, language: str) -> list[tuple[str, str]]:
    """Return the sentences of a text, each after the white space that stands before it.

    The rules of English serve where the language is unknown.
    """
    code = language_code(language)
    found = []
    gap = ""
    for piece in _pieces(text, "en" if code == "src" else code):
        sentence = piece.strip()
        before, _, after = piece.partition(sentence) if sentence else (piece, "", "")
        gap += before
        if sentence:
            found.append((gap, sentence))
            gap = after
    return found


def _pieces(text: str, code: str) -> Iterator[str]:
    """Split a text, at most `WINDOW` characters at once, in time linear in its length."""
    start = 0
    while len(text) - start > WINDOW:
        for piece in _sure(_segmented(_window(text, start), code)):
            yield piece
            start += len(piece)
    yield from _segmented(text[start:], code)


def _segmented(text: str, code: str) -> list[str]:
    """Return the pieces that sentencex splits a text into; together they are the text."""
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtra("splitting paragraphs into sentences", "sentencex", "split") from None
    try:
        pieces = segment(code, WIDE_SPACE.sub(" ", text))
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a defect of sentencex, not an Exception
            raise
        return [text]
    ends = [0, *itertools.accumulate(map(len, pieces))]
    return [text[begin:end] for begin, end in itertools.pairwise(ends)]


def _window(text: str, start: int) -> str:
    """Return what to split next. It ends where quotation marks are balanced, if there is a place.

    If their number is odd, sentencex ends sentences within all quotations before it too.
    """
    end = start + WINDOW
    for place in range(end, end - WINDOW // 4, -1):
        if text[place - 1].isspace() and not any(text.count(q, start, place) % 2 for q in "\"'"):
            return text[start:place]
    return text[start:end]


def _sure(pieces: list[str]) -> list[str]:
    """Return the sentences of a window that end in its first half, and the one across its middle.

    Where those behind end may depend on what follows the window: they are in the next one too. A
    sentence without an end in the window is cut, at white space if there is some.
    """
    length, count = 0, 0
    while length < WINDOW // 2:
        length += len(pieces[count])
        count += 1
    if count < len(pieces):
        return pieces[:count]
    if length - len(pieces[-1]) >= WINDOW // 4:
        return pieces[:-1]
    return [*pieces[:-1], pieces[-1][: _last_space(pieces[-1])]]


def _last_space(text: str) -> int:
    """Return where the last word of a text begins, the end if it is in the first half."""
    place = len(text.rstrip()) if text[-1].isspace() else len(text)
    while place > len(text) // 2 and not text[place - 1].isspace():
        place -= 1
    return place if place > len(text) // 2 else len(text)
