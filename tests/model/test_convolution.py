"""The convolutional baselines: alone and in batches, step by step, packed, trained."""

import copy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY, CommandLine, options
from convolutional import ARCHITECTURES, PACKED, convolved, small
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from models import (
    batch_of,
    logits_by_sentence,
    pairs_of,
    part_of,
    search,
    sentence,
    stepped,
    together_and_alone,
    with_a_token_changed,
)
from transduce.batching import static
from transduce.batching.packed import make_batch, pack
from transduce.bench.flops import flops
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.errors import BadSetting
from transduce.model.architecture import count_parameters
from transduce.model.base import Transducer
from transduce.model.baselines.convolution import Convolution, Neighbours, taps
from transduce.model.baselines.states import States
from transduce.model.loss import loss
from transduce.model.ops.linear import Linear
from transduce.presets import BASELINES, find_preset
from transduce.training.gradient import Objective

every = pytest.mark.parametrize("architecture", ARCHITECTURES)
packed = pytest.mark.parametrize("architecture", PACKED)
CONVOLUTIONAL = [name for name in BASELINES if name.split("-")[0] in PACKED]

# --- The convolution ---------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_a_packed_convolution_equals_torchs_of_each_sentence(
    kernel: int, dilation: int, causal: bool
) -> None:
    """Forward and backward, also of sentences shorter than the kernel."""
    torch.manual_seed(0)
    lengths, reads = [1, 2, 2, 5, 13], taps(kernel, dilation, causal=causal)
    module = Convolution(Linear(kernel * 6, 4, bias=True), reads).double()
    positions = pack([np.zeros(length, dtype=np.int64) for length in lengths]).positions
    x = torch.randn(sum(lengths), 6, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(sum(lengths), 4, dtype=torch.float64)
    weights = [x, *module.parameters()]
    ours = module(x, Neighbours(positions, x.dtype))
    linear = module.weights
    theirs = torch.cat(
        [convolved(part, linear.weight, linear.bias, reads, dilation) for part in x.split(lengths)]
    )
    torch.testing.assert_close(ours, theirs)
    for gradient, expected in zip(
        torch.autograd.grad(ours, weights, upstream),
        torch.autograd.grad(theirs, weights, upstream),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected)


def test_a_causal_convolution_reads_nothing_ahead_and_a_centred_one_both_sides() -> None:
    assert taps(3, 4, causal=True) == (-8, -4, 0)
    assert taps(3, 4, causal=False) == (-4, 0, 4)
    assert taps(4, 1, causal=False) == (-2, -1, 0, 1)
    assert taps(1, 16, causal=True) == taps(1, 16, causal=False) == (0,)


def test_padding_has_no_neighbours() -> None:
    """All padding is at position 0, after the last sentence."""
    positions = torch.tensor([0, 1, 2, 0, 1, 0, 0, 0])
    neighbours = Neighbours(positions, torch.float32)
    assert neighbours.mask(1).flatten().tolist() == [1, 1, 0, 1, 0, 0, 0]
    assert neighbours.mask(2).flatten().tolist() == [1, 0, 0, 0, 0, 0]
    assert neighbours.mask(9).numel() == 0


# --- The models --------------------------------------------------------------------------------


@every
def test_changing_a_future_token_leaves_earlier_logits_exactly_as_they_were(
    architecture: str,
) -> None:
    model = small(architecture)
    before, after = with_a_token_changed(model)
    assert torch.equal(before[:6], after[:6])
    assert not torch.allclose(before[6:], after[6:])


@every
def test_every_source_token_affects_the_output(architecture: str) -> None:
    """Already the first output, because the encoder is bidirectional."""
    model = small(architecture)
    source, target = pairs_of([(9, 9)])[0]
    before = logits_by_sentence(model, make_batch([(source, target)]))[0]
    for position in range(9):
        changed = source.copy()
        changed[position] = (changed[position] - 4 + 1) % 46 + 4
        after = logits_by_sentence(model, make_batch([(changed, target)]))[0]
        assert not torch.allclose(before[0], after[0], atol=1e-6)


@every
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=7))
def test_a_sentence_alone_and_beside_others_has_the_same_outputs(
    architecture: str, lengths: list[tuple[int, int]]
) -> None:
    model = small(architecture)
    for together, alone in together_and_alone(model, lengths):
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def loss_and_gradients(model: Transducer, batch: Any) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad()
    smoothed, _ = loss(model(batch), model.output, batch.labels, 0.1)
    smoothed.backward()
    return smoothed.detach(), [
        weight.grad for weight in model.parameters() if weight.grad is not None
    ]


