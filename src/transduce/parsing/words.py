"""Sentences as people type them, cut into words as the Penn Treebank cuts them.

This is for what comes from a keyboard. Text that is already cut, one space between two words, needs
only `split_words`.
"""

import re

from transduce.parsing.trees import escape

# What is put where, in this order. Before the first rule a sentence has a space at either end.
RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r'(?<=[\s(\[{])"|[“„]', " `` "),
        (r'"|”', " '' "),
        (r"(?<=\s)(['‘])(?=\w)", r" \1 "),
        (r"(\.\.\.|--|[()\[\]{}<>;!?…—$#&]|(?<=\d)%|[,:](?![\d/])|(?<!\d)[,:](?!//))", r" \1 "),
        (r"\.(?=[\s)\]}'’]*$)", " . "),  # inside a sentence it belongs to an abbreviation
        (r"(?i)(?<=\w)(n['’]t)(?!\w)", r" \1 "),
        (r"(?i)(?<=\w)(['’](?:s|re|ve|ll|d|m)?)(?!\w)", r" \1 "),
        (r"(?i)\b(can)(not)\b", r"\1 \2"),
    ]
]
# Newer treebanks cut compounds at hyphens and slashes, but not after a prefix, nor addresses.
HYPHEN = re.compile(r"(?<=[\w+])([-–/])(?=\w)")
PREFIX = re.compile(
    r"(?i:anti|auto|bi|co|de|ex|inter|intra|mid|multi|non|over|post|pre|re|semi|sub|super|un|\w)-"
)


def tokenize(sentence: str, *, hyphens: bool = False) -> list[str]:
    """Return the words of a sentence; with `hyphens`, compounds are cut at theirs."""
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
    """Return the words of a line that has white space between every two."""
    return [escape(word) for word in re.findall(r"(?a:\S+)", line)]
