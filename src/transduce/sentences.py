"""Paragraphs to sentences, by the Wikimedia Foundation's sentencex."""

from transduce.errors import MissingExtra
from transduce.text import language_code


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
