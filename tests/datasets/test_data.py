"""Data sets by name, through the command line: every one of the catalogue, in miniature."""

import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faulty_server as faults
import pytest
import zstandard
from conftest import COMMAND, CommandLine, environment, snapshot
from faulty_server import Faulty
from small_data_sets import (
    DOWNLOADED,
    SENTENCES,
    expected,
    iwslt14,
    lines,
    miniatures,
    pairs_in,
    quick,
    stock,
)

from transduce.datasets import catalogue, folders, pocket
from transduce.errors import BadData, BadInput, BadRun, MissingExtra
from transduce.system.files import read_checksummed, write_checksummed
from transduce.system.locks import locked


@pytest.fixture
def server() -> Iterator[Faulty]:
    with faults.running() as running:
        yield running


@pytest.fixture
def shelf(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """The whole catalogue in miniature on a server."""
    stock(server, monkeypatch)
    return server


@pytest.mark.parametrize("name", DOWNLOADED)
def test_every_data_set_of_the_catalogue_comes_out_of_its_archives(
    name: str, shelf: Faulty, cli: CommandLine, tmp_path: Path
) -> None:
    data = catalogue.named(name)
    done = cli("data", "get", name, "--out", tmp_path / "got")
    assert done.status == 0, done.stderr
    train = expected(data, "train")
    wanted = {part: expected(data, part) for part in data.parts} | {"train": train}
    if data.clean:  # every 23rd
        wanted["valid"] = train[22::23]
        wanted["train"] = [pair for n, pair in enumerate(train, start=1) if n % 23]
    assert data.made == ("train", "valid", "test")
    for part in data.made:
        assert pairs_in(tmp_path / "got", part, data.languages) == wanted[part]
    first = [tmp_path / "got" / f"train.{language}" for language in data.languages]
    assert done.stdout.splitlines()[0] == f"{first[0]}\t{first[1]}"
    assert data.licence in done.stderr
    record = json.loads((tmp_path / "got" / "data.json").read_text())
    assert set(record["archives"]) == set(data.archives)
    assert record["parts"]["train"]["pairs"] == len(wanted["train"])
    assert not (tmp_path / "got" / "archives").exists()


def test_the_catalogue_knows_what_it_is_made_of() -> None:
    """Each set names its licence, and each archive an https address and a hash, but for one."""
    without = set()
    for name in DOWNLOADED:
        data = catalogue.named(name)
        assert data.licence
        assert data.pairs
        assert data.space
        for archive in data.archives.values():
            assert archive.urls[0].startswith("https://")
            assert archive.sha256 is None or len(archive.sha256) == 64
            assert archive.md5 is None or len(archive.md5) == 32
            if archive.hash is None:
                without.add(archive.file)
    assert without == {"iwslt14-de-en.tgz"}


def test_the_paper_s_data_are_the_paper_s() -> None:
    """Paper 5.1: WMT 2014; en-fr also has UN and Giga, 36M pairs and more."""
    german, french = catalogue.named("wmt14-en-de"), catalogue.named("wmt14-en-fr")
    trained = [len(one.parts["train"]) for one in (german, french)]
    assert trained == [3, 5]
    for data in (german, french):
        assert data.parts["valid"][0].places[0].member == "test/newstest2013-src.en.sgm"
        assert "test-full/newstest2014" in data.parts["test"][0].places[0].member


def test_a_list_for_people_and_one_for_programs(cli: CommandLine) -> None:
    shown = cli("data", "list", env={"COLUMNS": "80"})
    assert shown.status == 0
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    table = json.loads(cli("data", "list", "--json").stdout)
    assert [one["name"] for one in table] == catalogue.names()
    for one in table:
        assert f"\n{one['name']} " in f"\n{shown.stdout}"
        assert one["licence"] in shown.stdout


def test_the_corpus_that_comes_along_needs_no_network(run_cli: CommandLine, tmp_path: Path) -> None:
    done = run_cli("data", "get", "pocket", "--out", tmp_path / "pocket")
    assert done.status == 0, done.stderr
    counts = [len(pairs_in(tmp_path / "pocket", one, ("en", "de"))) for one in catalogue.PARTS]
    assert counts == [20_000, 500, 500]
    again = pocket.write(tmp_path / "again", 20_000, 500)  # as `transduce demo` does
    for path in [path for files in again.values() for path in files]:
        assert (tmp_path / "pocket" / path.name).read_bytes() == path.read_bytes()


def test_a_real_process_gets_what_has_no_hash_and_says_it(
    server: Faulty, run_cli: CommandLine, tmp_path: Path
) -> None:
    content = miniatures(catalogue.named("iwslt14-de-en"))["iwslt14-de-en.tgz"]
    server.serve("iwslt14-de-en.tgz", content)
    out = tmp_path / "iwslt"
    done = run_cli(
        *("data", "get", "iwslt14-de-en", "--out", out, "--keep-archives"),
        env={"TRANSDUCE_MIRROR": server.address},
    )
    assert done.status == 0, done.stderr
    assert f"no hash was known; it has {len(content):,} bytes and the sha256" in done.stderr
    assert hashlib.sha256(content).hexdigest() in done.stderr
    assert "others count 160,239" in done.stderr
    assert (out / "archives" / "iwslt14-de-en.tgz").read_bytes() == content


def test_what_is_whole_is_left_alone_and_asks_nobody(shelf: Faulty, tmp_path: Path) -> None:
    first = quick("multi30k-en-de", tmp_path / "got")
    before = snapshot(tmp_path / "got")
    shelf.asked.clear()
    assert quick("multi30k-en-de", tmp_path / "got") == first
    os.utime(tmp_path / "got" / "train.en")  # touched, not changed
    assert quick("multi30k-en-de", tmp_path / "got") == first
    assert snapshot(tmp_path / "got") == before
    assert not shelf.asked


@pytest.mark.parametrize("damage", ["changed", "shorter", "gone", "a link"])
def test_what_is_damaged_is_mended_and_nothing_else(
    shelf: Faulty, tmp_path: Path, damage: str
) -> None:
    out = tmp_path / "got"
    quick("multi30k-en-de", out)
    before = snapshot(out)
    shelf.asked.clear()
    victim = out / "valid.de"
    content = victim.read_bytes()
    victim.unlink()
    if damage == "a link":
        (tmp_path / "elsewhere").write_bytes(content)
        victim.symlink_to(tmp_path / "elsewhere")
    elif damage != "gone":
        victim.write_bytes(content[:-9] + (b"x" * 9 if damage == "changed" else b""))
    quick("multi30k-en-de", out)
    assert {one: snapshot(out)[one] for one in before if one != "data.json"} == {
        one: before[one] for one in before if one != "data.json"
    }
    assert not victim.is_symlink()
    assert {name for name, _ in shelf.asked} == {"val.en.gz", "val.de.gz"}


def test_a_hash_that_was_found_the_first_time_is_asked_for_the_second(
    shelf: Faulty, tmp_path: Path
) -> None:
    out = tmp_path / "got"
    quick("iwslt14-de-en", out)
    (out / "test.en").unlink()
    other = miniatures(catalogue.named("iwslt17-de-en"))["iwslt17-de-en.tgz"]
    shelf.serve("iwslt14-de-en.tgz", other)
    with pytest.raises(BadData, match="expected"):
        quick("iwslt14-de-en", out)


def test_what_no_hash_could_check_and_is_wrong_is_downloaded_anew(
    shelf: Faulty, tmp_path: Path
) -> None:
    whole = shelf.files["iwslt14-de-en.tgz"]
    shelf.serve("iwslt14-de-en.tgz", b"<html>come back later</html>")
    with pytest.raises(
        BadData, match=r"its gz data cannot be read .*; no hash of it is known, so the same"
    ):
        quick("iwslt14-de-en", tmp_path / "got")
    shelf.serve("iwslt14-de-en.tgz", whole)
    assert quick("iwslt14-de-en", tmp_path / "got").train


def test_two_at_once_do_not_share_a_folder(shelf: Faulty, tmp_path: Path) -> None:
    with locked(tmp_path / "got" / ".getting"), pytest.raises(BadRun, match="in use by process"):
        quick("multi30k-en-de", tmp_path / "got")
    assert not shelf.asked


def test_who_gets_the_lock_just_after_another_has_finished_leaves_all_as_it_is(
    shelf: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "got"

    @contextlib.contextmanager
    def late(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(folders, "locked", locked)
        quick("multi30k-en-de", out)
        shelf.asked.clear()
        with locked(folder):
            yield

    monkeypatch.setattr(folders, "locked", late)
    assert quick("multi30k-en-de", out).train
    assert not shelf.asked
    assert not (out / ".getting").exists()


@pytest.mark.parametrize("damage", ["no longer agrees", "cut"])
def test_a_damaged_record_is_mended(shelf: Faulty, tmp_path: Path, damage: str) -> None:
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
def test_a_sealed_record_that_is_incomplete_is_made_again(
    shelf: Faulty, tmp_path: Path, change: dict[str, Any]
) -> None:
    out = tmp_path / "got"
    quick("multi30k-en-de", out)
    record = read_checksummed(out / "data.json", 1, "a data set")
    kept = {name: value for name, value in record.items() if name != "sha256"} | change
    write_checksummed(out / "data.json", {k: v for k, v in kept.items() if v is not None})
    assert quick("multi30k-en-de", out).train
    assert read_checksummed(out / "data.json", 1, "a data set")["made"] == [
        "train",
        "valid",
        "test",
    ]


def test_files_that_are_there_are_taken_and_checked(
    shelf: Faulty, cli: CommandLine, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for file, content in shelf.files.items():
        if file.startswith(("train.", "val.")):
            (mine / file).write_bytes(content)
    done = cli("data", "get", "multi30k-en-de", "--out", tmp_path / "got", "--from", mine)
    assert done.status == 0, done.stderr
    assert {name for name, _ in shelf.asked} == {"test_2016_flickr.en.gz", "test_2016_flickr.de.gz"}
    (mine / "train.en.gz").write_bytes(shelf.files["train.de.gz"])
    done = cli("data", "get", "multi30k-en-de", "--out", tmp_path / "other", "--from", mine)
    assert "train.en.gz is not the file that is needed: its md5 is" in done.error
    assert (mine / "train.de.gz").read_bytes() == shelf.files["train.de.gz"]


def test_a_text_may_be_given_in_another_form(shelf: Faulty, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for file in catalogue.named("multi30k-en-de").archives:
        (mine / file.removesuffix(".gz")).write_bytes(gzip.decompress(shelf.files[file]))
    got = quick("multi30k-en-de", tmp_path / "got", given=mine)
    assert got.train
    assert not shelf.asked
    assert len(pairs_in(got.folder, "train", got.languages)) == SENTENCES


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_text_that_was_given_is_told_without_a_traceback(
    shelf: Faulty, cli: CommandLine, tmp_path: Path, damage: str
) -> None:
    """Both sides alike, so that they still have as many lines as each other."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for language in ("en", "de"):
        text = gzip.decompress(shelf.files[f"train.{language}.gz"])
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(text)
        bad = whole[:-9] if damage == "cut" else whole[:-9] + bytes(9)
        (mine / f"train.{language}.zst").write_bytes(bad)
    done = cli("data", "get", "multi30k-en-de", "--out", tmp_path / "got", "--from", mine)
    assert done.status == 1
    assert re.search(r"train\.en\.zst is (truncated|damaged): its zst data", done.error)


def test_an_interrupted_download_keeps_its_part_and_goes_on(
    server: Faulty, run_cli: CommandLine, tmp_path: Path
) -> None:
    content = miniatures(catalogue.named("iwslt14-de-en"))["iwslt14-de-en.tgz"]
    server.serve("iwslt14-de-en.tgz", content, faults.stall(1000, 10))
    out = tmp_path / "got"
    command = ("data", "get", "iwslt14-de-en", "--out", str(out), "--mirror", server.address)
    process = subprocess.Popen(
        [*COMMAND, *command], stderr=subprocess.PIPE, env=environment(), text=True
    )
    part = out / "archives" / "iwslt14-de-en.tgz.part"
    while process.poll() is None and not (part.exists() and part.stat().st_size == 1000):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "the same command goes on from there" in said.splitlines()[-1]
    assert part.stat().st_size == 1000
    assert run_cli(*command).status == 0
    assert server.asked[-1] == ("iwslt14-de-en.tgz", "bytes=1000-")


def test_names_that_are_not_known_are_refused_with_a_hint(cli: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "got"
    for name, hint in {
        "wmt14-de-en": "Did you mean wmt14-en-de?",
        "sacrebleu:wmt15/ful:en-de": "Did you mean wmt1",
        "sacrebleu:wmt14/full:en-dx": "Did you mean en-de?",
        "sacrebleu:wmt14": "expected sacrebleu:SET:PAIR",
    }.items():
        assert hint in cli("data", "get", name, "--out", out).error
    assert not out.exists()


def test_a_folder_of_something_else_is_left_alone(shelf: Faulty, tmp_path: Path) -> None:
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


def test_a_disk_that_is_too_small_is_found_before_the_download(
    shelf: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(BadData, match=r"needs about 4.2 MB in .*, where 1.0 MB are free"):
        quick("multi30k-en-de", tmp_path / "deep" / "got")
    assert not shelf.asked
    assert not (tmp_path / "deep").exists()  # what is refused leaves nothing behind


def test_nothing_is_written_outside_of_the_folder(shelf: Faulty, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    quick("wmt14-en-fr", home / "got")
    names = {path.name for path in (home / "got").iterdir()}
    assert list(home.iterdir()) == [home / "got"]
    assert names == {
        *(f"{part}.{language}" for part in catalogue.PARTS for language in ("en", "fr")),
        "data.json",
    }


def test_what_fails_while_it_is_written_leaves_nothing_half(shelf: Faulty, tmp_path: Path) -> None:
    """The second of two sides ends too early: neither is there, and the other parts are mended."""
    shelf.serve("train.de.gz", gzip.compress(b"nur eine\n"))
    table = catalogue._tables()["archives"]["train.de.gz"]
    table["md5"] = hashlib.md5(shelf.files["train.de.gz"]).hexdigest()
    with pytest.raises(BadData, match="goes on after 1 sentence"):
        quick("multi30k-en-de", tmp_path / "got")
    names = {path.name for path in (tmp_path / "got").iterdir()}
    assert names == {"archives", ".getting"}


def test_a_train_of_which_nothing_is_left_leaves_no_files(shelf: Faulty, tmp_path: Path) -> None:
    shelf.serve("iwslt14-de-en.tgz", iwslt14(["w " * 176], ["w " * 176]))
    with pytest.raises(BadData, match="has no pair for train that can be used"):
        quick("iwslt14-de-en", tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_pairs_are_cleaned_as_moses_does(shelf: Faulty, cli: CommandLine, tmp_path: Path) -> None:
    """Words are counted as its tokeniser cuts them: "don't" is two, "nicht." is two."""
    english = ["one two three", "a b don't", "w " * 176, "equal"]
    german = ["eins zwei drei", "x.", "w " * 176, "gleich"]
    shelf.serve("iwslt14-de-en.tgz", iwslt14(english, german))
    done = cli("data", "get", "iwslt14-de-en", "--out", tmp_path / "got")
    assert "1 with 1.5 times as many words on one side, 1 of more than 175 words" in done.stderr
    assert lines(tmp_path / "got" / "train.en") == ["one two three", "equal"]


def test_a_library_that_cleaning_needs_is_asked_for_before_the_download(
    shelf: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MissingExtra, match="sacremoses"):
        quick("iwslt14-de-en", tmp_path / "got")
    assert not shelf.asked


def test_a_download_that_fails_says_how_else_the_set_can_be_had(
    cli: CommandLine, server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(server, monkeypatch)
    server.files.clear()
    out = tmp_path / "multi30k"
    error = cli("data", "get", "multi30k-en-de", "--out", out).error
    assert f"`transduce data get multi30k-en-de --out {out} --from FOLDER`" in error
    assert "TRANSDUCE_MIRROR" in error


def test_a_mirror_is_an_address(cli: CommandLine, tmp_path: Path) -> None:
    refused = cli("data", "get", "iwslt14-de-en", "--out", tmp_path / "x", "--mirror", "here:80")
    assert refused.error == (
        "the mirror 'here:80' is not a web address: expected http://HOST/… or https://HOST/…"
    )
    for odd in ("http://[", "https://", "http://host:port", "ftp://host", ""):
        arguments = ("data", "get", "iwslt14-de-en", "--out", tmp_path / "x", "--mirror", odd)
        assert cli(*arguments).error.startswith(f"the mirror {odd!r} is not a web address")
    assert not (tmp_path / "x").exists()
