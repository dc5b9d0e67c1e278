"""Words of a text, and which forms of a word are the same term."""

import functools
import re
import unicodedata
from typing import NamedTuple

from transduce.text.words import TOKEN

# Endings of source words, each with the letters of which one comes before it, if not all may.
ENDINGS = {"s": "", "es": "sxzho", "x": "u"}  # files, addresses, bateaux
NOUN_ENDINGS = ("e", "n", "en", "es")  # of capitalised words: Dateien, Hauses
LEAST_STEM = 3  # letters of a word that may have an ending

HANGUL = re.compile("[\uac00-\ud7a3]")
# What follows a word of Korean without a space, after at least two letters.
PARTICLES = re.compile(
    "들?(?:이|가|을|를|에|와|과|로|으로|나|이나|에서|에게|한테|부터|까지|처럼|보다|하고|이다|입니다)?"
    "(?:은|는|의|도|만)?"
)
LEAST_BEFORE_PARTICLE = 2

MAX_ENDING = 3  # letters
SHORT = 3  # shorter words have shorter endings
NOT_ENDINGS = ("ung", "bar", "los")  # make other words: Bild, Bildung
# Endings that others replace: Firma, Firmen; Zentrum, Zentren; journal, journaux; entry, entries.
REPLACED = (
    *(("a", "en"), ("o", "en"), ("um", "en"), ("um", "a"), ("us", "en"), ("us", "i")),
    *(("is", "en"), ("is", "es"), ("al", "aux"), ("ail", "aux"), ("y", "ies")),
)
# A final vowel may be replaced by one or two: casa, case.
VOWELS = (
    "aeiouy\u0430\u0435\u0438\u043e\u0443\u044b\u044c\u044d\u044e\u044f"  # Latin, Cyrillic
    "\u03b1\u03b5\u03b7\u03b9\u03bf\u03c5\u03c9"  # Greek
)
MAX_VOWELS = 2
ACCENTS = re.compile("[\u0300-\u036f]")
COMPOUND_PART = 5, 4  # letters of a term in a compound, and of the rest of the compound


class Token(NamedTuple):
    """A word, or another character that is not white space."""

    text: str
    start: int
    end: int
    spaced: bool  # white space comes before it


def is_word(token: str) -> bool:
    """Return whether a token is no punctuation mark, symbol or private-use character."""
    return token[0].isalnum() or token[0] == "_"


def tokenize(text: str) -> list[Token]:
    """Return the words and other characters of a text."""
    tokens: list[Token] = []
    previous = 0
    for match in TOKEN.finditer(text):
        start, end = match.span()
        tokens.append(Token(match[0], start, end, start > previous))
        previous = end
    return tokens


def fold(word: str) -> str:
    """Return a word without case, its accents in the composed form."""
    return unicodedata.normalize("NFC", word).casefold()


@functools.lru_cache(maxsize=1 << 16)
def stems(word: str) -> tuple[str, ...]:
    """Return the words, without case, of which a source word may be a form; first itself."""
    folded = fold(word)
    if HANGUL.match(folded[-1]):
        cuts = range(LEAST_BEFORE_PARTICLE, len(folded))
        return (folded, *(folded[:cut] for cut in cuts if PARTICLES.fullmatch(folded, cut)))
    if len(folded) <= LEAST_STEM or not folded.isalpha():
        return (folded,)
    endings = [
        *(end for end, after in ENDINGS.items() if folded[-len(end) - 1] in (after or folded)),
        *(NOUN_ENDINGS if word[0].isupper() else ()),
    ]
    found = [
        folded[: -len(ending)]
        for ending in dict.fromkeys(endings)
        if folded.endswith(ending) and len(folded) - len(ending) >= LEAST_STEM
    ]
    if folded.endswith("ies") and len(folded) > LEAST_STEM + 2:
        found.append(f"{folded[:-3]}y")  # directories
    return (folded, *found)


def is_form(word: str, term: str) -> bool:
    """Return whether a source word is a form of a term's word.

    It is the same word, or the word with the ending -s, -es after s, x, z, h or o, -x after u, or
    -ies for -y, or particles of Korean, or, if both are capitalised as German nouns are, -e, -n,
    -en or -es. Case does not matter otherwise.
    """
    folded = fold(term)
    if folded in stems(fold(word)):  # without the endings of nouns
        return True
    return term[0].isupper() and folded in stems(word)


@functools.lru_cache(maxsize=1 << 16)
def plain(word: str, *, case: bool) -> str:
    """Return a word without accents and umlauts, and unless `case` matters, without case."""
    decomposed = unicodedata.normalize("NFD", word if case else word.casefold())
    return unicodedata.normalize("NFC", ACCENTS.sub("", decomposed)) or word  # syllables of Hangul


def inflects(word: str, term: str) -> bool:
    """Return whether an output word is a form of a term's word; both are `plain`.

    It is the term's word and up to three letters (two after a short one that is not Korean), or
    another vowel or ending replaces the last one: `VOWELS`, `REPLACED`.
    """
    if word == term:
        return True
    if not term.isalpha():
        return False
    if word.startswith(term):
        is_short = len(term) <= SHORT and not HANGUL.match(term[-1])
        longest = MAX_ENDING - 1 if is_short else MAX_ENDING
        return _is_ending(word[len(term) :], longest)
    if len(term) <= SHORT:
        return False
    if term[-1] in VOWELS and word.startswith(term[:-1]):
        vowels = word[len(term) - 1 :]
        if 0 < len(vowels) <= MAX_VOWELS and all(vowel in VOWELS for vowel in vowels):
            return True
    return any(term.endswith(old) and word == term.removesuffix(old) + new for old, new in REPLACED)


def keeps_capitals(word: str, term: str) -> bool:
    """Return whether a form of a term in capitals has them: its and ITSM are not IT."""
    if len(term) == 1 or not term.isupper():
        return True
    return word.startswith(term) and not word[len(term) :].isupper()


def in_compound(word: str, term: str, *, case: bool) -> bool:
    """Return whether a word is a compound that begins or ends with a term.

    Both are capitalised, as German nouns are, and have enough letters: Datenbankserver and
    Serverraum contain Server, but Kontext does not contain Text.
    """
    least, rest = COMPOUND_PART
    if not (word[:1].isupper() and term[:1].isupper() and word.isalpha() and len(term) >= least):
        return False
    whole, part = plain(word, case=False), plain(term, case=False)
    if len(whole) < len(part) + rest:
        return False
    if plain(word, case=case).startswith(plain(term, case=case)):
        return True
    return any(
        inflects(whole[cut:], part)
        for cut in range(rest, len(whole) - len(part) + 3)
        if whole[cut : cut + SHORT] == part[:SHORT]
    )


def _is_ending(letters: str, longest: int) -> bool:
    return len(letters) <= longest and letters.isalpha() and letters not in NOT_ENDINGS
