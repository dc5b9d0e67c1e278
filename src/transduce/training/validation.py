"""Validation: loss, perplexity, source use and BLEU on the validation set, during training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from transduce.batching.packed import Ints
from transduce.config import SearchConfig, TrainConfig
from transduce.corpus.token_files import Corpus, Side, Split
from transduce.decoding.scheduler import Decoder
from transduce.evaluation import scores as scoring
from transduce.evaluation.metrics import counts_characters
from transduce.model.base import Transducer
from transduce.runs.metrics import Translated
from transduce.training.gradient import GradientStep
from transduce.training.pacing import FEWEST_STEPS
from transduce.translation.types import Job

GREEDY = SearchConfig(beam=1)
SIDE_BY_SIDE = 100  # sentences translated at once
SHOWN = 8  # translations kept as samples
FEWEST, MOST = 50, 200  # sentences on which source use is measured: a tenth, within these
UNUSED = 0.05  # source use below which the decoder is only a language model


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a validation; losses are per token."""

    loss: float
    nll: float
    source_use: float | None = None  # None: the validation set has one sentence
    bleu: float | None = None  # greedy
    characters: bool = False  # character BLEU: the language's tokeniser is not installed
    samples: Translated | None = None
    # The smoothed loss and the negative log-likelihood of each of several corpora.
    corpora: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    bleu_by_pair: Mapping[str, float] = field(default_factory=dict)  # `bleu` is their mean

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
        if self.source_use is not None:
            value["valid_source_use"] = self.source_use
        for name, (loss, nll) in self.corpora.items():
            value |= {f"valid_loss/{name}": loss, f"valid_nll/{name}": nll}
        for pair, bleu in self.bleu_by_pair.items():
            value[f"valid_bleu/{pair}"] = round(bleu, 2)
        return value if self.bleu is None else value | {"valid_bleu": round(self.bleu, 2)}

    def __str__(self) -> str:
        how = "greedy, of characters" if self.characters else "greedy"
        each = "".join(f"{pair} {bleu:.1f}, " for pair, bleu in self.bleu_by_pair.items())
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.1f} ({each}{how})"
        use = "" if self.source_use is None else f", source use {self.source_use:z.2f}"
        parts = ", ".join(f"{name} {loss:.3f}" for name, (loss, _) in self.corpora.items())
        parts = f" ({parts})" if parts else ""
        return f"validation loss {self.loss:.3f}{parts}, ppl {self.perplexity:.2f}{use}{bleu}"

    def warning(self, step: int, config: TrainConfig, part: float) -> str:
        """Return what to do if the source is not used though it should be by now, or "".

        `part` is the fraction of the run that is done.
        """
        trained = step >= 2_000 or (part >= 0.25 and step >= FEWEST_STEPS)
        used = self.source_use is None or self.source_use >= UNUSED
        if used or not trained or step <= (config.ramp or config.warmup):
            return ""
        return (
            f"warning: the decoder ignores the source (source use {self.source_use:z.2f}; it "
            "should exceed 0.5): check that the pairs belong together; if they do, train with a "
            "lower learning rate (--set lr_scale=0.5) or, in a new run, other initial weights (the "
            "setting init)"
        )


