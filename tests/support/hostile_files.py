"""Malicious files, each read with little memory: `python hostile_files.py RUN FOLDER`.

One process reads them all, with at most `ROOM` bytes more than it has at the start.
"""

import gzip
import hashlib
import json
import lzma
import os
import resource
import shutil
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOM = 400 << 20  # bytes; a decompression bomb needs more

CASES: dict[str, Callable[[Path, Path], Any]] = {}  # called with a run and an empty folder


def case(function: Callable[[Path, Path], Any]) -> Callable[[Path, Path], Any]:
    CASES[function.__name__] = function
    return function


def reseal(path: Path, **changes: Any) -> None:
    """Change a checksummed JSON file, and correct its checksum; `a__b` is a nested key."""
    from transduce.system.files import write_checksummed

    content = json.loads(path.read_bytes())
    content.pop("sha256", None)
    for name, value in changes.items():
        key, _, inner = name.partition("__")
        if inner:
            content[key][inner] = value
        else:
            content[key] = value
    write_checksummed(path, content)


def tensors(folder: Path, header: bytes, numbers: bytes = b"", length: int | None = None) -> None:
    """Load a weights file with this header."""
    from transduce.runs.arrays import load_arrays

    path = folder / "model.safetensors"
    size = len(header) if length is None else length
    path.write_bytes(struct.pack("<Q", size) + header + numbers)
    load_arrays(path)


def entry(shape: list[int], begin: int, end: int, kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def model(run: Path, **changes: Any) -> None:
    """Load a model with a changed config.json."""
    import torch

    from transduce.checkpoints.checkpoint import load_model
    from transduce.runs.folder import RunConfig

    reseal(run / "config.json", **changes)
    load_model(run, RunConfig.load(run), torch.device("cpu"))


@case
def a_header_longer_than_any_file(run: Path, folder: Path) -> None:
    tensors(folder, b"{}", length=2**63)


@case
def a_header_of_a_million_entries(run: Path, folder: Path) -> None:
    of_nothing = json.dumps(entry([0], 0, 0))
    tensors(folder, b"{%s}" % b",".join(f'"{n}":{of_nothing}'.encode() for n in range(10**6)))


@case
def a_header_that_is_a_million_deep(run: Path, folder: Path) -> None:
    tensors(folder, b'{"a":' * 10**6 + b"1" + b"}" * 10**6)


@case
def a_tensor_larger_than_memory(run: Path, folder: Path) -> None:
    tensors(folder, json.dumps({"a": entry([2**40, 2**40], 0, 64)}).encode(), bytes(64))


@case
def a_tensor_that_ends_beyond_its_file(run: Path, folder: Path) -> None:
    tensors(folder, json.dumps({"a": entry([2**33], 0, 2**35)}).encode(), bytes(64))


@case
def tensors_that_overlap(run: Path, folder: Path) -> None:
    both = {"a": entry([16], 0, 64), "b": entry([16], 0, 64)}
    tensors(folder, json.dumps(both).encode(), bytes(64))


@case
def a_tensor_before_its_file(run: Path, folder: Path) -> None:
    tensors(folder, json.dumps({"a": entry([16], -64, 0)}).encode(), bytes(64))


@case
def weights_that_are_a_device(run: Path, folder: Path) -> None:
    from transduce.runs.arrays import load_arrays

    (folder / "model.safetensors").symlink_to("/dev/zero")
    load_arrays(folder / "model.safetensors")


@case
def a_thousand_million_layers(run: Path, folder: Path) -> None:
    model(run, model__N=10**9)


@case
def more_layers_than_there_are_weights_of(run: Path, folder: Path) -> None:
    model(run, model__N=1_000)


@case
def a_model_wider_than_memory(run: Path, folder: Path) -> None:
    model(run, model__d_model=10**12)


@case
def a_model_wider_than_its_weights(run: Path, folder: Path) -> None:
    model(run, model__d_ff=1 << 20, model__d_model=1 << 14)


@case
def more_words_than_the_weights_have(run: Path, folder: Path) -> None:
    model(run, model__source_vocabulary=1 << 24, model__target_vocabulary=1 << 24)


@case
def sentences_longer_than_memory(run: Path, folder: Path) -> None:
    model(run, model__max_len=10**9)


@case
def a_beam_wider_than_memory(run: Path, folder: Path) -> None:
    model(run, search__beam=10**9)


@case
def more_threads_than_a_machine_has(run: Path, folder: Path) -> None:
    model(run, train__threads=10**9)


@case
def an_export_of_more_words_than_the_weights_have(run: Path, folder: Path) -> None:
    from transduce.interop.export.ctranslate2 import export

    reseal(run / "config.json", model__target_vocabulary=1 << 24, model__source_vocabulary=1 << 24)
    export(run, folder / "export", "none")


@case
def subwords_of_another_model(run: Path, folder: Path) -> None:
    from transduce.subwords import Codec, Subwords
    from transduce.translation.translator import Translator

    other = Subwords.learn(["a few other words"], 262)
    Codec(other, other).save(run / "subwords.json")
    Translator.load(run, engine="torch")


@case
def subwords_of_hundreds_of_megabytes(run: Path, folder: Path) -> None:
    from transduce.subwords import Codec

    with (folder / "subwords.json").open("wb") as file:
        file.truncate(500 << 20)
    Codec.load(folder / "subwords.json")


@case
def a_subword_numbered_two_thousand_million(run: Path, folder: Path) -> None:
    from transduce.subwords import Codec

    path = run / "subwords.json"
    source = json.loads(path.read_bytes())["source"]
    source["model"]["vocab"][next(reversed(source["model"]["vocab"]))] = 2**31
    reseal(path, source=source)
    Codec.load(path)


@case
def json_a_million_deep(run: Path, folder: Path) -> None:
    from transduce.runs.folder import RunConfig

    (run / "config.json").write_bytes(b'{"a":' * 10**6 + b"1" + b"}" * 10**6)
    RunConfig.load(run)


@case
def a_number_of_a_million_digits(run: Path, folder: Path) -> None:
    from transduce.runs.folder import RunConfig

    (run / "config.json").write_bytes(b'{"format": ' + b"9" * 10**6 + b"}")
    RunConfig.load(run)


@case
def a_manifest_of_more_pairs_than_files_hold(run: Path, folder: Path) -> None:
    from transduce.corpus.token_files import open_corpus

    reseal(run / "corpus" / "manifest.json", train__pairs=10**15)
    open_corpus(run / "corpus")


@case
def tokens_of_a_type_that_holds_pointers(run: Path, folder: Path) -> None:
    from transduce.corpus.token_files import open_corpus

    reseal(run / "corpus" / "manifest.json", token_type="O")
    open_corpus(run / "corpus")


@case
def a_sentence_longer_than_its_file(run: Path, folder: Path) -> None:
    from transduce.corpus.token_files import open_corpus

    corpus, name = run / "corpus", "train.source.offsets"
    offsets = struct.pack("<qqq", 0, 2**60, 2**61)
    (corpus / name).write_bytes(offsets)
    files = json.loads((corpus / "manifest.json").read_bytes())["files"]
    files[name] = {"size": len(offsets), "sha256": hashlib.sha256(offsets).hexdigest()}
    reseal(corpus / "manifest.json", files=files)
    open_corpus(corpus)


def _line(path: Path) -> None:
    from transduce.text.reading import read_lines

    for _ in read_lines(path):
        pass


def _blocks(count: int) -> list[bytes]:
    return [b"a" * (1 << 20)] * count


@case
def a_gigabyte_in_one_line_of_gz(run: Path, folder: Path) -> None:
    with gzip.open(folder / "bomb.gz", "wb", compresslevel=1) as file:
        for block in _blocks(64):
            file.write(block)
    once = (folder / "bomb.gz").read_bytes()
    (folder / "bomb.gz").write_bytes(once * 16)
    _line(folder / "bomb.gz")


@case
def a_gigabyte_in_one_line_of_xz(run: Path, folder: Path) -> None:
    once = lzma.compress(b"a" * (32 << 20), preset=0)
    (folder / "bomb.xz").write_bytes(once * 32)
    _line(folder / "bomb.xz")


@case
def an_xz_file_that_asks_for_gigabytes_to_be_read(run: Path, folder: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    small = bytearray(lzma.compress(b"a\n" * 100, filters=filters))
    small[12 + 4] = 38  # dictionary size in the block header: 2 GiB
    header = 4 * (small[12] + 1)
    small[12 + header - 4 : 12 + header] = struct.pack("<I", _crc(bytes(small[12:])[: header - 4]))
    (folder / "bomb.xz").write_bytes(small)
    _line(folder / "bomb.xz")


def _crc(data: bytes) -> int:
    import zlib

    return zlib.crc32(data)


@case
def sixteen_gigabytes_in_half_a_megabyte_of_zst(run: Path, folder: Path) -> None:
    # RLE blocks of one byte repeated 128 Ki times, in a frame of unknown length.
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 0x38])
    repeated = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"a"
    (folder / "bomb.zst").write_bytes(frame + repeated * (1 << 17))
    _line(folder / "bomb.zst")


