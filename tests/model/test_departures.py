"""Pre-norm, RMSNorm, gated feed-forward networks, QK-norm and rotary positions are their equations.

T tokens of a sentence, H heads, C channels.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attention_settings import MODERN
from torch import Tensor
from torch.nn import functional as F

from models import batch_of, pairs_of, small_model
from reference import distance
from transduce.batching.packed import make_batch
from transduce.config import ModelConfig
from transduce.errors import BadSetting
from transduce.model.positions import sinusoids
from transduce.model.transformer import Transformer
from transduce.subwords import BOS

ALONE: list[dict[str, Any]] = [{key: value} for key, value in MODERN.items() if key != "activation"]
EACH = [
    {},
    *ALONE,
    {"gated": True, "activation": "gelu"},
    {"norm": "rms", "pre_norm": True},
    {"qk_norm": True, "scaled": False, "attention_bias": True},
    MODERN,
]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "swish": F.silu,
    "gelu": F.gelu,
}


class Plain:
    """The equations for one pair of sentences, in float64."""

    def __init__(self, model: Transformer) -> None:
        self.config, self.model = model.config, model
        self.weights = {name: weight.double() for name, weight in model.named_parameters()}

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.stack("encoder", self.embed(source), None)
        return self.stack("decoder", self.embed(target), memory) @ self.weights["output"].T

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.weights["output"][tokens] * math.sqrt(self.config.d_model)
        sinusoidal = self.config.positions == "sinusoidal"
        return x + sinusoids(len(tokens), self.config.d_model, torch) if sinusoidal else x

    def stack(self, side: str, x: Tensor, memory: Tensor | None) -> Tensor:
        """Post-norm: x = Norm(x + f(x)). Pre-norm: x = x + f(Norm(x)), and a norm at the end."""
        norms = [f"pre_norm.below_{side}"] if self.config.pre_norm else []
        for number in range(self.config.N):
            layer = f"{side}.{number}"
            parts = ["self", "cross", "feed"] if memory is not None else ["self", "feed"]
            for part in parts:
                norm = f"{layer}.after_{part}.norm"
                if self.config.pre_norm:
                    x = x + self.sublayer(layer, part, self.norm(x, norms[-1]), memory)
                else:
                    x = self.norm(x + self.sublayer(layer, part, x, memory), norm)
                norms.append(norm)
        return self.norm(x, norms[-1]) if self.config.pre_norm else x

    def norm(self, x: Tensor, name: str) -> Tensor:
        weight = self.weights[f"{name}.weight"]
        if self.config.norm == "rms":
            assert f"{name}.bias" not in self.weights
            return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
        return F.layer_norm(x, weight.shape, weight, self.weights[f"{name}.bias"], 1e-5)

    def sublayer(self, layer: str, part: str, x: Tensor, memory: Tensor | None) -> Tensor:
        if part == "feed":
            return self.feed_forward(f"{layer}.feed_forward", x)
        h, d_k, d_v = self.config.h, self.config.d_k, self.config.d_v
        name = f"{layer}.{part}_attention"
        if part == "self":
            q, k, v = self.linear(x, f"{name}.W_QKV").split([h * d_k, h * d_k, h * d_v], -1)
            q, k = self.gain(q, k, f"{name}.qk_norm.gain", f"{name}.qk_norm.gain")
        else:
            assert memory is not None
            q = self.linear(x, f"{name}.W_Q")
            k, v = self.linear(memory, f"{name}.W_KV").split([h * d_k, h * d_v], -1)
            q, k = self.gain(q, k, f"{name}.q_norm.gain", f"{name}.k_norm.gain")
        q, k, v = (x.unflatten(-1, (h, -1)).transpose(0, 1) for x in (q, k, v))
        if part == "self" and self.config.positions == "rotary":
            q, k = rotated(q), rotated(k)
        scores = q @ k.mT / (math.sqrt(d_k) if self.config.scaled else 1)
        if part == "self" and layer.startswith("decoder"):
            scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
        y = scores.softmax(-1) @ v
        return self.linear(y.transpose(0, 1).flatten(1), f"{name}.W_O")

    def gain(self, q: Tensor, k: Tensor, of_q: str, of_k: str) -> tuple[Tensor, Tensor]:
        """RMSNorm of each head, with the gain that all heads share."""
        if not self.config.qk_norm:
            return q, k
        d_k = self.config.d_k
        gains = self.weights[of_q][:d_k], self.weights[of_k][-d_k:]
        heads = [x.unflatten(-1, (-1, d_k)) for x in (q, k)]
        q, k = (
            (x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain).flatten(1)
            for x, gain in zip(heads, gains, strict=True)
        )
        return q, k

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        act = ACTIVATIONS[self.config.activation]
        if not self.config.gated:
            return self.linear(act(self.linear(x, f"{name}.W_1")), f"{name}.W_2")
        assert f"{name}.W_1.bias" not in self.weights
        W_1, W_3 = self.weights[f"{name}.W_1.weight"].split(self.config.d_ff)
        return self.linear(act(x @ W_1.T) * (x @ W_3.T), f"{name}.W_2")

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))


def rotated(x: Tensor) -> Tensor:
    """Each pair of channels, as a complex number, turned by its position. (H, T, C)."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    frequency = 10_000 ** (-torch.arange(0, x.size(-1), 2, dtype=torch.float64) / x.size(-1))
    angle = torch.arange(x.size(1), dtype=torch.float64)[:, None] * frequency
    return torch.view_as_real(pairs * torch.exp(1j * angle)).flatten(-2)


