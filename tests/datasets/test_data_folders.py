"""The folder of a data set: damage is repaired, and foreign files are kept."""

import contextlib
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faulty_server as faults
import pytest
from conftest import snapshot
from faulty_server import Faulty
from small_data_sets import iwslt14, quick, stock

from transduce.datasets import catalogue, folders
from transduce.errors import BadData, BadInput, BadRun
from transduce.system.files import read_checksummed, write_checksummed
from transduce.system.locks import locked


@pytest.fixture
def catalogue_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """Serve the whole catalogue in miniature."""
    with faults.running() as server:
        stock(server, monkeypatch)
        yield server


@pytest.mark.parametrize("damage", ["changed", "shorter", "gone", "a link"])
def test_only_damaged_files_are_written_again(
    catalogue_server: Faulty, tmp_path: Path, damage: str
) -> None:
    out = tmp_path / "got"
    quick("multi30k-en-de", out)
    before = snapshot(out)
    catalogue_server.requests.clear()
    victim = out / "valid.de"
    content = victim.read_bytes()
    victim.unlink()
    if damage == "a link":
        (tmp_path / "elsewhere").write_bytes(content)
        victim.symlink_to(tmp_path / "elsewhere")
    elif damage != "gone":
        victim.write_bytes(content[:-9] + (b"x" * 9 if damage == "changed" else b""))
    quick("multi30k-en-de", out)
    assert {name: snapshot(out)[name] for name in before if name != "data.json"} == {
        name: before[name] for name in before if name != "data.json"
    }
    assert not victim.is_symlink()
    assert {name for name, _ in catalogue_server.requests} == {"val.en.gz", "val.de.gz"}


def test_two_processes_cannot_use_one_folder(catalogue_server: Faulty, tmp_path: Path) -> None:
    with locked(tmp_path / "got" / ".getting"), pytest.raises(BadRun, match="in use by process"):
        quick("multi30k-en-de", tmp_path / "got")
    assert not catalogue_server.requests


def test_a_process_that_waited_for_the_lock_changes_nothing(
    catalogue_server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "got"

    @contextlib.contextmanager
    def late(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(folders, "locked", locked)
        quick("multi30k-en-de", out)
        catalogue_server.requests.clear()
        with locked(folder):
            yield

    monkeypatch.setattr(folders, "locked", late)
    assert quick("multi30k-en-de", out).train
    assert not catalogue_server.requests
    assert not (out / ".getting").exists()


@pytest.mark.parametrize("damage", ["no longer agrees", "cut"])
def test_a_damaged_record_is_written_again(
    catalogue_server: Faulty, tmp_path: Path, damage: str
) -> None:
    out = tmp_path / "got"
    quick("multi30k-en-de", out)
    text = (out / "data.json").read_text()
    damaged = text[:-50] if damage == "cut" else text.replace('"size": ', '"size": 1')
    (out / "data.json").write_text(damaged)
    assert quick("multi30k-en-de", out).train
    assert json.loads((out / "data.json").read_text())["name"] == "multi30k-en-de"


@pytest.mark.parametrize(
    "change",
    [
        {"made": None},
        {"files": None},
        {"files": {"train.en": {"size": 1}}},
        {"languages": ["en"]},
        {"archives": []},
        {"parts": 3},
        {"made": ["train", "../train"]},
    ],
    ids=str,
)
def test_an_incomplete_record_is_written_again(
    catalogue_server: Faulty, tmp_path: Path, change: dict[str, Any]
) -> None:
    out = tmp_path / "got"
    quick("multi30k-en-de", out)
    record = read_checksummed(out / "data.json", 1, "a data set")
    changed = {name: value for name, value in record.items() if name != "sha256"} | change
    write_checksummed(out / "data.json", {k: v for k, v in changed.items() if v is not None})
    assert quick("multi30k-en-de", out).train
    assert read_checksummed(out / "data.json", 1, "a data set")["made"] == [
        "train",
        "valid",
        "test",
    ]


def test_a_folder_of_something_else_is_kept(catalogue_server: Faulty, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "train.en").write_text("my own\n")
    for text in ("", '{"name": "mine"}'):
        (mine / "data.json").write_text(text)
        with pytest.raises(BadInput, match=r"holds train.en, which transduce did not write"):
            quick("multi30k-en-de", mine)
    assert (mine / "train.en").read_text() == "my own\n"
    quick("multi30k-en-de", tmp_path / "got")
    with pytest.raises(BadInput, match="holds the data set multi30k-en-de: choose another"):
        quick("multi30k-en-fr", tmp_path / "got")
    with pytest.raises(BadInput, match="is a file"):
        quick("multi30k-en-fr", mine / "train.en")


def test_nothing_is_written_outside_of_the_folder(catalogue_server: Faulty, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    quick("wmt14-en-fr", home / "got")
    names = {path.name for path in (home / "got").iterdir()}
    assert list(home.iterdir()) == [home / "got"]
    assert names == {
        *(f"{part}.{language}" for part in catalogue.SPLITS for language in ("en", "fr")),
        "data.json",
    }


def test_a_failure_while_writing_leaves_no_partial_file(
    catalogue_server: Faulty, tmp_path: Path
) -> None:
    """The second of two sides ends too early: neither is written, and other parts are repaired."""
    catalogue_server.serve("train.de.gz", gzip.compress(b"nur eine\n"))
    table = catalogue._tables()["archives"]["train.de.gz"]
    table["md5"] = hashlib.md5(catalogue_server.files["train.de.gz"]).hexdigest()
    with pytest.raises(BadData, match="has more than the 1 sentence of"):
        quick("multi30k-en-de", tmp_path / "got")
    names = {path.name for path in (tmp_path / "got").iterdir()}
    assert names == {"archives", ".getting"}


def test_a_split_without_usable_pairs_leaves_no_files(
    catalogue_server: Faulty, tmp_path: Path
) -> None:
    catalogue_server.serve("iwslt14-de-en.tgz", iwslt14(["w " * 176], ["w " * 176]))
    with pytest.raises(BadData, match="has no usable pair for train"):
        quick("iwslt14-de-en", tmp_path / "got")
    assert not (tmp_path / "got").exists()
