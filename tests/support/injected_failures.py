"""Failures of translation models, made from correct pairs; deterministic in the seed."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from transduce.translation.guard import Kind
from transduce.translation.guard.flags import words_of

# Other letters for Latin ones, such as a model trained on mixed data writes.
CYRILLIC = str.maketrans("abcdefghiklmnoprstuvyzäöü", "абкдефгхиклмнопрстувызэёю")
GREEK = str.maketrans("abcdefghiklmnoprstuvyzäöü", "αβκδεφγχικλμνοπρστυβυζαοι")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Failure:
    """A wrong output for a source."""

    name: str
    kinds: tuple[Kind, ...]  # any of these flags names the failure
    source: str
    output: str


Maker = Callable[[str, str, random.Random], str | None]  # source, translation: a wrong output


def loop_at_end(source: str, output: str, dice: random.Random) -> str | None:
    """The last 1 to 4 words are repeated until the end."""
    words = output.split()
    size = dice.randint(1, 4)
    return " ".join([*words, *words[-size:] * dice.randint(3, 10)]) if len(words) > size else None


def loop_in_middle(source: str, output: str, dice: random.Random) -> str | None:
    """1 to 4 words in the middle come three to six times."""
    words = output.split()
    size = dice.randint(1, 4)
    if len(words) <= size + 1:
        return None
    start = dice.randrange(1, len(words) - size + 1)
    loop = words[start : start + size] * dice.randint(2, 5)
    return " ".join([*words[: start + size], *loop, *words[start + size :]])


def doubled(source: str, output: str, dice: random.Random) -> str | None:
    """The whole output comes twice."""
    return f"{output} {output}" if output else None


def half(source: str, output: str, dice: random.Random) -> str | None:
    """Only the first or the last half of the words is left."""
    words = output.split()
    middle = len(words) // 2
    kept = words[:middle] if dice.random() < 0.5 else words[-middle:]
    return " ".join(kept) if middle else None


def empty(source: str, output: str, dice: random.Random) -> str | None:
    """Nothing is left."""
    return "" if source.strip() else None


def copied(source: str, output: str, dice: random.Random) -> str | None:
    """The output is the source, for sources of at least four words in small letters."""
    ordinary = [word for word in words_of(source) if word.isalpha() and word == word.lower()]
    return source if source != output and len(ordinary) >= 4 else None


def other_script(source: str, output: str, dice: random.Random) -> str | None:
    """1 to 3 words are written in Cyrillic or Greek letters."""
    words = output.split()
    places = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    for place in dice.sample(places, min(len(places), dice.randint(1, 3))):
        words[place] = words[place].lower().translate(dice.choice((CYRILLIC, GREEK)))
    return " ".join(words) if places else None


def number_changed(source: str, output: str, dice: random.Random) -> str | None:
    """A digit of a number is another digit."""
    found = [match for match in NUMBER.finditer(output) if match[0] in source]
    if not found:
        return None
    match = dice.choice(found)
    place = dice.choice([i for i in range(*match.span()) if output[i].isdigit()])
    digit = dice.choice([d for d in "123456789" if d != output[place]])
    return output[:place] + digit + output[place + 1 :]


def number_dropped(source: str, output: str, dice: random.Random) -> str | None:
    """A number is missing."""
    found = [match for match in NUMBER.finditer(output) if match[0] in source]
    if not found:
        return None
    match = dice.choice(found)
    return output[: match.start()] + output[match.end() :]


def number_added(source: str, output: str, dice: random.Random) -> str | None:
    """A number of two to four digits is inserted between two words."""
    words = output.split()
    if not words:
        return None
    number = str(dice.randint(13, 9999))
    words.insert(dice.randint(1, len(words)), number)
    return " ".join(words)


# The expected flags of each. A doubled sentence is a repetition, and too long.
MAKERS: dict[str, tuple[Maker, tuple[Kind, ...]]] = {
    "loop at the end": (loop_at_end, ("repetition",)),
    "loop in the middle": (loop_in_middle, ("repetition",)),
    "doubled": (doubled, ("repetition", "length")),
    "half missing": (half, ("length",)),
    "empty": (empty, ("length",)),
    "source copied": (copied, ("copy",)),
    "other script": (other_script, ("script",)),
    "number changed": (number_changed, ("numbers",)),
    "number dropped": (number_dropped, ("numbers",)),
    "number added": (number_added, ("numbers",)),
}
UNRELATED = "another sentence"  # flagged by chance: nothing of the text itself is wrong


def injected_failures(pairs: Sequence[tuple[str, str]], seed: int = 1) -> Iterator[Failure]:
    """Yield every possible failure of each pair, and the translation of the pair in the middle."""
    for index, (source, output) in enumerate(pairs):
        for name, (make, kinds) in MAKERS.items():
            wrong = make(source, output, random.Random(f"{seed} {index} {name}"))
            if wrong is not None and wrong != output:
                yield Failure(name, kinds, source, wrong)
        _, other = pairs[(index + len(pairs) // 2) % len(pairs)]
        if other != output:
            yield Failure(UNRELATED, ("length", "numbers", "confidence"), source, other)
