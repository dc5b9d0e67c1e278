"""The Extended Neural GPU: its equations, its number of steps, its tape, its memory."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from convolutional import small
from torch import Tensor, nn
from torch.nn import functional as F

from models import batch_of, pairs_of, search, sentence
from transduce.batching.packed import make_batch, pack
from transduce.config import SearchConfig
from transduce.decoding.search import log_probabilities
from transduce.model.baselines import neural_gpu
from transduce.model.baselines.cgru import CGRU, Rows, kernel_columns
from transduce.model.baselines.neural_gpu import NeuralGPU
from transduce.model.baselines.states import Images
from transduce.subwords import BOS, EOS

# One column; several columns, with a kernel as wide as it is high, and wider than the image.
KINDS: list[dict[str, Any]] = [
    {},
    {"d_ff": 96},
    {"kernel": 5, "N_decoder": 3},
    {"kernel": 5, "d_ff": 64, "N": 1},
]
kinds = pytest.mark.parametrize("changes", KINDS, ids=str)


def model_of(**changes: Any) -> NeuralGPU:
    model = small("neural-gpu", **changes)
    assert isinstance(model, NeuralGPU)
    return model


# --- The equations -------------------------------------------------------------------------------


def convolved(x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve an image (rows, w, m) with torch; kernel: (outputs, m, k, k_w)."""
    padding = kernel.size(2) // 2, kernel.size(3) // 2
    found: Tensor = F.conv2d(x.permute(2, 0, 1)[None], kernel, bias, padding=padding)[0]
    return found.permute(1, 2, 0)


def plain_step(layer: CGRU, s: Tensor, tape: Tensor | None) -> Tensor:
    """Apply the equations of the CGRU to one image; `tape` is W' p, W'' p and W p."""
    m = s.size(-1)

    def kernel(weight: Tensor) -> Tensor:
        return weight.view(-1, *layer.kernel, m).permute(0, 3, 1, 2)

    if tape is None:
        tape = s.new_zeros(*s.shape[:2], 3 * m)
    gates, candidate = layer.W_gates, layer.W_candidate
    both = convolved(s, kernel(gates.weight), gates.bias) + tape[..., : 2 * m]
    u, r = torch.sigmoid(both).chunk(2, dim=-1)
    c = convolved(r * s, kernel(candidate.weight), candidate.bias) + tape[..., 2 * m :]
    return u * s + (1 - u) * torch.tanh(c)