def perturbed(**changes: Any) -> Transformer:
    """Return a model in which no gain is 1 and no bias 0."""
    model = small_model(P_drop=0.0, **changes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    return model


@pytest.mark.parametrize("changes", EACH, ids=str)
def test_the_model_is_its_equations_forward_and_backward(changes: dict[str, Any]) -> None:
    model = perturbed(**changes)
    ((source, target),) = pairs = pairs_of([(9, 7)])
    ours = model.logits(model(make_batch(pairs)))
    inputs = torch.cat([torch.tensor([BOS]), torch.from_numpy(target[:-1])])
    exact = Plain(model).logits(torch.from_numpy(source), inputs)
    assert distance(ours, exact) < 1e-5
    weights, upstream = list(model.parameters()), torch.randn_like(ours)
    expected = torch.autograd.grad(exact, weights, upstream.double())
    for ours_, theirs in zip(torch.autograd.grad(ours, weights, upstream), expected, strict=True):
        assert distance(ours_, theirs) < 1e-4


def test_recomputed_activations_give_the_same_gradients() -> None:
    model, batch = perturbed(**MODERN).train(), batch_of((9, 7), (3, 12))
    gradients = []
    for model.recompute in (False, True):
        out = model(batch)
        gradients.append(torch.autograd.grad(out, list(model.parameters()), torch.ones_like(out)))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_weights_per_token_are_those_of_the_matrices() -> None:
    model = small_model(**MODERN)
    source, target = Transformer.weights_per_token(model.config)
    matrices = sum(w.numel() for w in model.parameters() if w.dim() == 2)
    assert source + target == matrices


def test_the_settings_add_no_biases_and_few_weights() -> None:
    names = {name for name, _ in small_model(**MODERN).named_parameters()}
    assert not [name for name in names if name.endswith("bias")]
    paper = {name for name, _ in small_model().named_parameters()}
    assert {name.rpartition(".")[2] for name in names - paper} == {"weight", "gain"}
    assert {name.split(".")[0] for name in names - paper} == {"encoder", "decoder", "pre_norm"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"attention": "additive", "qk_norm": True}, "qk_norm = True: expected false"),
        ({"pre_norm": True, "init": "admin"}, "init = 'admin': expected another"),
        ({"architecture": "bytenet", "gated": True}, "gated = True: expected False"),
        ({"architecture": "convs2s", "norm": "rms"}, "norm = 'rms': expected 'layer'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadSetting, match=expected):
        ModelConfig(**changes)
