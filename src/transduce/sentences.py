"""Paragraphs to sentences, by the Wikimedia Foundation's sentencex."""

import importlib.util
import re
import warnings

from transduce.errors import MissingExtra
from transduce.text import language_code

MISSING = (
    "sentencex is not installed: a line of several sentences is translated whole, which may lose "
    "some of them; pip install 'transduce[split]'"
)
# Where a sentence may end: at a mark that something follows. The splitter knows these alone below
# U+0530, which is Latin, Greek and Cyrillic. A line without any needs no splitter.
MAY_END = re.compile(r"[!.:;?\u0530-\U0010ffff]\s*\S")


def installed() -> bool:
    """Tell whether the splitter is installed."""
    return importlib.util.find_spec("sentencex") is not None


def ready() -> bool:
    """Tell whether the splitter is installed, and warn where it is not."""
    if installed():
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
    found = sentences(line, language) if MAY_END.search(line) else []
    return found if len(found) > 1 else [("", line)]


def sentences(text: str, language: str) -> list[tuple[str, str]]:
    """Return the sentences of a text, each after the white space that stands before it.

    The rules of English serve where the language is unknown.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtra("splitting paragraphs into sentences", "sentencex", "split") from None
    code = language_code(language)
    found = []
    gap = ""
    for piece in segment("en" if code == "src" else code, text):
        sentence = piece.strip()
        before, _, after = piece.partition(sentence) if sentence else (piece, "", "")
        gap += before
        if sentence:
            found.append((gap, sentence))
            gap = after
    return found
