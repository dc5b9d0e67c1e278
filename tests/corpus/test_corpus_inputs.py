"""Texts that change, that cannot be used, and that come through a pipe."""

import contextlib
import io
import lzma
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_corpora import (
    TRAIN,
    Listener,
    Pair,
    decode_pairs,
    make,
    make_pairs,
    write_tsv,
)

from transduce.corpus import encoding
from transduce.corpus.token_files import MANIFEST, TOKEN_FILES, open_corpus
from transduce.errors import BadInput, BadRun
from transduce.system.progress import Advance


@pytest.fixture
def damaged(prepared_corpus: tuple[list[Pair], Path], tmp_path: Path) -> Path:
    """Return a copy of the corpus to damage."""
    return Path(shutil.copytree(prepared_corpus[1], tmp_path / "corpus"))


def test_the_same_text_and_settings_are_not_prepared_again(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", make_pairs(30))
    folder = tmp_path / "corpus"
    make(text, folder)
    before = (folder / MANIFEST).stat().st_mtime_ns

    def is_reused(**changes: Any) -> bool:
        nonlocal before
        listener = Listener()
        make(text, folder, progress=listener, **changes)
        same = (folder / MANIFEST).stat().st_mtime_ns == before
        before = (folder / MANIFEST).stat().st_mtime_ns
        assert same == any("using the corpus in" in line for line in listener.lines)
        assert same == (not listener.done)
        return same

    assert is_reused()
    os.utime(text, ns=(1, 1))  # another time, the same text
    assert is_reused()
    write_tsv(text, make_pairs(29))
    assert not is_reused()
    assert is_reused()
    same_size = text.read_bytes().replace(b"Hund", b"Bund")
    text.write_bytes(same_size)
    assert not is_reused()
    then = text.stat().st_mtime_ns
    write_tsv(text, make_pairs(28))
    os.utime(text, ns=(then, then))  # the same time, another text
    assert not is_reused()
    for change in (
        {"train": TRAIN.replace(vocabulary=300)},
        {"train": TRAIN.replace(max_skew=5)},
        {"train": TRAIN.replace(seed=9)},
        {"train": TRAIN.replace(joint=False)},
        {"max_len": 99},
        {"languages": ("en", "fr")},
    ):
        assert not is_reused(**change)
        assert is_reused(**change)
        assert not is_reused()
    assert is_reused(train=TRAIN.replace(steps=5, batch_tokens=77)), (
        "these settings do not affect the corpus"
    )


def test_with_validation_text_the_corpus_does_not_depend_on_the_seed(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", make_pairs(30))
    valid = (write_tsv(tmp_path / "valid.tsv", make_pairs(3, seed=5)), None)
    make(text, tmp_path / "corpus", valid=valid)
    listener = Listener()
    make(text, tmp_path / "corpus", valid=valid, train=TRAIN.replace(seed=7), progress=listener)
    assert "using the corpus" in listener.lines[0]
    write_tsv(tmp_path / "valid.tsv", make_pairs(4, seed=5))
    assert len(make(text, tmp_path / "corpus", valid=valid).valid) == 4


def test_preparing_over_a_damaged_corpus_says_what_to_do(damaged: Path, tmp_path: Path) -> None:
    (damaged / TOKEN_FILES[0]).write_bytes(b"rubbish")
    text = write_tsv(tmp_path / "text.tsv", make_pairs(30))
    with pytest.raises(BadRun, match="delete"):
        make(text, damaged)


def test_a_folder_that_is_not_a_corpus_is_never_replaced(damaged: Path, tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", make_pairs(30))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadInput, match="file is a file: expected a folder"):
        make(text, tmp_path / "file")
    with pytest.raises(BadInput, match="is not part of a corpus"):
        make(text, tmp_path)
    (damaged / "thesis.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"holds thesis\.txt, which is not part of a corpus"):
        make(text, damaged)
    assert text.exists()
    assert (damaged / "thesis.txt").read_text() == "mine"
    (damaged / "thesis.txt").unlink()
    (damaged / MANIFEST).unlink()
    with pytest.raises(BadInput, match="is not part of a corpus"):
        make(text, damaged)
    (tmp_path / "empty").mkdir()
    assert len(make(text, tmp_path / "empty").train) == 29


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"one\teins\ntwo\n", "line 2 has no tab"),
        (b"one\teins\ntwo\tzwei\n\xff\tdrei\n", "line 3 is not UTF-8"),
        (b"one\teins\n", "has 1 pair with text on both sides: expected at least 2"),
        (b"\t\n \t \n", "has 0 pairs with text on both sides"),
        (
            b"one\teins\none\teins\n",
            "can be used for training: .*1 equal to a held-out",
        ),
        (b"x\t" + b"one " * 500 + b"\ny\t" + b"one " * 500, "can be held out"),
    ],
)
def test_a_text_that_cannot_be_used_leaves_nothing_behind(
    tmp_path: Path, data: bytes, message: str
) -> None:
    text = tmp_path / "text.tsv"
    text.write_bytes(data)
    with pytest.raises(BadInput, match=message):
        make(text, tmp_path / "corpus")
    assert [path.name for path in tmp_path.iterdir()] == ["text.tsv"]


def test_files_that_do_not_exist_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="absent does not exist"):
        make(tmp_path / "absent", tmp_path / "corpus")
    text = write_tsv(tmp_path / "text.tsv", make_pairs(9))
    with pytest.raises(BadInput, match="nowhere does not exist"):
        make(text, tmp_path / "corpus", valid=(tmp_path / "nowhere", None))


