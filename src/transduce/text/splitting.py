"""Splitting paragraphs into sentences, with the Wikimedia Foundation's sentencex."""

import importlib.util
import itertools
import re
import warnings
from collections.abc import Iterator

from transduce.errors import MissingExtra
from transduce.text.languages import language_code

MISSING = (
    "sentencex is not installed: a line with several sentences is translated as one, which may "
    "lose some of them; pip install 'transduce[split]'"
)
# Where a sentence may end: a mark with text after it. Below U+0530 (Latin, Greek, Cyrillic) these
# are the only marks that sentencex splits at. A line without any needs no splitting.
MAY_END = re.compile(r"[!.:;?\u0530-\U0010ffff]\s*\S")
# Non-ASCII white space before a full stop: sentencex 1.0.32 panics at "A\u00a0.".
WIDE_SPACE = re.compile(r"[^\S\0-\x7f](?=\.)")
# Characters passed to sentencex at once. With unbalanced quotation marks, its time is quadratic in
# the length: 0.5 s for 20,000 characters.
WINDOW = 2_000


def is_installed() -> bool:
    """Return whether the splitter is installed."""
    return importlib.util.find_spec("sentencex") is not None


def check_installed() -> bool:
    """Return whether the splitter is installed; warn if it is not."""
    if is_installed():
        return True
    warnings.warn(MISSING, stacklevel=2)
    return False


def split_line(line: str, language: str) -> list[tuple[str, str]]:
    """Return the sentences of a line, each with the white space before it.

    A line with one sentence is returned unchanged, white space included, so that its translation is
    the same as without splitting. A blank line has no sentences.
    """
    if not line.strip():
        return []
    sentences = split_text(line, language) if MAY_END.search(line) else []
    return sentences if len(sentences) > 1 else [("", line)]


def split_text(text: str, language: str) -> list[tuple[str, str]]:
    """Return the sentences of a text, each with the white space before it.

    English rules are used for unknown languages.
    """
    code = language_code(language)
    sentences = []
    gap = ""
    for piece in _pieces(text, "en" if code == "src" else code):
        sentence = piece.strip()
        before, _, after = piece.partition(sentence) if sentence else (piece, "", "")
        gap += before
        if sentence:
            sentences.append((gap, sentence))
            gap = after
    return sentences


def _pieces(text: str, code: str) -> Iterator[str]:
    """Split a text, at most `WINDOW` characters at a time, in time linear in its length."""
    start = 0
    while len(text) - start > WINDOW:
        for piece in _complete(_segment(_window(text, start), code)):
            yield piece
            start += len(piece)
    yield from _segment(text[start:], code)


def _segment(text: str, code: str) -> list[str]:
    """Split a text with sentencex, without losing a character."""
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtra("splitting paragraphs into sentences", "sentencex", "split") from None
    try:
        pieces = segment(code, WIDE_SPACE.sub(" ", text))
    except BaseException as error:
        # A bug in sentencex raises PanicException, which is not a subclass of Exception.
        if type(error).__name__ != "PanicException":
            raise
        return [text]
    ends = [0, *itertools.accumulate(map(len, pieces))]
    return [text[begin:end] for begin, end in itertools.pairwise(ends)]


def _window(text: str, start: int) -> str:
    """Return the text to split next, ending where quotation marks are balanced, if possible.

    With an odd number of quotation marks, sentencex would also split inside earlier quotations.
    """
    end = start + WINDOW
    for stop in range(end, end - WINDOW // 4, -1):
        if text[stop - 1].isspace() and not any(text.count(q, start, stop) % 2 for q in "\"'"):
            return text[start:stop]
    return text[start:end]


def _complete(pieces: list[str]) -> list[str]:
    """Return the sentences that end in the first half of a window, and the one across its middle.

    The ends of later sentences may depend on the text after the window, so they are split again
    with the next window. A sentence longer than the window is cut, at white space if possible.
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
    """Return the start of the last word of a text, or the text's end if it is in the first half."""
    start = len(text.rstrip()) if text[-1].isspace() else len(text)
    while start > len(text) // 2 and not text[start - 1].isspace():
        start -= 1
    return start if start > len(text) // 2 else len(text)
