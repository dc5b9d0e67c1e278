"""The shape of each array of an exportable Transformer, without torch and without building it."""

from transduce.config import ModelConfig
from transduce.runs.arrays import Shapes


def shapes(model: ModelConfig) -> Shapes:
    """Return the shape of each array of a Transformer."""
    d, vocabulary = model.d_model, model.target_vocabulary
    shape_of: dict[str, tuple[int, ...]] = {"output": (vocabulary, d)}
    if model.logits_bias:
        shape_of["logits_bias"] = (vocabulary,)
    if model.tie != "all":
        shape_of["source_embedding.matrix"] = (model.source_vocabulary, d)
    if model.tie == "none":
        shape_of["target_embedding.matrix"] = (vocabulary, d)
    if model.positions == "learned":
        table = (model.max_positions, d)
        shape_of |= {f"{side}_embedding.positions": table for side in ("source", "target")}
    if model.pre_norm:
        shape_of |= _norm(model, "pre_norm.below_encoder") | _norm(model, "pre_norm.below_decoder")
    for number in range(model.N):
        shape_of |= _layer(model, f"encoder.{number}")
    for number in range(model.decoder_layers):
        shape_of |= _layer(model, f"decoder.{number}") | _cross(model, f"decoder.{number}")
    return shape_of


def _layer(model: ModelConfig, layer: str) -> dict[str, tuple[int, ...]]:
    """Return the arrays of self-attention, the feed-forward network and their norms."""
    d, d_ff, h, d_k, d_v = model.d_model, model.d_ff, model.h, model.d_k, model.d_v
    bias, attention = not model.gated, f"{layer}.self_attention"
    return {
        **_linear(f"{attention}.W_QKV", h * (2 * d_k + d_v), d, bias=model.attention_bias),
        **_linear(f"{attention}.W_O", d, h * d_v, bias=model.attention_bias),
        **_linear(f"{layer}.feed_forward.W_1", d_ff * (2 if model.gated else 1), d, bias=bias),
        **_linear(f"{layer}.feed_forward.W_2", d, d_ff, bias=bias),
        **_norm(model, f"{layer}.after_self.norm"),
        **_norm(model, f"{layer}.after_feed.norm"),
    }


def _cross(model: ModelConfig, layer: str) -> dict[str, tuple[int, ...]]:
    """Return the arrays of cross-attention and its norm."""
    d, h, d_k, d_v = model.d_model, model.h, model.d_k, model.d_v
    attention, bias = f"{layer}.cross_attention", model.attention_bias
    return {
        **_linear(f"{attention}.W_Q", h * d_k, d, bias=bias),
        **_linear(f"{attention}.W_KV", h * (d_k + d_v), d, bias=bias),
        **_linear(f"{attention}.W_O", d, h * d_v, bias=bias),
        **_norm(model, f"{layer}.after_cross.norm"),
    }


def _linear(name: str, rows: int, columns: int, *, bias: bool) -> dict[str, tuple[int, ...]]:
    of_bias = {f"{name}.bias": (rows,)} if bias else {}
    return {f"{name}.weight": (rows, columns), **of_bias}


def _norm(model: ModelConfig, name: str) -> dict[str, tuple[int, ...]]:
    of_bias = {f"{name}.bias": (model.d_model,)} if model.norm == "layer" else {}
    return {f"{name}.weight": (model.d_model,), **of_bias}
