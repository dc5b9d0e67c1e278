"""Weights of fairseq's Transformer, saved as safetensors in fairseq's own environment.

The folder holds model.safetensors with fairseq's names, fairseq.json with the model's settings and
the two languages, the dictionaries dict.SOURCE.txt and dict.TARGET.txt, and the SentencePiece model
of the text: sentencepiece.model, or source.spm and target.spm.

fairseq's sinusoids begin at position 2 and use other wavelengths, so they are imported as a table:
`positions` is "learned" here. Outputs begin with </s>, so our <s> gets a copy of its row. fairseq's
own <s> takes part in the softmax, so it is kept as an additional word.

Differs: that word and <unk> are never produced here.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from transduce.config import ModelConfig, SearchConfig
from transduce.errors import BadInput
from transduce.interop.dictionary import require_dictionary
from transduce.interop.importing.settings import SettingsFile, model_config
from transduce.interop.importing.vocabulary import Side
from transduce.interop.importing.weights import (
    HEAD,
    check_weights,
    logits_bias,
    read_embeddings,
    read_safetensors,
)
from transduce.interop.marian import LOGITS_BIAS, from_marian
from transduce.subwords import SPECIAL, Codec, SentencePiece
from transduce.system.files import read_json

SETTINGS = "fairseq.json"
FIRST = 2  # fairseq's index of the first position: the id of <pad>, plus one
# fairseq's ids of <pad>, of the token that begins outputs, of </s> and of <unk>.
ROWS = (1, 2, 2, 3)
# The name of fairseq's own <s>: the line feed keeps it out of text; the search never produces it.
BEGIN = "<s>\n"
UNSET: tuple[Any, ...] = (False, None, 0, [], "")
MAX_POSITIONS = 4_096  # of a table; fairseq's default is 1,024
# Settings that our model cannot represent; they must be unset.
REFUSED = (
    *("encoder_normalize_before", "decoder_normalize_before", "layernorm_embedding"),
    *("no_scale_embedding", "no_cross_attention", "cross_self_attention", "adaptive_input"),
    *("adaptive_softmax_cutoff", "no_token_positional_embeddings", "char_inputs"),
    *("encoder_layers_to_keep", "decoder_layers_to_keep", "base_layers"),
)
# Version numbers and a buffer, not weights.
NOT_WEIGHTS = ("version", "_float_tensor")


@dataclass(frozen=True, slots=True)
class Imported:
    """The content of an imported run."""

    model: ModelConfig
    search: SearchConfig
    codec: Codec
    weights: dict[str, Tensor]
    languages: tuple[str, str]
    pairs: tuple[tuple[str, str], ...] = ()  # if there are several


def read_fairseq(folder: Path) -> Imported:
    """Read a folder of fairseq's weights."""
    settings = SettingsFile(folder / SETTINGS, read_json(folder / SETTINGS))
    languages = _language(settings, "source_lang"), _language(settings, "target_lang")
    source, target = (
        _side(folder, *side) for side in zip(("source", "target"), languages, strict=True)
    )
    codec = Codec(source.subwords, target.subwords)
    model = _model(settings, len(source.rows), len(target.rows), joint=codec.joint)
    tensors = {
        f"model.{name}": tensor
        for name, tensor in read_safetensors(folder / "model.safetensors").items()
        if not name.endswith(NOT_WEIGHTS)
    }
    learned = {side: _pop_positions(settings, side, tensors) for side in ("encoder", "decoder")}
    for name in ("model.decoder.output_projection.weight", "model.decoder.embed_out"):
        if name in tensors:
            tensors[HEAD] = tensors.pop(name)
    tensors |= read_embeddings(folder, tensors, model, source, target)
    tensors[LOGITS_BIAS] = logits_bias(folder, tensors, target)
    weights = from_marian(model, check_weights(folder, tensors, model), reorder=False)
    tables = {
        f"{ours}_embedding.positions": _positions(folder, learned[side], model)
        for ours, side in (("source", "encoder"), ("target", "decoder"))
    }
    search = SearchConfig(beam=5, alpha=1.0, penalty="power")  # the defaults of fairseq-generate
    return Imported(model, search, codec, weights | tables, languages)


