"""Same weights, same input, same output as Hugging Face's MarianMTModel.

Marian concatenates sines and cosines, the paper interleaves them. So our channels are reordered,
the even ones first. Its attention has biases, which are 0 here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models import logits_by_sentence, pairs_of, search, sentence, small_model
from transduce.batching.packed import make_batch
from transduce.bench.huggingface import marian
from transduce.config import SearchConfig
from transduce.model.transformer import Transformer
from transduce.subwords import BOS, EOS, PAD, UNK

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own, not ours


def marian_of(model: Transformer) -> Any:
    config = model.config
    theirs: Any = marian(config).eval()
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    with torch.no_grad():
        theirs.model.shared.weight.copy_(model.output[:, order])
        for ours, other in zip(model.encoder, theirs.model.encoder.layers, strict=True):
            own = ours.self_attention
            copy_attention(other.self_attn, own.W_QKV.weight.chunk(3), own.W_O, order)
            copy_feed_forward(ours, other, order)
            copy_norm(ours.after_self.norm, other.self_attn_layer_norm, order)
        for layer, other in zip(model.decoder, theirs.model.decoder.layers, strict=True):
            own, cross = layer.self_attention, layer.cross_attention
            copy_attention(other.self_attn, own.W_QKV.weight.chunk(3), own.W_O, order)
            projections = (cross.W_Q.weight, *cross.W_KV.weight.chunk(2))
            copy_attention(other.encoder_attn, projections, cross.W_O, order)
            copy_feed_forward(layer, other, order)
            copy_norm(layer.after_self.norm, other.self_attn_layer_norm, order)
            copy_norm(layer.after_cross.norm, other.encoder_attn_layer_norm, order)
    return theirs


def copy_attention(
    other: Any, projections: Sequence[Tensor], W_O: nn.Linear, order: Tensor
) -> None:
    theirs = (other.q_proj, other.k_proj, other.v_proj)
    for linear, weight in zip(theirs, projections, strict=True):
        linear.weight.copy_(weight[:, order])
        linear.bias.zero_()
    other.out_proj.weight.copy_(W_O.weight[order])
    other.out_proj.bias.zero_()


def copy_feed_forward(ours: Any, other: Any, order: Tensor) -> None:
    nn.init.normal_(ours.feed_forward.W_1.bias)
    nn.init.normal_(ours.feed_forward.W_2.bias)
    other.fc1.weight.copy_(ours.feed_forward.W_1.weight[:, order])
    other.fc1.bias.copy_(ours.feed_forward.W_1.bias)
    other.fc2.weight.copy_(ours.feed_forward.W_2.weight[order])
    other.fc2.bias.copy_(ours.feed_forward.W_2.bias[order])
    copy_norm(ours.after_feed.norm, other.final_layer_norm, order)


def copy_norm(ours: nn.LayerNorm, other: nn.LayerNorm, order: Tensor) -> None:
    nn.init.normal_(ours.weight, 1.0, 0.1)
    other.weight.copy_(ours.weight[order])
    other.bias.copy_(ours.bias[order])


def test_logits_are_those_of_marian_on_padded_batches() -> None:
    model = small_model()
    theirs = marian_of(model)
    pairs = pairs_of([(5, 8), (9, 3), (2, 6)])
    ours = logits_by_sentence(model, make_batch(pairs))
    source = torch.zeros(3, 9, dtype=torch.long)
    target = torch.zeros(3, 8, dtype=torch.long)
    for row, (left, right) in enumerate(pairs):
        source[row, : len(left)] = torch.from_numpy(left)
        target[row, : len(right)] = torch.from_numpy(np.append(BOS, right[:-1]))
    mask = torch.arange(9)[None] < torch.tensor([len(left) for left, _ in pairs])[:, None]
    with torch.inference_mode():
        logits = theirs(
            input_ids=source, attention_mask=mask.long(), decoder_input_ids=target
        ).logits
    for row, expected in enumerate(ours):
        torch.testing.assert_close(logits[row, : len(expected)], expected, rtol=1e-4, atol=1e-4)


def test_greedy_output_is_that_of_marians_generate() -> None:
    model = small_model(4, source_vocabulary=30, target_vocabulary=30)
    theirs = marian_of(model)
    for length in (5, 9, 3):
        source = sentence(length, length, 30)
        with torch.inference_mode():
            output = theirs.generate(
                input_ids=torch.from_numpy(source)[None],
                num_beams=1,
                do_sample=False,
                max_new_tokens=len(source) + 10,
                bad_words_ids=[[PAD], [BOS], [UNK]],
            )[0].tolist()[1:]
        ((best,),) = search(
            model, [source], SearchConfig(beam=1, extra=10), forbidden=[PAD, BOS, UNK]
        )
        words = output[: output.index(EOS)] if EOS in output else output[: len(source) + 9]
        assert best.tokens == words
