"""A whole sentence, before it is written."""

from collections.abc import Callable
from typing import NamedTuple

from transduce.datasets.pocket.chance import Dice
from transduce.datasets.pocket.clauses import Clause
from transduce.datasets.pocket.phrases import Pair


class Sentence(NamedTuple):
    """A sentence drawn and not yet written: many are drawn in vain, and writing costs most."""

    clauses: list[Clause]
    write: Callable[[], Pair]


Construction = Callable[[Dice], Sentence]


def finished(en: str, de: str, mark: str = ".") -> Pair:
    """Begin with a capital and end with a mark."""
    return Pair(en[0].upper() + en[1:] + mark, de[0].upper() + de[1:] + mark)


def marked(clause: Clause, *marks: str) -> Clause:
    """Note the constructions that a clause takes part in."""
    clause.marks += marks
    return clause


def plain(clause: Clause, mark: str = ".") -> Sentence:
    """Say a clause by itself."""
    return Sentence([clause], lambda: finished(clause.english(), clause.german(), mark))


def question(clause: Clause) -> Sentence:
    """Ask whether a clause is so."""
    return Sentence(
        [clause], lambda: finished(clause.english(question=True), clause.german("first"), "?")
    )


def question_with(word: Pair, clause: Clause) -> Sentence:
    """Ask for something about a clause."""
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
    """Whether a noun or a name is said twice, where people would use a pronoun."""
    said = [
        phrase.noun.key if phrase.noun else phrase.en
        for clause in sentence.clauses
        for phrase in clause.phrases
        if phrase.kind != "pronoun"
    ]
    return len(set(said)) < len(said)


def echoes(english: str) -> bool:
    """Whether two particles collide: the lamp that she turned on on Monday."""
    return " on on " in english or " at at " in english
