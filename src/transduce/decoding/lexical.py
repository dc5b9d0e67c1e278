"""Beam search whose outputs contain required phrases (Post and Vilar 2018, Hu et al. 2019).

S sentences, k hypotheses per sentence, R = S * k rows, V words; T tokens and P phrases that are
required of a sentence; C candidates per hypothesis.

Each hypothesis knows how many of the required tokens it still lacks: those of the phrases that it
does not contain, less those at its end that begin one of these phrases. The hypotheses of a
sentence that lack the same number form a bank. Besides its k best words, the candidates of a
hypothesis are all words that continue or begin a phrase that it lacks. The k places go to the best
of each bank, then to the second best of each bank, and so on; within a rank, to the best scores.
Before these, `nbest` places go to those that lack least, so that enough hypotheses always get
nearer to having every phrase.

`</s>` is possible only when no phrase is missing. At the length limit an output ends anyway; those
that lack something come after all others.

An ended hypothesis does not take a place of the beam, as it does in free search: the first outputs
that have every phrase are often bad, because they have them too early.

Different phrases may overlap in an output. Equal phrases must occur as often as they are required,
without overlap.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from transduce.batching.packed import Ints
from transduce.config import SearchConfig
from transduce.decoding.search import NONE, Beams, Constrain, fast_topk
from transduce.model.base import Transducer
from transduce.subwords import EOS

Phrase = tuple[tuple[int, ...], ...]  # alternatives, of which one is enough
MAX_PHRASES, MAX_TOKENS = 16, 64  # of a sentence; equal phrases share their tokens
LEAST_BEAM = 8  # fewer places than banks put phrases where they do not belong
LACKING = 1e5  # subtracted from the score of an ended hypothesis for each token that it lacks


def usable_phrases(required: Sequence[Phrase], forbidden: Collection[int]) -> tuple[Phrase, ...]:
    """Return the phrases that a search can require.

    Alternatives with words that no output has are left out, and phrases without alternatives.
    A phrase is also left out if the sentence would have more than `MAX_PHRASES`, or `MAX_TOKENS`
    in all alternatives of all different phrases; a shorter one after it may still fit.
    """
    never = {*forbidden, EOS}
    usable: list[Phrase] = []
    tokens = 0
    for phrase in required:
        if not all(phrase):
            continue  # an empty alternative is in every output
        alternatives = tuple(sorted({one for one in phrase if never.isdisjoint(one)}))
        more = 0 if alternatives in usable else sum(map(len, alternatives))
        if alternatives and len(usable) < MAX_PHRASES and tokens + more <= MAX_TOKENS:
            usable.append(alternatives)
            tokens += more
    return tuple(usable)


def phrase_capacity(required: Sequence[Sequence[Phrase]], *, static: bool) -> tuple[int, int]:
    """Return how many different phrases and tokens the sentences of a search need.

    With `static`, they are rounded up, so that searches share a recorded step.
    """
    different = [set(phrases) for phrases in required]
    phrases = max(map(len, different))
    tokens = max(sum(len(one) for phrase in each for one in phrase) for each in different)
    if not static:
        return phrases, tokens
    return max(4, _power_of_2(phrases)), max(16, _power_of_2(tokens))


def phrase_tables(
    required: Sequence[Sequence[Phrase]], capacity: tuple[int, int]
) -> tuple[Ints, Ints]:
    """Return the phrases of some sentences as arrays: (n, T, 3) and (n, P, 2).

    For each token of each alternative: its id, its phrase, and how many tokens come after it. For
    each different phrase: how often it is required, and the length of its shortest alternative.
    """
    tokens = np.full((len(required), capacity[1], 3), NONE)
    tokens[..., 1:] = 0
    phrases = np.zeros((len(required), capacity[0], 2), dtype=np.int64)
    for row, of_sentence in enumerate(required):
        position = 0
        for number, (phrase, count) in enumerate(Counter(of_sentence).items()):
            phrases[row, number] = count, min(map(len, phrase))
            for alternative in phrase:
                for index, token in enumerate(alternative, start=1):
                    tokens[row, position] = token, number, len(alternative) - index
                    position += 1
    return tokens, phrases


class PhraseBeams(Beams):
    """The hypotheses of sentences whose outputs must contain phrases."""

    STATE = (
        *Beams.STATE,
        *("required", "phrase", "first", "last", "value", "in_phrase", "counts", "shortest"),
        *("reached", "contained", "missing"),
    )

    def __init__(
        self,
        models: Sequence[Transducer],
        config: SearchConfig,
        forbidden: Sequence[int],
        slots: int,
        capacity: tuple[int, int],
        cached: tuple[int, int],
        constrain: Constrain | None,
        phrases: tuple[int, int],
    ) -> None:
        """Make empty slots with a capacity for P different phrases and T tokens."""
        assert not config.sample
        super().__init__(models, config, forbidden, slots, capacity, cached, constrain)
        self.phrases = P, T = phrases
        ints = self.tokens.new_zeros
        # What is required of each sentence.
        self.required = ints(slots, T).fill_(NONE)  # tokens of all alternatives
        self.phrase = ints(slots, T)  # of each token
        self.first, self.last = (ints(slots, T).bool() for _ in range(2))  # of an alternative
        self.value = ints(slots, T)  # tokens that are not missing if the output ends here
        self.in_phrase = self.totals.new_zeros(slots, T, P)  # 1 where a token is of a phrase
        self.counts, self.shortest = ints(slots, P), ints(slots, P)
        # The state of each hypothesis. It ends with the tokens of an alternative up to each one
        # that it has reached; it contains each phrase so often.
        self.reached = ints(slots, self.k, T).bool()
        self.contained = ints(slots, self.k, P)
        self.missing = ints(slots, self.k)
        # The last value of an ended hypothesis is how many tokens it lacks.
        self.ended = self.totals.new_zeros(slots, self.k + 1, 4)

    def require(self, slots: Tensor, tokens: Tensor, phrases: Tensor) -> None:
        """Set the phrases of new sentences in some slots. (n,), (n, T, 3), (n, P, 2)."""
        required, phrase, after = tokens.unbind(-1)
        counts, shortest = phrases.unbind(-1)
        exists = required != NONE
        last = exists & (after == 0)
        first = exists & torch.cat([torch.ones_like(last[:, :1]), last[:, :-1]], 1)
        value = (shortest.gather(1, phrase) - after).clamp(min=0) * exists
        in_phrase = phrase[..., None] == torch.arange(self.phrases[0], device=phrase.device)
        state = {
            "required": required,
            "phrase": phrase,
            "first": first,
            "last": last,
            "value": value,
            "counts": counts,
            "shortest": shortest,
            "in_phrase": (in_phrase & exists[..., None]).to(self.in_phrase.dtype),
            "missing": (counts * shortest).sum(1, keepdim=True).expand(-1, self.k),
        }
        for name, tensor in state.items():
            getattr(self, name).index_copy_(0, slots, tensor)
        self.reached.index_fill_(0, slots, value=False)
        self.contained.index_fill_(0, slots, 0)

    def _best_continuations(self, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best continuations of each bank: words, totals, parents. (S, k) each."""
        log_p, forced, forced_log_p = self._log_probabilities(lengths)
        incomplete = self.missing.flatten() > 0
        log_p[:, EOS] = log_p[:, EOS].masked_fill(incomplete, -math.inf)
        best, word = fast_topk(log_p, self.k)
        needed, is_new = self._needed(word)
        best = torch.cat([best, log_p.gather(1, needed).masked_fill(~is_new, -math.inf)], 1)
        word = torch.cat([word, needed], 1)  # (R, C)
        best = torch.where(forced == NONE, best, -math.inf)
        best[:, :1] = torch.where(forced == NONE, best[:, :1], forced_log_p)
        word = torch.where(forced == NONE, word, forced)
        C = word.size(1)
        candidates = (self.totals.view(-1, 1) + best).view(-1, self.k * C)
        word = word.view(-1, self.k * C)
        parent = torch.arange(self.k, device=word.device).repeat_interleave(C).expand_as(word)
        *_, missing = self._after(word, parent)
        choice = allocate(candidates, missing, self.k, self.config.nbest)
        totals, word, parent = (x.gather(1, choice) for x in (candidates, word, parent))
        reached, contained, missing = self._after(word, parent)
        self.reached.copy_(reached)
        self.contained.copy_(contained)
        self.missing.copy_(missing)
        return word, totals, parent

    def _needed(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return words that continue or begin a phrase, and whether they are candidates. (R, T).

        Those that are among the candidates already, (R, k), are not counted twice.
        """
        lacks = self.contained < self.counts[:, None]  # (S, k, P)
        phrase, required = (
            x[:, None].expand_as(self.reached) for x in (self.phrase, self.required)
        )
        possible = (self._follows(self.reached, self.first) & lacks.gather(2, phrase)).flatten(0, 1)
        needed = required.flatten(0, 1)
        possible &= needed != NONE
        possible &= (needed[:, :, None] != words[:, None, :]).all(-1)
        same = (needed[:, :, None] == needed[:, None, :]) & possible[:, None, :]  # (R, T, T)
        return needed.clamp(min=0), possible & ~same.tril(-1).any(-1)

    def _after(self, words: Tensor, parents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the state of the parent hypotheses with one more word. (S, n), (S, n).

        Reached tokens (S, n, T), contained phrases (S, n, P) and the number of missing tokens.
        """
        T, P = self.reached.size(2), self.contained.size(2)
        counts = self.counts[:, None]
        reached = self.reached.gather(1, parents[..., None].expand(-1, -1, T))
        contained = self.contained.gather(1, parents[..., None].expand(-1, -1, P))
        reached = self._follows(reached, self.first) & (self.required[:, None] == words[..., None])
        complete = (reached & self.last[:, None]).to(self.in_phrase.dtype) @ self.in_phrase > 0
        contained = (contained + complete.long()).minimum(counts)
        # The next occurrence of a phrase begins after this one.
        begun = (contained < counts) & ~complete
        reached &= begun.gather(2, self.phrase[:, None].expand_as(reached))
        missing = ((counts - contained) * self.shortest[:, None]).sum(2)
        return reached, contained, missing - (reached * self.value[:, None]).amax(2)

    @staticmethod
    def _follows(reached: Tensor, first: Tensor) -> Tensor:
        """Return which tokens of alternatives may come next. (S, n, T), (S, T)."""
        before = torch.cat([torch.zeros_like(reached[..., :1]), reached[..., :-1]], -1)
        return before | first[:, None]

    def _store_ended(self, ends: Tensor, totals: Tensor, lengths: Tensor, parent: Tensor) -> None:
        """Store the hypotheses that end; keep the k best of all. (S, k), (S, k), (S,), (S, k)."""
        k = self.k
        scores = totals / self.penalties[lengths + 1][:, None] - self.missing * LACKING
        scores = torch.where(ends, scores, -math.inf)
        value = torch.stack(
            [totals, lengths[:, None].expand_as(totals), parent, self.missing], dim=-1
        )
        scores = torch.cat([self.ended_scores[:, :k], scores], 1)
        value = torch.cat([self.ended[:, :k], value], 1)
        scores, choice = scores.topk(k)
        self.ended[:, :k] = value.gather(1, choice[..., None].expand(-1, -1, 4))
        self.ended_scores[:, :k] = scores
        count = ends.sum(1, keepdim=True)
        self.ended_count.copy_((self.ended_count + count).clamp(max=k))


def allocate(totals: Tensor, missing: Tensor, k: int, nbest: int) -> Tensor:
    """Choose k of the candidates of each sentence. (S, M), (S, M) -> (S, k).

    The `nbest` that lack least are first; then come the best of each bank, the second best of each
    bank, and so on, with the same rank by total. A NaN is the largest total, so it keeps a place.
    """
    M = totals.size(1)
    nowhere = int(torch.iinfo(torch.int32).max)
    bank = missing.masked_fill(totals == -math.inf, nowhere)
    by_total = totals.argsort(dim=1, descending=True, stable=True)
    bank, order = bank.gather(1, by_total).sort(dim=1, stable=True)  # in each bank, by total
    index = torch.arange(M, device=totals.device).expand_as(bank)
    begins = torch.cat([torch.ones_like(bank[:, :1]), bank[:, 1:] - bank[:, :-1]], 1) > 0
    rank = index - torch.where(begins, index, 0).cummax(1).values  # within the bank
    key = torch.where(index < nbest, index - nbest, rank * M + order) + (bank == nowhere) * M * M
    chosen = key.topk(k, dim=1, largest=False).indices
    return by_total.gather(1, order.gather(1, chosen))


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()
