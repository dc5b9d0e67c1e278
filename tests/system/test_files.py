"""Files and folders are complete or absent, whatever fails."""

import contextlib
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interrupted_writes import leave_unfinished

from transduce.errors import BadInput, BadRun
from transduce.system.files import (
    FILE_MARK,
    OWN_NAME,
    atomic_folder,
    atomic_write,
    open_for_append,
    open_regular,
    read_json,
    refuse_foreign_file,
    remove_folder,
    remove_leftovers,
    sha256,
    write_json,
)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def fail_after(path: Path, text: str, error: type[BaseException]) -> None:
    path.write_text(text)
    raise error


def dying(call: Callable[..., Any], at: int) -> Callable[..., Any]:
    """Return a replacement of a function that fails when it is called the `at`-th time."""
    calls = 0

    def stand_in(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(28, "No space left on device")
        return call(*args, **named)

    return stand_in


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt, SystemExit])
def test_a_failed_write_keeps_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(error), atomic_write(path) as temporary:
        fail_after(temporary, "half of the n", error)
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_a_failed_write_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(KeyError), atomic_write(tmp_path / "file") as temporary:
        fail_after(temporary, "half", KeyError)
    assert names(tmp_path) == set()


def test_the_old_content_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        # On the same disk, where a rename is atomic, and inaccessible to other users.
        assert temporary.parent.parent == path.parent
        assert temporary.parent.stat().st_mode & 0o777 == 0o700
    assert path.read_text() == "new"
    assert names(tmp_path) == {"file"}


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a" / "b" / "file") as temporary:
        temporary.write_text("new")
    with atomic_folder(tmp_path / "c" / "d" / "folder") as folder:
        (folder / "file").write_text("new")
    assert (tmp_path / "a" / "b" / "file").read_text() == "new"
    assert (tmp_path / "c" / "d" / "folder" / "file").read_text() == "new"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_bytes_are_flushed_before_the_rename(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        done.append("parent" if name == tmp_path.name else "content")
        fsync(descriptor)

    def note_replace(self: Path, target: Path) -> Path:
        done.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    if kind == "file":
        with atomic_write(tmp_path / "it") as temporary:
            temporary.write_text("new")
        assert done == ["content", "name", "parent"]
    else:
        with atomic_folder(tmp_path / "it") as temporary:
            (temporary / "one").write_text("new")
            (temporary / "two").write_text("new")
        assert done == ["content", "content", "content", "name", "parent"]


@pytest.mark.parametrize("at", range(1, 4))
@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_file_is_old_or_new_whichever_call_fails(
    call: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    original = os.fsync if call == "os.fsync" else Path.replace
    with monkeypatch.context() as patch:
        patch.setattr(call, dying(original, at))
        try:
            write_json(path, {"new": True})
        except OSError:
            assert path.read_text() == "old" or read_json(path) == {"new": True}
        else:
            assert read_json(path) == {"new": True}
    assert names(tmp_path) == {"file"}


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_folder_is_old_or_new_whichever_call_fails(
    call: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "one").write_text("old")
    original = os.fsync if call == "os.fsync" else Path.replace
    with monkeypatch.context() as patch:
        patch.setattr(call, dying(original, at))
        try:
            with atomic_folder(path) as temporary:
                (temporary / "one").write_text("new")
                (temporary / "two").write_text("new")
        except OSError:
            pass
        else:
            assert names(path) == {"one", "two"}
    if names(path) == {"one"}:
        assert (path / "one").read_text() == "old"
    else:
        assert [(path / name).read_text() for name in sorted(names(path))] == ["new", "new"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_write_keeps_the_old_folder(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "file").write_text("old")
    with pytest.raises(error), atomic_folder(path) as temporary:
        fail_after(temporary / "file", "new", error)
    assert (path / "file").read_text() == "old"
    with pytest.raises(error), atomic_folder(tmp_path / "other") as temporary:
        raise error
    assert names(tmp_path) == {"folder"}


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with atomic_folder(tmp_path / "folder") as temporary:
            (temporary / name).write_text(name)
    assert names(tmp_path / "folder") == {"second"}
    assert names(tmp_path) == {"folder"}


def working_folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if OWN_NAME.fullmatch(path.name)]


def test_only_temporary_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    foreign = [
        # Names that look like those of this program, of older versions or of other programs.
        *(".data.old-2019/results.csv", ".notes.writing-1", ".f.removing-7/file", ".tmpdvCMvZ"),
        *(".transduce-0123456789abcdef/thesis.tex", ".transduce-notes/file", ".lock", "file"),
        *("inner/.data.old-2019/results.csv", "inner/.transduce-0123456789abcdef/file"),
        "other/file",
    ]
    for name in foreign:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("somebody's")
    for folder in (tmp_path, tmp_path / "inner", tmp_path / "other"):
        (leave_unfinished(folder, "file") / "new").write_text("half")
        (leave_unfinished(folder, "folder") / "new").mkdir()
    remove_leftovers(tmp_path, "inner", "missing")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    others = {name for name in found if name.startswith("other/.transduce-")}
    assert found - others == set(foreign)
    assert len(working_folders(tmp_path / "other")) == 2  # outside the cleaned folder
    remove_leftovers(tmp_path / "nothing")


def test_links_are_not_followed_to_find_leftovers(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    left = leave_unfinished(tmp_path / "elsewhere", "file")
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "run" / left.name).symlink_to(left)
    remove_leftovers(tmp_path / "run", "checkpoints")
    assert left.is_dir()
    assert names(tmp_path / "run") == {"checkpoints", left.name}


@pytest.mark.parametrize(
    "changed",
    [
        {"token": "0" * 16},
        {"made_by": "another program"},
        {"for": "../outside"},
        {"for": ".."},
        {"for": ""},
        {"for": "\0"},
        {"for": "\ud800"},
        {"for": 1},
        {"restore": "yes"},
    ],
)
def test_a_folder_whose_record_does_not_match_its_name_is_kept(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    left = leave_unfinished(tmp_path, "file", restore=True)
    (left / "old").write_text("somebody's")
    record = json.loads((left / "record.json").read_text())
    (left / "record.json").write_text(json.dumps(record | changed))
    remove_leftovers(tmp_path)
    assert (left / "old").read_text() == "somebody's"
    assert names(tmp_path) == {left.name}


@pytest.mark.parametrize("record", [True, False])
def test_a_temporary_folder_without_a_record_is_removed(record: bool, tmp_path: Path) -> None:
    left = tmp_path / ".transduce-0123456789abcdef"
    left.mkdir()
    if record:
        (left / "record.json").touch()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == set()


def test_links_and_files_of_others_are_neither_followed_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a user who guesses the random name gains nothing."""
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123456789abcdef")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".transduce-0123456789abcdef").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError), atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert names(tmp_path / "elsewhere") == set()
    assert names(tmp_path) == {"elsewhere", ".transduce-0123456789abcdef"}


def test_folders_that_a_failed_write_created_are_removed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(KeyError), atomic_write(tmp_path / "there" / "a" / "b" / "file"):
        raise KeyError
    assert names(tmp_path) == {"there"}
    assert names(tmp_path / "there") == set()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_pipes_devices_and_folders_are_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    for read in (read_json, sha256, open_regular, lambda path: open_for_append(path, "a")):
        with pytest.raises(BadRun, match=r"expected a (regular file|file of the run)"):
            read(path)


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "thesis.html"
    path.write_text("transduce is a library")
    with pytest.raises(BadInput, match="was not made by transduce"):
        refuse_foreign_file(path)
    path.write_text(f"<!-- {FILE_MARK} -->")
    refuse_foreign_file(path)
    (tmp_path / "link.html").symlink_to(path)
    with pytest.raises(BadInput, match="was not made by transduce"):
        refuse_foreign_file(tmp_path / "link.html")
    refuse_foreign_file(tmp_path / "new.html")


def test_a_folder_that_was_moved_away_is_restored(tmp_path: Path) -> None:
    """Killed between two renames: the only complete copy is the one that was moved aside."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    aside = leave_unfinished(folder, "step-0000005", restore=True)
    (aside / "old").mkdir()
    (aside / "old" / "weights").write_text("whole")
    replaced = leave_unfinished(folder, "step-0000009", restore=True)
    (replaced / "old").mkdir()
    (folder / "step-0000009").mkdir()
    deleted = leave_unfinished(folder, "step-0000001")
    (deleted / "old").mkdir()
    remove_leftovers(tmp_path, "checkpoints")
    assert (folder / "step-0000005" / "weights").read_text() == "whole"
    assert names(folder) == {"step-0000005", "step-0000009"}


def test_a_folder_that_cannot_be_restored_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "file").write_text("old")
    with monkeypatch.context() as patch, contextlib.suppress(OSError):
        original, moves = Path.replace, []

        def once(*given: Path) -> Path:
            moves.append(given)
            if len(moves) > 1:
                raise OSError(errno.EIO, "failed")
            return original(*given)

        patch.setattr(Path, "replace", once)
        with atomic_folder(path) as temporary:
            (temporary / "file").write_text("new")
    assert not path.exists()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == {"folder"}
    assert (path / "file").read_text() == "old"


def test_a_folder_is_deleted_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "step-1"
    folder.mkdir()
    (folder / "state.json").touch()
    with monkeypatch.context() as patch:
        patch.setattr("transduce.system.files._clean", lambda *_: None)  # killed before it
        remove_folder(folder)
    assert not folder.exists()
    assert len(list(tmp_path.iterdir())) == 1
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_the_link_to_a_folder_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    (tmp_path / "step-1").symlink_to(tmp_path / "elsewhere")
    remove_folder(tmp_path / "step-1")
    assert names(tmp_path) == {"elsewhere"}
    assert names(tmp_path / "elsewhere") == {"file"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_names_the_target_and_not_the_temporary_file(number: int, tmp_path: Path) -> None:
    def fail(*named: str) -> None:
        raise OSError(number, os.strerror(number), *named)

    with pytest.raises(OSError, match="of") as error, atomic_write(tmp_path / "of") as temporary:
        fail()
    assert error.value.filename == str(tmp_path / "of")
    with pytest.raises(OSError, match="of") as error, atomic_write(tmp_path / "of") as temporary:
        fail(str(temporary))
    assert error.value.filename == str(tmp_path / "of")
    with pytest.raises(OSError, match="of") as error, atomic_folder(tmp_path / "of") as temporary:
        fail(str(temporary / "part"))
    assert error.value.filename == str(tmp_path / "of" / "part")
    with pytest.raises(OSError, match="other") as error, atomic_write(tmp_path / "of"):
        fail("/other")
    assert (error.value.errno, error.value.filename) == (number, "/other")


def test_a_folder_without_a_required_file_is_not_used(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match=f"'{tmp_path / 'it' / 'two'}'"),
        atomic_folder(tmp_path / "it", ("one", "two")) as temporary,
    ):
        (temporary / "one").write_text("whole")
    assert names(tmp_path) == set()


def test_a_folder_instead_of_a_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match=f"^{tmp_path} is a folder: expected a regular file$"):
        read_json(tmp_path)
