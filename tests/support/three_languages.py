"""A third language beside the tiny English and German sentences, and corpora in two pairs."""

import re
from pathlib import Path

from conftest import ARTICLES, NOUNS, VERBS, tiny_pairs

FRENCH = {"a": "un", "the": "le", "one": "ce", "every": "chaque"}
FRENCH |= {"dog": "chien", "man": "homme", "tree": "arbre", "bird": "oiseau", "fish": "poisson"}
FRENCH |= {"sees": "voit", "likes": "aime", "finds": "trouve", "paints": "peint"}
FRENCH |= {"today": "demain"}


def french(english: str) -> str:
    """Translate a tiny English sentence word by word."""
    words = english.split()
    ends = [word[len(word.rstrip(".!")) :] for word in words]
    return " ".join(FRENCH[word.rstrip(".!")] + end for word, end in zip(words, ends, strict=True))


def write_two_pairs(folder: Path, number: int) -> tuple[Path, Path]:
    """Write an English-German and an English-French text with different sentences."""
    german, english_french = folder / "a.en-de.tsv", folder / "b.en-fr.tsv"
    pairs = [pair for pair in tiny_pairs(8 * number) if " and " not in pair[0]][: 2 * number]
    german.write_text("".join(f"{s}\t{t}\n" for s, t in pairs[:number]), encoding="utf-8")
    english_french.write_text(
        "".join(f"{s}\t{french(s)}\n" for s, _ in pairs[number:]), encoding="utf-8"
    )
    return german, english_french


SENTENCES = [
    "one dog sees a tree.",
    "the man likes every bird!",
    "a fish finds one man today.",
    "every tree paints the dog.",
]
GERMAN = {german for kind in (ARTICLES, NOUNS, VERBS, [("today", "heute")]) for _, german in kind}


def words_of(text: str) -> set[str]:
    """Return the words of a text, without punctuation and the signs of headings."""
    return {*re.findall(r"\w+", text)}
