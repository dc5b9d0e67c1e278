"""Errors of `transduce bench train` and of its worker processes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine

from transduce.bench import hardware
from transduce.bench import workers as bench_workers
from transduce.bench.workers import Worker, measure
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadRun, TransduceError


@pytest.fixture(scope="module", autouse=True)
def quick_product() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(256, "float32", 1, 3))
        yield


def test_an_unknown_peer_is_one_sentence_with_the_nearest_name(cli: CommandLine) -> None:
    assert cli("bench", "train", "text.en", "text.de", "--peer", "hugingface").error == (
        "there is no peer hugingface. Did you mean huggingface? "
        "The peers are: huggingface, torch, none"
    )


def test_peer_none_excludes_others(cli: CommandLine) -> None:
    found = cli("bench", "train", "text.en", "text.de", "--peer", "none", "--peer", "torch")
    assert found.error == "--peer none excludes other peers: give it alone, or leave it out"


@pytest.mark.parametrize("peer", ["huggingface", "torch"])
@pytest.mark.parametrize(
    ("setting", "found", "expected"),
    [
        ("d_k=16", "h = 4, d_k = 16", "h * d_k = h * d_v = d_model, which is 256"),
        ("d_v=16", "h = 4, d_v = 16", "h * d_k = h * d_v = d_model, which is 256"),
        ("positions=learned", "positions = 'learned'", "'sinusoidal'"),
        ("tie=none", "tie = 'none'", "'all'"),
        ("joint=false", "joint = false", "true"),
        ("attention=additive", "attention = 'additive'", "the paper's Transformer"),
        ("rdrop=5", "rdrop = 5.0", "the paper's training"),
        ("optimizer=muon", "optimizer = 'muon'", "the paper's training"),
    ],
)
def test_an_unsupported_shape_is_refused_before_any_work(
    cli: CommandLine, peer: str, setting: str, found: str, expected: str
) -> None:
    assert cli("bench", "train", "a.en", "a.de", "--peer", peer, "--set", setting).error == (
        f"the peer {peer} does not support {found}: expected {expected}; "
        "--peer none measures without it"
    )


def test_of_several_presets_each_is_checked_before_any_work(cli: CommandLine) -> None:
    found = cli("bench", "train", "a.en", "a.de", "--preset", "base", "--preset", "B-dk16")
    assert found.error.startswith("the peer huggingface does not support h = 8, d_k = 16")
    found = cli("bench", "train", "a.en", "a.de", "--preset", "base", "--preset", "B-dk61")
    assert found.error.startswith("there is no preset B-dk61. Did you mean B-dk16?")


def test_a_missing_library_is_named_with_its_remedy(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_workers, "installed", lambda _: False)
    assert cli("bench", "train", "text.en", "text.de", "--peer", "huggingface").error == (
        "--peer huggingface needs transformers, which is not installed: "
        "pip install 'transduce[huggingface]'"
    )


def test_by_default_a_missing_library_is_skipped(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_workers, "installed", lambda _: False)
    found = cli("bench", "train", "nowhere.en", "nowhere.de")
    assert found.error.startswith("nowhere.en does not exist")  # it read the text
    assert "transformers is not installed: measuring without a peer" in found.stderr


@pytest.mark.parametrize(
    ("make", "argument", "kind", "words"),
    [
        (open_corpus, Path("nowhere"), BadRun, "nowhere is not a corpus"),
        (int, "seven", RuntimeError, "invalid literal"),
        (bytearray, 1 << 60, MemoryError, "^$"),
        (os._exit, 9, TransduceError, r"that measures ours ended with status 9"),
    ],
)
def test_errors_of_a_worker_reach_the_parent(
    make: Any, argument: Any, kind: type[Exception], words: str
) -> None:
    with Worker("ours", make, argument) as worker, pytest.raises(kind, match=words):
        worker.started()


def test_a_side_that_dies_between_rounds_is_one_sentence() -> None:
    make: Any = int
    with Worker("ours", make, "seven") as worker:
        worker.process.join()
        with pytest.raises(RuntimeError, match="invalid literal"):
            worker.started()
        with pytest.raises(TransduceError, match="try smaller batches or a smaller model"):
            worker.call(measure, 1)


def test_libraries_are_imported_and_the_environment_set_before_a_side_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SET_BY_USER", "kept")
    make: Any = exec
    code = (
        "import os, sys\n"
        "said = os.environ['SET_BY_US'] + ' ' + os.environ['SET_BY_USER']\n"
        "raise OSError(said if 'colorsys' in sys.modules else 'not imported')"
    )
    environment = {"SET_BY_US": "set", "SET_BY_USER": "lost"}
    with (
        Worker("ours", make, code, imports=("colorsys",), environment=environment) as worker,
        pytest.raises(OSError, match=r"^set kept$"),
    ):
        worker.started()


def test_neither_help_nor_a_new_process_imports_torch() -> None:
    code = "import sys, transduce.cli, transduce.bench.workers; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
