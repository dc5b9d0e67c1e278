"""Warnings about text in other languages than stated, such as a text with its sides swapped.

Lines of a sample are read. Frequent words tell the languages of most of them. If they do not,
py3langid does, if it is installed.
"""

from collections import Counter
from collections.abc import Sequence

from transduce.text.identification import (
    TABLE,
    canonical,
    identify_among,
    is_available,
    is_known,
    language_by_words,
    same_language,
)
from transduce.text.languages import UNKNOWN, Pair

LINES, MAX_LINE = 1_000, 500  # lines of each side that are read, and characters of a line
MIN_LETTERS, CERTAIN = 20, 0.9  # a line that py3langid reads, and its probability
# Lines whose language is clear: at least this many, and this share of those that are read.
MIN_CLEAR, MIN_SHARE = 30, 0.3
# Share of the clear lines that are in one other language: from SOME on there is a warning, from
# MOST on it is about the whole text.
SOME, MOST = 0.2, 0.8
# Candidates for py3langid. Its other languages are mostly close to one of these, or rare.
COMMON = frozenset(TABLE) | {"ar", "bg", "el", "et", "fa", "he", "hi", "hr", "id", "ja", "ko"}
COMMON |= {"lt", "lv", "sk", "sl", "th", "vi", "zh"}


def language_warnings(texts: Sequence[tuple[str, Pair, Sequence[Pair]]]) -> list[str]:
    """Return a warning for each text that seems to be in other languages than stated.

    A text has a name, its languages, and a random sample of its pairs. Texts in unknown languages
    are trained as one pair of languages: they are compared with the first of them.
    """
    warnings = []
    first: Pair | None = None
    for name, languages, pairs in texts:
        different = [pair for pair in pairs[:LINES] if pair[0] != pair[1]]
        sources, targets = ([pair[side] for pair in different] for side in (0, 1))
        if languages == UNKNOWN:
            first = first or _main_languages(sources, targets)
        stated = first if languages == UNKNOWN else languages
        if stated is None:
            continue
        source, some_sources = _seen(sources, stated[0], stated[1])
        target, some_targets = _seen(targets, stated[1], stated[0])
        if share := max(some_sources, some_targets):
            warnings.append(f"warning: {_describe(name, (source, target), stated, share)}")
    return warnings


def _describe(name: str, seen: Pair, stated: Pair, share: float) -> str:
    languages, expected = "-".join(seen), "-".join(stated)
    if share < MOST:
        return (
            f"{name}: about {share:.0%} of the pairs seem to be {languages}, and the rest "
            f"{expected}: correct them, or remove them with `transduce data clean`"
        )
    advice = "swap the sides" if seen == stated[::-1] else "check the text"
    return (
        f"{name}: the languages seem to be {languages}, not {expected}: {advice}, or state the "
        f"languages (--languages {languages}, or FILE:{languages} in --corpus)"
    )


def _seen(lines: Sequence[str], stated: str, opposite: str) -> tuple[str, float]:
    """Return the other language that a side seems to be in, and its share; else `stated` and 0."""
    votes = _votes(lines, stated, opposite)
    own, other = canonical(stated), canonical(opposite)
    wrong = {
        code: number
        for code, number in votes.items()
        if code != own and (code == other or not same_language(code, own))
    }
    code = max(wrong, key=lambda code: wrong[code], default=own)
    share = wrong.get(code, 0) / max(1, votes.total())
    if share < SOME:
        return stated, 0.0
    return (opposite if code == other else code), share


def _main_languages(sources: Sequence[str], targets: Sequence[str]) -> Pair | None:
    """Return the languages of most lines of each side, if they are clear."""
    ranked = [_votes(lines).most_common(1) for lines in (sources, targets)]
    if not all(ranked):
        return None
    return ranked[0][0][0], ranked[1][0][0]


def _votes(lines: Sequence[str], stated: str = "", opposite: str = "") -> Counter[str]:
    """Count the languages of lines; none if too few are clear."""
    enough = max(MIN_CLEAR, MIN_SHARE * len(lines))
    lines = [line[:MAX_LINE] for line in lines]
    votes: Counter[str] = Counter()
    if not stated or canonical(stated) in TABLE:
        votes.update(filter(None, map(language_by_words, lines)))
    known = votes.total() >= enough
    most = votes[canonical(stated)] > (1 - SOME) * votes.total()
    confirmed = known and (most or not stated)
    if not confirmed and len(lines) >= enough and _identifiable(stated, opposite):
        candidates = COMMON | {canonical(code) for code in (stated, opposite) if code}
        guesses = [identify_among(line, candidates)[:1] for line in lines if _is_long(line)]
        sure = [best.language for guess in guesses for best in guess if best.probability >= CERTAIN]
        if len(sure) >= enough:
            return Counter(sure)
    return votes if known else Counter()


def _identifiable(stated: str, opposite: str) -> bool:
    """Return whether py3langid is installed, and tells the stated language from the other one."""
    if not is_available():
        return False
    return not stated or (is_known(stated) and not same_language(stated, opposite))


def _is_long(line: str) -> bool:
    return sum(map(str.isalpha, line)) >= MIN_LETTERS
