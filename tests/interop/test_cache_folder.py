"""The folder of the cache belongs to the user; without one, exports are temporary."""

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cached_exports import assert_translates_by_its_weights, entries, load
from conftest import CommandLine, tiny_pairs

from transduce.interop.export import ctranslate2_cache as cache
from transduce.translation.translator import Translator

SENTENCES = [source for source, _ in tiny_pairs(2, seed=2)]


UNCACHED = "the CTranslate2 export of the model is not cached"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test, with no warning given yet."""
    monkeypatch.setenv("TRANSDUCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "cache"


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


def test_a_new_cache_is_accessible_to_its_user_only(tiny_run: Path, folder: Path) -> None:
    before = os.umask(0)
    try:
        load(tiny_run)
    finally:
        os.umask(before)
    for path in (folder, folder / "ctranslate2"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


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
def test_a_cache_that_others_can_write_to_is_refused_with_one_warning(
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
    (message,) = caplog.messages
    assert message.startswith(f"{UNCACHED} ({folder.parent}/{reason}): every start makes it again")
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


def test_without_a_home_folder_translation_works_with_a_warning(
    tiny_run: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRANSDUCE_CACHE")
    monkeypatch.setattr(Path, "home", no_home)
    assert_translates_by_its_weights(tiny_run)
    assert f"{UNCACHED} (there is no home folder)" in caplog.text


@pytest.mark.parametrize("number", [13, 28, 30], ids=["forbidden", "full", "read-only"])
def test_a_cache_that_cannot_be_written_is_not_needed(
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
    (message,) = caplog.messages
    assert message.startswith(UNCACHED)
    assert f"{os.strerror(number)})" in message
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
    monkeypatch.setattr(cache, "write", refuse)  # otherwise it would be exported again
    assert load(tiny_run).translate(SENTENCES)
    assert not caplog.messages


def test_the_command_translates_and_warns_that_nothing_is_cached(
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


def test_auto_uses_torch_if_no_export_can_be_written(
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
