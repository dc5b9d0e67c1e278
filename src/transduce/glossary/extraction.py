"""Extract terms and their translations from parallel text.

Candidates are sequences of one to three words on each side that do not begin or end with a function
word. Those that often occur in translations of each other are linked, the strongest first, and each
candidate is linked once (Melamed 2000, "competitive linking"). The strength is the Dice coefficient
of the sentences that contain them, with the logarithm of their number, because rare candidates
often occur together by chance.
"""

import array
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
MAX_PAIRS = 150_000  # a random sample of a larger text is used, so that memory is limited
MAX_WORDS = 200  # of a sentence; the rest is not read
MAX_LETTERS = 60  # of a word; longer ones are not terms
LONGEST = 3  # words of a term
SENTENCE_ENDS = frozenset('.:!?•*"“„(')  # a word after one of these may have a capital
# Function words are among the most frequent words, which make up about half of a text; each is in
# more than 1% of all sentences, and is hardly ever capitalized within one. Content words of the
# same frequency are capitalized in headings, or always, as German nouns are.
HEAD, FREQUENT, CAPITALIZED = 0.55, 0.01, 0.03
COHESION = 4.0  # words of a term are together so many times as often as by chance
INSIDE = 0.6  # a candidate that has the same content word beside it so often is not a whole term
MIN_DICE = 0.35
BLOCK = 1 << 22  # pairs of candidates that are counted at once


@dataclass(frozen=True, slots=True)
class TermPair:
    """A term and its translation."""

    source: str
    target: str
    count: int  # sentence pairs with both
    score: float


def extract_terms(
    pairs: Iterable[tuple[str, str]], *, limit: int, min_count: int = 5, identical: bool = False
) -> list[TermPair]:
    """Return at most `limit` term pairs, the best first.

    A pair occurs in at least `min_count` sentence pairs. Terms that are the same in both languages,
    such as names, are left out without `identical`.
    """
    sides = _Words(), _Words()
    for pair in _sample(pairs):
        for side, text in zip(sides, pair, strict=True):
            side.add(text)
    source, target = (_Candidates(side, min_count) for side in sides)
    links = _count_links(source, target, min_count)
    dice = 2 * links.together / (source.counts[links.source] + target.counts[links.target])
    scores = dice**2 * np.log2(1 + links.together)
    strong = np.flatnonzero(dice >= MIN_DICE)
    order = strong[np.argsort(-scores[strong], kind="stable")]
    found: list[TermPair] = []
    linked: tuple[set[int], set[int]] = set(), set()
    for number in order.tolist():
        left, right = int(links.source[number]), int(links.target[number])
        if left in linked[0] or right in linked[1]:
            continue
        texts = source.text(left), target.text(right)
        one, other = (f" {text.casefold()} " for text in texts)
        if one != other and (one in other or other in one):
            continue  # a name, and part of it
        linked[0].add(left)
        linked[1].add(right)
        if identical or one != other:
            count, score = int(links.together[number]), round(float(scores[number]), 3)
            found.append(TermPair(*texts, count, score))
            if len(found) == limit:
                break
    return found


