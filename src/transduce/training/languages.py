"""The languages of the corpora of a run: one pair, or several in one model."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from transduce.errors import BadInput
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text.corpora import CorpusText, Files, unused_name, with_names
from transduce.text.languages import UNKNOWN, Pair
from transduce.text.reading import find_languages


def in_directions(
    corpora: Sequence[CorpusText],
    valid: Files | None,
    *,
    given: str | None,
    known: Sequence[Pair],
    both: bool,
    progress: Progress,
) -> tuple[list[CorpusText], Files | None]:
    """Return the corpora with their languages, and validation text for all of them.

    The languages of a corpus are its own, else those `given`, else those in its file names. `known`
    are the pairs of the model to start from. With `both`, each corpus comes in both directions.
    With several pairs, the validation text goes to the first corpus in its languages.
    """
    corpora = _with_languages(corpora, given, known, progress)
    if both:
        corpora = _in_both_directions(corpora)
    pairs = Counter(pair for corpus in corpora if (pair := corpus.pair))
    if len(pairs) < 2:
        return corpora, valid
    if valid is not None:
        corpora, valid = _with_valid(corpora, valid, given), None
    progress.say(
        f"{pluralize(len(pairs), 'direction')} in one model: " + ", ".join(map("-".join, pairs))
    )
    return _named_by_pair(corpora, pairs), valid


def _with_languages(
    corpora: Sequence[CorpusText], given: str | None, known: Sequence[Pair], progress: Progress
) -> list[CorpusText]:
    """Add languages to the corpora that have none."""
    guesses = [corpus.pair or find_languages(*corpus.files, given) for corpus in corpora]
    different = [*dict.fromkeys(guess for guess in guesses if guess != UNKNOWN)]
    stated = given is not None or any(corpus.pair for corpus in corpora)
    if len(known) == 1 and len(different) < 2 and not stated:
        (model,) = known
        if different and different != [model]:
            progress.say(
                f"the files' endings say {'-'.join(different[0])}, but the model translates "
                f"{'-'.join(model)}: is this the right text, in this order? (--languages settles "
                "it)"
            )
        different = [model]
        guesses = [model] * len(corpora)
    if len(different) > 1 and UNKNOWN in guesses:
        unknown = with_names(corpora)[guesses.index(UNKNOWN)]
        raise BadInput(
            f"the languages of the corpus {unknown.name} are not known, and the others are "
            f"{', '.join(map('-'.join, different))}: expected file names such as train.en and "
            "train.de or train.en-de.tsv, or FILE:en-de"
        )
    only = different[0] if different else UNKNOWN
    return [
        corpus.in_languages(only if guess == UNKNOWN else guess)
        for corpus, guess in zip(corpora, guesses, strict=True)
    ]


def _in_both_directions(corpora: Sequence[CorpusText]) -> list[CorpusText]:
    """Add the opposite direction after each corpus."""
    for corpus in corpora:
        if corpus.pair in (None, UNKNOWN):
            raise BadInput(
                "both directions need the languages of each text: expected file names such as "
                "train.en and train.de or train.en-de.tsv, or --languages en-de"
            )
    return [each for corpus in corpora for each in (corpus, corpus.reversed())]


def _with_valid(corpora: Sequence[CorpusText], valid: Files, given: str | None) -> list[CorpusText]:
    """Give validation text to the first corpus in its languages."""
    pair = find_languages(*valid, given)
    own = [number for number, corpus in enumerate(corpora) if corpus.pair == pair]
    if not own or corpora[own[0]].reverse:
        shown = ", ".join("-".join(c.pair) for c in corpora if c.pair and not c.reverse)
        raise BadInput(
            f"the languages of the validation text are {'-'.join(pair)}, and those of the corpora "
            f"{shown}: expected validation text in one of these, in the same order"
        )
    changed = [*corpora]
    for number in (own[0], own[0] + 1):
        if number == own[0] or (number < len(corpora) and corpora[number].reverse):
            changed[number] = dataclasses.replace(corpora[number], valid=valid)
    return changed


def _named_by_pair(corpora: Sequence[CorpusText], pairs: Counter[Pair]) -> list[CorpusText]:
    """Name corpora without a name after their languages, if no other has these."""
    taken = {corpus.name for corpus in corpora if corpus.name}
    named = []
    for corpus in corpora:
        if corpus.name is not None or corpus.pair is None:
            named.append(corpus)
            continue
        code = "-".join(corpus.pair)
        (alone,) = with_names([corpus])
        stem = (alone.name or "").removesuffix(f".{code}")
        stem = stem.removesuffix(f".{'-'.join(corpus.pair[::-1])}")
        name = unused_name(code if pairs[corpus.pair] == 1 else f"{stem}.{code}", taken)
        taken.add(name)
        named.append(dataclasses.replace(corpus, name=name))
    return named
