"""Small random OPUS-MT models in Hugging Face folders."""

import functools
import io
import json
from pathlib import Path
from typing import Any

import torch

from transduce.datasets import pocket

# Many scripts, with characters that normalisation composes, decomposes, widens or drops.
SCRIPTS = [
    "Größe, naïve café, ﬁne ① ｆｕｌｌ ½…",
    "नमस्ते दुनिया क़",
    "สวัสดีชาวโลก น้ำ",
    "مرحبا بالعالم أهلاً",
    "안녕하세요 세계",
    "日本語のテキスト。ｶﾞｷﾞ",
    "Ελληνικά Русский й",
    "שָׁלוֹם עולם",
]
CONFIG: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 128,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
}


@functools.cache
def texts() -> tuple[list[str], list[str]]:
    """Return some text in both languages."""
    pairs = pocket.pairs(1_000)
    return [left for left, _ in pairs] + 3 * SCRIPTS, [right for _, right in pairs]


@functools.cache
def spm(side: int, **settings: Any) -> bytes:
    """Train a SentencePiece model on the text of a side."""
    import sentencepiece

    model = io.BytesIO()
    options = {"vocab_size": 250, "character_coverage": 0.999, "minloglevel": 2} | settings
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts()[side]), model_writer=model, num_threads=1, **options
    )
    return model.getvalue()


def names_of(*models: bytes) -> dict[str, int]:
    """Number the pieces of SentencePiece models as Marian does."""
    import sentencepiece

    names = {"</s>": 0, "<unk>": 1}
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for number in range(3, len(processor)):
            names.setdefault(processor.id_to_piece(number), len(names))
    return {**names, ">>deu<<": len(names), "<pad>": len(names) + 1}


def write_opus(folder: Path, *, separate: bool = False, seed: int = 0, **changes: Any) -> Path:
    """Write the folder of a random MarianMTModel and its MarianTokenizer."""
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder.mkdir()
    source, target = spm(0), spm(1)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    names = names_of(source) if separate else names_of(source, target)
    of_target = names_of(target) if separate else names
    (folder / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    if separate:
        (folder / "target_vocab.json").write_text(json.dumps(of_target), encoding="utf-8")
        changes = {"share_encoder_decoder_embeddings": False} | changes
    pad = len(of_target) - 1
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=len(names),
        decoder_vocab_size=len(of_target),
        pad_token_id=pad,
        decoder_start_token_id=pad,
        **(CONFIG | changes),
    )
    model = MarianMTModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += 3.0  # so that outputs end
    model.generation_config.num_beams = 3
    model.generation_config.length_penalty = 0.8
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)
    MarianTokenizer(
        str(folder / "source.spm"),
        str(folder / "target.spm"),
        str(folder / "vocab.json"),
        str(folder / "target_vocab.json") if separate else None,
        source_lang="en",
        target_lang="de",
        separate_vocabs=separate,
    ).save_pretrained(folder)
    return folder