def _sample(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    rng = random.Random(0)
    chosen: list[tuple[str, str]] = []
    for number, pair in enumerate(pairs):
        if number < MAX_PAIRS:
            chosen.append(pair)
        elif (index := int(rng.random() * (number + 1))) < MAX_PAIRS:  # reservoir sampling
            chosen[index] = pair
    return chosen


class _Words:
    """The words of one side of a text, as numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.words, self.ends = array.array("i"), array.array("q")

    def add(self, text: str) -> None:
        """Add a sentence."""
        numbers = self.numbers
        words = WORD.findall(text)[:MAX_WORDS]
        self.words.extend([numbers.setdefault(word, len(numbers)) for word in words])
        self.ends.append(len(self.words))


class _Candidates:
    """The candidates of one side, and the sentences that contain each of them.

    `candidate` and `sentence` have the same length: each candidate once for each sentence.
    """

    def __init__(self, words: _Words, min_count: int) -> None:
        forms = list(words.numbers)
        folded: dict[str, int] = {}
        number_of = np.array([folded.setdefault(w.casefold(), len(folded)) for w in forms], int)
        flat = np.array(words.words, np.int64)
        text = _Text.of(number_of[flat], np.array(words.ends, np.int64), len(folded))
        begins = np.array([form in SENTENCE_ENDS for form in forms], bool)[flat]
        text.first[1:] |= begins[:-1]
        inside, capitals = _inside(text, forms, flat)
        self.forms = _usual_forms(forms, number_of, inside)
        is_word = np.array([w[0].isalnum() and len(w) <= MAX_LETTERS for w in folded], bool)
        letters = np.array([sum(map(str.isalpha, word)) for word in folded], int)
        frequent = text.count_sentences() >= max(2, FREQUENT * text.sentences)
        frequent &= _head(np.bincount(text.words, minlength=len(folded)) * is_word)
        total = np.bincount(number_of, inside, len(folded))
        function = frequent & (np.bincount(number_of, capitals, len(folded)) <= CAPITALIZED * total)
        is_term = is_word & (letters > 1) & ~function
        self.words: list[tuple[int, ...]] = []
        counts, found, sentences = [], [], []
        beside: dict[tuple[int, ...], int] = {}
        for sequences in _sequences(text, is_word, min_count):
            ends = is_term[sequences.words[:, 0]] & is_term[sequences.words[:, -1]]
            usable = ends & sequences.frequent & sequences.cohesive
            usable &= sequences.words.shape[1] <= LONGEST  # one more word: only for `beside`
            numbers = np.cumsum(usable) - 1 + len(self.words)
            chosen = usable[sequences.found]
            found.append(numbers[sequences.found[chosen]])
            sentences.append(sequences.sentences[chosen])
            self.words += map(tuple, sequences.words[usable].tolist())
            counts.append(sequences.counts[usable])
            sequences.count_longer(is_term, beside)
        self.counts = np.concatenate(counts)
        self.candidate, self.sentence = np.concatenate(found), np.concatenate(sentences)
        within = zip(self.words, self.counts.tolist(), strict=True)
        independent = np.array([beside.get(w, 0) < INSIDE * count for w, count in within], bool)
        kept = independent[self.candidate]
        self.candidate, self.sentence = self.candidate[kept], self.sentence[kept]

    def text(self, candidate: int) -> str:
        """Return a candidate as it is usually written."""
        return " ".join(self.forms[word] for word in self.words[candidate])


@dataclass(frozen=True)
class _Text:
    """The words of a text as numbers, and the sentence of each word."""

    words: Ints
    sentence: Ints
    first: Bools  # in its sentence
    sentences: int
    vocabulary: int

    @classmethod
    def of(cls, words: Ints, ends: Ints, vocabulary: int) -> "_Text":
        lengths = np.diff(ends, prepend=0)
        sentence = np.repeat(np.arange(len(ends)), lengths)
        first = np.diff(sentence, prepend=-1) > 0
        return cls(words, sentence, first, len(ends), vocabulary)

    def count_sentences(self) -> Ints:
        """Return the number of sentences with each word."""
        both = np.unique(self.words * self.sentences + self.sentence)
        return np.bincount(both // max(1, self.sentences), minlength=self.vocabulary)


def _inside(text: _Text, forms: list[str], flat: Ints) -> tuple[Floats, Floats]:
    """Count each form where it is not the first word, and again if it begins with a capital."""
    inside = np.bincount(flat, (~text.first).astype(float), len(forms)).astype(float)
    capital = np.array([form[0].isupper() or form[0].isdigit() for form in forms], bool)
    return inside, inside * capital


def _head(counts: Ints) -> Bools:
    """Return which are the most frequent words, which make up a share of the text."""
    order = np.argsort(-counts, kind="stable")
    before = counts[order].cumsum() - counts[order]
    head = np.zeros(len(counts), bool)
    head[order] = before < HEAD * counts.sum()
    return head


def _usual_forms(forms: list[str], number_of: Ints, inside: Floats) -> list[str]:
    """Return how each word is written most often, apart from the first word of a sentence."""
    usual = [""] * (int(number_of.max(initial=-1)) + 1)
    for number in np.argsort(inside, kind="stable").tolist():
        usual[number_of[number]] = forms[number]
    return usual


@dataclass(frozen=True)
class _Sequences:
    """All different sequences of a number of words, and the sentences with each of them."""

    words: Ints  # (sequences, number of words)
    counts: Ints  # sentences
    frequent: Bools
    cohesive: Bools
    found: Ints
    sentences: Ints

    def count_longer(self, content: Bools, beside: dict[tuple[int, ...], int]) -> None:
        """Note for each shorter sequence how often the same content word is beside it."""
        if self.words.shape[1] == 1:
            return
        chosen = np.flatnonzero(self.frequent & content[self.words[:, [0, -1]]].any(axis=1))
        for words, count in zip(
            self.words[chosen].tolist(), self.counts[chosen].tolist(), strict=True
        ):
            first, *_, last = words
            shorter = [(words[:-1], last), (words[1:], first)]
            if content[first] and content[last]:  # perhaps with function words between them
                shorter += [(words[:1], last), (words[-1:], first)]
            for part, other in shorter:
                if content[other]:
                    beside[tuple(part)] = max(beside.get(tuple(part), 0), count)


def _sequences(text: _Text, is_word: Bools, min_count: int) -> Iterator[_Sequences]:
    """Yield the sequences of one word, of two, and so on; longer ones of frequent shorter ones."""
    numbers = np.where(is_word[text.words], text.words, -1)  # of the sequence that begins here
    rows = np.arange(text.vocabulary)[:, None]
    chance = np.zeros(text.vocabulary)  # sentences with each sequence, if words were independent
    single = counts = text.count_sentences()
    for length in range(1, LONGEST + 2):
        if length > 1:
            size = max(0, len(text.words) - length + 1)
            following = text.words[length - 1 :]
            together = (numbers[:size] >= 0) & is_word[following]
            together &= text.sentence[:size] == text.sentence[length - 1 :]
            places = np.flatnonzero(together)
            keys = numbers[places] * text.vocabulary + following[places]
            unique, inverse = np.unique(keys, return_inverse=True)
            before, last = unique // text.vocabulary, unique % text.vocabulary
            chance = counts[before] * single[last] / text.sentences
            rows = np.column_stack([rows[before], last])
            numbers = np.full(size, -1)
            numbers[places] = inverse
        places = np.flatnonzero(numbers >= 0)
        both = np.unique(numbers[places] * text.sentences + text.sentence[places])
        found, sentences = both // max(1, text.sentences), both % max(1, text.sentences)
        counts = np.bincount(found, minlength=len(rows))
        frequent = counts >= min_count
        numbers[places[~frequent[numbers[places]]]] = -1
        yield _Sequences(rows, counts, frequent, counts >= COHESION * chance, found, sentences)


@dataclass(frozen=True)
class _Links:
    """Pairs of candidates, and how many sentence pairs have both."""

    source: Ints
    target: Ints
    together: Ints


def _count_links(source: _Candidates, target: _Candidates, min_count: int) -> _Links:
    """Count pairs of candidates, for some source candidates at a time to save memory."""
    order = np.argsort(target.sentence, kind="stable")
    candidates = target.candidate[order]
    sentences = int(max(source.sentence.max(initial=0), target.sentence.max(initial=0))) + 1
    number = np.bincount(target.sentence, minlength=sentences)
    first = number.cumsum() - number
    by_candidate = np.argsort(source.candidate, kind="stable")
    left, sentence = source.candidate[by_candidate], source.sentence[by_candidate]
    pairs = number[sentence].cumsum()
    ends = np.append(np.flatnonzero(np.diff(left)) + 1, len(left))  # of the candidates
    results = [np.zeros((3, 0), np.int64)]
    begin = 0
    while begin < len(left):
        limit = np.searchsorted(pairs, BLOCK + (pairs[begin - 1] if begin else 0))
        later = ends[ends > begin]
        end = int(max(later[0], later[later <= limit].max(initial=0)))
        lengths = number[sentence[begin:end]]
        starts = np.repeat(first[sentence[begin:end]] - (lengths.cumsum() - lengths), lengths)
        right = candidates[starts + np.arange(len(starts))]
        size = len(target.words)
        keys, together = np.unique(
            np.repeat(left[begin:end], lengths) * size + right, return_counts=True
        )
        enough = together >= min_count
        keys = keys[enough]
        results.append(np.stack([keys // size, keys % size, together[enough]]))
        begin = end
    return _Links(*np.concatenate(results, axis=1))
