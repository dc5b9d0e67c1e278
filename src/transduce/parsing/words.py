"""Tokenise plain text as in the Penn Treebank.

Text that is already tokenised, with spaces between words, needs only `split_words`.
"""

import re

from transduce.parsing.trees import escape

# Patterns and replacements, applied in this order to a sentence with a space at each end.
RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r'(?<=[\s(\[{])"|[“„]', " `` "),
        (r'"|”', " '' "),
        (r"(?<=\s)(['‘])(?=\w)", r" \1 "),
        (r"(\.\.\.|--|[()\[\]{}<>;!?…—$#&]|(?<=\d)%|[,:](?![\d/])|(?<!\d)[,:](?!//))", r" \1 "),
        (r"\.(?=[\s)\]}'’]*$)", " . "),  # elsewhere, a period belongs to an abbreviation
        (r"(?i)(?<=\w)(n['’]t)(?!\w)", r" \1 "),
        (r"(?i)(?<=\w)(['’](?:s|re|ve|ll|d|m)?)(?!\w)", r" \1 "),
        (r"(?i)\b(can)(not)\b", r"\1 \2"),
    ]
]
# Newer treebanks split compounds at hyphens and slashes, but not after a prefix or in URLs.
HYPHEN = re.compile(r"(?<=[\w+])([-–/])(?=\w)")
PREFIX = re.compile(
    r"(?i:anti|auto|bi|co|de|ex|inter|intra|mid|multi|non|over|post|pre|re|semi|sub|super|un|\w)-"
)


def tokenize(sentence: str, *, hyphens: bool = False) -> list[str]:
    """Return the words of a sentence; with `hyphens`, compounds are split at hyphens."""
    text = f" {sentence} "
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    words = text.split()
    if hyphens:
        words = [
            part
            for word in words
            for part in ([word] if PREFIX.match(word) or "://" in word else HYPHEN.split(word))
        ]
    return [escape(word) for word in words]


def split_words(line: str) -> list[str]:
    """Return the words of a line, separated by white space."""
    return [escape(word) for word in re.findall(r"(?a:\S+)", line)]
