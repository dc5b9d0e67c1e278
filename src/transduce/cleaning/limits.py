"""The rules by name, and their limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.errors import BadInput, did_you_mean

# In the order in which they are applied: a pair is removed by the first rule that it breaks.
RULES = {
    "encoding": "damaged UTF-8, control characters, or text that was decoded wrongly (Ã¤ for ä)",
    "blank": "a side without letters and digits",
    "long": "a side that is too long",
    "ratio": "one side is much longer than usual for the other",
    "copy": "the target is the source, or has most of its words",
    "script": "letters of a script that the language does not use",
    "markup": "tags on one side only, menus, or hardly any letters",
    "urls": "URLs or e-mail addresses that only one side has",
    "numbers": "numbers that only one side has",
    "brackets": "brackets that are closed on one side only",
    "language": "a side in another language",
    "overlap": "a pair of the texts given with --against",
    "duplicate": "the same pair again",
    "near-duplicate": "the same pair again but for case, digits, punctuation and white space",
    "boilerplate": "a target that translates very many different sources",
}

SCORE = "score"  # the rule for scores by models
MEANINGS = {**RULES, SCORE: "a low score by the models in both directions"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the rules allow."""

    max_words: int = 200  # of a side
    max_characters: int = 2_000  # of a side
    max_ratio: float = 2.0  # of the lengths of long sides, beyond what is usual
    max_sources: int = 10  # of one target
    min_letters: float = 0.35  # share of a side's characters, white space aside
    foreign_letters: float = 0.3  # share of a side's letters in foreign scripts
    language_probability: float = 0.6  # of another language

    def __post_init__(self) -> None:
        """Refuse limits that would remove everything."""
        for name in self.__slots__:
            value = getattr(self, name)
            least = 1 if name.startswith("max") else 0
            if not least <= value or (least == 0 and value > 1):
                option = name.replace("_", "-")
                expected = "at least 1" if least else "between 0 and 1"
                raise BadInput(f"--{option} {value}: expected a number {expected}")


def chosen_rules(only: Sequence[str], without: Sequence[str]) -> list[str]:
    """Return the rules to apply: all, or `only` some, `without` others."""
    only, without = (
        [name.strip() for names in given for name in names.split(",") if name.strip()]
        for given in (only, without)
    )
    for name in (*only, *without):
        if name not in RULES:
            raise BadInput(
                f"there is no rule {name!r}: expected {', '.join(RULES)}."
                + did_you_mean(name, RULES)
            )
    rules = [name for name in RULES if (not only or name in only) and name not in without]
    if not rules:
        raise BadInput("no rule is left: expected at least one")
    return rules
