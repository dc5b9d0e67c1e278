"""Folders that cannot be imported are refused, naming the reason."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from both_libraries import Both
from safetensors.torch import load_file, save_file

from opus import names_of, spm
from transduce import Translator
from transduce.errors import BadInput, BadRun, MissingExtra
from transduce.interop.export.ctranslate2 import export as to_ctranslate2
from transduce.interop.importing import import_model


def settings(**changes: Any) -> Callable[[Path], None]:
    """Return a function that changes the settings of a folder."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8")) | changes
        path.write_text(json.dumps(config), encoding="utf-8")

    return change


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def written(name: str, content: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(content, encoding="utf-8")

    return write


def renamed(before: str, after: str) -> Callable[[Path], None]:
    """Return a function that renames a tensor."""

    def rename(folder: Path) -> None:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        head = data[8 : 8 + size].replace(before.encode(), after.encode())
        path.write_bytes(struct.pack("<Q", len(head)) + head + data[8 + size :])

    return rename


def pieces_of(**settings: Any) -> Callable[[Path], None]:
    """Return a function that replaces the SentencePiece model of a folder."""

    def write(folder: Path) -> None:
        (folder / "source.spm").write_bytes(spm(0, **settings))

    return write


BROKEN: list[tuple[Callable[[Path], None], str]] = [
    (without("config.json"), r"config.json is missing"),
    (written("config.json", "{"), r"config.json is damaged"),
    (settings(model_type="bart"), r"model_type = 'bart': expected 'marian'"),
    (settings(scale_embedding=False), r"scale_embedding = False: expected True"),
    (settings(normalize_before=True), r"normalize_before = True: expected False"),
    (settings(normalize_embedding=True), r"normalize_embedding = True"),
    (settings(add_final_layer_norm=True), r"add_final_layer_norm = True"),
    (settings(static_position_embeddings=False), r"static_position_embeddings = False"),
    (settings(decoder_attention_heads=2), r"decoder_attention_heads = 2: expected 4"),
    (settings(decoder_ffn_dim=32), r"decoder_ffn_dim = 32: expected 64"),
    (settings(activation_function="tanh"), r"activation_function = 'tanh': expected relu or"),
    (settings(d_model=33), r"d_model = 33: expected a multiple of 4"),
    (settings(d_model=None), r"d_model = None: expected a whole number"),
    (settings(encoder_layers=0), r"encoder_layers = 0"),
    (settings(encoder_layers=3), r"lack model.encoder.layers.2"),
    (settings(encoder_layers=1), r"config.json does not describe: model.encoder.layers.1"),
    (settings(dropout=2.0), r"P_drop = 2.0"),
    (settings(activation_function=["relu"]), r"activation_function = \['relu'\]: expected relu"),
    (written("generation_config.json", '{"bad_words_ids": 7}'), r"bad_words_ids = 7: expected"),
    (settings(vocab_size=10**12), r"vocab_size = 1000000000000: expected at most"),
    (settings(encoder_layers=10**9, decoder_layers=10**9), r"N = 1000000000: expected at most"),
    (settings(max_position_embeddings=10**9), r"max_position_embeddings = .*at most 32,768"),
    (settings(eos_token_id=5), r"eos_token_id = 5: expected 0, which is </s>"),
    (settings(pad_token_id=5), r"pad_token_id = 5"),
    (settings(decoder_start_token_id=10**6), r"decoder_start_token_id = 1000000"),
    (settings(d_model=64), r"model.shared.weight of .* is \(\d+, 32\), expected \(\d+, 64\)"),
    (written("generation_config.json", '{"num_beams": 0}'), r"num_beams or length_penalty"),
    (written("generation_config.json", '{"length_penalty": -1.0}'), r"alpha = -1.0"),
    (
        written("generation_config.json", '{"bad_words_ids": [[7]]}'),
        r"bad_words_ids = \[\[7\]\]: expected none but <pad>",
    ),
    (without("model.safetensors"), r"no weights: expected model.safetensors or pytorch_model.bin"),
    (written("model.safetensors", "no tensors"), r"damaged or not a safetensors file"),
    (renamed("layers.0.fc1.weight", "layers.0.fc9.weight"), r"lack model.*fc1.weight"),
    (renamed("model.shared.weight", "model.shored.weight"), r"lack model.shared.weight"),
    (without("source.spm"), r"no subwords: expected source.spm"),
    (without("target.spm"), r"target.spm is missing"),
    (written("source.spm", "not a model"), r"source.spm is not a SentencePiece model"),
    (written("source.spm", ""), r"source.spm has no pieces"),
    (pieces_of(model_type="bpe", vocab_size=150), r"source.spm has model_type BPE"),
    (pieces_of(byte_fallback=True, vocab_size=500), r"source.spm has byte_fallback"),
    (pieces_of(user_defined_symbols="<x>"), r"source.spm has user-defined symbols"),
    (pieces_of(treat_whitespace_as_suffix=True), r"has treat_whitespace_as_suffix"),
    (without("vocab.json"), r"vocab.json is missing"),
    (written("vocab.json", '{"</s>": 0, "<unk>": 2}'), r"its ids are not 0, 1, 2"),
    (written("vocab.json", '{"</s>": 0, "<unk>": 1}'), r"vocab.json has no <pad>"),
    (written("vocab.json", '{"</s>": 0, "<unk>": [1]}'), r"its ids are not 0, 1, 2"),
]


@pytest.mark.parametrize(("breaks", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_a_model_that_ours_cannot_represent_is_refused_by_name(
    breaks: Callable[[Path], None], message: str, opus_copy: Path, tmp_path: Path
) -> None:
    breaks(opus_copy)
    with pytest.raises((BadInput, BadRun), match=message) as raised:
        import_model(opus_copy, tmp_path / "run")
    assert "\n" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


def test_a_vocabulary_of_another_size_than_the_matrix_is_refused(
    opus_copy: Path, tmp_path: Path
) -> None:
    names = names_of(spm(0), spm(1))
    names["one more"] = len(names)
    (opus_copy / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    with pytest.raises(BadInput, match=r"model.shared.weight .* rows, but its vocabulary"):
        import_model(opus_copy, tmp_path / "run")


def test_tied_matrices_that_differ_are_refused(opus_copy: Path, tmp_path: Path) -> None:
    path = opus_copy / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"lm_head.weight": tensors["model.shared.weight"] + 1}, path)
    with pytest.raises(BadInput, match=r"model.shared.weight and lm_head.weight of .* differ"):
        import_model(opus_copy, tmp_path / "run")


def test_missing_weights_in_an_older_folder_are_named(opus_copy: Path, tmp_path: Path) -> None:
    tensors = load_file(opus_copy / "model.safetensors")
    del tensors["model.encoder.layers.0.fc1.bias"]
    torch.save(tensors, opus_copy / "pytorch_model.bin")
    (opus_copy / "model.safetensors").unlink()
    with pytest.raises(BadInput, match=r"lack model.encoder.layers.0.fc1.bias"):
        import_model(opus_copy, tmp_path / "run")


def test_a_file_that_would_run_code_is_refused(opus_copy: Path, tmp_path: Path) -> None:
    import pickle

    (opus_copy / "model.safetensors").unlink()
    (opus_copy / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Path("x")}))
    with pytest.raises(BadInput, match="transformers cannot load"):
        import_model(opus_copy, tmp_path / "run")


def test_a_missing_library_is_named(
    opus_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    with pytest.raises(MissingExtra, match=r"pip install 'transduce\[huggingface\]'"):
        import_model(opus_copy, tmp_path / "run")


def test_the_export_of_an_import_names_a_missing_library(
    imported_model: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    with pytest.raises(MissingExtra, match=r"pip install 'transduce\[huggingface\]'"):
        to_ctranslate2(imported_model.run, tmp_path / "out", "none")
    assert not (tmp_path / "out").exists()
    assert Translator.load(imported_model.run, engine="ctranslate2")("a dog") is not None
