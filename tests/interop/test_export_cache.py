"""The cache of CTranslate2 exports: what it keeps, what it refuses, and how it does without."""

import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import COMMAND, CommandLine, environment, snapshot, tiny_pairs

import hostile_files
from transduce.checkpoints.checkpoint import save_model
from transduce.errors import BadRun
from transduce.interop.export import cache
from transduce.interop.export import ctranslate2 as exporting
from transduce.interop.export.ctranslate2 import STAMP, export
from transduce.runs.arrays import load_arrays, stored_digest
from transduce.runs.folder import RunConfig
from transduce.system.files import sha256, write_checksummed
from transduce.translation.translator import Translator

library = pytest.importorskip("ctranslate2")

SENTENCES = [source for source, _ in tiny_pairs(2, seed=2)]
UNCACHED = "the CTranslate2 export of the model is not cached"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test, and nothing said yet."""
    monkeypatch.setenv("TRANSDUCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "cache"


def load(run: Path, quantize: str = "none") -> Translator:
    return Translator.load(run, engine="ctranslate2", quantize=quantize)


def entries(folder: Path) -> list[Path]:
    """Return the exports of a cache; nothing else may be left in it."""
    found = sorted((folder / "ctranslate2").iterdir())
    assert all(cache.KEY.fullmatch(path.name) for path in found)
    return found


def change_weights(run: Path, factor: float) -> None:
    arrays = load_arrays(run / "model.safetensors")
    tensors = {name: torch.from_numpy(one) * factor for name, one in arrays.items()}
    save_model(run, RunConfig.load(run), tensors, "changed")


def assert_translates_by_its_weights(run: Path) -> None:
    expected = Translator.load(run, engine="torch").score(tiny_pairs(3))
    for found, ours in zip(load(run).score(tiny_pairs(3)), expected, strict=True):
        assert found.score == pytest.approx(ours.score, abs=1e-3)


def test_an_export_in_a_run_folder_is_neither_loaded_nor_changed(
    own_run: Path, tmp_path: Path
) -> None:
    """Anybody can write one with a stamp that fits; earlier versions kept theirs there."""
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
    (kept,) = entries(folder)
    made = (kept / "model.bin").stat().st_ino
    assert load(own_run).translate(SENTENCES) == first
    assert [(one / "model.bin").stat().st_ino for one in entries(folder)] == [made]
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
def test_a_damaged_export_is_made_again(
    name: str, lost: bool, tiny_run: Path, folder: Path
) -> None:
    expected = load(tiny_run).translate(SENTENCES)
    (kept,) = entries(folder)
    whole = snapshot(kept)
    if lost:
        (kept / name).unlink()
    else:
        content = bytearray((kept / name).read_bytes())
        content[len(content) // 2] ^= 1
        (kept / name).write_bytes(content)
    assert load(tiny_run).translate(SENTENCES) == expected
    assert entries(folder) == [kept]
    assert snapshot(kept) == whole


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"TRANSDUCE_CACHE": "/own"}, "/own"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/transduce"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/transduce"),
        ("linux", {}, "/home/me/.cache/transduce"),
        ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "/home/me/Library/Caches/transduce"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/transduce"),
        ("win32", {}, "/home/me/AppData/Local/transduce"),
    ],
)
def test_the_cache_is_where_the_system_keeps_a_users_caches(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TRANSDUCE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache.cache_folder() == Path(expected)


def test_only_the_user_can_use_a_cache_that_was_made(tiny_run: Path, folder: Path) -> None:
    before = os.umask(0)
    try:
        load(tiny_run)
    finally:
        os.umask(before)
    for made in (folder, folder / "ctranslate2"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def writable(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def writable_within(folder: Path) -> None:
    (folder / "ctranslate2").mkdir(parents=True)
    (folder / "ctranslate2").chmod(0o777)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (link, "cache is a symbolic link"),
        (writable, "cache is writable by other users"),
        (writable_within, "cache/ctranslate2 is writable by other users"),
        (lambda folder: folder.write_text("a file"), "cache is not a folder"),
    ],
    ids=["link", "writable", "writable within", "file"],
)
def test_a_cache_that_is_not_the_users_own_is_refused_and_said_once(
    prepare: Callable[[Path], None],
    reason: str,
    tiny_run: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prepare(folder)
    before = sorted(folder.parent.rglob("*"))
    assert_translates_by_its_weights(tiny_run)
    assert_translates_by_its_weights(tiny_run)
    (said,) = caplog.messages
    assert said.startswith(f"{UNCACHED} ({folder.parent}/{reason}): every start makes it again")
    assert sorted(folder.parent.rglob("*")) == before


def test_a_cache_of_another_user_is_refused(
    tiny_run: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load(tiny_run)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert_translates_by_its_weights(tiny_run)
    assert f"{UNCACHED} ({folder} is owned by another user)" in caplog.text


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_without_a_home_folder_it_translates_and_says_so(
    tiny_run: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRANSDUCE_CACHE")
    monkeypatch.setattr(Path, "home", no_home)
    assert_translates_by_its_weights(tiny_run)
    assert f"{UNCACHED} (there is no home folder)" in caplog.text


@pytest.mark.parametrize("number", [13, 28, 30], ids=["forbidden", "full", "read-only"])
def test_a_cache_that_cannot_be_written_is_done_without(
    number: int,
    tiny_run: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Path.mkdir

    def refuse(self: Path, *arguments: Any, **settings: Any) -> None:
        if folder in self.parents and self.parent != folder:
            raise OSError(number, os.strerror(number), str(self))
        real(self, *arguments, **settings)

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert_translates_by_its_weights(tiny_run)
    (said,) = caplog.messages
    assert said.startswith(UNCACHED)
    assert f"{os.strerror(number)})" in said
    assert entries(folder) == []


def test_a_read_only_cache_is_read(
    tiny_run: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load(tiny_run)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    for name in ("utime", "mkdir", "rename", "replace"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(cache, "write", refuse)  # or it would be made again
    assert load(tiny_run).translate(SENTENCES)
    assert not caplog.messages


def test_the_command_translates_and_says_that_nothing_is_cached(
    run_cli: CommandLine, tiny_run: Path, folder: Path
) -> None:
    folder.write_text("a file")
    command: list[str | Path] = ["translate", tiny_run, "--engine", "ctranslate2"]
    result = run_cli(*command, input="a dog\n", env={"TRANSDUCE_CACHE": str(folder)})
    assert result.status == 0
    assert result.stdout.count("\n") == 1
    first, second = result.stderr.splitlines()
    assert first == (
        f"{UNCACHED} ({folder} is not a folder): every start makes it again; "
        "set TRANSDUCE_CACHE to a folder that only you can write to"
    )
    assert second == "engine: ctranslate2 on cpu, float32"


def test_auto_takes_torch_where_no_export_can_be_written(
    tiny_run: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transduce.translation.engines.selection.may_have_cuda", lambda: False)
    folder.write_text("a file")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert Translator.load(tiny_run).engine.name == "torch on cpu"
    assert "the engine ctranslate2 cannot be used" in caplog.messages[-1]
    with pytest.raises(NotADirectoryError):
        load(tiny_run)


def test_the_hash_of_weights_is_remembered_while_the_file_is_the_same(
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
    assert hashed == [path, path]  # it has changed a moment ago, and might change again
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


def test_few_hashes_are_remembered(
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
    made = []
    for factor in (1.0, 1.1, 1.2):
        change_weights(own_run, factor)
        load(own_run)
        made += [path for path in entries(folder) if path not in made]
    size = sum(file.stat().st_size for file in made[0].iterdir())
    for age, path in enumerate(made):
        os.utime(path, (1000 - age, 1000 - age))  # the last made was used the longest ago
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
    (new,) = left - {path.name for path in made} - {"mine", "f" * 64, "e" * 64, ".making-recent"}
    assert left == {new, made[0].name, "mine", "f" * 64, "e" * 64, ".making-recent"}
    assert (own_run / "config.json").exists()


def test_an_export_that_is_used_counts_as_recent(tiny_run: Path, folder: Path) -> None:
    load(tiny_run)
    (kept,) = entries(folder)
    os.utime(kept, (1000, 1000))
    load(tiny_run)
    assert kept.stat().st_mtime > 1000


def test_weights_that_change_while_they_are_exported_are_refused(
    own_run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the export of the old weights would be kept under the hash of the new ones."""

    def changing(path: Path) -> Any:
        arrays = load_arrays(path)
        change_weights(own_run, 1.5)
        return arrays

    with monkeypatch.context() as patch:
        patch.setattr(exporting, "load_arrays", changing)
        with pytest.raises(BadRun, match="has changed while it was being exported"):
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
