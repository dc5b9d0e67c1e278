"""The tags that each word can have, learned from the training trees.

A frequent word can have the tags that it has in the training trees; any other word can have the
tags of rare words. So a comma is never a noun, and a search that has lost track of the words
cannot continue unnoticed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from transduce.parsing.sequences import CLOSE, MASK
from transduce.system.files import read_checksummed, write_checksummed

FORMAT = 1
FREQUENT = 20  # a word with at least this many occurrences can only have the tags seen in training
RARE = 0  # the class of all other words


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Word classes, each with the tags that its words can have."""

    classes: tuple[tuple[str, ...], ...]  # the first is for rare words; no tags: any tag
    words: Mapping[str, int]  # the class of each frequent word

    def of(self, word: str) -> int:
        """Return the class of a word."""
        return self.words.get(word, RARE)

    @classmethod
    def learn(cls, words: Iterable[str], symbols: Iterable[str]) -> Self:
        """Learn a lexicon from lines of words and the symbols of their trees."""
        tag_counts: dict[str, Counter[str]] = defaultdict(Counter)
        for line, tree in zip(words, symbols, strict=True):
            tags = [s for s in tree.split(" ") if s != CLOSE and not s.startswith("(")]
            # Not split(): a word may contain a thin space.
            for word, tag in zip(line.split(" "), tags, strict=True):
                tag_counts[word][tag] += 1
        rare = {tag for tags in tag_counts.values() if tags.total() < FREQUENT for tag in tags}
        classes: dict[tuple[str, ...], int] = {tuple(sorted(rare)): RARE}
        frequent = {word: tags for word, tags in tag_counts.items() if tags.total() >= FREQUENT}
        if MASK in rare or any(MASK in tags for tags in frequent.values()):
            return cls(((),), {})  # the trees have no tags
        words_to_class = {
            word: classes.setdefault(tuple(sorted(tags)), len(classes))
            for word, tags in frequent.items()
        }
        return cls(tuple(classes), words_to_class)

    def save(self, path: Path) -> None:
        """Write the lexicon to a file."""
        content = {"classes": [list(tags) for tags in self.classes], "words": dict(self.words)}
        write_checksummed(path, {"format": FORMAT, **content})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a lexicon written by `save`."""
        fields = {"classes": list[list[str]], "words": dict[str, int]}
        content = read_checksummed(path, FORMAT, "the tags of words", fields)
        return cls(tuple(map(tuple, content["classes"])), content["words"])
