"""The files of a corpus: every pair is stored, and damage is found."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_corpora import Pair, decode_pairs, make, make_pairs, write_tsv

from transduce.corpus import encoding, preparation
from transduce.corpus.token_files import MANIFEST, SUBWORDS, TOKEN_FILES, Side, open_corpus
from transduce.errors import BadRun
from transduce.subwords import EOS, Codec
from transduce.system.files import read_checksummed, sha256, write_checksummed


@pytest.fixture
def damaged(prepared_corpus: tuple[list[Pair], Path], tmp_path: Path) -> Path:
    """Return a copy of the corpus to damage."""
    return Path(shutil.copytree(prepared_corpus[1], tmp_path / "corpus"))


def test_pairs_are_stored_in_order_and_end_with_eos(
    prepared_corpus: tuple[list[Pair], Path],
) -> None:
    pairs, folder = prepared_corpus
    corpus = open_corpus(folder)
    held_out = decode_pairs(corpus.valid, corpus.codec)
    assert decode_pairs(corpus.train, corpus.codec) == [
        pair for pair in pairs if pair not in held_out
    ]
    assert len(held_out) == 3
    assert {*held_out} < {*pairs}


def test_the_manifest_counts_pairs_and_tokens(prepared_corpus: tuple[list[Pair], Path]) -> None:
    corpus = open_corpus(prepared_corpus[1])
    assert corpus.languages == corpus.manifest.languages == ("en", "de")
    assert corpus.manifest.vocabulary == (len(corpus.codec.source), len(corpus.codec.target))
    for part, counts in (
        (corpus.train, corpus.manifest.train),
        (corpus.valid, corpus.manifest.valid),
    ):
        assert len(part) == len(part.source) == len(part.target) == counts.pairs == counts.read
        assert counts.source_tokens == len(part.source.tokens) == part.source.lengths.sum()
        assert counts.target_tokens == len(part.target.tokens) == part.target.lengths.sum()
        assert counts.source_longest == max(len(part.pair(i)[0]) for i in range(len(part)))
        assert counts.target_longest == max(len(part.pair(i)[1]) for i in range(len(part)))
        assert not any(counts.dropped.values())


def test_an_index_out_of_range_is_an_error() -> None:
    side = Side(np.array([5, EOS, EOS], "<u2"), np.array([0, 2, 3]))
    assert side[1].tolist() == [EOS]
    for index in (-1, 2):
        with pytest.raises(IndexError):
            side[index]


@pytest.mark.parametrize("wide", [False, True])
def test_large_vocabularies_are_stored_as_uint32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    class Sized:
        def __init__(self, size: int) -> None:
            self.size = size

        def __len__(self) -> int:
            return self.size

    few, many = Sized(1 << 16), Sized((1 << 16) + 1)
    assert encoding.token_type_of(Codec(few, few)) == "<u2"  # type: ignore[arg-type]
    assert encoding.token_type_of(Codec(few, many)) == "<u4"  # type: ignore[arg-type]
    token_type = "<u4" if wide else "<u2"
    for importer in (encoding, preparation):
        monkeypatch.setattr(importer, "token_type_of", lambda _: token_type)
    pairs = make_pairs(20)
    corpus = make(write_tsv(tmp_path / "text.tsv", pairs), tmp_path / "corpus")
    assert corpus.train.source.tokens.dtype == np.dtype(token_type)
    assert {*decode_pairs(corpus.train, corpus.codec)} < {*pairs}


@pytest.mark.parametrize("name", [MANIFEST, SUBWORDS, *TOKEN_FILES])
@pytest.mark.parametrize("damage", ["flip", "cut", "more", "missing"])
def test_a_damaged_file_is_named_and_refused(damaged: Path, name: str, damage: str) -> None:
    path = damaged / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[data.rfind(b"1") if name.endswith("json") else len(data) // 2] ^= 2
    if damage == "cut":
        del data[-3:]
    if damage == "more":
        data += b"x"
    path.write_bytes(data)
    if damage == "missing":
        path.unlink()
    with pytest.raises(BadRun) as caught:
        open_corpus(damaged)
    if (name, damage) == (MANIFEST, "missing"):
        assert f"{damaged} is not a corpus" in str(caught.value)
    else:
        assert str(path) in str(caught.value)
        assert str(caught.value).endswith(f"delete {damaged} to prepare it again")
    if damage in ("cut", "more") and name != MANIFEST:
        size = len(data) + {"cut": 3, "more": -1}[damage]
        assert f"it has {len(data):,} bytes, expected {size:,}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("train.source.offsets", 0, 1, "do not increase"),
        ("train.source.offsets", 3, 0, "do not increase"),
        ("train.target.offsets", -1, 5, "do not increase"),
    ],
)
def test_offsets_that_do_not_increase_are_refused(
    damaged: Path, name: str, place: int, value: int, message: str
) -> None:
    """Even if the hashes match: no sentence may reach beyond the end of the tokens."""
    data = np.fromfile(damaged / name, "<u2" if "tokens" in name else "<i8")
    data[place] = value
    data.tofile(damaged / name)
    reseal(damaged)
    with pytest.raises(BadRun, match=message) as caught:
        open_corpus(damaged)
    assert str(damaged / name.replace("offsets", "")) in str(caught.value)


def test_offsets_whose_differences_overflow_are_refused(damaged: Path) -> None:
    data = np.fromfile(damaged / "train.source.offsets", "<i8")
    data[1:5] = [2**62, 2**63 - 1, -(2**63), -(2**62)]
    assert np.all(np.diff(data) > 0)
    data.tofile(damaged / "train.source.offsets")
    reseal(damaged)
    with pytest.raises(BadRun, match="do not increase"):
        open_corpus(damaged)


@pytest.mark.parametrize("name", ["train.source.tokens", "valid.target.offsets"])
@pytest.mark.parametrize("size", [0, 1, 8])
def test_files_of_a_wrong_size_are_refused_even_if_the_manifest_agrees(
    damaged: Path, name: str, size: int
) -> None:
    (damaged / name).write_bytes(bytes(size))
    reseal(damaged)
    with pytest.raises(BadRun, match=r"is damaged"):
        open_corpus(damaged)


def reseal(folder: Path, **changes: Any) -> None:
    """Make a manifest agree with files that were changed."""
    manifest = read_checksummed(folder / MANIFEST, 1, "corpora")
    for name in manifest["files"]:
        path = folder / name
        manifest["files"][name] = {"size": path.stat().st_size, "sha256": sha256(path)}
    write_checksummed(folder / MANIFEST, {**manifest, **changes})


def test_a_manifest_that_does_not_fit_its_files_is_refused(
    damaged: Path, prepared_corpus: tuple[list[Pair], Path]
) -> None:
    manifest = open_corpus(prepared_corpus[1]).manifest
    counts = dataclasses.asdict(manifest.train)
    for changes, message in (
        ({"train": {**counts, "pairs": counts["pairs"] - 1}}, "do not all have 296 sentences"),
        ({"vocabulary": [399, 400]}, "has other subwords than the manifest says"),
        ({"train": {}}, "manifest.json is damaged"),
        ({"train": {**counts, "pairs": "296"}}, "manifest.json is damaged"),
        ({"train": {**counts, "dropped": 0.5}}, "manifest.json is damaged"),
        ({"vocabulary": [400]}, "manifest.json is damaged"),
        ({"token_type": "O"}, "manifest.json is damaged"),
        ({"files": {}}, "manifest.json is damaged"),
        ({"files": {**manifest.files, "subwords.json": 1}}, "manifest.json is damaged"),
        ({"format": 2}, "has format 2: expected 1"),
    ):
        reseal(damaged, **changes)
        with pytest.raises(BadRun, match=message):
            open_corpus(damaged)
        (damaged / MANIFEST).write_bytes((prepared_corpus[1] / MANIFEST).read_bytes())


def test_the_manifest_records_the_inputs(prepared_corpus: tuple[list[Pair], Path]) -> None:
    folder = prepared_corpus[1]
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    (text,) = manifest["inputs"]
    assert text["path"] == str((folder.parent / "text.tsv").resolve())
    assert text["size"] == (folder.parent / "text.tsv").stat().st_size
    assert text["sha256"] == sha256(folder.parent / "text.tsv")


def test_preparing_needs_no_torch() -> None:
    code = "import sys, transduce.corpus.token_files; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