def tape_kernels(model: NeuralGPU) -> list[Tensor]:
    """Return the convolution of the tape for each decoder layer. (3 m, m, k, k_w) each."""
    m, k = model.config.d_model, model.config.kernel
    across = kernel_columns(k, model.columns)
    weight = model.W_tape.weight.view(len(model.decoder), k, model.tape_columns, 3 * m, m)
    kernels = []
    for of_layer in weight:
        kernel = weight.new_zeros(3 * m, m, k, across)
        for row in range(k):  # a word adds to row `row` - b relative to its own, which reads it
            for column in range(model.tape_columns):
                kernel[:, :, k - 1 - row, across // 2 - column] = of_layer[row, column]
        kernels.append(kernel)
    return kernels


def plain(model: NeuralGPU, source: Tensor, inputs: Tensor, steps: int | None = None) -> Tensor:
    """Compute the model for one pair, step by step, without batches, caches or shortcuts."""
    scale = math.sqrt(model.config.d_model)
    s = F.embedding(source, model.source_embedding.matrix)[:, None] * scale
    s = F.pad(s, (0, 0, 0, model.columns - 1))
    for _ in range(len(source) if steps is None else steps):
        for layer in model.encoder:
            s = plain_step(layer, s, None)
    embedded = F.embedding(inputs, model.target_embedding.matrix) * scale
    outputs = []
    for t in range(len(inputs)):
        height = max(len(source), t + 1)
        s = F.pad(s, (0, 0, 0, 0, 0, height - len(s)))
        written = F.pad(embedded[1 : t + 1], (0, 0, 0, height - t))[:, None]  # without <s>
        tape = F.pad(written, (0, 0, 0, model.columns - 1))
        for layer, kernel in zip(model.decoder, tape_kernels(model), strict=True):
            s = plain_step(layer, s, convolved(tape, kernel, None))
        outputs.append(s[t, 0])
    return F.linear(torch.stack(outputs), model.W_O.weight, model.W_O.bias)


def exact(**changes: Any) -> NeuralGPU:
    """Return a model in float64."""
    model = model_of(P_drop=0.0, d_model=16, **({"d_ff": 16} | changes)).double()
    model.compute_in(torch.float64)
    return model


@pytest.mark.parametrize(
    "changes", [{}, {"d_ff": 48}, {"kernel": 5, "N_decoder": 3}, {"kernel": 5, "d_ff": 32}], ids=str
)
def test_the_model_and_its_gradients_are_those_of_the_equations(changes: dict[str, Any]) -> None:
    """In float64, in a batch: targets longer than their sources, shorter, and of one token."""
    model = exact(**changes)
    pairs = pairs_of([(3, 8), (7, 2), (5, 5), (1, 1), (5, 8)])
    batch = make_batch(pairs)
    ours = model(batch)
    theirs = torch.cat(
        [
            plain(model, torch.tensor(source), torch.tensor([BOS, *target[:-1].tolist()]))
            for source, target in (pairs[i] for i in batch.order)
        ]
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    upstream, parameters = torch.randn_like(ours), list(model.parameters())
    for found, expected in zip(
        torch.autograd.grad(ours, parameters, upstream),
        torch.autograd.grad(theirs, parameters, upstream),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_a_closed_gate_keeps_the_image() -> None:
    model = exact()
    with torch.no_grad():
        for layer in model.encoder:
            layer.W_gates.weight.zero_()
            layer.W_gates.bias.fill_(50.0)
    run = pack([sentence(4, 0), sentence(9, 1)])
    assert torch.equal(model.encode(run), model.embed_source(run))


# --- The number of steps -------------------------------------------------------------------------


def rows_of_each_call(model: NeuralGPU, layer: nn.Module, *pairs: tuple[int, int]) -> list[int]:
    """Return how many rows of images a layer rewrites in each step, without the empty ones."""
    seen: list[int] = []

    def record(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen.append(int(arguments[2].sum()))

    with layer.register_forward_pre_hook(record):
        model(batch_of(*pairs))
    return seen


def test_each_sentence_has_as_many_encoder_steps_as_tokens_and_costs_nothing_afterwards() -> None:
    model = model_of()
    seen = rows_of_each_call(model, model.encoder[0], (2, 1), (5, 1), (5, 1), (6, 1))
    assert seen == [18, 18, 16, 16, 16, 6]


def test_a_decoder_step_rewrites_the_rows_that_exist_of_the_targets_that_continue() -> None:
    model = model_of()
    seen = rows_of_each_call(model, model.decoder[0], (2, 4), (5, 2), (3, 4))
    assert seen == [2 + 5 + 3, 2 + 5 + 3, 3 + 3, 4 + 4]


def test_one_step_more_gives_another_output() -> None:
    model = exact()
    ((source, target),) = pairs = pairs_of([(4, 3)])
    inputs = torch.tensor([BOS, *target[:-1].tolist()])
    found = model(make_batch(pairs))
    torch.testing.assert_close(found, plain(model, torch.tensor(source), inputs, 4))
    for steps in (3, 5):
        other = plain(model, torch.tensor(source), inputs, steps)
        assert not torch.allclose(found, other, atol=1e-4)


# --- The tape ------------------------------------------------------------------------------------


def test_the_begin_of_a_sentence_is_not_written_on_the_tape() -> None:
    model, batch = model_of(), batch_of((5, 6), (3, 4))
    before = model(batch)
    batch.target.tokens[batch.target.positions == 0] = 17
    assert torch.equal(model(batch), before)
    batch.target.tokens[batch.target.positions == 1] = 17
    after = model(batch)
    first = batch.target.positions == 0
    assert torch.equal(after[first], before[first])
    assert not torch.isclose(after[~first], before[~first]).all(-1).any()


@kinds
def test_rows_are_laid_out_with_empty_ones_between_them(changes: dict[str, Any]) -> None:
    border = model_of(**changes).border
    rows = Rows.of(np.array([2, 3]), border)
    empty = [-1] * border
    assert rows.positions().tolist() == [*empty, 0, 1, *empty, 0, 1, 2, *empty]
    assert rows.begins.tolist() == [border, 2 * border + 2]
    lengths = np.array([1, 3])
    assert rows.positions()[rows.places(lengths)].tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("changes", [{}, {"kernel": 5, "d_ff": 64}], ids=str)
def test_scores_of_a_search_are_those_of_teacher_forcing(
    beam: int, changes: dict[str, Any]
) -> None:
    """With more sentences than slots: images are reordered and grow, and slots are reused."""
    model = model_of(seed=3, **changes)
    with torch.no_grad():
        model.output.mul_(4)
    sources = [sentence(2 + 3 * n % 11, n) for n in range(9)]
    config = SearchConfig(beam=beam, alpha=0.0, extra=12)
    found = search(model, sources, config, forbidden=[0, 1, 3], batch=4)
    assert len({tuple(outputs[0].tokens) for outputs in found}) > 3
    assert any(len(outputs[0].tokens) > len(s) for outputs, s in zip(found, sources, strict=True))
    for source, (best, *_) in zip(sources, found, strict=True):
        pairs = [(source, np.array([*best.tokens, EOS]))]
        assert best.score == pytest.approx(sum(log_probabilities([model], pairs)[0]), abs=1e-3)


def test_the_state_of_a_sentence_leaves_nothing_to_the_next_in_its_slot() -> None:
    model = model_of()
    rows = model.project_memory(model.encode(pack([sentence(3, 0)]))).detach()
    place = torch.zeros(3, dtype=torch.long), torch.arange(3)
    slot, length = torch.zeros(1, dtype=torch.long), torch.tensor([3], dtype=torch.int32)

    def steps(cache: Images, count: int) -> Tensor:
        cache.put(slot, length, place, rows)
        for t in range(count):
            cache.grow(3, t + 1)
            cache.begin_step(3, t + 1)
            logits = model.step(
                torch.tensor([BOS if t == 0 else 9] * 2), torch.full((2,), t), cache
            )
            cache.end_step(torch.tensor([[0, 1]]), torch.ones(1, dtype=torch.bool))
        return logits

    cache = model.cache(1, 2, (3, 1))
    with torch.inference_mode():
        expected = steps(cache, 4)
        steps(cache, 9)
        assert torch.equal(steps(cache, 4), expected)


def test_rows_that_do_not_exist_yet_change_nothing() -> None:
    """On a GPU a step has as many rows as any sentence of the search may need."""
    model, pairs = model_of(kernel=5), pairs_of([(3, 7), (6, 7)])

    def steps(height: int) -> list[Tensor]:
        cache = model.cache(2, 2, (height, height))
        slots, positions = torch.tensor([0] * 3 + [1] * 6), torch.tensor([*range(3), *range(6)])
        rows = model.project_memory(model.encode(pack([source for source, _ in pairs])))
        lengths = torch.tensor([3, 6], dtype=torch.int32)
        cache.put(torch.arange(2), lengths, (slots, positions), rows)
        found = []
        for t in range(7):
            cache.begin_step(height, height)
            tokens = torch.tensor([9 + t] * 4)
            found.append(model.step(tokens, torch.full((4,), t), cache))
            cache.end_step(torch.tensor([[1, 0]] * 2), torch.ones(2, dtype=torch.bool))
        return found

    with torch.inference_mode():
        for needed, more in zip(steps(7), steps(30), strict=True):
            torch.testing.assert_close(more, needed, rtol=1e-6, atol=1e-6)


# --- Memory --------------------------------------------------------------------------------------


def gradients(model: NeuralGPU, *lengths: tuple[int, int]) -> list[Tensor | None]:
    model.zero_grad()
    torch.manual_seed(1)
    model(batch_of(*lengths)).square().sum().backward()
    return [parameter.grad for parameter in model.parameters()]


@kinds
def test_steps_that_are_computed_again_give_the_same_bits(changes: dict[str, Any]) -> None:
    model = model_of(P_drop=0.1, **changes).train()
    lengths = (5, 4), (2, 11), (9, 6)
    stored = gradients(model, *lengths)
    model.recompute = True
    for ours, theirs in zip(gradients(model, *lengths), stored, strict=True):
        assert ours is not None
        assert theirs is not None
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("limit", "calls"), [(2**28, 12), (0, 24)])
def test_long_sentences_are_computed_again_without_being_asked(
    limit: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neural_gpu, "STORED", limit)
    model = model_of().train()
    seen: list[None] = []
    with model.encoder[0].register_forward_hook(lambda *_: seen.append(None)):
        gradients(model, (12, 3))
    assert len(seen) == calls
