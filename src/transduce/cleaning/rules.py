"""The rules for a single pair, without a look at others."""

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self

from transduce.cleaning.languages import SideLanguage
from transduce.cleaning.limits import MEANINGS, Limits
from transduce.text.languages import language_code
from transduce.translation.guard.copying import find_copy, is_ordinary
from transduce.translation.guard.lengths import OTHER, RELATIVE, weighted_length
from transduce.translation.guard.numbers import difference, find_numbers, numbers_of

WORD = re.compile(r"[^\W\d_]+")
# Control characters, replaced ones, lone surrogates (bytes that are not UTF-8).
DAMAGED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ud800-\udfff\ufeff\ufffe\uffff]")
# UTF-8 that was decoded as Windows-1252 or Latin-1: a first byte, then one of 80 to BF. Closing
# quotation marks may follow a capital letter, and are no sign of damage.
NEXT = "\u00a0-\u00ba\u00bc-\u00bf\u20ac\u201a\u0192\u201e\u2020\u2021\u02c6\u2030\u0160\u2039"
NEXT += "\u0152\u017d\u2022\u02dc\u2122\u0161\u203a\u0153\u017e\u0178"
MOJIBAKE = re.compile(
    f"Ã[{NEXT}\u2026\u2013\u2014\u2018\u2019\u201c\u201d]|Â[\u00a0-\u00ba\u00bc-\u00bf]|â€|ï»¿|"
    f"[ÄÅ][\u00a1-\u00ac\u00ae-\u00b9\u00bc-\u00bf\u201a\u0192\u2020\u2021\u02c6\u2030\u2122\u203a]|"
    f"(?:[ÐÑ][{NEXT}\u2026\u2013\u2014\u2018\u2019\u201c\u201d]){{2}}"
)
TAG = re.compile(r"<[/!?]?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]{2,8}|#x?[0-9a-fA-F]{1,6});")
MENU = re.compile(r" [|»›·•→] ")
URL = re.compile(r"(?:https?|ftp)://[^\s<>\"]+|www\.[^\s<>\"]+|[\w.+-]+@[\w-]+\.[\w.-]+")
SMALL = 8  # letters: shorter texts are not checked for copies and markup
MIN_DIGITS = 2  # of a number that must not differ
SHORT_VARIATION = 2.2  # short texts vary more in length