@case
def a_model_of_hugging_face_wider_than_memory(run: Path, folder: Path) -> None:
    from transduce.interop.export.huggingface import export
    from transduce.interop.importing import import_model

    export(run, folder / "theirs")
    path = folder / "theirs" / "config.json"
    large = {"encoder_layers": 900, "d_model": 1 << 15, "max_position_embeddings": 10**12}
    path.write_text(json.dumps(json.loads(path.read_bytes()) | large))
    import_model(folder / "theirs", folder / "run")


@case
def a_vocabulary_of_hugging_face_larger_than_its_words(run: Path, folder: Path) -> None:
    from transduce.interop.export.huggingface import export
    from transduce.interop.importing import import_model

    export(run, folder / "theirs")
    path = folder / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"vocab_size": 10**12}))
    import_model(folder / "theirs", folder / "run")


def used() -> int:
    """Return the size of the address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Read all files, and print the outcome of each as JSON."""
    import ctranslate2  # noqa: F401  (so that its memory is not counted)
    import torch
    import zstandard  # noqa: F401

    from transduce.errors import TransduceError

    torch.set_num_threads(1)
    with torch.device("meta"):
        torch.nn.Linear(2, 2)
    original, folder = Path(sys.argv[1]), Path(sys.argv[2])
    outcomes = {}
    for name, read in CASES.items():
        scratch = folder / name
        scratch.mkdir()
        run = shutil.copytree(original, scratch / "run")
        resource.setrlimit(resource.RLIMIT_AS, (used() + ROOM, resource.RLIM_INFINITY))
        begin = time.process_time()
        try:
            read(run, scratch)
            kind, sentence = "accepted", ""
        except TransduceError as error:
            kind, sentence = "refused", str(error)
        except BaseException as error:
            kind, sentence = type(error).__name__, str(error)[:300]
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        outcomes[name] = (kind, sentence, time.process_time() - begin)
        shutil.rmtree(scratch)
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
