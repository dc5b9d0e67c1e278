"""The Extended Neural GPU: its equations, its number of steps, its tape, its cost."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY
from convolutional import small
from small_training import Killed, killing, weights
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from models import batch_of, pairs_of, part_of, search, sentence
from transduce.batching.packed import make_batch, pack
from transduce.bench.flops import flops, weights_by_length
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.decoding.search import log_probabilities
from transduce.errors import BadSetting
from transduce.model.architecture import count_parameters
from transduce.model.baselines import neural_gpu
from transduce.model.baselines.cgru import CGRU, Rows, kernel_columns
from transduce.model.baselines.neural_gpu import NeuralGPU
from transduce.model.baselines.states import Images
from transduce.presets import find_preset
from transduce.subwords import BOS, EOS
from transduce.training.gradient import Objective
from transduce.training.train import train
from transduce.training.trainer import Trainer

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


# --- Learning, settings, arithmetic --------------------------------------------------------------


def test_it_learns_to_reverse_what_it_has_not_seen() -> None:
    """Sequences of four of six symbols; 300 of the 1,296 are held out."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    every = np.stack(np.meshgrid(*[np.arange(4, 10)] * 4), axis=-1).reshape(-1, 4)
    random.shuffle(every)
    pairs = [(np.append(row, EOS), np.append(row[::-1], EOS)) for row in every]
    held_out, known = pairs[:300], pairs[300:]
    model = model_of(N=1, P_drop=0.0, source_vocabulary=10, target_vocabulary=10).train()
    objective = Objective(model, TrainConfig(eps_ls=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(120):
        batch = make_batch([known[i] for i in random.integers(0, len(known), 64)])
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - step / 120)
        optimizer.zero_grad()
        total, _ = objective(batch)
        (total / len(batch.labels)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    found = search(
        model.eval(),
        [source for source, _ in held_out],
        SearchConfig(beam=2),
        forbidden=[0, 1, 3],
        batch=300,
    )
    right = sum(
        outputs[0].tokens == target[:-1].tolist()
        for outputs, (_, target) in zip(found, held_out, strict=True)
    )
    assert right > 0.9 * len(held_out)  # by chance, 1 in 1,296


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kernel": 4}, "kernel = 4: expected an odd number from 3 on"),
        ({"kernel": 1}, "kernel = 1: expected an odd number from 3 on"),
        ({"d_ff": 100}, "d_ff = 100: expected a multiple of d_model = 32"),
        ({"h": 8, "relu_dropout": 0.1}, "relu_dropout = 0.1: expected 0.0"),
        ({"positions": "rotary"}, "positions = 'rotary': expected 'sinusoidal'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadSetting, match=f"^{expected}"):
        model_of(**changes)


@pytest.mark.parametrize("size", ["", "-small", "-tiny"])
def test_a_preset_is_as_large_as_the_transformer_of_its_size(size: str) -> None:
    ours, theirs = find_preset(f"neural-gpu{size}"), find_preset(size.removeprefix("-") or "base")
    assert ours.model.d_model == theirs.model.d_model
    assert count_parameters(ours.model) == pytest.approx(count_parameters(theirs.model), rel=0.03)
    assert ours.train.steps == theirs.train.steps
    assert ours.train.batch_tokens == theirs.train.batch_tokens


def test_a_model_has_the_weights_of_its_convolutions() -> None:
    """Each has a kernel of 3 x 3 for three inputs of the CGRU; the tape fills one column."""
    model = model_of(d_model=16, d_ff=64, N=2, N_decoder=3)
    cgru = 3 * (3 * 3 * 16 * 16) + 3 * 16
    tape = 3 * (3 * 2 * 3 * 16 * 16)  # taps in the last column would read what is always 0
    others = 16 * 16 + 16 + 50 * 16
    assert count_parameters(model.config) == 5 * cgru + tape + others


@pytest.mark.parametrize("changes", [{}, {"d_ff": 96, "N": 1, "N_decoder": 2}], ids=str)
def test_flops_equal_those_that_torch_counts(changes: dict[str, Any]) -> None:
    """Matrix products of a sentence alone, so that there are no empty rows."""
    model, lengths = model_of(**changes), (7, 6)
    with FlopCounterMode(display=False) as counter:
        model.logits(model(batch_of(lengths))).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    products = sum(counts[kind] for kind in (torch.ops.aten.mm, torch.ops.aten.addmm))
    by_length = weights_by_length(model.config, part_of(pairs_of([lengths])))
    assert products == flops(model.config, *lengths, by_length)


def test_flops_count_each_row_that_exists_in_each_step() -> None:
    config = model_of().config
    lengths = [(2, 7), (5, 3), (4, 4)]
    rows = sum(
        n * n + sum(max(n, t + 1) for t in range(T))  # as many layers in both
        for n, T in lengths
    )
    tape = 2 * 3 * 3 * 32 * 32
    expected = rows * 2 * 3 * 3 * 32 * 32 - len(lengths) * tape  # <s> is not written
    part = part_of(pairs_of(lengths))
    assert weights_by_length(config, part) == expected
    halves = [weights_by_length(config, part, np.array(chosen)) for chosen in ([0], [1, 2])]
    assert sum(halves) == expected
    assert weights_by_length(ModelConfig(), part) == 0


def test_a_run_killed_and_resumed_ends_with_the_same_bits(
    tiny_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"d_model": "16", "d_ff": "16", "batch_tokens": "100", "validate_bleu": "2"}
    default = {"h": "4", "d_k": "32", "d_v": "32"}
    schedule = {"steps": "8", "save_every": "2", "validate_every": "4"}
    settings, preset = TINY | sizes | default | schedule, "neural-gpu-tiny"

    def run(name: str) -> Path:
        out = tmp_path / name
        return train(*tiny_files, out=out, settings=settings, preset=preset, device="cpu")

    expected = run("expected")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(5))
        with pytest.raises(Killed):
            run("run")
    assert weights(run("run")) == weights(expected)


def test_a_copy_of_a_prepared_model_gives_the_same_logits() -> None:
    """Packed matrices are multiplied by oneDNN, whatever the number of rows."""
    model, pairs = model_of(), pairs_of([(5, 12), (3, 9)])
    expected = log_probabilities([model], pairs)
    for ours, theirs in zip(
        log_probabilities([copy.deepcopy(model).pack()], pairs), expected, strict=True
    ):
        assert ours == pytest.approx(theirs, abs=1e-4)
