"""Export to Hugging Face's `transformers`: MarianMTModel and AutoTokenizer."""

import os
from pathlib import Path
from typing import Any

import torch

from transduce.checkpoints.checkpoint import load_model, weights_of, write_tensors
from transduce.config import ModelConfig
from transduce.errors import BadInput
from transduce.interop.export.support import MARIAN
from transduce.interop.marian import PAIRS, to_marian
from transduce.runs.arrays import KEY
from transduce.runs.folder import SUBWORDS, RunConfig
from transduce.subwords import BOS, EOS, PAD, SPECIAL, UNK, Codec, Coder, SentencePiece
from transduce.system.files import atomic_folder, sync, write_json


def export(run: Path, folder: Path) -> None:
    """Write the model of a run to a new folder for `from_pretrained`, completely or not at all.

    Logits and forbidden tokens are the same. The search differs:

    - `generate` divides by |Y|^length_penalty, the paper's search by ((5 + |Y|) / 6)^alpha. Its
      beam keeps its width; ours loses a slot for each hypothesis that has ended. Both agree in
      greedy search, and in beam search with length_penalty 0 if no live hypothesis is better than
      the first that ended.
    - `generate` limits all outputs to the number of positions, where they end at no cost. Our limit
      is 50 subwords more than the source has, and </s> is scored.
    - The tokenizer does not cut: sources longer than `model_max_length` are the caller's concern.

    With separate vocabularies, the folder holds the source tokenizer, and its subfolder `target`
    holds the target tokenizer. SentencePiece files of an imported model are written unchanged.
    """
    if os.path.lexists(folder):
        raise BadInput(f"{folder} exists already: choose a new folder for the export")
    config = RunConfig.load(run)
    config.require("translation", run)
    MARIAN.require_support(config.model)
    codec = Codec.load(config.verified(run, SUBWORDS))
    config.require_subwords(len(codec.source), len(codec.target), run)
    model, _ = load_model(run, config, torch.device("cpu"))
    tensors = to_marian(config.model, {k: v.detach() for k, v in weights_of(model).items()})
    with atomic_folder(folder, ("config.json", "model.safetensors")) as temporary:
        write_json(temporary / "config.json", marian_config(config.model))
        write_json(temporary / "generation_config.json", _generation(config, codec))
        write_tensors(temporary / "model.safetensors", tensors, {"format": "pt"})
        if isinstance(codec.source, SentencePiece):
            assert isinstance(codec.target, SentencePiece)
            _write_sentencepiece(temporary, codec.source, codec.target, config)
        else:
            _write_tokenizer(temporary, codec.source, config)
            if not codec.joint:
                (temporary / "target").mkdir()
                _write_tokenizer(temporary / "target", codec.target, config)
                for file in (temporary / "target").iterdir():
                    sync(file)


def marian_config(model: ModelConfig) -> dict[str, Any]:
    """Return the content of config.json: the shape of a model in Marian's names."""
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
        KEY: config.search.to_json(),  # for our import: `generate` cannot represent the penalty
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


def _tokenizer_config(tokenizer_class: str, config: RunConfig) -> dict[str, Any]:
    source, target = config.languages
    return {
        "tokenizer_class": tokenizer_class,
        "pad_token": SPECIAL[PAD],
        "eos_token": SPECIAL[EOS],
        "unk_token": SPECIAL[UNK],
        "model_max_length": config.model.max_len,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "source_lang": source,
        "target_lang": target,
        **({PAIRS: [list(pair) for pair in config.pairs]} if config.pairs else {}),
    }


def _write_tokenizer(folder: Path, subwords: Coder, config: RunConfig) -> None:
    """Write learned subwords; </s> follows a text, and names of special tokens are plain text."""
    end = {"SpecialToken": {"id": SPECIAL[EOS], "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    template = {
        "type": "TemplateProcessing",
        "single": [first, end],
        "pair": [first, end, second, end],
        "special_tokens": {
            SPECIAL[EOS]: {"id": SPECIAL[EOS], "ids": [EOS], "tokens": [SPECIAL[EOS]]}
        },
    }
    write_json(folder / "tokenizer.json", {**subwords.to_json(), "post_processor": template})
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
