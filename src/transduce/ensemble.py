"""Several models that translate together. R rows of hypotheses, V words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.batches import CrossView, Run
from transduce.model import State, Transformer


@dataclass(slots=True)
class States:
    """What each of the models remembers between two tokens."""

    each: list[State]

    @property
    def length(self) -> int:
        """The number of tokens decoded so far."""
        return self.each[0].length

    @property
    def hypotheses(self) -> int:
        """The number of hypotheses of each sentence."""
        return self.each[0].hypotheses

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """Keep these hypotheses, in this order, and (unless all stay) these sentences."""
        for state in self.each:
            state.select(hypotheses, sentences)


class Ensemble:
    """One model or several with the same words: at each step the mean of their probabilities."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        self.models = models
        self.device = models[0].output.device
        self.longest_output = min(model.config.longest_output for model in models)

    def begin(self, source: Run, cross: CrossView, hypotheses: int) -> States:
        """Encode sentences, and make ready to decode so many hypotheses of each token by token."""
        return States([model.begin(source, cross, hypotheses) for model in self.models])

    def step(self, tokens: Tensor, state: States) -> Tensor:
        """Add one token to each hypothesis; return the log-probabilities of all next words. (R, V).

        They are the logarithms of the arithmetic mean of the models' probabilities.
        """
        steps = zip(self.models, state.each, strict=True)
        found = [torch.log_softmax(model.step(tokens, own).float(), -1) for model, own in steps]
        return found[0] if len(found) == 1 else mean(torch.stack(found))


def mean(log_probabilities: Tensor) -> Tensor:
    """Return the logarithm of the mean of probabilities along the first dimension."""
    return log_probabilities.logsumexp(0) - math.log(len(log_probabilities))
