"""Our weights with the names and the layout of Hugging Face's MarianMTModel. V words.

Marian concatenates the sines and the cosines of positions, the paper interleaves them (3.5). So our
channel 2i is Marian's channel i, and our 2i + 1 its d_model / 2 + i, in every matrix, norm and bias
that is added to or multiplied by the residual stream.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.model.transformer import Transformer

# Our embedding matrices and Marian's names, by the setting `tie`; a shared matrix is listed once.
EMBEDDINGS = {
    "all": {"output": "model.shared.weight"},
    "decoder": {
        "output": "model.decoder.embed_tokens.weight",
        "source_embedding.matrix": "model.encoder.embed_tokens.weight",
    },
    "none": {
        "output": "lm_head.weight",
        "source_embedding.matrix": "model.encoder.embed_tokens.weight",
        "target_embedding.matrix": "model.decoder.embed_tokens.weight",
    },
}
LOGITS_BIAS = "final_logits_bias"  # (1, V)
PAIRS = "language_pairs"  # all pairs of a model of several, in the tokenizer_config.json of exports


@dataclass(frozen=True, slots=True)
class Entry:
    """One of our tensors, and the tensors of Marian that it concatenates."""

    ours: str
    theirs: tuple[str, ...]
    axis: int | None  # the axis along the residual stream's channels; None: no axis


def to_marian(config: ModelConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert our tensors to Marian's; biases that our model lacks are 0."""
    order = _order(config.d_model)
    converted: dict[str, Tensor] = {}
    for entry in entries(config.replace(attention_bias=True)):
        if entry.ours not in tensors:
            converted |= {name: torch.zeros(config.d_model) for name in entry.theirs}
            continue
        tensor = tensors[entry.ours].float()
        if entry.axis is not None:
            tensor = tensor.index_select(entry.axis, order)
        for name, part in zip(entry.theirs, tensor.chunk(len(entry.theirs)), strict=True):
            converted[name] = part.contiguous()
    bias = tensors["logits_bias"] if config.logits_bias else torch.zeros(config.target_vocabulary)
    return converted | {LOGITS_BIAS: bias[None]}


def from_marian(
    config: ModelConfig, tensors: Mapping[str, Tensor], *, reorder: bool = True
) -> dict[str, Tensor]:
    """Convert Marian's tensors to ours; none may be missing.

    `reorder=False` keeps the order of the channels, for a model with its own position table in
    that order.
    """
    inverse = _order(config.d_model).argsort() if reorder else torch.arange(config.d_model)
    converted = {}
    for entry in entries(config):
        tensor = torch.cat([tensors[name].float() for name in entry.theirs])
        if entry.axis is not None:
            tensor = tensor.index_select(entry.axis, inverse)
        converted[entry.ours] = tensor
    if config.logits_bias:
        converted["logits_bias"] = tensors[LOGITS_BIAS][0].float()
    return converted


def shapes(config: ModelConfig) -> dict[str, torch.Size]:
    """Return the shape of each of Marian's tensors."""
    with torch.device("meta"):
        tensors = to_marian(config, dict(Transformer(config).named_parameters()))
    return {name: tensor.shape for name, tensor in tensors.items()}


def attention_biases(tensors: Mapping[str, Tensor]) -> list[Tensor]:
    """Return Marian's attention biases, which our model has only with `attention_bias`."""
    ends = tuple(f"{name}_proj.bias" for name in ("q", "k", "v", "out"))
    return [tensor for name, tensor in tensors.items() if name.endswith(ends)]


def entries(config: ModelConfig) -> Iterator[Entry]:
    """Yield all tensors except the bias of the logits."""
    for ours, theirs in EMBEDDINGS[config.tie].items():
        yield Entry(ours, (theirs,), 1)
    for n in range(config.N):
        ours, theirs = f"encoder.{n}", f"model.encoder.layers.{n}"
        yield from _self_attention(ours, theirs, config)
        yield from _feed_forward(ours, theirs)
    for n in range(config.decoder_layers):
        ours, theirs = f"decoder.{n}", f"model.decoder.layers.{n}"
        yield from _self_attention(ours, theirs, config)
        cross, attn = f"{ours}.cross_attention", f"{theirs}.encoder_attn"
        yield from _linear(f"{cross}.W_Q", attn, ("q_proj",), 1, bias=config.attention_bias)
        kv = ("k_proj", "v_proj")
        yield from _linear(f"{cross}.W_KV", attn, kv, 1, bias=config.attention_bias)
        yield from _linear(f"{cross}.W_O", attn, ("out_proj",), 0, bias=config.attention_bias)
        yield from _norm(f"{ours}.after_cross", f"{theirs}.encoder_attn_layer_norm")
        yield from _feed_forward(ours, theirs)


def _self_attention(ours: str, theirs: str, config: ModelConfig) -> Iterator[Entry]:
    block, attn, bias = f"{ours}.self_attention", f"{theirs}.self_attn", config.attention_bias
    yield from _linear(f"{block}.W_QKV", attn, ("q_proj", "k_proj", "v_proj"), 1, bias=bias)
    yield from _linear(f"{block}.W_O", attn, ("out_proj",), 0, bias=bias)
    yield from _norm(f"{ours}.after_self", f"{theirs}.self_attn_layer_norm")


def _feed_forward(ours: str, theirs: str) -> Iterator[Entry]:
    yield from _linear(f"{ours}.feed_forward.W_1", theirs, ("fc1",), 1, bias=True)
    yield from _linear(f"{ours}.feed_forward.W_2", theirs, ("fc2",), 0, bias=True)
    yield from _norm(f"{ours}.after_feed", f"{theirs}.final_layer_norm")


def _linear(
    ours: str, theirs: str, names: tuple[str, ...], axis: int, *, bias: bool
) -> Iterator[Entry]:
    """Yield a linear map from (axis 1) or to (axis 0) the residual stream."""
    yield Entry(f"{ours}.weight", tuple(f"{theirs}.{name}.weight" for name in names), axis)
    if bias:
        biases = tuple(f"{theirs}.{name}.bias" for name in names)
        yield Entry(f"{ours}.bias", biases, None if axis else 0)


def _norm(ours: str, theirs: str) -> Iterator[Entry]:
    for name in ("weight", "bias"):
        yield Entry(f"{ours}.norm.{name}", (f"{theirs}.{name}",), 0)


def _order(d_model: int) -> Tensor:
    """Return our channels in Marian's order: evens, then odds."""
    return torch.arange(d_model).view(-1, 2).T.flatten()
