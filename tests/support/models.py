"""Small models and batches that several tests share."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transduce.batching.packed import Batch, Ints, LengthGroups, make_batch, pack
from transduce.checkpoints.checkpoint import load_model, save_model, weights_of
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.corpus.token_files import Side, Split
from transduce.decoding.scheduler import Decoder
from transduce.model.base import Transducer
from transduce.model.cache import Cache
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig
from transduce.subwords import BOS, EOS, Codec
from transduce.training.gradient import Objective
from transduce.translation.engines.pytorch import TorchEngine, transformer
from transduce.translation.translator import Translator
from transduce.translation.types import Hypothesis, Job

SMALL = {
    "N": 2,
    "d_model": 32,
    "d_ff": 64,
    "h": 4,
    "d_k": 8,
    "d_v": 8,
    "source_vocabulary": 50,
    "target_vocabulary": 50,
}


def small_model(seed: int = 0, **changes: Any) -> Transformer:
    """Return a small model with random weights, ready for evaluation.

    Half of its ReLU units are active, unlike those of new models: more arithmetic is tested.
    """
    torch.manual_seed(seed)
    return Transformer(ModelConfig(**(SMALL | {"init": "depth-scaled"} | changes))).eval()


def sentence(length: int, seed: int, vocabulary: int = 50) -> Ints:
    """Return random words and </s>, `length` tokens in all."""
    random = np.random.default_rng(seed)
    return np.append(random.integers(4, vocabulary, length - 1), EOS)


def pairs_of(lengths: list[tuple[int, int]]) -> list[tuple[Ints, Ints]]:
    """Return random pairs of these lengths."""
    return [
        (sentence(source, 2 * number), sentence(target, 2 * number + 1))
        for number, (source, target) in enumerate(lengths)
    ]


def part_of(pairs: list[tuple[Ints, Ints]]) -> Split:
    """Return a part of a corpus that holds these pairs."""
    sides = []
    for number in (0, 1):
        sentences = [pair[number] for pair in pairs]
        offsets = np.cumsum([0, *map(len, sentences)])
        sides.append(Side(np.concatenate(sentences).astype("<u2"), offsets))
    return Split(*sides)


def realistic(pairs: int, seed: int = 0, longest: int = 256) -> list[tuple[int, int]]:
    """Return lengths like those of real text: log-normal, and similar on both sides of a pair."""
    random = np.random.default_rng(seed)
    mean, spread = random.normal(3.1, 0.6, pairs), random.normal(0, 0.2, (2, pairs))
    source, target = (np.exp(mean + noise).astype(int).clip(2, longest) for noise in spread)
    return list(zip(source.tolist(), target.tolist(), strict=True))


def logits_by_sentence(model: Transducer, batch: Batch) -> list[torch.Tensor]:
    """Return the logits of each pair of a batch, in the order in which the pairs were given."""
    logits = model.logits(model(batch))
    assert isinstance(batch.target.segments, LengthGroups)
    lengths = [
        length for sentences, length in batch.target.segments.groups for _ in range(sentences)
    ]
    parts = logits.split(lengths)
    return [parts[place] for place in np.argsort(batch.order)]


def filled_cache(model: Transformer, sources: Sequence[Ints], hypotheses: int, steps: int) -> Cache:
    """Return a cache that holds these sources, sorted by length, a slot each."""
    lengths = [len(source) for source in sources]
    room = max(lengths)
    cache = model.cache(len(sources), hypotheses, (room, steps))
    places = [(slot, i) for slot, length in enumerate(lengths) for i in range(length)]
    device = model.output.device
    slot, position = torch.tensor(places, device=device).unbind(1)
    cache.put(
        torch.arange(len(sources), device=device),
        torch.tensor(lengths, dtype=torch.int32, device=device),
        (slot, position),
        model.project_memory(model.encode(pack(sources).to(device))),
    )
    return cache


def with_a_token_changed(
    model: Transducer, length: int = 9, place: int = 5
) -> tuple[Tensor, Tensor]:
    """Return the logits of a sentence before and after one of its tokens is changed.

    It is an input of the decoder from the position after `place` on. (length, V) each.
    """
    (source, target), *rest = pairs_of([(7, length), (4, length), (9, 3)])
    changed = target.copy()
    changed[place] = (changed[place] - 4 + 1) % 46 + 4
    before, after = (
        logits_by_sentence(model, make_batch([(source, one), *rest]))[0]
        for one in (target, changed)
    )
    return before, after


def together_and_alone(
    model: Transducer, lengths: Sequence[tuple[int, int]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the logits of each sentence in the batch, and alone in a batch."""
    pairs = pairs_of(list(lengths))
    together = logits_by_sentence(model, make_batch(pairs))
    for pair, logits in zip(pairs, together, strict=True):
        yield logits, logits_by_sentence(model, make_batch([pair]))[0]


