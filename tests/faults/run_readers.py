"""Readers of the files of run folders and models, with valid inputs."""

import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

from faults.reader import DEEP, Material, Reader, Wrong, check_json, with_checksum
from transduce.errors import TransduceError


def config(material: Material, folder: Path) -> Reader:
    """config.json of a run, as commands that load it do."""
    from transduce.runs.folder import RunConfig
    from transduce.serving.runs import WatchedRun

    def read(data: bytes) -> None:
        (folder / "config.json").write_bytes(with_checksum(data))
        loaded = RunConfig.load(folder)
        loaded.save(folder)
        if RunConfig.load(folder) != loaded:
            raise Wrong("it changes when it is written and read again")
        watched = WatchedRun("run", folder)
        watched.refresh()
        check_json(watched.summary())

    stored = (material.run / "config.json").read_bytes()
    return Reader(read, [stored, DEEP, b"{}", b"[]"], is_json=True)


def state(material: Material, folder: Path) -> Reader:
    """state.json of a checkpoint."""
    from transduce.runs.folder import Checkpoint
    from transduce.runs.state import State

    def read(data: bytes) -> None:
        (folder / "state.json").write_bytes(with_checksum(data))
        State.from_json(Checkpoint(1, scheduled=True, path=folder).state()).to_json()

    stored = next(material.run.glob("checkpoints/*/state.json")).read_bytes()
    return Reader(read, [stored, DEEP, b"{}"], is_json=True)


def manifest(material: Material, folder: Path) -> Reader:
    """The manifest of a corpus whose other files are intact."""
    from transduce.corpus.token_files import open_corpus

    shutil.copytree(material.run / "corpus", folder, dirs_exist_ok=True)

    def read(data: bytes) -> None:
        (folder / "manifest.json").write_bytes(with_checksum(data))
        corpus = open_corpus(folder)
        str(corpus.manifest.train)
        corpus.train.pair(0)

    stored = (material.run / "corpus" / "manifest.json").read_bytes()
    return Reader(read, [stored, DEEP, b"{}"], is_json=True)


def tokens(material: Material, folder: Path) -> Reader:
    """Token and offset files with a matching manifest; the first byte chooses the file."""
    from transduce.corpus.token_files import TOKEN_FILES, open_corpus

    origin = material.run / "corpus"
    shutil.copytree(origin, folder, dirs_exist_ok=True)
    whole = {name: (origin / name).read_bytes() for name in TOKEN_FILES}
    known = json.loads((origin / "manifest.json").read_bytes())

    def read(data: bytes) -> None:
        name = TOKEN_FILES[data[0] % len(TOKEN_FILES)] if data else TOKEN_FILES[0]
        (folder / name).write_bytes(data[1:])
        facts = {"size": len(data[1:]), "sha256": hashlib.sha256(data[1:]).hexdigest()}
        files = known["files"] | {name: facts}
        (folder / "manifest.json").write_bytes(
            with_checksum(json.dumps(known | {"files": files}).encode())
        )
        try:
            corpus = open_corpus(folder)
            for part in (corpus.train, corpus.valid):
                part.pair(len(part) - 1)
                part.source.take(part.source.lengths.argsort()[:3])
        finally:
            (folder / name).write_bytes(whole[name])

    seeds = [bytes([place]) + whole[name] for place, name in enumerate(TOKEN_FILES)]
    return Reader(read, [*seeds, b"\0", b"\1" + struct.pack("<qqq", 0, 2**62, 3)])


def tensors(material: Material, folder: Path) -> Reader:
    """The bytes of a file of weights."""
    from transduce.runs.arrays import count_values, load_arrays

    path = folder / "model.safetensors"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        count_values(path)
        load_arrays(path)

    return Reader(read, [*_small_tensors(), b"\xff" * 8, b"", struct.pack("<Q", 2) + b"{}"])


