"""The cache of CTranslate2 exports: what it reuses, replaces and deletes."""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cached_exports import assert_translates_by_its_weights, change_weights, entries, load
from conftest import COMMAND, environment, snapshot, tiny_pairs

import hostile_files
from transduce.errors import BadRun
from transduce.interop.export import ctranslate2 as exporting
from transduce.interop.export import ctranslate2_cache as cache
from transduce.interop.export.ctranslate2 import STAMP, export
from transduce.runs.arrays import load_arrays, stored_digest
from transduce.runs.folder import RunConfig
from transduce.system.files import sha256, write_checksummed

library = pytest.importorskip("ctranslate2")


SENTENCES = [source for source, _ in tiny_pairs(2, seed=2)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test, with no warning given yet."""
    monkeypatch.setenv("TRANSDUCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "cache"


def test_an_export_in_a_run_folder_is_neither_loaded_nor_changed(
    own_run: Path, tmp_path: Path
) -> None:
    """Anybody could have written it with a valid stamp; earlier versions stored exports there."""
    other = Path(shutil.copytree(own_run, tmp_path / "other"))
    change_weights(other, 1.5)
    inside = own_run / "ctranslate2-none"
    export(other, inside, "none")
    config, files = RunConfig.load(own_run), json.loads((inside / STAMP).read_bytes())["files"]
    stamp = {
        "format": 2,
        "weights": stored_digest(own_run / "model.safetensors"),
        "subwords": sha256(own_run / "subwords.json"),
        "quantize": "none",
        "languages": list(config.languages),
        "words": config.weights,
        "files": files,
    }
    write_checksummed(inside / STAMP, stamp)
    before = snapshot(own_run)
    assert_translates_by_its_weights(own_run)
    assert snapshot(own_run) == before


def test_weights_that_claim_the_checksum_of_others_do_not_get_their_export(
    own_run: Path, tmp_path: Path
) -> None:
    load(own_run)
    other = Path(shutil.copytree(own_run, tmp_path / "other"))
    path = other / "model.safetensors"
    data = bytearray(path.read_bytes())
    (header,) = struct.unpack_from("<Q", data)
    data[8 + header + 1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadRun, match="its tensors do not match their own checksum"):
        load(other)


def test_an_export_is_used_again_while_the_weights_are_the_same(
    own_run: Path, folder: Path
) -> None:
    before = snapshot(own_run)
    first = load(own_run).translate(SENTENCES)
    (export_path,) = entries(folder)
    inode = (export_path / "model.bin").stat().st_ino
    assert load(own_run).translate(SENTENCES) == first
    assert [(entry / "model.bin").stat().st_ino for entry in entries(folder)] == [inode]
    assert snapshot(own_run) == before

    change_weights(own_run, 1.5)
    assert_translates_by_its_weights(own_run)
    assert len(entries(folder)) == 2


def test_everything_that_determines_an_export_is_part_of_its_key(
    own_run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(own_run)
    load(own_run, "int8")
    assert len(entries(folder)) == 2
    hostile_files.reseal(own_run / "config.json", model__activation="gelu")
    assert_translates_by_its_weights(own_run)
    assert len(entries(folder)) == 3
    monkeypatch.setattr(library, "__version__", "99.0")
    load(own_run)
    assert len(entries(folder)) == 4
    monkeypatch.setattr(exporting, "FORMAT", 99)
    load(own_run)
    assert len(entries(folder)) == 5
    subwords = own_run / "subwords.json"
    subwords.write_text(json.dumps(json.loads(subwords.read_bytes())), encoding="utf-8")
    hostile_files.reseal(own_run / "config.json", owns={})
    load(own_run)
    assert len(entries(folder)) == 6


@pytest.mark.parametrize("name", ["model.bin", "shared_vocabulary.json", STAMP])
@pytest.mark.parametrize("lost", [True, False])
def test_a_damaged_export_is_replaced(name: str, lost: bool, tiny_run: Path, folder: Path) -> None:
    expected = load(tiny_run).translate(SENTENCES)
    (export_path,) = entries(folder)
    whole = snapshot(export_path)
    if lost:
        (export_path / name).unlink()
    else:
        content = bytearray((export_path / name).read_bytes())
        content[len(content) // 2] ^= 1
        (export_path / name).write_bytes(content)
    assert load(tiny_run).translate(SENTENCES) == expected
    assert entries(folder) == [export_path]
    assert snapshot(export_path) == whole


def test_the_hash_of_weights_is_cached_while_the_file_is_the_same(
    own_run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own_run / "model.safetensors"
    hashed: list[Path] = []

    def counted(file: Path) -> str:
        hashed.append(file)
        return sha256(file)

    monkeypatch.setattr(cache, "sha256", counted)
    load(own_run)
    load(own_run)
    assert hashed == [path, path]  # it was just changed, and might change again
    monkeypatch.setattr(cache, "SETTLED", -1)
    for _ in range(3):
        load(own_run)
    assert hashed == [path] * 3

    times = path.stat()
    with path.open("r+b") as file:  # the same inode, size and modification time
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(BadRun, match="do not match their own checksum"):
        load(own_run)
    (folder / "hashes.json").write_text("{}")
    path.write_bytes(path.read_bytes()[:-1] + bytes([last]))
    assert load(own_run).translate(SENTENCES)


def test_the_number_of_cached_hashes_is_limited(
    tiny_run: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SETTLED", -1)
    monkeypatch.setattr(cache, "MAX_HASHES", 3)
    folder.mkdir()
    paths = [tmp_path / str(number) for number in range(5)]
    for path in paths:
        path.write_text(path.name)
        assert cache.weights_hash(path, folder) == sha256(path)
    known = json.loads((folder / "hashes.json").read_bytes())["files"]
    assert list(known) == [str(path) for path in paths[2:]]


def test_the_least_recently_used_exports_are_deleted_and_nothing_else(
    own_run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = []
    for factor in (1.0, 1.1, 1.2):
        change_weights(own_run, factor)
        load(own_run)
        created += [path for path in entries(folder) if path not in created]
    size = sum(file.stat().st_size for file in created[0].iterdir())
    for age, path in enumerate(created):
        os.utime(path, (1000 - age, 1000 - age))  # the last export was used the longest ago
    exports = folder / "ctranslate2"
    abandoned = (".making-abandoned", ".transduce-0123456789abcdef")
    for name in ("mine", "f" * 64, ".making-recent", *abandoned):
        (exports / name).mkdir()
    (exports / ("e" * 64)).symlink_to(own_run)
    for name in ("mine", "f" * 64, *abandoned):
        os.utime(exports / name, (500, 500))  # longer ago than any export
    monkeypatch.setattr(cache, "LIMIT", round(2.5 * size))
    load(own_run, "int16" if "int16" in library.get_supported_compute_types("cpu") else "int8")
    left = {path.name for path in exports.iterdir()}
    (new,) = left - {path.name for path in created} - {"mine", "f" * 64, "e" * 64, ".making-recent"}
    assert left == {new, created[0].name, "mine", "f" * 64, "e" * 64, ".making-recent"}
    assert (own_run / "config.json").exists()


def test_an_export_that_is_used_counts_as_recent(tiny_run: Path, folder: Path) -> None:
    load(tiny_run)
    (export_path,) = entries(folder)
    os.utime(export_path, (1000, 1000))
    load(tiny_run)
    assert export_path.stat().st_mtime > 1000


def test_weights_that_change_while_they_are_exported_are_refused(
    own_run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the export of the old weights would be cached under the hash of the new ones."""

    def changing(path: Path) -> Any:
        arrays = load_arrays(path)
        change_weights(own_run, 1.5)
        return arrays

    with monkeypatch.context() as patch:
        patch.setattr(exporting, "load_arrays", changing)
        with pytest.raises(BadRun, match="changed while it was being exported"):
            load(own_run)
    assert entries(folder) == []
    assert_translates_by_its_weights(own_run)


def test_an_export_larger_than_the_limit_is_kept_while_it_is_the_newest(
    tiny_run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LIMIT", 1)
    load(tiny_run)
    load(tiny_run, "int8")
    (left,) = entries(folder)
    assert json.loads((left / STAMP).read_bytes())["quantize"] == "int8"


def test_processes_that_make_the_same_export_do_not_disturb_each_other(
    tiny_run: Path, folder: Path
) -> None:
    command = [*COMMAND, "translate", str(tiny_run), "--engine", "ctranslate2"]
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        for _ in range(4)
    ]
    ended = [process.communicate("a dog\n", timeout=60) for process in processes]
    assert {process.returncode for process in processes} == {0}
    assert len({out for out, _ in ended}) == 1
    assert {error for _, error in ended} == {"engine: ctranslate2 on cpu, float32\n"}
    assert len(entries(folder)) == 1
