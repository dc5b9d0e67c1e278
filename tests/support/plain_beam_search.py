"""Reference beam search: the same rules without batches, cache or tensors."""

from collections.abc import Sequence

import numpy as np

from transduce.config import SearchConfig
from transduce.decoding.search import log_probabilities
from transduce.model.transformer import Transformer
from transduce.subwords import EOS
from transduce.translation.types import Hypothesis, Ints, length_penalty


def plain_search(
    models: Sequence[Transformer],
    source: Ints,
    config: SearchConfig,
    *,
    forbidden: Sequence[int],
    prefix: Sequence[int] = (),
) -> list[Hypothesis]:
    """Return the `nbest` outputs of a source, best first; each step recomputes all tokens."""
    longest = min(model.config.max_positions for model in models)
    limit = min(max(len(source), len(prefix)) + config.extra, longest)
    allowed = sorted({*range(models[0].config.target_vocabulary)} - {*forbidden})
    live: list[tuple[list[int], float]] = [([], 0.0)]
    ended: list[Hypothesis] = []
    for step in range(limit):
        words = [prefix[step]] if step < len(prefix) else allowed
        words = [EOS] if step + 1 == limit else words
        grown = [([*tokens, word], total) for tokens, total in live for word in words]
        scored = log_probabilities(models, [(source, np.array(tokens)) for tokens, _ in grown])
        grown = [
            (tokens, total + of_tokens[-1])
            for (tokens, total), of_tokens in zip(grown, scored, strict=True)
        ]
        grown.sort(key=lambda item: -item[1])
        best = grown[: config.beam - len(ended)]
        live = [hypothesis for hypothesis in best if hypothesis[0][-1] != EOS]
        ended += [Hypothesis.of(one[:-1], total, config) for one, total in best if one[-1] == EOS]
        ended.sort(key=lambda one: -one.score)
        if not live:
            break
        could_reach = live[0][1] / length_penalty(limit, config)
        if len(ended) >= config.nbest and could_reach <= ended[config.nbest - 1].score:
            break
    return ended[: config.nbest]