def test_validation_text_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    text = write_tsv(tmp_path / "text.tsv", make_pairs(9))
    valid = write_tsv(tmp_path / "valid.tsv", [("", ""), ("ja " * 300, "ja " * 300)])
    with pytest.raises(BadInput, match=r"can be used for validation: .*1 empty, 1 over-long"):
        make(text, tmp_path / "corpus", valid=(valid, None))


def test_a_failed_preparation_keeps_the_old_corpus(damaged: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.tsv"
    text.write_bytes(b"one\teins\n\xff\n")
    with pytest.raises(BadInput):
        make(text, damaged)
    assert len(open_corpus(damaged).train) == 297


@pytest.mark.parametrize("when", ["encoding", "learning subwords"])
def test_a_text_that_changes_while_it_is_read_is_refused(tmp_path: Path, when: str) -> None:
    text = write_tsv(tmp_path / "text.tsv", make_pairs(30))

    class ChangingText(Listener):
        @contextlib.contextmanager
        def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
            if what == when:
                write_tsv(text, make_pairs(30, seed=4))
            yield lambda units: None

    with pytest.raises(BadInput, match="changed while it was being read"):
        make(text, tmp_path / "corpus", progress=ChangingText())
    assert not (tmp_path / "corpus").exists()


def test_standard_input_can_be_prepared(
    prepared_corpus: tuple[list[Pair], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, folder = prepared_corpus
    data = write_tsv(tmp_path / "text.tsv", pairs).read_bytes()

    def piped(data: bytes) -> Listener:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        listener = Listener()
        make("-", tmp_path / "runs" / "corpus", progress=listener)
        return listener

    piped(data)
    for name in TOKEN_FILES:
        assert (tmp_path / "runs" / "corpus" / name).read_bytes() == (folder / name).read_bytes()
    assert "using the corpus" in piped(data).lines[0]
    assert "the texts have changed" in piped(lzma.compress(data.replace(b"Hund", b"Bund"))).lines[0]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["corpus"]
    with pytest.raises(BadInput, match="standard input, line 2 has no tab"):
        piped(b"one\teins\ntwo\n")


def test_pipes_can_be_prepared(tmp_path: Path) -> None:
    pairs = make_pairs(30)
    pipes = [tmp_path / "pipe.en", tmp_path / "pipe.de"]
    writers = []
    for side, pipe in enumerate(pipes):
        os.mkfifo(pipe)
        text = "".join(pair[side] + "\n" for pair in pairs)
        writers.append(threading.Thread(target=pipe.write_text, args=(text, "utf-8"), daemon=True))
        writers[-1].start()
    corpus = make(pipes[0], tmp_path / "corpus", target=pipes[1])
    for writer in writers:
        writer.join()
    assert len(corpus.train) == 29
    assert {*decode_pairs(corpus.train, corpus.codec)} < {*pairs}


def test_progress_reaches_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BATCH_PAIRS", 7)
    text = write_tsv(tmp_path / "text.tsv", make_pairs(30))
    listener = Listener()
    make(text, tmp_path / "corpus", progress=listener)
    assert [*listener.done] == [f"reading {text}", "learning subwords", "encoding"]
    assert {*listener.done.values()} == {30}
    assert listener.lines[0].startswith("learned ")
