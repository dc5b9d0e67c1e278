"""A run as a folder that Hugging Face's `transformers` loads: MarianMTModel and AutoTokenizer."""

import os
from pathlib import Path
from typing import Any

import torch

from transduce.checkpoints.checkpoint import load_model, weights_of, write_tensors
from transduce.config import ModelConfig
from transduce.errors import BadInput
from transduce.interop.marian import to_marian
from transduce.runs.arrays import KEY
from transduce.runs.folder import SUBWORDS, RunConfig
from transduce.subwords import BOS, EOS, PAD, SPECIAL, UNK, Codec, Coder, SentencePiece
from transduce.system.files import atomic_folder, sync, write_json


def export(run: Path, folder: Path) -> None:
    """Write a run's model as a new folder, for `from_pretrained`; whole or not at all.

    The logits are ours, and so are the words that may come out. What differs is around them:

    - `generate` divides by |Y|^length_penalty, the paper's search by ((5 + |Y|) / 6)^alpha; and its
      beam stays as wide as it is where ours has a slot less for each output that has ended. Both
      agree in greedy search, and in beam search with length_penalty 0 where no better output than
      the first that ended is still alive.
    - `generate` has one limit for all outputs, as many tokens as there are positions, and lets them
      end there at no cost; ours is 50 subwords more than the source has, and the end counts.
    - The tokenizer cuts nothing: a source longer than `model_max_length` is for its caller to cut.

    With separate vocabularies the tokenizer is the source's, and that of the target stands in the
    folder `target` in it. Subwords of an imported model come out as the files they came in as.
    """
    if os.path.lexists(folder):
        raise BadInput(f"{folder} exists already: choose a new folder for the export")
    config = RunConfig.load(run)
    config.require("translation", run)
    _require_marian(config.model)
    codec = Codec.load(config.verified(run, SUBWORDS))
    config.require_subwords(len(codec.source), len(codec.target), run)
    model, _ = load_model(run, config, torch.device("cpu"))
    tensors = to_marian(config.model, {k: v.detach() for k, v in weights_of(model).items()})
    with atomic_folder(folder, ("config.json", "model.safetensors")) as beside:
        write_json(beside / "config.json", _config(config.model))
        write_json(beside / "generation_config.json", _generation(config, codec))
        write_tensors(beside / "model.safetensors", tensors, {"format": "pt"})
        if isinstance(codec.source, SentencePiece):
            assert isinstance(codec.target, SentencePiece)
            _write_sentencepiece(beside, codec.source, codec.target, config)
        else:
            _write_tokenizer(beside, codec.source, config)
            if not codec.joint:
                (beside / "target").mkdir()
                _write_tokenizer(beside / "target", codec.target, config)
                for file in (beside / "target").iterdir():
                    sync(file)


def _require_marian(model: ModelConfig) -> None:
    """Refuse by its name what Marian has no place for."""
    if model.first_departure:
        raise BadInput(f"{model.first_departure}: Marian has the paper's Transformer only")
    if model.positions != "sinusoidal":
        raise BadInput(f"positions = {model.positions!r}: Marian has sinusoidal positions only")
    if model.d_k != model.d_v:
        raise BadInput(f"d_k = {model.d_k} and d_v = {model.d_v}: Marian has both alike")
    if model.h * model.d_k != model.d_model:
        raise BadInput(
            f"h = {model.h} heads of d_k = {model.d_k}: Marian's have d_model = {model.d_model} "
            "channels together"
        )


def _config(model: ModelConfig) -> dict[str, Any]:
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": model.source_vocabulary,
        "decoder_vocab_size": model.target_vocabulary,
        "max_position_embeddings": model.max_positions,
        "d_model": model.d_model,
        "encoder_layers": model.N,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.h,
        "decoder_attention_heads": model.h,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "activation_function": model.activation,
        "dropout": model.P_drop,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.relu_dropout,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": model.tie == "all",
        "tie_word_embeddings": model.tie != "none",
        "is_encoder_decoder": True,
        "dtype": "float32",
        **_tokens(),
    }


def _generation(config: RunConfig, codec: Codec) -> dict[str, Any]:
    return {
        "num_beams": config.search.beam,
        "length_penalty": config.search.alpha,
        "max_length": config.model.max_positions,
        "suppress_tokens": codec.target.forbidden_ids(),
        KEY: config.search.to_json(),  # for an import: `generate` has no place for the penalty
        **_tokens(),
    }


def _tokens() -> dict[str, int]:
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def _tokenizer_config(kind: str, config: RunConfig) -> dict[str, Any]:
    source, target = config.languages
    return {
        "tokenizer_class": kind,
        "pad_token": SPECIAL[PAD],
        "eos_token": SPECIAL[EOS],
        "unk_token": SPECIAL[UNK],
        "model_max_length": config.model.max_len,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "source_lang": source,
        "target_lang": target,
    }


def _write_tokenizer(folder: Path, subwords: Coder, config: RunConfig) -> None:
    """Write learned subwords; </s> is added behind a text, a special token's name in it is text."""
    end = {"SpecialToken": {"id": SPECIAL[EOS], "type_id": 0}}
    one, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    after = {
        "type": "TemplateProcessing",
        "single": [one, end],
        "pair": [one, end, other, end],
        "special_tokens": {
            SPECIAL[EOS]: {"id": SPECIAL[EOS], "ids": [EOS], "tokens": [SPECIAL[EOS]]}
        },
    }
    write_json(folder / "tokenizer.json", {**subwords.to_json(), "post_processor": after})
    write_json(
        folder / "tokenizer_config.json",
        {
            **_tokenizer_config("PreTrainedTokenizerFast", config),
            "bos_token": SPECIAL[BOS],
            "split_special_tokens": True,
        },
    )


def _write_sentencepiece(
    folder: Path, source: SentencePiece, target: SentencePiece, config: RunConfig
) -> None:
    """Write the files of a MarianTokenizer."""
    separate = not source.same_vocabulary(target)
    source.write(folder / "source.spm")
    target.write(folder / "target.spm")
    write_json(folder / "vocab.json", {name: n for n, name in enumerate(source.names)})
    if separate:
        write_json(folder / "target_vocab.json", {name: n for n, name in enumerate(target.names)})
    write_json(
        folder / "tokenizer_config.json",
        {**_tokenizer_config("MarianTokenizer", config), "separate_vocabs": separate},
    )
