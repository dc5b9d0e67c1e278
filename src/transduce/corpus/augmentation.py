"""Training pairs with sentinels instead of spans, and with the translations of terms.

Sentinels: a span that both sides have once is replaced on both by the same sentinel, so that the
model learns to copy sentinels, and with them whatever a translation must contain unchanged. They
are numbered from 1 in the order of the source, as in translation.

Terms: the translation of some terms follows them in the source, as their dictionary has it, while
the target may have an inflected form (Dinu et al. 2019; Bergmanis & Pinnis 2021). The dictionary is
extracted from the training text.

Every pair has its own random numbers, so the result depends on the seed and the number of the pair
alone. Validation text is not changed.

Differs: the paper does neither.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from transduce.config import TrainConfig
from transduce.corpus.encoding import REASONS, drop_unusable
from transduce.corpus.inputs import Pair
from transduce.corpus.scanning import ScannedText
from transduce.errors import BadSetting
from transduce.glossary.extraction import TermPair, extract_terms
from transduce.markup import find_spans
from transduce.markup.spans import is_inside_word
from transduce.subwords import SENTINELS, Codec, mark
from transduce.system.progress import Progress

Parts = list[str | int]
Range = tuple[int, int]

# Probabilities of replacing a span; a word if the pair has spans too, or if it has none; and of
# numbering from another number than 1, so that all sentinels are learned.
REPLACE_SPAN, REPLACE_WORD, REPLACE_ONLY_WORD, OTHER_NUMBERS = 0.9, 0.2, 0.5, 0.2
MAX_TERMS = 3  # shown in one sentence
DICTIONARY = 10_000  # terms
WORD = re.compile(r"\w+")
WHOLE_WORD = re.compile(r"(?<![\w.,])\w{2,}(?![.,]?\w)")  # not 147 in 2,147,483
TERM_WORD = re.compile(r"\w+(?:[-'’]\w+)*")


def check_markers(codec: Codec, train: TrainConfig) -> None:
    """Refuse subwords without the markers that the settings need."""
    for name, share, present in (
        ("spans", train.spans, codec.source.sentinels and codec.target.sentinels),
        ("terms", train.terms, codec.source.term_markers),
    ):
        if share and not present:
            raise BadSetting(
                f"{name} = {share:g}: these subwords were learned without {name}: expected 0, or "
                "a new run that learns its own subwords"
            )


@dataclass(frozen=True)
class Augmentation:
    """Replaces spans and shows terms in a share of the training pairs."""

    codec: Codec
    spans: float
    terms: float
    seed: int
    dictionary: "Dictionary"

    @classmethod
    def of(
        cls,
        codec: Codec,
        train: TrainConfig,
        corpora: Sequence[ScannedText],
        held_out: Set[str],
        progress: Progress,
    ) -> "Augmentation | None":
        """Return what the settings ask for; extract terms from the text if it is needed."""
        if not (train.spans or train.terms):
            return None
        terms: list[TermPair] = []
        if train.terms:
            terms = extract_terms(_pairs(corpora, held_out, progress), limit=DICTIONARY)
            progress.say(f"extracted {len(terms):,} pairs of terms")
        return cls(codec, train.spans, train.terms, train.seed, Dictionary(terms))

    def apply(self, corpus: int, number: int, pair: Pair) -> tuple[Parts, Parts]:
        """Return both sides of a pair, in parts; most pairs are unchanged."""
        rng = random.Random(f"{self.seed} {corpus} {number}")
        with_spans, with_terms = rng.random() < self.spans, rng.random() < self.terms
        spans = choose_spans(pair, rng) if with_spans else []
        terms: list[tuple[int, int, str]] = []
        if with_terms:
            taken = [[span[side] for span in spans] for side in (0, 1)]
            terms = self.dictionary.find(pair, taken)
            terms = rng.sample(terms, min(len(terms), rng.randint(1, MAX_TERMS)))
        if not spans and not terms:
            return [pair[0]], [pair[1]]
        first = 1
        if rng.random() < OTHER_NUMBERS:
            first = rng.randint(1, len(SENTINELS) - len(spans) + 1)
        numbered = list(enumerate(spans, start=first))
        sources = [(*source, number) for number, (source, _) in numbered]
        targets = [(*target, number) for number, (_, target) in numbered]
        return (
            mark(pair[0], sources, terms, coder=self.codec.source),
            mark(pair[1], targets, coder=self.codec.target),
        )


def choose_spans(pair: Pair, rng: random.Random) -> list[tuple[Range, Range]]:
    """Choose spans to replace; return where they are in source and target, by source order.

    Candidates occur once on each side: protected spans, and words with a capital or a digit.
    """
    protected = list(_protected(pair))
    words = list(_words(pair, protected))
    if not protected and not words:
        return []
    share = REPLACE_WORD if protected else REPLACE_ONLY_WORD
    chosen = [both for both in protected if rng.random() < REPLACE_SPAN]
    chosen += [both for both in words if rng.random() < share]
    chosen = chosen or [rng.choice(protected or words)]
    return sorted(chosen[: len(SENTINELS)])


def _protected(pair: Pair) -> Iterator[tuple[Range, Range]]:
    source, target = pair
    taken: list[Range] = []
    for span in find_spans(source):
        text = source[span.start : span.end]
        if span.kind == "private" or source.count(text) > 1 or target.count(text) != 1:
            continue
        begin = target.index(text)
        place = begin, begin + len(text)
        alone = not any(is_inside_word(target, position) for position in place)
        if alone and not _overlaps(place, taken):
            taken.append(place)
            yield (span.start, span.end), place


def _words(pair: Pair, protected: Sequence[tuple[Range, Range]]) -> Iterator[tuple[Range, Range]]:
    places: list[dict[str, Range]] = []
    for side, text in enumerate(pair):
        count = Counter(WORD.findall(text))
        taken = [both[side] for both in protected]
        places.append(
            {
                match[0]: match.span()
                for match in WHOLE_WORD.finditer(text)
                if count[match[0]] == 1
                and any(letter.isupper() or letter.isdigit() for letter in match[0])
                and not _overlaps(match.span(), taken)
            }
        )
    sources, targets = places
    yield from ((place, targets[word]) for word, place in sources.items() if word in targets)


def _overlaps(place: Range, others: Iterable[Range]) -> bool:
    return any(place[0] < end and begin < place[1] for begin, end in others)


class Dictionary:
    """Finds terms whose translation is in the target, perhaps inflected."""

    def __init__(self, terms: Iterable[TermPair]) -> None:
        # By the first word of the term: its words, the words of its translation, and this.
        self._terms = defaultdict[str, list[tuple[list[str], list[str], str]]](list)
        for term in terms:
            source, target = (_folded(text) for text in (term.source, term.target))
            self._terms[source[0]].append((source, target, term.target))
        for terms_of_word in self._terms.values():
            terms_of_word.sort(key=lambda term: -len(term[0]))

    def find(self, pair: Pair, taken: Sequence[Sequence[Range]]) -> list[tuple[int, int, str]]:
        """Return terms of the source that do not overlap: start, end and translation.

        `taken` has the places of each side that are replaced by sentinels.
        """
        source, target = (
            [
                (match[0].casefold(), match.span())
                for match in TERM_WORD.finditer(text)
                if not _overlaps(match.span(), places)
            ]
            for text, places in zip(pair, taken, strict=True)
        )
        words, translation = ([word for word, _ in side] for side in (source, target))
        found: list[tuple[int, int, str]] = []
        position = 0
        while position < len(words):
            step = 1
            for term, translated, shown in self._terms.get(words[position], ()):
                last = position + len(term)
                begin, end = source[position][1][0], source[min(last, len(words)) - 1][1][1]
                if (
                    words[position:last] == term
                    # Nothing else between the words, such as a comma.
                    and pair[0][begin:end].casefold().split() == term
                    and contains_form(translation, translated)
                ):
                    found.append((begin, end, shown))
                    step = len(term)
                    break
            position += step
        return found


def contains_form(words: Sequence[str], term: Sequence[str]) -> bool:
    """Return whether the words contain the term, or a form of it that begins in the same way."""
    return any(
        all(map(_is_form, words[begin : begin + len(term)], term))
        for begin in range(len(words) - len(term) + 1)
    )


def _is_form(word: str, term: str) -> bool:
    """Return whether a word may be an inflected form; a much longer word is a compound."""
    if len(term) < 3:
        return word == term
    return word.startswith(term[: max(3, len(term) - 3)]) and len(word) <= len(term) + 3


def _folded(text: str) -> list[str]:
    return [word.casefold() for word in TERM_WORD.findall(text)]


def _pairs(
    corpora: Sequence[ScannedText], held_out: Set[str], progress: Progress
) -> Iterator[Pair]:
    for corpus in corpora:
        pairs = corpus.pairs("extracting terms", progress)
        yield from drop_unusable(pairs, held_out, dict.fromkeys(REASONS, 0))