@dataclass(slots=True)
class PairText:
    """A pair without white space at its ends, and what several rules need of it."""

    source: str
    target: str
    words: tuple[list[str], list[str]]  # without case (casefold), letters only
    letters: tuple[str, str]  # the words joined

    @classmethod
    def of(cls, source: str, target: str) -> Self:
        """Prepare a pair."""
        source, target = source.strip(), target.strip()
        words = WORD.findall(source.casefold()), WORD.findall(target.casefold())
        return cls(source, target, words, ("".join(words[0]), "".join(words[1])))

    @property
    def sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Both texts, each with its letters."""
        return (self.source, self.letters[0]), (self.target, self.letters[1])

    @property
    def keys(self) -> bytes:
        """Hashes of the pair, of the letters of both sides, and of the letters of each side."""
        (source, source_letters), (target, target_letters) = self.sides
        return b"".join(
            (
                key(f"{source}\t{target}"),
                key(f"{source_letters}\t{target_letters}" if source_letters else source),
                key(source_letters or source),
                key(target_letters or target),
            )
        )


class PairRules:
    """Applies the rules for a single pair."""

    def __init__(
        self, rules: Collection[str], limits: Limits, languages: tuple[str, str], *, library: bool
    ) -> None:
        self.limits = limits
        probability = limits.language_probability
        self.languages = (
            SideLanguage(languages[0], languages[1], probability, library=library),
            SideLanguage(languages[1], languages[0], probability, library=library),
        )
        before, after = (RELATIVE.get(language_code(code), OTHER) for code in languages)
        self.expected = math.log(after / before)
        self.most = math.log(limits.max_ratio)
        self.damaged = "encoding" in rules
        breaks: dict[str, Callable[[PairText], bool]] = {
            "blank": _is_blank,
            "long": self._is_long,
            "ratio": self._is_skewed,
            "copy": _is_copy,
            "script": self._has_wrong_script,
            "markup": self._is_markup,
            "urls": lambda pair: _urls(pair.source) != _urls(pair.target),
            "numbers": _has_wrong_numbers,
            "brackets": lambda pair: _balance(pair.source) != _balance(pair.target),
            "language": self._has_wrong_language,
        }
        self.rules = [(name, broken) for name, broken in breaks.items() if name in rules]

    def check(self, source: str, target: str) -> tuple[str, bytes]:
        """Return the first rule that a pair breaks, "" for none, and then its keys."""
        if self.damaged and (_is_damaged(source) or _is_damaged(target)):
            return "encoding", b""
        pair = PairText.of(source, target)
        for name, broken in self.rules:
            if broken(pair):
                return name, b""
        return "", pair.keys

    def _is_long(self, pair: PairText) -> bool:
        return any(
            len(text) > self.limits.max_characters or text.count(" ") >= self.limits.max_words
            for text in (pair.source, pair.target)
        )

    def _is_skewed(self, pair: PairText) -> bool:
        before, after = weighted_length(pair.source), weighted_length(pair.target)
        if not before or not after:
            return before != after
        deviation = abs(math.log(after / before) - self.expected)
        return deviation > self.most + SHORT_VARIATION / math.sqrt(min(before, after))

    def _has_wrong_script(self, pair: PairText) -> bool:
        return any(
            language.wrong_script(text, len(letters), self.limits.foreign_letters)
            for language, (text, letters) in zip(self.languages, pair.sides, strict=True)
        )

    def _has_wrong_language(self, pair: PairText) -> bool:
        return any(
            language.wrong_language(text, words, len(letters))
            for language, (text, letters), words in zip(
                self.languages, pair.sides, pair.words, strict=True
            )
        )

    def _is_markup(self, pair: PairText) -> bool:
        tags = [
            len(TAG.findall(text)) if "<" in text or "&" in text else 0
            for text in (pair.source, pair.target)
        ]
        return tags[0] != tags[1] or any(
            self._has_few_letters(text, len(letters)) or _is_menu(text)
            for text, letters in pair.sides
        )

    def _has_few_letters(self, text: str, letters: int) -> bool:
        least = self.limits.min_letters * (len(text) - text.count(" "))
        return 0 < letters < least and len(text) > SMALL


def key(text: str) -> bytes:
    """Return a hash of 8 bytes that is the same in every process."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def side_key(text: str) -> bytes:
    """Return the hash of the letters of one side."""
    text = text.strip()
    return key("".join(WORD.findall(text.casefold())) or text)


def rule_number(name: str) -> int:
    """Return the position of a rule in the order of all; that of "" is the number of rules."""
    return _NUMBERS[name]


_NUMBERS = {name: number for number, name in enumerate((*MEANINGS, ""))}


def _is_damaged(text: str) -> bool:
    # Of the damaged characters, only U+FFFD is printable: few texts are searched.
    if "\ufffd" in text or (not text.isprintable() and DAMAGED.search(text)):
        return True
    return not text.isascii() and MOJIBAKE.search(text) is not None


def _is_blank(pair: PairText) -> bool:
    return any(not letters and not any(map(str.isalnum, text)) for text, letters in pair.sides)


def _is_copy(pair: PairText) -> bool:
    """Return whether a target repeats its source; names and code may be the same in both."""
    if pair.letters[0] == pair.letters[1]:
        return len(pair.words[0]) > 2 and any(map(is_ordinary, pair.source.split()))
    return find_copy(pair.source, pair.target) is not None


def _is_menu(text: str) -> bool:
    """Return whether a text is a row of short entries with marks between them."""
    if text.isascii() and "|" not in text:
        return False
    menus = len(MENU.findall(text))
    return menus > 2 and menus * 5 >= text.count(" ") - menus


def _urls(text: str) -> int:
    if "://" not in text and "www." not in text and "@" not in text:
        return 0
    return len(URL.findall(text))


def _has_wrong_numbers(pair: PairText) -> bool:
    if find_numbers(pair.source, pair.target) is None:
        return False
    lost, invented = difference(numbers_of(pair.source), numbers_of(pair.target))
    longest = max(map(len, (*lost, *invented)), default=0)
    return longest >= MIN_DIGITS


def _balance(text: str) -> tuple[int, ...]:
    return (
        text.count("(") - text.count(")"),
        text.count("[") - text.count("]"),
        text.count("{") - text.count("}"),
    )
