"""Data sets of other libraries: sacreBLEU's test sets and mtdata's index."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import faulty_server as faults
import pytest
from faulty_server import Faulty
from small_data_sets import SENTENCES, lines, packed_as, pairs_in, quick, stock

from transduce.datasets import libraries, retrieval
from transduce.errors import BadInput, MissingExtra


@pytest.fixture
def server() -> Iterator[Faulty]:
    with faults.running() as running:
        yield running


def test_a_test_set_of_sacrebleu_is_read_from_its_archives(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(server, monkeypatch)
    got = quick("sacrebleu:iwslt17:de-en", tmp_path / "got")
    assert got.train is None
    assert got.valid is None
    assert got.test == (tmp_path / "got" / "test.de", tmp_path / "got" / "test.en")
    assert len(lines(got.test[0])) == SENTENCES


def test_wmt_test_sets_until_2020_are_supported_and_others_refused() -> None:
    from sacrebleu.dataset import DATASETS

    refused = set()
    for name, pair in [(name, pair) for name, test in DATASETS.items() for pair in test.langpairs]:
        try:
            libraries.from_sacrebleu(name, pair)
        except BadInput:
            refused.add(name)
    assert not {f"wmt{year:02}" for year in range(8, 21)} & refused
    with pytest.raises(BadInput, match="with `sacrebleu -t wmt24 -l en-de --echo src ref`"):
        libraries.from_sacrebleu("wmt24", "en-de")


def test_a_data_set_of_mtdata_is_downloaded(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index is in its package; only a few lines of OPUS are read here, to be fast."""
    pytest.importorskip("mtdata")
    index = tmp_path / "opus.tsv"
    index.write_text("Books\tv1\tde\ten\nBooks\tv1\ten\tfr\nTatoeba\tv2023-04-12\tde\ten\n")
    with libraries._quiet():
        opus_index = importlib.import_module("mtdata.index.opus.opus_index")
    monkeypatch.setattr(opus_index, "data_file", index)
    monkeypatch.setattr(libraries, "OPUS", ("opus.opus_index",))
    name = "mtdata:OPUS-books-v1-deu-eng"
    content = packed_as("a.zip", {"Books.de-en.de": b"ein Buch\n", "Books.de-en.en": b"a book\n"})
    server.serve("OPUS-books-v1-deu-eng.books.zip", content)
    got = quick(name, tmp_path / "got", mirrors=[server.address])
    assert got.languages == ("de", "en")
    assert pairs_in(got.folder, "train", got.languages) == [("ein Buch", "a book")]
    with pytest.raises(BadInput, match=r"Did you mean mtdata:OPUS-books-v1-deu-eng\?"):
        retrieval.resolve("mtdata:OPUS-book-v1-deu-eng")


def test_formats_of_mtdata_are_read_or_refused() -> None:
    pytest.importorskip("mtdata")
    europarl = retrieval.resolve("mtdata:Statmt-europarl-9-deu-eng")
    locations = europarl.sources["train"][0].locations
    assert [(location.member, location.column) for location in locations] == [("", 0), ("", 1)]
    assert next(iter(europarl.archives.values())).urls[0].endswith("europarl-v9.de-en.tsv.gz")
    with pytest.raises(BadInput, match=r"unsupported format \(tgz, wmt21xml\)"):
        retrieval.resolve("mtdata:Statmt-newsdev_isen-2021-isl-eng")


def test_a_missing_mtdata_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtdata.index", None)
    with pytest.raises(MissingExtra, match=r"pip install 'transduce\[data\]'"):
        retrieval.resolve("mtdata:OPUS-books-v1-deu-eng")
