"""From a model to translations: beam search, greedy search, sampling, scoring (paper 6.1).

S sentences, k hypotheses of each, R = S * k rows, V words, L steps.

The rules: each step takes the best continuations of a sentence's live hypotheses, as many as the
sentence has slots. A hypothesis that ends keeps its slot, with its score; so a sentence has at most
`beam` of them, ended and live together. It is done when none lives, or when no living one could
still beat those that ended, however it went on. An output that reaches its limit must end there.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transduce.batches import CrossView, Ints, Tokens, make_batch, pack
from transduce.config import SearchConfig
from transduce.ensemble import Ensemble, States
from transduce.hypotheses import Hypothesis, length_penalty
from transduce.model import Transformer
from transduce.subwords import BOS, EOS


def search(
    model: Transformer | Sequence[Transformer],
    sources: Sequence[Tokens],
    config: SearchConfig,
    *,
    forbidden: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[tuple[int, ...]] | None = None,
) -> list[list[Hypothesis]]:
    """Return the `nbest` outputs of each source, best first.

    Several models with the same words are searched as one, by the mean of their probabilities.
    Sources are tokens with </s> last. `forbidden` words never come out; `prefixes` are tokens that
    outputs must begin with; `numbers` name the sentences, so that what is drawn for one of them
    does not depend on those beside it.
    """
    lengths = np.array([len(source) for source in sources])
    order = np.argsort(lengths, kind="stable")
    models = Ensemble([model] if isinstance(model, Transformer) else model)
    device = models.device
    hypotheses = config.nbest if config.sample else config.beam
    with torch.inference_mode():
        run = pack([sources[i] for i in order]).to(device)
        view = CrossView.of(
            queries=np.full(len(order), hypotheses), keys=lengths[order], rows=np.arange(len(order))
        )
        state = models.begin(run, view.to(device), hypotheses)
        prefixed = [len(prefixes[i]) for i in order] if prefixes else 0
        limits = np.maximum(lengths[order] + config.extra, np.add(prefixed, 1))
        limits = np.minimum(limits, models.longest_output)
        words = Words(models, forbidden, [prefixes[i] for i in order] if prefixes else None, limits)
        if config.sample:
            named = numbers or [(number,) for number in range(len(order))]
            found = _sample(models, state, words, config, [named[i] for i in order])
        else:
            found = _beam(models, state, words, config)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    for place, hypotheses_of in zip(order, found, strict=True):
        results[place] = hypotheses_of
    return results


class Words:
    """Which words may come next, and how likely the model holds them."""

    def __init__(
        self,
        models: Ensemble,
        forbidden: Sequence[int],
        prefixes: list[Sequence[int]] | None,
        limits: Ints,
    ) -> None:
        self.models = models
        self.forbidden = torch.tensor(list(forbidden), device=models.device)
        self.prefixes = prefixes
        self.limits = limits  # of each sentence: its output's length, </s> included
        self.active = np.arange(len(limits))  # the sentences that are still searched

    def log_probabilities(self, tokens: Tensor, state: States) -> Tensor:
        """Return the log-probabilities of the next words, -inf for those not allowed. (R, V)."""
        log_p = self.models.step(tokens, state)
        length = state.length  # of the outputs with the word that comes now
        k = state.hypotheses
        if self.prefixes is not None:
            for row, sentence in enumerate(self.active):
                prefix = self.prefixes[sentence]
                if length <= len(prefix):
                    _only(log_p[row * k : row * k + k], prefix[length - 1])
        log_p[:, self.forbidden] = -math.inf
        for row in np.flatnonzero(length >= self.limits[self.active]).tolist():
            _only(log_p[row * k : row * k + k], EOS)
        return log_p

    def keep(self, sentences: npt.NDArray[np.bool_]) -> None:
        """Go on with some of the sentences."""
        self.active = self.active[sentences]


def _only(log_p: Tensor, word: int) -> None:
    """Forbid every word but one."""
    kept = log_p[:, word].clone()
    log_p.fill_(-math.inf)
    log_p[:, word] = kept


def _beam(
    models: Ensemble, state: States, words: Words, config: SearchConfig
) -> list[list[Hypothesis]]:
    """Search with `beam` slots a sentence."""
    k, device = config.beam, models.device
    sentences = len(words.active)
    ended: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    tokens = torch.full((sentences * k,), BOS, device=device)
    outputs = torch.empty(sentences, k, 0, dtype=torch.int64, device=device)
    # All hypotheses of a sentence begin alike, so only the first is alive.
    totals = torch.full((sentences, k), -math.inf, device=device)
    totals[:, 0] = 0.0
    slots = torch.arange(k, device=device)
    free = torch.full((sentences, 1), k, device=device)
    bound = torch.tensor([length_penalty(limit, config) for limit in words.limits], device=device)
    needed = torch.full((sentences,), -math.inf, device=device)  # score of the nbest-th that ended
    while len(words.active):
        log_p = words.log_probabilities(tokens, state)  # (R, V)
        V = log_p.size(-1)
        best, word = log_p.topk(min(k, V), dim=-1)  # k of each row suffice for k of all
        candidates = totals.flatten()[:, None] + best
        count = candidates.size(-1)
        totals, choice = candidates.view(-1, k * count).topk(k, dim=-1)  # (S, k), best first
        parent = choice // count
        word = word.view(-1, k * count).gather(1, choice)
        outputs = outputs.gather(1, parent[..., None].expand(-1, -1, outputs.size(-1)))
        totals = totals.masked_fill(slots >= free, -math.inf)  # ended hypotheses keep their slots
        ends = (word == EOS) & (totals > -math.inf)
        for row, slot in ends.nonzero().tolist():
            sentence = words.active[row]
            output, total = outputs[row, slot].tolist(), totals[row, slot].item()
            ended[sentence].append(Hypothesis.of(output, total, config))
            if len(ended[sentence]) >= config.nbest:
                scores = sorted((one.score for one in ended[sentence]), reverse=True)
                needed[row] = scores[config.nbest - 1]
        free = free - ends.sum(1, keepdim=True)
        totals = totals.masked_fill(ends, -math.inf)
        outputs = torch.cat([outputs, word[..., None]], dim=-1)
        going_on = best_possible(totals.amax(1), bound) > needed
        rows = parent + torch.arange(len(parent), device=device)[:, None] * k
        if bool(going_on.all()):
            state.select(rows.flatten(), None)
        else:
            state.select(rows[going_on].flatten(), going_on.nonzero().flatten())
            words.keep(going_on.cpu().numpy())
            totals, outputs, word = totals[going_on], outputs[going_on], word[going_on]
            free, bound, needed = free[going_on], bound[going_on], needed[going_on]
        tokens = word.flatten()
    return [sorted(one, key=lambda h: -h.score)[: config.nbest] for one in ended]


def best_possible(totals: Tensor, longest: Tensor) -> Tensor:
    """Return the best score that a living hypothesis could still reach.

    Its log-probability only falls, and is divided at most by the longest output's penalty.
    """
    return totals / longest


def _sample(
    models: Ensemble,
    state: States,
    words: Words,
    config: SearchConfig,
    numbers: Sequence[tuple[int, ...]],
) -> list[list[Hypothesis]]:
    """Draw `nbest` outputs a sentence, word by word."""
    k, device = config.nbest, models.device
    sentences = len(words.active)
    draws = [
        np.random.default_rng([config.draw, *number]).random((int(limit), k))
        for number, limit in zip(numbers, words.limits, strict=True)
    ]
    drawn: list[list[list[int]]] = [[[] for _ in range(k)] for _ in range(sentences)]
    totals = np.zeros((sentences, k))
    alive = np.ones((sentences, k), dtype=bool)
    tokens = torch.full((sentences * k,), BOS, device=device)
    while len(words.active):
        log_p = words.log_probabilities(tokens, state)  # (R, V)
        ordered, word = _cut(log_p / config.temperature, config).sort(dim=-1, descending=True)
        cumulated = ordered.softmax(-1).double().cumsum(-1)
        uniform = np.concatenate([draws[s][state.length - 1] for s in words.active])
        threshold = torch.from_numpy(uniform).to(device)[:, None] * cumulated[:, -1:]
        choice = torch.searchsorted(cumulated, threshold, right=True)
        allowed = (ordered > -math.inf).sum(-1, keepdim=True)
        choice = choice.clamp(max=log_p.size(-1) - 1).minimum(allowed - 1)
        tokens = word.gather(1, choice).flatten()
        gains = log_p.gather(1, tokens[:, None]).view(-1, k).cpu().numpy()
        for row, sentence in enumerate(words.active):
            for slot in np.flatnonzero(alive[sentence]):
                token = int(tokens[row * k + slot])
                totals[sentence, slot] += gains[row, slot]
                if token == EOS:
                    alive[sentence, slot] = False
                else:
                    drawn[sentence][slot].append(token)
        going_on = np.asarray(alive[words.active].any(1))
        if not going_on.all():
            kept = torch.from_numpy(np.flatnonzero(going_on)).to(device)
            rows = (kept[:, None] * k + torch.arange(k, device=device)).flatten()
            state.select(rows, kept)
            tokens = tokens[rows]
            words.keep(going_on)
    found = []
    for outputs, totals_of in zip(drawn, totals.tolist(), strict=True):
        scored = [
            Hypothesis.of(output, total, config)
            for output, total in zip(outputs, totals_of, strict=True)
        ]
        found.append(sorted(scored, key=lambda h: -h.score))
    return found


def _cut(log_p: Tensor, config: SearchConfig) -> Tensor:
    """Leave only the likeliest words: `top_k` of them, or those that make up `top_p`."""
    if 0 < config.top_k < log_p.size(-1):
        least = log_p.topk(config.top_k, dim=-1).values[:, -1:]
        log_p = log_p.masked_fill(log_p < least, -math.inf)
    if config.top_p < 1:
        ordered, word = log_p.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        log_p = log_p.masked_fill((before >= config.top_p).gather(1, word.argsort(-1)), -math.inf)
    return log_p


def log_probabilities(
    model: Transformer, pairs: Sequence[tuple[Tokens, Tokens]]
) -> list[list[float]]:
    """Return the log-probability of each token of given targets, </s> included.

    Tokens of both sides end in </s>.
    """
    results: list[list[float]] = [[] for _ in pairs]
    with torch.inference_mode():
        batch = make_batch(list(pairs)).to(model.output.device)
        x = model(batch)
        begin = 0
        for sentence in batch.order:
            end = begin + len(pairs[sentence][1])
            log_p = torch.log_softmax(model.logits(x[begin:end]).float(), dim=-1)
            results[sentence] = log_p.gather(1, batch.labels[begin:end, None]).flatten().tolist()
            begin = end
    return results