def header(material: Material, folder: Path) -> Reader:
    """The header of a weights file, with the correct length, before 4 KB of data."""
    from safetensors.numpy import load_file

    from transduce.runs.arrays import KEY, count_values, digest, load_arrays

    path = folder / "model.safetensors"

    def read(data: bytes) -> None:
        path.write_bytes(_with_numbers(data))
        try:
            note = json.dumps({"format": 1, "sha256": digest(load_file(path))})
            noted = json.loads(data) | {"__metadata__": {KEY: note}}
            path.write_bytes(_with_numbers(json.dumps(noted).encode()))
        except Exception:
            path.write_bytes(_with_numbers(data))
        count_values(path)
        load_arrays(path)

    def described(**entries: Any) -> bytes:
        return json.dumps({"__metadata__": {"transduce": "{}"}} | entries).encode()

    kinds = [*("F32", "F16", "BF16", "F64", "I8", "U8", "BOOL", "F8_E4M3", "I64", "U16", "C64")]
    seeds = [
        described(a={"dtype": kind, "shape": [4096 // size], "data_offsets": [0, 4096]})
        for kind, size in zip(kinds, (4, 2, 2, 8, 1, 1, 1, 1, 8, 2, 8), strict=True)
    ]
    huge = described(a={"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4096]})
    two = {"dtype": "U8", "shape": [4096], "data_offsets": [0, 4096]}
    none = {"dtype": "U8", "shape": [0, 2**62], "data_offsets": [0, 0]}
    return Reader(read, [*seeds, huge, described(a=two, b=two), described(a=none)], is_json=True)


def weights(material: Material, folder: Path) -> Reader:
    """A model with wrong settings, or with wrong names or shapes of tensors.

    The input is JSON with two objects: the settings, and the shapes by name.
    """
    import numpy as np
    import torch
    from safetensors.numpy import save

    from transduce.checkpoints.checkpoint import load_model
    from transduce.interop.export.shapes import shapes
    from transduce.runs.arrays import KEY, digest, require_shapes, shapes_of
    from transduce.runs.folder import RunConfig

    stored = json.loads((material.run / "config.json").read_bytes())
    cpu = torch.device("cpu")

    def read(data: bytes) -> None:
        wanted = _object(data)
        content = stored | {
            "model": wanted.get("model"),
            "owns": {},
        }  # no hashes, so that changed files are read
        (folder / "config.json").write_bytes(with_checksum(json.dumps(content).encode()))
        config = RunConfig.load(folder)
        arrays = {}
        for name, shape in _object(wanted.get("shapes")).items():
            if not isinstance(shape, list) or not all(type(size) is int for size in shape):
                continue
            if all(0 <= size < 10**5 for size in shape) and np.prod(shape, dtype=float) < 10**5:
                arrays[name] = np.zeros(shape, "float32")
        try:
            note = json.dumps({"format": 1, "sha256": digest(arrays)})
            (folder / "model.safetensors").write_bytes(save(arrays, {KEY: note}))
        except UnicodeEncodeError:
            return
        load_model(folder, config, cpu)
        require_shapes(shapes(config.model), shapes_of(folder / "model.safetensors"), folder)

    seed = json.dumps(
        {"model": stored["model"], "shapes": shapes_of(material.run / "model.safetensors")}
    ).encode()
    return Reader(read, [seed, b"{}"], is_json=True)


def subwords(material: Material, folder: Path) -> Reader:
    """subwords.json of each kind, and a text encoded with it."""
    from transduce.subwords import Codec, Coder, SentencePiece, Subwords, Symbols

    lines = ["two dogs run over the grass", "zwei Hunde laufen", "größer"]
    path = folder / "subwords.json"

    def read(data: bytes) -> None:
        path.write_bytes(with_checksum(data))
        codec = Codec.load(path)
        for side in {id(side): side for side in (codec.source, codec.target)}.values():
            side.pieces(side.encode("Two dögs run.")[:64])
            side.forbidden_ids()
        _ = codec.sha256

    seeds = []
    small = Subwords.learn(lines, 270)
    sides: list[tuple[Coder, Coder]] = [
        (small, small),
        (Subwords.learn(lines, 530, "wordpiece"), small),
        (small, Symbols(["(S", ")"])),
    ]
    for source, target in sides:
        Codec(source, target).save(path)
        seeds.append(path.read_bytes())
    pieces = [("▁two", -1.0, 1), ("▁", -2.0, 1), ("d", -3.0, 1), ("<s>", 0.0, 3)]
    own = SentencePiece(
        ["<pad>", "<s>", "</s>", "<unk>", "▁two", "▁", "d"],
        pieces,
        charsmap=b"",
        prefix=True,
        squeeze=True,
    )
    Codec(own, own).save(path)
    return Reader(read, [*seeds, path.read_bytes(), DEEP, b"{}"], is_json=True)


def sentencepiece(material: Material, folder: Path) -> Reader:
    """A SentencePiece model, and a text encoded with it."""
    from transduce.subwords import SentencePiece

    names = json.loads((material.marian / "vocab.json").read_bytes())
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    ours = [*special, *(name for name in names if name not in special)]
    path = folder / "source.spm"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        side = SentencePiece.read(path, ours)
        side.encode("Two dögs ① ｆｕｌｌ.")

    stored = (material.marian / "source.spm").read_bytes()
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(stored)
    del proto.pieces[12:]
    proto.normalizer_spec.precompiled_charsmap = b""
    return Reader(read, [proto.SerializeToString(), b""])


def rules(material: Material, folder: Path) -> Reader:
    """SentencePiece's rules of normalisation, as stored in its file."""
    from sentencepiece import sentencepiece_model_pb2

    from transduce.subwords.sentencepiece import NormalizationRules

    def read(data: bytes) -> None:
        try:
            found = NormalizationRules(data)
        except ValueError as error:  # the reader of the file reports it
            raise TransduceError(str(error)) from None
        found.apply("Two dögs ① ｆｕｌｌ é")

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((material.marian / "source.spm").read_bytes())
    stored = proto.normalizer_spec.precompiled_charsmap
    tiny = struct.pack("<IIII", 12, 1 << 10, 0x141, 0x80000000) + b"b\0"
    return Reader(read, [stored, tiny, b""])


def importing(material: Material, folder: Path) -> Reader:
    """The JSON files of a Marian folder with intact weights."""
    from transduce.interop.importing import import_model

    origin = folder / "theirs"
    shutil.copytree(material.marian, origin, dirs_exist_ok=True)
    names = ("config", "tokenizer_config", "generation_config", "vocab")

    def read(data: bytes) -> None:
        wanted = _object(data)
        for name in names:
            (origin / f"{name}.json").write_text(json.dumps(wanted.get(name)))
        shutil.rmtree(folder / "run", ignore_errors=True)
        import_model(origin, folder / "run")

    seed = {name: json.loads((origin / f"{name}.json").read_bytes()) for name in names}
    return Reader(read, [json.dumps(seed).encode()], is_json=True)


def tokenizer(material: Material, folder: Path) -> Reader:
    """The tokenizer.json of an exported folder, when it is imported."""
    from transduce.interop.importing.settings import MarianSettings
    from transduce.interop.importing.vocabulary import read_sides
    from transduce.subwords import Subwords

    config = json.loads((material.marian / "config.json").read_bytes())
    special = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config | special))

    def read(data: bytes) -> None:
        (folder / "tokenizer.json").write_bytes(data)
        source, _ = read_sides(MarianSettings.read(folder))
        source.subwords.encode("Two dögs run.")

    small = Subwords.learn(["two dogs run over the grass"], 270)
    return Reader(read, [json.dumps(small.to_json()).encode(), DEEP], is_json=True)


def lexicon(_: Material, folder: Path) -> Reader:
    """lexicon.json of a parser."""
    from transduce.parsing.lexicon import Lexicon

    path = folder / "lexicon.json"

    def read(data: bytes) -> None:
        path.write_bytes(with_checksum(data))
        Lexicon.load(path).of("the")

    Lexicon((("NN", "VB"), ("DT",)), {"the": 1, "a": 1}).save(path)
    return Reader(read, [path.read_bytes(), DEEP], is_json=True)


def stamp(material: Material, folder: Path) -> Reader:
    """The stamp of an export."""
    from transduce.interop.export.ctranslate2 import STAMP, is_export_of

    content = {"format": 1, "weights": "a", "files": {"model.bin": "b", "config.json": "c"}}

    def read(data: bytes) -> None:
        (folder / STAMP).write_bytes(with_checksum(data))
        is_export_of(folder, {"format": 1, "weights": "a"})

    return Reader(read, [json.dumps(content).encode(), DEEP], is_json=True)


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one for other data."""
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _with_numbers(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(4096)


def _small_tensors() -> list[bytes]:
    import numpy as np
    from safetensors.numpy import save

    from transduce.runs.arrays import KEY, digest

    arrays = {"a": np.arange(6, dtype="float32").reshape(2, 3), "b": np.zeros(2, "int64")}
    note = json.dumps({"format": 1, "sha256": digest(arrays)})
    return [save(arrays, {KEY: note}), save(arrays, {KEY: "[" * 3_000}), save(arrays)]
