"""The initial weights: each scheme scales Xavier's draw by its formula."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from transduce.batching.packed import make_batch
from transduce.config import ModelConfig
from transduce.model.architecture import count_parameters
from transduce.model.initialisation import LENGTH, SENTENCES
from transduce.model.ops.linear import Linear
from transduce.model.transformer import Transformer

N, M, D = 3, 2, 64  # encoder layers, decoder layers, d_model
CONFIG = ModelConfig(
    N=N, N_decoder=M, d_model=D, d_ff=96, h=4, d_k=16, d_v=12,
    source_vocabulary=50, target_vocabulary=50,
)  # fmt: skip


def model(init: str, **changes: object) -> Transformer:
    torch.manual_seed(1)
    return Transformer(CONFIG.replace(init=init, **changes))


def weights(init: str) -> dict[str, Tensor]:
    """Return all matrices, by name, such as decoder.1.cross_attention.W_KV.V."""
    found: dict[str, Tensor] = {}
    for name, module in model(init).named_modules():
        if isinstance(module, Linear):
            letters = name.rpartition("W_")[2]
            for letter, block in zip(letters, module.weight.split(module.blocks), strict=True):
                found[f"{name}.{letter}"] = block
    return found


def ratios(init: str) -> dict[str, float]:
    """Return the factor of each matrix on Xavier's."""
    xavier, scaled = weights("xavier"), weights(init)
    factors = {}
    for name, weight in scaled.items():
        factors[name] = (weight.norm() / xavier[name].norm()).item()
        torch.testing.assert_close(weight, xavier[name] * factors[name])
    return factors


def is_output(name: str) -> bool:
    return name.endswith((".O", ".2"))


def test_depth_scaled_divides_the_last_matrix_of_each_sublayer() -> None:
    for name, ratio in ratios("depth-scaled").items():
        count = 2 * N if "encoder" in name else 3 * M
        assert ratio == pytest.approx(count**-0.5 if is_output(name) else 1.0)


def test_centred_scales_matrices_as_depth_scaled_does() -> None:
    assert ratios("centred") == pytest.approx(ratios("depth-scaled"))


def test_centred_sentences_have_mean_0_and_the_same_probabilities() -> None:
    """Subtracting one vector from all rows of the softmax matrix changes no probability."""
    plain, centred = model("depth-scaled"), model("centred")
    means = []
    for each in (plain, centred):
        random = torch.randint(0, 50, (4_000,), generator=torch.Generator().manual_seed(1))
        positions = torch.arange(4_000) % LENGTH
        means.append(each.eval().source_embedding(random, positions).mean(0).norm().item())
    assert means[1] < means[0] / 3
    x = torch.randn(5, D)
    before, after = (each.logits(x).softmax(-1) for each in (plain, centred))
    torch.testing.assert_close(after, before)


def test_centred_networks_begin_mostly_off_and_logits_small() -> None:
    plain, centred = (model(init, N_decoder=6).eval() for init in ("depth-scaled", "centred"))
    inner: list[Tensor] = []
    for layer in centred.encoder:
        layer.feed_forward.W_2.register_forward_pre_hook(lambda _, x: inner.append(x[0]))
    random = np.random.default_rng(0)
    sides = [random.integers(0, 50, (SENTENCES, LENGTH)) for _ in range(2)]
    batch = make_batch([*zip(*sides, strict=True)])
    before, after = (each.logits(each(batch)).std(-1).mean() for each in (plain, centred))
    assert after < 0.35 * before
    active = torch.stack([(x > 0).float().mean() for x in inner])
    assert len(active) == N
    assert active.max() < 0.05