def stepped(model: Transducer, pairs: list[tuple[Ints, Ints]], k: int) -> list[Tensor]:
    """Return the logits of each decoding step, with k hypotheses equal to the target. (R, V)."""
    sources, lengths = [source for source, _ in pairs], [len(source) for source, _ in pairs]
    cache = model.cache(len(pairs), k, (max(lengths), 1))
    places = [(slot, i) for slot, length in enumerate(lengths) for i in range(length)]
    slot, position = torch.tensor(places).unbind(1)
    rows = model.project_memory(model.encode(pack(sources)))
    slots = torch.arange(len(pairs))
    cache.put(slots, torch.tensor(lengths, dtype=torch.int32), (slot, position), rows)
    tokens = torch.full((len(pairs) * k,), BOS)
    found = []
    for step in range(len(pairs[0][1])):
        cache.grow(max(lengths), step + 1)
        cache.begin_step(max(lengths), step + 1)
        found.append(model.step(tokens, torch.full_like(tokens, step), cache))
        parents = (
            torch.arange(k).flip(0).expand(len(pairs), k)
        )  # they are equal, so any order will do
        cache.end_step(parents, torch.ones(len(pairs), dtype=torch.bool))
        tokens = torch.tensor([int(target[step]) for _, target in pairs]).repeat_interleave(k)
    return found


def search(
    model: Transducer | Sequence[Transducer],
    sources: Sequence[Ints],
    config: SearchConfig,
    *,
    forbidden: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[tuple[int, ...]] | None = None,
    batch: int = 32,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each source."""
    jobs = [
        Job(source, prefixes[i] if prefixes else (), numbers[i] if numbers else (i,))
        for i, source in enumerate(sources)
    ]
    decoder = Decoder([model] if isinstance(model, Transducer) else model, forbidden)
    found = dict(decoder.search(jobs, config, batch))
    return [found[i] for i in range(len(jobs))]


def batch_of(*lengths: tuple[int, int]) -> Batch:
    """Return a batch of random pairs of these lengths."""
    return make_batch(pairs_of(list(lengths)))


def model_of(translator: Translator) -> Transformer:
    """Return the model of a translator that has torch's engine."""
    assert isinstance(translator.engine, TorchEngine)
    return transformer(translator.engine.models[0])


def tokens_of(codec: Codec, pairs: list[tuple[str, str]]) -> list[tuple[Ints, Ints]]:
    """Return the tokens of pairs of texts, each with its end."""
    return [
        (
            np.array([*codec.source.encode(source), EOS]),
            np.array([*codec.target.encode(target), EOS]),
        )
        for source, target in pairs
    ]


def memorise(run: Path, pairs: list[tuple[str, str]], steps: int = 120) -> list[float]:
    """Train the model of a run until it knows a few pairs by heart; return all losses."""
    config, codec = RunConfig.load(run), Codec.load(run / "subwords.json")
    model, _ = load_model(run, config, torch.device("cpu"))
    batch = make_batch(tokens_of(codec, pairs))
    objective = Objective(model.train(), TrainConfig())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch.manual_seed(0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss, _ = objective(batch)
        (loss / len(batch.labels)).backward()
        optimizer.step()
        losses.append(loss.item())
    save_model(run, config, weights_of(model), "what a few pairs taught")
    return losses