@torch.inference_mode()
def validate(gradient_step: GradientStep, corpus: Corpus, translate: int) -> Validation:
    """Measure the model on the validation set; BLEU on `translate` of its sentences.

    With several pairs of languages, BLEU is on that many sentences of each. If `translate` is 0, a
    few sentences are still translated as samples.
    """
    parts = corpus.valid_parts
    corpora = {name: measure_loss(gradient_step, part) for name, part in parts.items()}
    if corpora:
        tokens = {name: int(part.target.lengths.sum()) for name, part in parts.items()}
        loss, nll = _mean(corpora, tokens)
        for pair, names in _names_by_pair(corpus).items():
            if len(names) > 1 and pair not in corpora:
                corpora[pair] = _mean({name: corpora[name] for name in names}, tokens)
    else:
        loss, nll = measure_loss(gradient_step, corpus.valid)
    if not math.isfinite(loss):
        return Validation(loss, nll)
    count = min(MOST, max(FEWEST, len(corpus.valid) // 10))
    use = measure_source_use(gradient_step, corpus.valid, nll, count, groups_of(corpus))
    model = gradient_step.model
    if names_by_pair := _names_by_pair(corpus):
        by_pair, samples = _translate_pairs(model, corpus, names_by_pair, translate)
        bleu = sum(by_pair.values()) / len(by_pair) if by_pair else None
        characters = any(counts_characters(pair[1]) for pair in corpus.pairs)
        return Validation(loss, nll, use, bleu, characters, samples, corpora, by_pair)
    sentences = chosen_sentences(corpus, translate or SHOWN)
    translated = translations(model, corpus, sentences)
    bleu, language = None, corpus.languages[1]
    if translate:
        bleu = scoring.bleu(translated.outputs, translated.reference, language)
    characters = counts_characters(language)
    return Validation(loss, nll, use, bleu, characters, spread(translated, SHOWN), corpora)


def _mean(
    losses: Mapping[str, tuple[float, float]], tokens: Mapping[str, int]
) -> tuple[float, float]:
    """Return the mean losses per token of several corpora."""
    weights = [tokens[name] for name in losses]
    loss, nll = np.average([*losses.values()], axis=0, weights=weights).tolist()
    return loss, nll


def _names_by_pair(corpus: Corpus) -> dict[str, list[str]]:
    """Return the corpora of each pair of languages, if there are several pairs."""
    names: dict[str, list[str]] = {}
    for name, pair in corpus.pair_of.items() if corpus.valid_parts else ():
        names.setdefault("-".join(pair), []).append(name)
    return names


def _translate_pairs(
    model: Transducer, corpus: Corpus, names: Mapping[str, list[str]], translate: int
) -> tuple[dict[str, float], Translated]:
    """Return BLEU of each pair of languages on `translate` sentences, and samples of all."""
    begins, begin = {}, 0
    for name, part in corpus.valid_parts.items():
        begins[name] = begin
        begin += len(part)
    scores: dict[str, float] = {}
    shown: list[Translated] = []
    for pair, corpora in names.items():
        parts = corpus.valid_parts
        all_of_pair = [begins[name] + i for name in corpora for i in range(len(parts[name]))]
        count = min(translate or math.ceil(SHOWN / len(names)), len(all_of_pair))
        sentences = [all_of_pair[i * len(all_of_pair) // count] for i in range(count)]
        translated = translations(model, corpus, sentences)
        if translate:
            language = corpus.pair_of[corpora[0]][1]
            scores[pair] = scoring.bleu(translated.outputs, translated.reference, language)
        shown.append(spread(translated, math.ceil(SHOWN / len(names))))
    samples = Translated(
        [text for each in shown for text in each.source],
        [text for each in shown for text in each.reference],
        [text for each in shown for text in each.outputs],
    )
    return scores, samples


@torch.inference_mode()
def measure_loss(gradient_step: GradientStep, part: Split) -> tuple[float, float]:
    """Return the smoothed loss and the negative log-likelihood per token of a split."""
    gradient_step.model.eval()
    smoothed = nll = tokens = 0.0
    for batch in gradient_step.layout.evaluation_batches(part):
        sums = gradient_step.objective(batch.to(gradient_step.device))
        smoothed, nll = smoothed + sums[0].item(), nll + sums[1].item()
        tokens += batch.target_tokens
    return smoothed / tokens, nll / tokens


def measure_source_use(
    gradient_step: GradientStep,
    part: Split,
    nll: float,
    count: int,
    groups: Ints | None = None,
) -> float | None:
    """Return how much worse the model predicts `count` of the targets from another's source.

    `groups` has the pair of languages of each sentence: the other source has the same languages.

    It is the increase of the negative log-likelihood per token: near 0 if the decoder ignores the
    source. `nll` is that of the whole split. None if there is only one sentence.
    """
    count = min(len(part), count)
    if count < 2:
        return None
    sentences = np.arange(count) * len(part) // count  # of every corpus: they follow one another
    target = select(part.target, sentences)
    if count < len(part):
        nll = measure_loss(gradient_step, Split(select(part.source, sentences), target))[1]
    group = None if groups is None else groups[sentences]
    lengths = part.source.lengths_of(sentences)
    others = select(part.source, sentences[next_longer(lengths, group)])
    return measure_loss(gradient_step, Split(others, target))[1] - nll


def groups_of(corpus: Corpus) -> Ints | None:
    """Return the pair of languages of each validation sentence, if there are several."""
    if not corpus.pairs or not corpus.valid_parts:
        return None
    sizes = [len(part) for part in corpus.valid_parts.values()]
    numbers = [corpus.pairs.index(corpus.pair_of[name]) for name in corpus.valid_parts]
    return np.repeat(np.array(numbers), sizes)


def next_longer(lengths: Ints, groups: Ints | None = None) -> Ints:
    """Return, for each sentence, the next one in order of length; for the longest, the shortest.

    Both are in the same group.
    """
    order = np.argsort(lengths, kind="stable")
    following = np.empty_like(order)
    for group in [None] if groups is None else np.unique(groups):
        own = order if groups is None else order[groups[order] == group]
        following[own] = np.roll(own, -1)
    return following


def select(side: Side, sentences: Ints) -> Side:
    """Return some sentences of a side."""
    tokens, lengths = side.take(sentences)
    return Side(tokens, np.append(0, lengths.cumsum()))


def chosen_sentences(corpus: Corpus, count: int) -> list[int]:
    """Return the first sentences of the validation set; of several corpora, some of each."""
    count = min(count, len(corpus.valid))
    step = len(corpus.valid) / count if corpus.valid_parts else 1
    return [int(i * step) for i in range(count)]


def translations(model: Transducer, corpus: Corpus, sentences: Sequence[int]) -> Translated:
    """Translate sentences of the validation set greedily."""
    part, codec = corpus.valid, corpus.codec
    pairs = [part.pair(i) for i in sentences]
    outputs = [""] * len(pairs)
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