@pytest.mark.parametrize(
    ("changes", "relu"),
    [
        ({"pre_norm": True, "norm": "rms", "gated": True, "activation": "swish"}, False),
        ({"positions": "learned", "tie": "none"}, True),
        ({"positions": "rotary", "activation": "gelu"}, False),
    ],
)
def test_centred_suits_every_kind_of_layer(changes: dict[str, object], relu: bool) -> None:
    centred = model("centred", N_decoder=4, **changes)
    gains = [layer.after_feed.norm.weight.mean().item() for layer in centred.decoder]
    assert gains == [1.0, 1.0, 1.0, 0.5625]
    biases = [layer.feed_forward.W_1.bias for layer in centred.encoder]
    assert [bias is not None and bool(bias.any()) for bias in biases] == [relu] * N


def test_small_gives_attention_the_standard_deviation_of_smallinit() -> None:
    depth = ratios("depth-scaled")
    for name, weight in weights("small").items():
        if "attention" in name:
            # Uniform between -a and a: the standard deviation is a / sqrt(3).
            deviation = weight.abs().max().item() / math.sqrt(3)
            assert deviation == pytest.approx(depth[name] * math.sqrt(2 / (5 * D)), rel=0.02)
    for name, ratio in ratios("small").items():
        assert "attention" in name or ratio == pytest.approx(depth[name])


def test_deepnet_scales_values_and_feed_forward_matrices() -> None:
    depth = (N**4 * M) ** (1 / 16)
    constants = {
        "encoder": (0.81 * depth, 0.87 / depth),
        "decoder": ((3 * M) ** 0.25, (12 * M) ** -0.25),
    }
    for name, ratio in ratios("deepnet").items():
        alpha, beta = constants.get(name.split(".")[0], (1.0, 1.0))
        scaled = beta if name.endswith((".V", ".1")) else 1.0
        assert ratio == pytest.approx(beta / alpha if is_output(name) else scaled)


def test_admin_divides_each_sublayer_by_the_deviation_of_the_sum_before_it() -> None:
    """The variances are measured here in the outputs of the residual branches."""
    plain, found = model("xavier").eval(), {}
    for name, module in plain.named_modules():
        if name.endswith(("W_O", "W_2")):
            module.register_forward_hook(
                lambda _, __, y, name=name: found.update({name: y.var().item()})
            )
    random = np.random.default_rng(0)
    sides = [random.integers(0, 50, (SENTENCES, LENGTH)) for _ in range(2)]
    plain(make_batch([*zip(*sides, strict=True)]))
    factors, totals = ratios("admin"), {"encoder": 1.0, "decoder": 1.0}
    assert len(found) == 2 * N + 3 * M
    for name, variance in found.items():  # in the order of computation
        stack = name.split(".")[0]
        assert factors[f"{name}.{name[-1]}"] == pytest.approx(totals[stack] ** -0.5, rel=1e-4)
        totals[stack] += variance
    assert totals["encoder"] > 2
    assert {factor for name, factor in factors.items() if not is_output(name)} == {1.0}


def test_admin_is_the_published_function_at_step_0() -> None:
    """LayerNorm(omega x + f(x)) = LayerNorm(x + f(x) / omega), up to the norm's epsilon."""
    x, f = torch.randn(2, 10, D, dtype=torch.float64)
    norm = torch.nn.LayerNorm(D, eps=0, dtype=torch.float64)
    torch.testing.assert_close(norm(3.7 * x + f), norm(x + f / 3.7))


def test_no_scheme_changes_later_random_draws_or_the_mode_of_the_model() -> None:
    draws = set()
    for init in ("xavier", "depth-scaled", "centred", "small", "admin", "deepnet"):
        assert model(init).training
        draws.add(torch.rand(()).item())
        assert count_parameters(CONFIG.replace(init=init))  # without allocating weights
    assert len(draws) == 1


def test_admin_measures_models_with_the_smallest_sizes() -> None:
    smallest = {"max_len": 2, "source_vocabulary": 4, "target_vocabulary": 4}
    measured = model("admin", positions="learned", **smallest)
    assert all(weight.isfinite().all() for weight in measured.parameters())
