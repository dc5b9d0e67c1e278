"""Which tags a word can have: those that the training trees give it.

A word that they have often takes one of the tags that it has there; any other word one of those
that rare words have. So no comma is ever a noun, and a search that has lost its place among the
words cannot go on as if nothing were wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from transduce.errors import BadRun
from transduce.parsing.sequences import CLOSE, MASK
from transduce.system.files import read_checksummed, write_checksummed

FORMAT = 1
OFTEN = 20  # times that a word is seen before its tags are taken to be all it has
RARE = 0  # the class of all other words


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Classes of words, each with the tags that its words can have."""

    classes: tuple[tuple[str, ...], ...]  # the first is that of rare words; no tags: any
    words: Mapping[str, int]  # the classes of all others

    def of(self, word: str) -> int:
        """Return the class of a word."""
        return self.words.get(word, RARE)

    @classmethod
    def learn(cls, words: Iterable[str], symbols: Iterable[str]) -> Self:
        """Learn from lines of words and lines of the symbols of their trees."""
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for line, tree in zip(words, symbols, strict=True):
            tags = [one for one in tree.split(" ") if one != CLOSE and not one.startswith("(")]
            for word, tag in zip(line.split(" "), tags, strict=True):  # some hold a thin space
                seen[word][tag] += 1
        rare = {tag for tags in seen.values() if tags.total() < OFTEN for tag in tags}
        classes: dict[tuple[str, ...], int] = {tuple(sorted(rare)): RARE}
        often = {word: tags for word, tags in seen.items() if tags.total() >= OFTEN}
        if MASK in rare or any(MASK in tags for tags in often.values()):
            return cls(((),), {})  # trees without tags tell nothing of them
        found = {
            word: classes.setdefault(tuple(sorted(tags)), len(classes))
            for word, tags in often.items()
        }
        return cls(tuple(classes), found)

    def save(self, path: Path) -> None:
        """Write it."""
        content = {"classes": [list(tags) for tags in self.classes], "words": dict(self.words)}
        write_checksummed(path, {"format": FORMAT, **content})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote, or say what is wrong with the file."""
        content = read_checksummed(path, FORMAT, "the tags of words")
        try:
            classes = tuple(tuple(map(str, tags)) for tags in content["classes"])
            words = {str(word): int(number) for word, number in content["words"].items()}
            if not classes or not all(0 <= number < len(classes) for number in words.values()):
                raise ValueError("a word has a class that there is not")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BadRun(f"{path} is damaged: {error}") from None
        return cls(classes, words)
