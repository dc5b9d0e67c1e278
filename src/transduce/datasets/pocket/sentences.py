"""Whole sentences before they are written as text, and the joining of clauses."""

from collections.abc import Callable
from typing import NamedTuple

from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.dice import Dice
from transduce.datasets.pocket.phrases import Pair


class Sentence(NamedTuple):
    """A sentence not yet written as text: most are dropped, and writing is the slow part."""

    clauses: list[Clause]
    write: Callable[[], Pair]


Construction = Callable[[Dice], Sentence]


def finished(en: str, de: str, mark: str = ".") -> Pair:
    """Add a capital letter at the start and a punctuation mark at the end."""
    return Pair(en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark)


def marked(clause: Clause, *marks: str) -> Clause:
    """Record the constructions that a clause is part of."""
    clause.marks += marks
    return clause


def plain(clause: Clause, mark: str = ".") -> Sentence:
    """Make a sentence of one clause."""
    return Sentence([clause], lambda: finished(clause.english(), clause.german(), mark))


def question(clause: Clause) -> Sentence:
    """Make a yes-no question."""
    return Sentence(
        [clause], lambda: finished(clause.english(question=True), clause.german("first"), "?")
    )


def question_with(word: Pair, clause: Clause) -> Sentence:
    """Make a question with a question word."""
    return Sentence(
        [clause],
        lambda: finished(
            f"{word.en} {clause.english(question=True)}", f"{word.de} {clause.german('first')}", "?"
        ),
    )


def joined(main: Clause, sub: Clause, word: Pair, *, first: bool = False) -> Sentence:
    """Join a main and a subordinate clause, in either order."""
    marked(sub, word.de)
    if first:
        return Sentence(
            [main, sub],
            lambda: finished(
                f"{word.en} {sub.english()}, {main.english()}",
                f"{word.de} {sub.german('last')}, {main.german('first')}",
            ),
        )
    return Sentence(
        [main, sub],
        lambda: finished(
            f"{main.english()} {word.en} {sub.english()}",
            f"{main.german()}, {word.de} {sub.german('last')}",
        ),
    )


def repeats_itself(sentence: Sentence) -> bool:
    """Return whether a noun or name occurs twice, where people would use a pronoun."""
    names = [
        phrase.noun.key if phrase.noun else phrase.en
        for clause in sentence.clauses
        for phrase in clause.phrases
        if phrase.kind != "pronoun"
    ]
    return len(set(names)) < len(names)


def echoes(english: str) -> bool:
    """Return whether a word is repeated: the lamp that she turned on on Monday."""
    return " on on " in english or " at at " in english
