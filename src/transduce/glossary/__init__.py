"""Glossaries: terms, and how each must be translated.

In reading order:

- `terms`: entries of a glossary, and where they occur.
- `words`: words of a text, and which forms of a word are the same term.
- `matching`: terms in sources, and whether outputs contain their translations.
- `entries`: glossaries from TSV files or Python.
- `extraction`: pairs of terms from parallel text.
"""

from transduce.glossary.entries import Glossary, parse_flags
from transduce.glossary.extraction import TermPair, extract_terms
from transduce.glossary.matching import TermAccuracy, accuracy, contains, missing
from transduce.glossary.terms import Entry, Match

__all__ = [
    "Entry",
    "Glossary",
    "Match",
    "TermAccuracy",
    "TermPair",
    "accuracy",
    "contains",
    "extract_terms",
    "missing",
    "parse_flags",
]