@packed
@pytest.mark.parametrize("recompute", [False, True])
def test_a_padded_packed_batch_has_the_loss_and_the_gradients_of_a_grouped_one(
    architecture: str, recompute: bool
) -> None:
    model, pairs = small(architecture, P_drop=0.0), pairs_of([(5, 6), (7, 3), (2, 9), (40, 37)])
    grouped = loss_and_gradients(model, make_batch(pairs))
    model.train()
    model.recompute = recompute
    packed = loss_and_gradients(model, static.pack(part_of(pairs), np.arange(4), (80, 64)))
    torch.testing.assert_close(packed[0], grouped[0], rtol=1e-6, atol=0)
    assert len(packed[1]) == len(grouped[1]) == len(list(model.parameters()))
    for gradient, expected in zip(packed[1], grouped[1], strict=True):
        assert torch.isfinite(gradient).all()
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


def test_every_parameter_of_a_tiny_model_has_the_gradient_of_finite_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In float64, without the gradient scaling of ConvS2S's encoder."""

    class Plain:
        @staticmethod
        def apply(x: Tensor, factor: float) -> Tensor:
            return x

    monkeypatch.setattr("transduce.model.baselines.convs2s._ScaleGradient", Plain)
    batch = batch_of((3, 4), (5, 2))
    for architecture in ARCHITECTURES:
        sizes = {"d_model": 8, "d_ff": 8, "N": 2, "source_vocabulary": 50, "max_len": 8}
        model = small(architecture, **sizes).double()
        model.compute_in(torch.float64)
        names, values = zip(*model.named_parameters(), strict=True)

        def sum_of_outputs(*tensors: Tensor, model: Any = model, names: Any = names) -> Tensor:
            weights = dict(zip(names, tensors, strict=True))
            output: Tensor = torch.func.functional_call(model, weights, (batch,))
            return output.sin().sum()

        torch.manual_seed(0)
        assert torch.autograd.gradcheck(sum_of_outputs, values, fast_mode=True)


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        *product(ARCHITECTURES, [{}, {"kernel": 5}, {"N_decoder": 1}]),
        *product(PACKED, [{"kernel": 2}]),
    ],
    ids=str,
)
def test_decoding_step_by_step_gives_the_teacher_forced_logits(
    architecture: str, changes: dict[str, int]
) -> None:
    """For targets longer than the source and than the cached states."""
    model = small(architecture, **changes)
    pairs = pairs_of([(3, 30), (5, 30), (9, 30)])
    forced = logits_by_sentence(model, make_batch(pairs))
    with torch.inference_mode():
        outputs = stepped(model, pairs, 2)
    for step, logits in enumerate(outputs):
        for row in range(6):
            torch.testing.assert_close(logits[row], forced[row // 2][step], rtol=1e-4, atol=1e-5)


@every
def test_a_model_prepared_for_decoding_gives_the_same_logits(architecture: str) -> None:
    model, pairs = small(architecture), pairs_of([(3, 12), (9, 12)])
    expected = torch.stack(stepped(model, pairs, 1)).detach()
    with torch.inference_mode():
        packed = torch.stack(stepped(copy.deepcopy(model).pack(), pairs, 1))
        torch.testing.assert_close(packed, expected, rtol=1e-4, atol=1e-5)
        narrow = torch.stack(stepped(copy.deepcopy(model).narrow(torch.float16), pairs, 1))
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, expected, rtol=0.02, atol=0.02)


@every
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_a_search_result_does_not_depend_on_the_batch(architecture: str, batch: int) -> None:
    """Slots are closed and filled again; scores are those of teacher forcing."""
    model = small(architecture, 2)
    sources = [sentence(2 + 5 * n % 13, n) for n in range(9)]
    config = SearchConfig(extra=6, nbest=4)
    alone = [search(model, [source], config, forbidden=[0, 1, 3])[0] for source in sources]
    together = search(model, sources, config, forbidden=[0, 1, 3], batch=batch)
    assert [[output.tokens for output in outputs] for outputs in together] == [
        [output.tokens for output in outputs] for outputs in alone
    ]


@every
def test_a_cache_has_the_computed_size(architecture: str) -> None:
    model = small(architecture)
    cache = model.cache(2, 3, (7, 9))
    assert isinstance(cache, States)
    size = cache.source.numel() + sum(state.numel() for state in cache.states)
    assert size == 2 * model.cache_size(3, (7, 9))


@every
def test_dropout_is_only_applied_in_training(architecture: str) -> None:
    model, batch = small(architecture, P_drop=0.5), batch_of((5, 6))
    assert torch.equal(model(batch), model(batch))
    model.train()
    assert not torch.equal(model(batch), model(batch))


@every
def test_a_few_pairs_can_be_memorised(architecture: str) -> None:
    model, batch = small(architecture, P_drop=0.0).train(), batch_of(*[(6, 7)] * 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    objective, nll = Objective(model, TrainConfig(eps_ls=0.0)), torch.tensor(torch.inf)
    for _ in range(50):
        optimizer.zero_grad()
        total, nll = objective(batch)
        (total / len(batch.labels)).backward()
        optimizer.step()
    assert nll / len(batch.labels) < 0.5  # log 50 = 3.9 at first


# --- Settings, presets, commands -----------------------------------------------------------------


@every
@pytest.mark.parametrize(
    "setting",
    [
        {"attention": "additive"},
        {"scaled": False},
        {"neighbourhood": 5},
        {"attention_dropout": 0.1},
        {"attention_bias": True},
        {"relu_dropout": 0.1},
        {"activation": "gelu"},
    ],
    ids=str,
)
def test_a_setting_without_effect_on_a_baseline_is_refused(
    architecture: str, setting: dict[str, Any]
) -> None:
    ((name, value),) = setting.items()
    with pytest.raises(BadSetting, match=f"^{name} = {value!r}: expected .*{architecture}"):
        ModelConfig(architecture=architecture, **setting)  # type: ignore[arg-type]


def test_a_bytenet_with_a_kernel_of_1_is_refused() -> None:
    with pytest.raises(BadSetting, match="kernel = 1: expected at least 2"):
        ModelConfig(architecture="bytenet", kernel=1)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_a_baseline_has_about_as_many_weights_as_the_transformer_of_its_size(name: str) -> None:
    def without_embeddings(model: ModelConfig) -> int:
        return count_parameters(model) - model.d_model * model.target_vocabulary

    baseline = find_preset(name)
    size = name.partition("-")[2]
    transformer = find_preset(size or "base")
    assert without_embeddings(baseline.model) == pytest.approx(
        without_embeddings(transformer.model), rel=0.1
    )
    if not size:
        assert 60e6 <= count_parameters(baseline.model) <= 66e6
    assert baseline.train.steps == transformer.train.steps
    assert baseline.train.batch_tokens == transformer.train.batch_tokens


@packed
@pytest.mark.parametrize("changes", [{}, {"N_decoder": 2, "kernel": 5}], ids=str)
def test_flops_equal_those_that_torch_counts(architecture: str, changes: dict[str, Any]) -> None:
    """Matrix products forward and backward; attention has its own operators."""
    model, batch = small(architecture, **changes), batch_of(*[(7, 5)] * 3)
    with FlopCounterMode(display=False) as counter:
        model.logits(model(batch)).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    products = sum(counts[kind] for kind in (torch.ops.aten.mm, torch.ops.aten.addmm))
    assert products == flops(model.config, source_tokens=3 * 7, target_tokens=3 * 5)


@every
def test_a_baseline_trains_and_translates_and_cannot_be_exported_or_inspected(
    architecture: str, cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    short = {"N": "2", "d_ff": "32", "steps": "6", "validate_bleu": "0"}
    settings = options(TINY | short | {"architecture": architecture})
    done = cli("train", *tiny_files, "--out", run, "--preset", "tiny", "--device", "cpu", *settings)
    assert done.status == 0, done.stderr
    lines = "the dog sees a man.\none bird!\n"
    translated = cli("translate", run, input=lines)
    assert translated.status == 0, translated.stderr
    assert len(translated.stdout.splitlines()) == 2
    for target in ("ctranslate2", "huggingface"):
        refused = cli("export", run, tmp_path / target, "--to", target)
        assert f"architecture = {architecture!r}" in refused.error
    assert f"{architecture}, N 2, d_model" in cli("info", run).stdout
    inspected = cli("look", run, "the dog sees a man.", "--out", tmp_path / "map.html")
    assert f"architecture = {architecture!r}" in inspected.error
