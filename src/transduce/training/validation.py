"""Validation: loss, perplexity and BLEU on the validation set, during training."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from transduce.config import SearchConfig
from transduce.corpus.token_files import Corpus
from transduce.decoding.scheduler import Decoder
from transduce.evaluation import scores as scoring
from transduce.evaluation.metrics import counts_characters
from transduce.model.base import Transducer
from transduce.runs.metrics import Translated
from transduce.training.gradient import GradientStep
from transduce.translation.types import Job

GREEDY = SearchConfig(beam=1)
SIDE_BY_SIDE = 100  # sentences translated at once
SHOWN = 8  # translations kept as samples


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a validation; losses are per token."""

    loss: float
    nll: float
    bleu: float | None = None  # greedy
    characters: bool = False  # character BLEU: the language's tokeniser is not installed
    samples: Translated | None = None

    @property
    def perplexity(self) -> float:
        """The exponential of the negative log-likelihood."""
        return math.exp(min(self.nll, 100))

    def to_json(self) -> dict[str, float]:
        """Return the values for metrics.jsonl."""
        value = {
            "valid_loss": self.loss,
            "valid_nll": self.nll,
            "valid_perplexity": self.perplexity,
        }
        return value if self.bleu is None else value | {"valid_bleu": round(self.bleu, 2)}

    def __str__(self) -> str:
        how = "greedy, of characters" if self.characters else "greedy"
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.1f} ({how})"
        return f"validation loss {self.loss:.3f}, ppl {self.perplexity:.2f}{bleu}"


@torch.inference_mode()
def validate(gradient_step: GradientStep, corpus: Corpus, translate: int) -> Validation:
    """Measure the model on the validation set; BLEU on its first `translate` sentences.

    If `translate` is 0, a few sentences are still translated as samples.
    """
    loss, nll = measure_loss(gradient_step, corpus)
    if not math.isfinite(loss):
        return Validation(loss, nll)
    translated = translations(gradient_step.model, corpus, translate or SHOWN)
    bleu, language = None, corpus.languages[1]
    if translate:
        bleu = scoring.bleu(translated.outputs, translated.reference, language)
    characters = counts_characters(language)
    return Validation(loss, nll, bleu, characters, spread(translated, SHOWN))


@torch.inference_mode()
def measure_loss(gradient_step: GradientStep, corpus: Corpus) -> tuple[float, float]:
    """Return the smoothed loss and the negative log-likelihood per token of the validation set."""
    gradient_step.model.eval()
    smoothed = nll = tokens = 0.0
    for batch in gradient_step.layout.evaluation_batches(corpus.valid):
        sums = gradient_step.objective(batch.to(gradient_step.device))
        smoothed, nll = smoothed + sums[0].item(), nll + sums[1].item()
        tokens += batch.target_tokens
    return smoothed / tokens, nll / tokens


def translations(model: Transducer, corpus: Corpus, count: int) -> Translated:
    """Translate the first sentences of the validation set greedily."""
    part, codec = corpus.valid, corpus.codec
    count = min(count, len(part))
    pairs = [part.pair(i) for i in range(count)]
    outputs = [""] * count
    decoder = Decoder([model], codec.target.forbidden_ids(), record=False)
    jobs = [Job(source.astype(np.int64)) for source, _ in pairs]
    for number, hypotheses in decoder.search(jobs, GREEDY, SIDE_BY_SIDE):
        if hypotheses:  # none if a value overflowed
            outputs[number] = codec.target.decode(hypotheses[0].tokens)
    sources = [codec.source.decode(source.tolist()) for source, _ in pairs]
    references = [codec.target.decode(target.tolist()) for _, target in pairs]
    return Translated(sources, references, outputs)


def spread(translated: Translated, most: int) -> Translated:
    """Return at most `most` sentences, spread evenly over all of them."""
    count = len(translated.outputs)
    size = min(most, count)
    chosen = [i * count // size for i in range(size)]
    return Translated(
        [translated.source[i] for i in chosen],
        [translated.reference[i] for i in chosen],
        [translated.outputs[i] for i in chosen],
    )