def _language(settings: SettingsFile, name: str) -> str:
    language = settings.get(name)
    valid = isinstance(language, str) and language.replace("_", "").isalnum()
    settings.require(name, valid, "a language such as de, whose dictionary is dict.de.txt")
    return cast("str", language)


def _model(settings: SettingsFile, source: int, target: int, *, joint: bool) -> ModelConfig:
    """Return our model settings, with the attention biases that fairseq has."""
    for name in REFUSED:
        expected = "no value, because our model is the paper's post-norm Transformer"
        settings.require(name, settings.get(name) in UNSET, expected)
    d_model = settings.number("encoder_embed_dim")
    same = settings.get("decoder_embed_dim") == d_model
    settings.require("decoder_embed_dim", same, f"{d_model}, the encoder's value")
    settings.require("encoder_embed_dim", d_model >= 4, "at least 4")
    tie = "decoder" if settings.get("share_decoder_input_output_embed") else "none"
    if settings.get("share_all_embeddings"):
        settings.require("share_all_embeddings", joint, "false, because the dictionaries differ")
        tie = "all"
    sides = ("max_source_positions", "max_target_positions")
    others = {
        "attention_bias": True,
        "logits_bias": True,  # keeps <s> out of the softmax
        "positions": "learned",
        "tie": tie,
        "max_len": min(*map(settings.number, sides), MAX_POSITIONS),
        "source_vocabulary": source,
        "target_vocabulary": target,
    }
    names = ("encoder_embed_dim", "ffn_embed_dim", "activation_fn")
    return model_config(settings, *names, others)


def _pop_positions(settings: SettingsFile, side: str, tensors: dict[str, Tensor]) -> Tensor | None:
    """Remove the learned positions of a side from the weights, and return them."""
    learned = tensors.pop(f"model.{side}.embed_positions.weight", None)
    name = f"{side}_learned_pos"
    consistent = learned is not None or settings.get(name) in UNSET
    expected = f"false, because the weights lack {side}.embed_positions.weight"
    settings.require(name, consistent, expected)
    return learned


def _side(folder: Path, name: str, language: str) -> Side:
    """Read a dictionary and the SentencePiece model that goes with it."""
    path = folder / f"dict.{language}.txt"
    words = _dictionary(path)
    spm = folder / f"{name}.spm"
    if not spm.exists():
        spm = folder / "sentencepiece.model"
    if not spm.exists():
        raise BadInput(
            f"{folder} has no {name}.spm and no sentencepiece.model: expected the SentencePiece "
            "model of the text; vocabularies of subword-nmt or fastBPE cannot be imported"
        )
    size = len(SPECIAL) + len(words)
    rows = (*ROWS, *range(len(SPECIAL), size), 0)
    return Side(SentencePiece.read(spm, [*SPECIAL, *words, BEGIN]), rows, size)


def _dictionary(path: Path) -> list[str]:
    """Read the words of a fairseq dictionary: one word and its count per line."""
    require_dictionary(path)
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8: expected fairseq's dictionary") from None
    words = []
    for number, line in enumerate(lines, 1):
        word, space, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not space or not word or not count.isdigit():
            raise BadInput(f"{path}, line {number} is {line!r:.40}: expected a word and a count")
        words.append(word)
    if len({*words, *SPECIAL}) < len(words) + len(SPECIAL):
        raise BadInput(f"{path} has a word twice, or a special token: expected each word once")
    return words


def _positions(folder: Path, learned: Tensor | None, model: ModelConfig) -> Tensor:
    """Return the positional embeddings of a side: learned ones, or fairseq's sinusoids."""
    count, d_model = model.max_positions, model.d_model
    if learned is not None:
        if learned.dim() != 2 or len(learned) < FIRST + count or learned.size(1) != d_model:
            raise BadInput(
                f"embed_positions.weight of {folder} is {tuple(learned.shape)}, "
                f"expected {(FIRST + count, d_model)}"
            )
        return learned[FIRST : FIRST + count].float().contiguous()
    half = d_model // 2
    rates = torch.exp(torch.arange(half) * -(math.log(10_000) / (half - 1)))
    angles = torch.arange(FIRST, FIRST + count)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
