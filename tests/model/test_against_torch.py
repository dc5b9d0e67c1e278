"""Same weights, same input, same output as torch.nn.Transformer."""

import doctest
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models import batch_of, small_model
from transduce.errors import BadInput
from transduce.model.attention import CrossAttention, SelfAttention
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.transformer import Transformer


def torch_transformer(model: Transformer) -> nn.Transformer:
    """Build torch's nn.Transformer with our weights and without its two final norms."""
    config = model.config
    theirs = nn.Transformer(
        config.d_model,
        config.h,
        config.N,
        config.decoder_layers,
        config.d_ff,
        dropout=0.0,
        batch_first=True,
        norm_first=False,
    ).eval()
    theirs.encoder.norm = theirs.decoder.norm = None
    with torch.no_grad():
        other: Any
        for ours, other in zip(model.encoder, theirs.encoder.layers, strict=True):
            copy_layer(ours, other)
        for layer, other in zip(model.decoder, theirs.decoder.layers, strict=True):
            copy_layer(layer, other)
            copy_cross(layer.cross_attention, other.multihead_attn)
            copy_norm(layer.after_cross.norm, other.norm2)
    return theirs


def copy_layer(ours: EncoderLayer | DecoderLayer, other: Any) -> None:
    copy_self(ours.self_attention, other.self_attn)
    copy_norm(ours.after_self.norm, other.norm1)
    copy_norm(ours.after_feed.norm, other.norm3 if isinstance(ours, DecoderLayer) else other.norm2)
    for linear, other_linear in (
        (ours.feed_forward.W_1, other.linear1),
        (ours.feed_forward.W_2, other.linear2),
    ):
        other_linear.weight.copy_(linear.weight)
        other_linear.bias.copy_(linear.bias)


def copy_self(ours: SelfAttention, other: nn.MultiheadAttention) -> None:
    other.in_proj_weight.copy_(ours.W_QKV.weight)
    copy_output(ours.W_O, other)


def copy_cross(ours: CrossAttention, other: nn.MultiheadAttention) -> None:
    other.in_proj_weight.copy_(torch.cat([ours.W_Q.weight, ours.W_KV.weight]))
    copy_output(ours.W_O, other)


def copy_output(W_O: nn.Linear, other: nn.MultiheadAttention) -> None:
    other.in_proj_bias.zero_()
    other.out_proj.weight.copy_(W_O.weight)
    other.out_proj.bias.zero_()


def copy_norm(ours: nn.LayerNorm, other: nn.LayerNorm) -> None:
    nn.init.normal_(ours.weight, 1.0, 0.1)  # not 1 and 0: a swap shows
    nn.init.normal_(ours.bias, 0.0, 0.1)
    other.weight.copy_(ours.weight)
    other.bias.copy_(ours.bias)


def their_output(
    model: Transformer, theirs: nn.Transformer, source: Tensor, target: Tensor
) -> Tensor:
    x = model.source_embedding(source, torch.arange(len(source)))[None]
    y = model.target_embedding(target, torch.arange(len(target)))[None]
    mask = nn.Transformer.generate_square_subsequent_mask(len(target))
    return theirs(x, y, tgt_mask=mask)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("changes", [{}, {"N": 1, "N_decoder": 3}, {"h": 1, "d_k": 32, "d_v": 32}])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_output_and_gradient_are_those_of_torch(changes: dict[str, int]) -> None:
    model = small_model(**changes)
    theirs = torch_transformer(model)
    batch = batch_of((9, 7))
    ours = model(batch)
    expected = their_output(model, theirs, batch.source.tokens, batch.target.tokens)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    upstream = torch.randn_like(ours)
    gradient = torch.autograd.grad(ours, model.output, upstream)
    other = torch.autograd.grad(expected, model.output, upstream)
    torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-4)


def padded(lengths: list[int], first: int | None, seed: int) -> Tensor:
    """Return random sentences of these lengths, padded with 0; `first` begins each."""
    draw = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, 50, (length,), generator=draw) for length in lengths]
    for row in rows:
        row[0] = row[0] if first is None else first
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_padded_tensors_give_the_logits_and_gradient_of_torch() -> None:
    model = small_model()
    theirs = torch_transformer(model)
    source, target = padded([9, 4, 1, 4], None, seed=1), padded([3, 7, 5, 1], 1, seed=2)
    x, y = (
        embedding(side, torch.arange(side.size(1)).expand_as(side))
        for embedding, side in (
            (model.source_embedding, source),
            (model.target_embedding, target),
        )
    )
    mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
    hidden = theirs(
        x,
        y,
        tgt_mask=mask,
        src_key_padding_mask=source == 0,
        memory_key_padding_mask=source == 0,
    )
    expected = (hidden @ model.output.T) * (target != 0)[..., None]
    ours = model.forward_padded(source, target)
    assert ours.shape == (4, 7, 50)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    upstream = torch.randn_like(ours)
    gradient = torch.autograd.grad(ours, model.output, upstream)
    other = torch.autograd.grad(expected, model.output, upstream)
    torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([1, 2], [[1]], r"source is a tensor of torch.int64 with shape \(2,\): expected token ids"),
        ([[1.0, 2.0]], [[1]], "source is a tensor of torch.float32"),
        ([[5, 2]], [[1], [1]], "source has 1 sentences but target has 2"),
        ([[5, 2], [0, 0]], [[1], [1]], "row 1 of source is empty or has 0 before its last token"),
        ([[5, 2]], [[1, 0, 4]], "row 0 of target is empty or has 0 before"),
        ([[5, 50]], [[1]], "source has token ids from 5 to 50: expected 0 .* to 49"),
        ([[-1, 2]], [[1]], "source has token ids from -1 to 2"),
        ([[4] * 600], [[1]], "source has a sentence of 600 tokens: expected at most 512"),
        ([], [], "source is a tensor|source has no tokens"),
    ],
)
def test_tensors_that_are_not_padded_token_ids_are_refused(
    source: Any, target: Any, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        small_model().forward_padded(torch.tensor(source), torch.tensor(target))


def test_the_documented_call_of_the_model_works() -> None:
    examples = doctest.DocTestFinder().find(Transformer.forward_padded, "forward_padded")
    results = [doctest.DocTestRunner().run(example) for example in examples]
    assert [result.failed for result in results] == [0]
    assert results[0].attempted >= 6
