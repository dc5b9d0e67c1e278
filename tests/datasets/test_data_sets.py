"""Data sets by name, through the command line, with small versions of all data sets."""

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

from transduce.datasets import catalogue
from transduce.datasets.pocket.files import write
from transduce.errors import BadData, MissingExtra


@pytest.fixture
def server() -> Iterator[Faulty]:
    with faults.running() as running:
        yield running


@pytest.fixture
def catalogue_server(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """The whole catalogue in miniature on a server."""
    stock(server, monkeypatch)
    return server


@pytest.mark.parametrize("name", DOWNLOADED)
def test_every_data_set_of_the_catalogue_is_read_from_its_archives(
    name: str, catalogue_server: Faulty, cli: CommandLine, tmp_path: Path
) -> None:
    data = catalogue.find(name)
    done = cli("data", "get", name, "--out", tmp_path / "got")
    assert done.status == 0, done.stderr
    train = expected(data, "train")
    wanted = {part: expected(data, part) for part in data.sources} | {"train": train}
    if data.clean:  # every 23rd
        wanted["valid"] = train[22::23]
        wanted["train"] = [pair for n, pair in enumerate(train, start=1) if n % 23]
    assert data.splits == ("train", "valid", "test")
    for part in data.splits:
        assert pairs_in(tmp_path / "got", part, data.languages) == wanted[part]
    first = [tmp_path / "got" / f"train.{language}" for language in data.languages]
    assert done.stdout.splitlines()[0] == f"{first[0]}\t{first[1]}"
    assert data.licence in done.stderr
    record = json.loads((tmp_path / "got" / "data.json").read_text())
    assert set(record["archives"]) == set(data.archives)
    assert record["parts"]["train"]["pairs"] == len(wanted["train"])
    assert not (tmp_path / "got" / "archives").exists()


def test_every_entry_of_the_catalogue_is_complete() -> None:
    """Each set names its licence, and each archive an https address and a hash, but for one."""
    without = set()
    for name in DOWNLOADED:
        data = catalogue.find(name)
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


def test_the_wmt_sets_have_the_texts_of_the_paper() -> None:
    """Paper 5.1: WMT 2014; en-fr also has UN and Giga, 36M pairs and more."""
    german, french = catalogue.find("wmt14-en-de"), catalogue.find("wmt14-en-fr")
    trained = [len(data.sources["train"]) for data in (german, french)]
    assert trained == [3, 5]
    for data in (german, french):
        assert data.sources["valid"][0].locations[0].member == "test/newstest2013-src.en.sgm"
        assert "test-full/newstest2014" in data.sources["test"][0].locations[0].member


def test_the_list_is_a_table_or_json(cli: CommandLine) -> None:
    shown = cli("data", "list", env={"COLUMNS": "80"})
    assert shown.status == 0
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    table = json.loads(cli("data", "list", "--json").stdout)
    assert [row["name"] for row in table] == catalogue.names()
    for row in table:
        assert f"\n{row['name']} " in f"\n{shown.stdout}"
        assert row["licence"] in shown.stdout


def test_the_built_in_corpus_needs_no_network(run_cli: CommandLine, tmp_path: Path) -> None:
    done = run_cli("data", "get", "pocket", "--out", tmp_path / "pocket")
    assert done.status == 0, done.stderr
    counts = [len(pairs_in(tmp_path / "pocket", split, ("en", "de"))) for split in catalogue.SPLITS]
    assert counts == [20_000, 500, 500]
    again = write(tmp_path / "again", 20_000, 500)  # as `transduce demo` does
    for path in [path for files in again.values() for path in files]:
        assert (tmp_path / "pocket" / path.name).read_bytes() == path.read_bytes()


def test_the_hash_of_a_file_without_a_known_hash_is_printed(
    server: Faulty, run_cli: CommandLine, tmp_path: Path
) -> None:
    content = miniatures(catalogue.find("iwslt14-de-en"))["iwslt14-de-en.tgz"]
    server.serve("iwslt14-de-en.tgz", content)
    out = tmp_path / "iwslt"
    done = run_cli(
        *("data", "get", "iwslt14-de-en", "--out", out, "--keep-archives"),
        env={"TRANSDUCE_MIRROR": server.address},
    )
    assert done.status == 0, done.stderr
    assert f"no hash was known; it has {len(content):,} bytes and the sha256" in done.stderr
    assert hashlib.sha256(content).hexdigest() in done.stderr
    assert "others report 160,239" in done.stderr
    assert (out / "archives" / "iwslt14-de-en.tgz").read_bytes() == content


def test_a_complete_data_set_is_kept_without_a_request(
    catalogue_server: Faulty, tmp_path: Path
) -> None:
    first = quick("multi30k-en-de", tmp_path / "got")
    before = snapshot(tmp_path / "got")
    catalogue_server.requests.clear()
    assert quick("multi30k-en-de", tmp_path / "got") == first
    os.utime(tmp_path / "got" / "train.en")  # touched, not changed
    assert quick("multi30k-en-de", tmp_path / "got") == first
    assert snapshot(tmp_path / "got") == before
    assert not catalogue_server.requests


def test_the_recorded_hash_is_checked_at_the_next_download(
    catalogue_server: Faulty, tmp_path: Path
) -> None:
    out = tmp_path / "got"
    quick("iwslt14-de-en", out)
    (out / "test.en").unlink()
    other = miniatures(catalogue.find("iwslt17-de-en"))["iwslt17-de-en.tgz"]
    catalogue_server.serve("iwslt14-de-en.tgz", other)
    with pytest.raises(BadData, match="expected"):
        quick("iwslt14-de-en", out)


def test_a_damaged_file_without_a_known_hash_is_downloaded_again(
    catalogue_server: Faulty, tmp_path: Path
) -> None:
    whole = catalogue_server.files["iwslt14-de-en.tgz"]
    catalogue_server.serve("iwslt14-de-en.tgz", b"<html>come back later</html>")
    with pytest.raises(
        BadData, match=r"its gz data cannot be read .*; no hash of it is known: the same"
    ):
        quick("iwslt14-de-en", tmp_path / "got")
    catalogue_server.serve("iwslt14-de-en.tgz", whole)
    assert quick("iwslt14-de-en", tmp_path / "got").train


def test_files_in_from_are_checked_and_used(
    catalogue_server: Faulty, cli: CommandLine, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for file, content in catalogue_server.files.items():
        if file.startswith(("train.", "val.")):
            (mine / file).write_bytes(content)
    done = cli("data", "get", "multi30k-en-de", "--out", tmp_path / "got", "--from", mine)
    assert done.status == 0, done.stderr
    assert {name for name, _ in catalogue_server.requests} == {
        "test_2016_flickr.en.gz",
        "test_2016_flickr.de.gz",
    }
    (mine / "train.en.gz").write_bytes(catalogue_server.files["train.de.gz"])
    done = cli("data", "get", "multi30k-en-de", "--out", tmp_path / "other", "--from", mine)
    assert "train.en.gz is not the file that is needed: its md5 is" in done.error
    assert (mine / "train.de.gz").read_bytes() == catalogue_server.files["train.de.gz"]


def test_a_text_in_from_may_be_compressed_in_another_way(
    catalogue_server: Faulty, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for file in catalogue.find("multi30k-en-de").archives:
        (mine / file.removesuffix(".gz")).write_bytes(gzip.decompress(catalogue_server.files[file]))
    got = quick("multi30k-en-de", tmp_path / "got", given=mine)
    assert got.train
    assert not catalogue_server.requests
    assert len(pairs_in(got.folder, "train", got.languages)) == SENTENCES


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_text_in_from_is_an_error_message(
    catalogue_server: Faulty, cli: CommandLine, tmp_path: Path, damage: str
) -> None:
    """Both sides are damaged equally, so their line counts still match."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for language in ("en", "de"):
        text = gzip.decompress(catalogue_server.files[f"train.{language}.gz"])
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(text)
        bad = whole[:-9] if damage == "cut" else whole[:-9] + bytes(9)
        (mine / f"train.{language}.zst").write_bytes(bad)
    done = cli("data", "get", "multi30k-en-de", "--out", tmp_path / "got", "--from", mine)
    assert done.status == 1
    assert re.search(r"train\.en\.zst is (truncated|damaged): its zst data", done.error)


def test_an_interrupted_download_is_resumed(
    server: Faulty, run_cli: CommandLine, tmp_path: Path
) -> None:
    content = miniatures(catalogue.find("iwslt14-de-en"))["iwslt14-de-en.tgz"]
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
    assert "the same command continues from there" in said.splitlines()[-1]
    assert part.stat().st_size == 1000
    assert run_cli(*command).status == 0
    assert server.requests[-1] == ("iwslt14-de-en.tgz", "bytes=1000-")


def test_unknown_names_are_refused_with_a_hint(cli: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "got"
    for name, hint in {
        "wmt14-de-en": "Did you mean wmt14-en-de?",
        "sacrebleu:wmt15/ful:en-de": "Did you mean wmt1",
        "sacrebleu:wmt14/full:en-dx": "Did you mean en-de?",
        "sacrebleu:wmt14": "expected sacrebleu:SET:PAIR",
    }.items():
        assert hint in cli("data", "get", name, "--out", out).error
    assert not out.exists()


def test_a_full_disk_is_reported_before_the_download(
    catalogue_server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(BadData, match=r"needs about 4.2 MB in .*, but 1.0 MB are free"):
        quick("multi30k-en-de", tmp_path / "deep" / "got")
    assert not catalogue_server.requests
    assert not (tmp_path / "deep").exists()  # a refused download leaves nothing behind


def test_pairs_are_cleaned_as_moses_does(
    catalogue_server: Faulty, cli: CommandLine, tmp_path: Path
) -> None:
    """Words are counted as its tokeniser cuts them: "don't" is two, "nicht." is two."""
    english = ["one two three", "a b don't", "w " * 176, "equal"]
    german = ["eins zwei drei", "x.", "w " * 176, "gleich"]
    catalogue_server.serve("iwslt14-de-en.tgz", iwslt14(english, german))
    done = cli("data", "get", "iwslt14-de-en", "--out", tmp_path / "got")
    assert "1 with 1.5 times as many words on one side, 1 of more than 175 words" in done.stderr
    assert lines(tmp_path / "got" / "train.en") == ["one two three", "equal"]


def test_a_missing_library_for_cleaning_is_reported_before_the_download(
    catalogue_server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MissingExtra, match="sacremoses"):
        quick("iwslt14-de-en", tmp_path / "got")
    assert not catalogue_server.requests


def test_a_failed_download_names_the_alternatives(
    cli: CommandLine, server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(server, monkeypatch)
    server.files.clear()
    out = tmp_path / "multi30k"
    error = cli("data", "get", "multi30k-en-de", "--out", out).error
    assert f"`transduce data get multi30k-en-de --out {out} --from FOLDER`" in error
    assert "TRANSDUCE_MIRROR" in error


def test_a_mirror_must_be_a_web_address(cli: CommandLine, tmp_path: Path) -> None:
    refused = cli("data", "get", "iwslt14-de-en", "--out", tmp_path / "x", "--mirror", "here:80")
    assert refused.error == (
        "the mirror 'here:80' is not a web address: expected http://HOST/… or https://HOST/…"
    )
    for odd in ("http://[", "https://", "http://host:port", "ftp://host", ""):
        arguments = ("data", "get", "iwslt14-de-en", "--out", tmp_path / "x", "--mirror", odd)
        assert cli(*arguments).error.startswith(f"the mirror {odd!r} is not a web address")
    assert not (tmp_path / "x").exists()
