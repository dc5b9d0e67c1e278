"""What `transduce bench` measures is the same work on both sides, and it says on what."""

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CommandLine, options, threads_kept

from transduce.batches import make_batch
from transduce.bench import training
from transduce.bench.hardware import processor
from transduce.bench.huggingface import HuggingFace, Padded
from transduce.bench.sides import WARM_UP, Round, Seen, Worker, measure
from transduce.bench.training import Comparison, Measured, Ours
from transduce.corpus import open_corpus
from transduce.errors import BadRun, TransduceError

TINY = {
    "N": "2",
    "d_model": "16",
    "d_ff": "32",
    "h": "2",
    "d_k": "8",
    "d_v": "8",
    "batch_tokens": "300",
    "threads": "1",
}


@dataclass(frozen=True)
class Measurement:
    """One real run of the command, which the tests share, for it takes seconds."""

    comparison: Comparison
    peer: Measured
    output: str
    corpus: Path


@pytest.fixture(scope="module")
def measurement(
    tiny_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Measurement:
    from transduce.cli import main

    corpus = tmp_path_factory.mktemp("bench") / "corpus"
    command = ["transduce", "bench", "train", *map(str, tiny_files), *options(TINY)]
    command += ["--steps", "2", "--rounds", "2", "--vocabulary", "300", "--device", "cpu"]
    compare, kept, output = training.compare, [], io.StringIO()

    def keeping(*arguments: Any, **named: Any) -> Comparison:
        kept.append(compare(*arguments, **named))
        return kept[-1]

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(training, "compare", keeping)
        patch.setattr(sys, "argv", [*command, "--corpus", str(corpus)])
        with pytest.raises(SystemExit, match="0"):
            main()
    (comparison,) = kept
    assert comparison.peer is not None
    return Measurement(comparison, comparison.peer, output.getvalue(), corpus)


def number(row: str, text: str) -> float:
    """Return the first number of the row of a table that begins with a name."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{row} "))
    return float(line.split()[1].replace(",", ""))


def test_the_command_prints_a_row_for_each_side_and_their_ratio(measurement: Measurement) -> None:
    output = measurement.output
    ours, peer = number("transduce", output), number("huggingface", output)
    assert number("ratio", output) == pytest.approx(ours / peer, abs=0.01)
    assert f"{measurement.peer.parameters:,}" in output
    assert f"torch {torch.__version__}" in output
    assert f"cpu, 1 thread, {processor()}" in output


def test_json_holds_what_a_reader_needs_to_judge_the_numbers(
    measurement: Measurement, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "compare", lambda *_, **__: measurement.comparison)
    found = json.loads(cli("bench", "train", "text.en", "text.de", "--json").stdout)
    for side in (found["ours"], found["peer"]):
        assert side["lowest"] <= side["target_tokens_per_second"] <= side["highest"]
        assert side["milliseconds_per_step"] > 0
        assert len(side["rounds"]) == found["rounds"] == 2
    assert found["ratio_lowest"] <= found["ratio"] <= found["ratio_highest"]
    assert found["ours"]["padding"] == 0 < found["peer"]["padding"] < 1
    assert (found["steps"], found["warm_up"], found["precision"]) == (2, WARM_UP, "float32")
    assert (found["model"]["d_model"], found["train"]["batch_tokens"]) == (16, 300)
    assert {"device", "processor", "cores", "threads"} <= found["machine"].keys()
    assert {"torch", "transformers", "transduce"} <= found["machine"]["versions"].keys()


def test_both_sides_train_on_the_same_number_of_target_tokens(measurement: Measurement) -> None:
    tokens = [one.target_tokens for one in measurement.comparison.ours.rounds]
    assert tokens == [one.target_tokens for one in measurement.peer.rounds]
    assert all(0 < count <= 2 * 300 for count in tokens)  # two steps of at most 300 tokens


def test_the_peer_has_our_shape_but_for_the_biases_of_its_projections(
    measurement: Measurement,
) -> None:
    attentions = 2 + 2 * 2  # one in each layer of the encoder, two in each of the decoder
    biases = attentions * 4 * 16
    assert measurement.peer.parameters - measurement.comparison.ours.parameters == biases


@pytest.mark.parametrize("accumulate", [1, 2])
def test_both_sides_make_the_same_steps(
    measurement: Measurement, accumulate: int, tmp_path: Path
) -> None:
    """The peer's rows are pairs of the corpus, as many as the trainer's step takes."""
    config = measurement.comparison.config
    config = replace(config, train=config.train.replace(accumulate=accumulate, clip=1.0))
    part = open_corpus(measurement.corpus).train
    pairs = [
        tuple(tuple(side.tolist()) for side in pair) for pair in map(part.pair, range(len(part)))
    ]
    with threads_kept():
        ours = Ours(config, measurement.corpus, "cpu", tmp_path)
        peer = HuggingFace(config, measurement.corpus, "cpu")
        peer.prepare(1)
        batches, seen = peer.waiting[0]
        before = [parameter.clone() for parameter in peer.model.parameters()]
        with ours.trainer.metrics:
            assert ours.step().target_tokens == peer.step().target_tokens == seen.target_tokens
    assert len(batches) == accumulate
    for batch in batches:
        for row in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
            assert tuple(tuple(filter(None, side)) for side in row) in pairs
    changed = [
        not torch.equal(one, other)
        for one, other in zip(before, peer.model.parameters(), strict=True)
        if other.requires_grad
    ]
    assert all(changed)


def test_padding_is_the_share_of_cells_without_a_token() -> None:
    """Sources of 2 and 3 tokens, targets of 4 and 2, in rows of 3 and 4: 11 of 14 cells."""
    pairs = [(np.array([9, 2]), np.array([5, 6, 7, 2])), (np.array([8, 8, 2]), np.array([5, 2]))]
    padded = Padded.of(make_batch(pairs))
    assert padded.source.tolist() == [[8, 8, 2], [9, 2, 0]]
    assert padded.labels.tolist() == [[5, 2, 0, 0], [5, 6, 7, 2]]
    assert padded.target.tolist() == [[1, 5, 0, 0], [1, 5, 6, 7]]
    assert padded.seen() == Seen(target_tokens=6, cells=14, padding=3)


class Counting:
    """A side that does nothing but tell what it was asked."""

    parameters = 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def prepare(self, steps: int) -> None:
        self.asked.append(f"prepare {steps}")

    def step(self) -> Seen:
        self.asked.append("step")
        return Seen(target_tokens=10, cells=40, padding=10)

    def synchronise(self) -> None:
        self.asked.append("synchronise")


def test_a_round_warms_up_and_waits_for_the_device_before_it_reads_the_clock() -> None:
    side = Counting()
    found = measure(side, 3)
    warm_up, steps = ["step"] * WARM_UP, ["step"] * 3
    assert side.asked == [
        *(f"prepare {WARM_UP + 3}", *warm_up, "synchronise", *steps, "synchronise")
    ]
    assert (found.steps, found.target_tokens, found.padding) == (3, 30, 0.25)


def test_the_middle_round_speaks_for_a_side(measurement: Measurement) -> None:
    rounds = [Round(2, seconds, 100, 0.5) for seconds in (1.0, 10.0, 0.5)]
    slow = Measured("slow", 1, tuple(rounds))
    fast = Measured("fast", 1, tuple(replace(one, seconds=one.seconds / 2) for one in rounds))
    facts = slow.to_json()
    assert (facts["target_tokens_per_second"], facts["milliseconds_per_step"]) == (100, 500)
    assert (facts["lowest"], facts["highest"]) == (10, 200)
    assert replace(measurement.comparison, ours=fast, peer=slow).ratio == 2


def test_without_a_peer_there_is_no_ratio(measurement: Measurement) -> None:
    alone = replace(measurement.comparison, peer=None)
    assert alone.to_json()["peer"] is alone.to_json()["ratio"] is None
    assert "ratio" not in str(alone)


def test_an_unknown_peer_is_one_sentence_with_the_nearest_name(cli: CommandLine) -> None:
    assert cli("bench", "train", "text.en", "text.de", "--peer", "hugingface").error == (
        "there is no peer hugingface. Did you mean huggingface? The peers are: huggingface, none"
    )


@pytest.mark.parametrize(
    ("setting", "found", "expected"),
    [
        ("d_k=16", "h = 4, d_k = 16", "h * d_k = h * d_v = d_model, which is 256"),
        ("d_v=16", "h = 4, d_v = 16", "h * d_k = h * d_v = d_model, which is 256"),
        ("positions=learned", "positions = 'learned'", "'sinusoidal'"),
        ("tie=none", "tie = 'none'", "'all'"),
        ("joint=false", "joint = false", "true"),
    ],
)
def test_a_shape_that_the_peer_cannot_have_is_refused_before_any_work(
    cli: CommandLine, setting: str, found: str, expected: str
) -> None:
    assert cli("bench", "train", "text.en", "text.de", "--set", setting).error == (
        f"the peer huggingface cannot have {found}: expected {expected}; "
        "--peer none measures without it"
    )


def test_a_missing_library_is_named_with_its_remedy(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert cli("bench", "train", "text.en", "text.de").error == (
        "--peer huggingface needs transformers, which is not installed: "
        "pip install 'transduce[huggingface]'"
    )


@pytest.mark.parametrize(
    ("make", "argument", "kind", "words"),
    [
        (open_corpus, Path("nowhere"), BadRun, "nowhere holds no corpus"),
        (int, "seven", RuntimeError, "invalid literal"),
        (bytearray, 1 << 60, MemoryError, "^$"),
        (os._exit, 9, TransduceError, r"that measures ours ended \(status 9\)"),
    ],
)
def test_what_ends_a_side_is_said_by_the_one_who_asked(
    make: Any, argument: Any, kind: type[Exception], words: str
) -> None:
    with Worker("ours", make, argument) as worker, pytest.raises(kind, match=words):
        worker.parameters()


def test_a_side_that_dies_between_rounds_is_one_sentence() -> None:
    make: Any = int
    with Worker("ours", make, "seven") as worker:
        worker.process.join()
        with pytest.raises(RuntimeError, match="invalid literal"):
            worker.parameters()
        with pytest.raises(TransduceError, match="try a smaller batch_tokens"):
            worker.measure(1)


def test_the_processor_is_named_where_the_system_tells(tmp_path: Path) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor\t: 0\nmodel name\t: Abacus 3000\n", encoding="utf-8")
    assert processor(listing) == "Abacus 3000"
    assert processor(tmp_path / "none")


def test_neither_help_nor_a_starting_process_waits_for_torch() -> None:
    code = "import sys, transduce.cli, transduce.bench.sides; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
