"""Several processes learn the same as one, only the first writes, and any of them may die.

These tests start torchrun with gloo on the CPU.
"""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import (
    Result,
    snapshot,
    tiny_pairs,
    write_pairs,
)
from torchrun import SETTINGS, STEPS, Files, end, run, run_alone, run_until, start

from transduce.batching.layouts import GroupedLayout
from transduce.checkpoints.checkpoint import load_tensors
from transduce.corpus.token_files import open_corpus
from transduce.runs.folder import checkpoints

RECIPE = """
[data]
source = "train.en"
target = "train.de"
valid = ["valid.en", "valid.de"]
test = ["test.en", "test.de"]
[train]
preset = "tiny"
[evaluate]
beam = 1
[settings]
"""
# Only the second process could pack; prints the sentences that each learns in an update.
DIFFERENT = """
import sys
import numpy as np
from torch import distributed as dist
from models import pairs_of, part_of, small_model
from transduce.training import gradient
from transduce.corpus.updates import DataPosition
from transduce.config import TrainConfig
from transduce.training.distributed.processes import Processes

dist.init_process_group("gloo")
rank = dist.get_rank()
gradient.choose_path = lambda *_: (rank == 1, "bf16" if rank else "float32")
part = part_of(pairs_of([(3 + n % 9, 3 + n % 5) for n in range(40)]))
messages = []
config = TrainConfig(batch_tokens=400)
processes = Processes(rank, 2, 2)
gradient_step = gradient.GradientStep(
    small_model(max_len=64), config, part, processes, messages.append
)
gradient_step.prepare(np.arange(40), DataPosition(0, 1), 0.5)
pieces = gradient_step.layout.micro_batches(np.arange(40))[rank::2]
learned = sorted(int(number) for piece in pieces for number in piece)
with open(f"{sys.argv[1]}.{rank}", "w") as file:
    print(gradient_step.path, learned, len(messages), sep="|", file=file)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def alone(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process, never interrupted."""
    return run_alone(tiny_files, tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="module")
def pair(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The run of two processes, and their output."""
    out = tmp_path_factory.mktemp("pair") / "run"
    return out, run(tiny_files, out, 2)


def require_equal(run: Path, reference: Path) -> None:
    """Compare the last checkpoints: weights and Adam's moments, which show the gradients."""
    weights, expected = last(run, "weights"), last(reference, "weights")
    far = max((weights[name] - expected[name]).abs().max().item() for name in weights)
    moments, expected = last(run, "optimizer"), last(reference, "optimizer")
    part = max(
        ((moments[name] - expected[name]).abs().max() / expected[name].abs().max()).item()
        for name in moments.keys() - {"random"}
    )
    print(f"weights differ by {far:.1e}, moments by {part:.1e} of the largest")  # noqa: T201
    assert far < 1e-6
    assert part < 1e-5


def last(run: Path, kind: str) -> dict[str, torch.Tensor]:
    """Read the tensors of the last checkpoint."""
    checkpoint = checkpoints(run)[-1]
    assert checkpoint.step == STEPS
    return load_tensors(checkpoint.path / f"{kind}.safetensors")


def steps_of(run: Path) -> list[dict[str, float]]:
    """Return the logged metrics without times."""
    timed = ("seconds", "target_tokens_per_second")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines]


def test_two_processes_learn_what_one_learns(alone: Path, pair: tuple[Path, Result]) -> None:
    out, result = pair
    assert result.status == 0, result.stderr
    require_equal(out, alone)


@pytest.mark.long
def test_two_processes_learn_the_same_with_muon(tiny_files: Files, tmp_path: Path) -> None:
    changes = {"optimizer": "muon", "schedule": "constant"}
    alone = run_alone(tiny_files, tmp_path / "alone", **changes)
    result = run(tiny_files, tmp_path / "run", 2, **changes)
    assert result.status == 0, result.stderr
    require_equal(tmp_path / "run", alone)


@pytest.mark.long
def test_two_processes_learn_what_one_learns_with_regularisation(
    tiny_files: Files, tmp_path: Path
) -> None:
    """With this cutoff all words are cut off, so nothing is random."""
    settings = {"simcut": "3", "cutoff": "0.99999999", "weight_decay": "0.1", "ema": "0.9"}
    alone = run_alone(tiny_files, tmp_path / "alone", **settings)
    result = run(tiny_files, tmp_path / "run", 2, **settings)
    assert result.status == 0, result.stderr
    require_equal(tmp_path / "run", alone)
    assert all(record["divergence"] > 0 for record in steps_of(alone) if "loss" in record)


@pytest.mark.long
def test_two_processes_learn_the_same_in_more_micro_batches(
    tiny_files: Files, alone: Path, tmp_path: Path
) -> None:
    result = run(tiny_files, tmp_path / "run", 2, accumulate="2")
    assert result.status == 0, result.stderr
    require_equal(tmp_path / "run", alone)


@pytest.mark.long
def test_three_processes_learn_the_same_if_some_have_no_micro_batch(
    tiny_files: Files, tmp_path: Path
) -> None:
    """Some compute fewer micro-batches than others, or none."""
    changes = {"batch_tokens": "90", "accumulate": "2"}
    alone = run_alone(tiny_files, tmp_path / "alone", **changes)
    layout = GroupedLayout(open_corpus(alone / "corpus").train, 90, 3 * 2)
    updates = layout.updates(np.random.default_rng([1, 0]))[:STEPS]
    assert {2, 5} <= {len(layout.micro_batches(update)) for update in updates}
    result = run(tiny_files, tmp_path / "run", 3, **changes)
    assert result.status == 0, result.stderr
    require_equal(tmp_path / "run", alone)
    require_same_log(tmp_path / "run", alone)


def require_same_log(run: Path, reference: Path, *, without: int = 0) -> None:
    """Require that both logs have the same steps and losses, except the step `without`."""
    left, right = steps_of(run), steps_of(reference)
    right = [line for line in right if line["step"] != without]
    assert [line.keys() for line in left] == [line.keys() for line in right]
    for line, expected in zip(left, right, strict=True):
        assert line == pytest.approx(expected, rel=2e-6, abs=2e-6)  # source use is near 0


def test_only_the_first_process_writes(alone: Path, pair: tuple[Path, Result]) -> None:
    out, _ = pair
    assert snapshot(out).keys() == snapshot(alone).keys()
    trained = [line["step"] for line in steps_of(out) if "loss" in line]
    assert trained == list(range(1, STEPS + 1))
    require_same_log(out, alone)


def test_only_the_first_process_prints_and_without_warnings(pair: tuple[Path, Result]) -> None:
    _, result = pair
    lines = result.stderr.splitlines()
    assert len(lines) == len(set(lines)), result.stderr
    assert "computing on cpu, 2 processes: grouped, float32" in lines
    assert lines[-1].startswith("translate with: ")
    assert "Warning" not in result.stderr


@pytest.fixture(scope="module")
def stopped(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A run of two processes that was stopped by Ctrl-C after step 7."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    return out, run_until(tiny_files, out, 2, f"1 7 {signal.SIGINT:d} torchrun")


def test_ctrl_c_stops_all_after_a_step(stopped: tuple[Path, Result]) -> None:
    out, result = stopped
    assert result.status != 0
    assert result.stderr.count("stopped after step 7; everything is saved") == 1, result.stderr
    assert [(checkpoint.step, checkpoint.scheduled) for checkpoint in checkpoints(out)] == [
        (5, True),
        (7, False),
    ]


@pytest.mark.parametrize("processes", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_stopped_run_resumes_with_another_number_of_processes(
    processes: int, stopped: tuple[Path, Result], alone: Path, tiny_files: Files, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(stopped[0], tmp_path / "run"))
    resume(tiny_files, out, processes)
    assert checkpoints(out)[-1].step == checkpoints(alone)[-1].step
    require_equal(out, alone)
    require_same_log(out, alone)


def resume(files: Files, out: Path, processes: int) -> None:
    if processes == 1:
        run_alone(files, out)
    else:
        result = run(files, out, processes)
        assert result.status == 0, result.stderr
        assert "resuming from step" in result.stderr


def test_if_any_process_dies_the_others_end_and_the_run_resumes(
    alone: Path, tiny_files: Files, tmp_path: Path
) -> None:
    """The first one, if it is alive, saves before it ends."""
    out = tmp_path / "run"
    first = run_until(tiny_files, out, 2, f"0 7 {signal.SIGKILL:d} itself")
    require_lost(first, 0)
    assert [(checkpoint.step, checkpoint.scheduled) for checkpoint in checkpoints(out)] == [
        (5, True)
    ]
    second = run_until(tiny_files, out, 2, f"1 12 {signal.SIGKILL:d} itself")
    require_lost(second, 1)
    assert "resuming from step 5" in second.stderr
    saved = [(checkpoint.step, checkpoint.scheduled) for checkpoint in checkpoints(out)]
    assert saved == [(5, True), (10, True), (12, False)]
    resume(tiny_files, out, 1)
    require_equal(out, alone)
    require_same_log(out, alone, without=12)  # half of its losses are lost


def require_lost(result: Result, rank: int) -> None:
    assert result.status != 0
    assert result.stderr.count(f"error: the process of rank {rank} (pid ") == 1, result.stderr
    assert result.stderr.count(") has ended or cannot be reached: the last checkpoint ") == 1
    assert result.stderr.count("error: ") == 1, result.stderr
    assert "rank0" not in result.stderr  # a traceback would contain it


def test_unusable_text_is_reported_once_and_all_end(tiny_files: Files, tmp_path: Path) -> None:
    result = run((Path("there.en"), tiny_files[1]), tmp_path / "run", 2)
    assert result.status != 0
    assert result.stderr.count("error: there.en does not exist: expected a text file\n") == 1
    assert result.stderr.count("error: ") == 1, result.stderr  # torchrun adds its own messages


def test_all_follow_a_recipe_and_only_the_first_evaluates(tmp_path: Path) -> None:
    for part, count in (("train", 100), ("valid", 5), ("test", 6)):
        write_pairs(tmp_path, part, tiny_pairs(count, seed=count))
    settings = "".join(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
    recipe, out = tmp_path / "mine.toml", tmp_path / "run"
    recipe.write_text(RECIPE + settings, encoding="utf-8")
    words = ["train", "--recipe", str(recipe), "--out", str(out), "--steps", "2"]
    stderr = tmp_path / "stderr"
    result = end(start(2, ["-m", "transduce", *words], stderr), stderr)
    assert result.status == 0, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == len(set(lines)), result.stderr
    assert "computing on cpu, 2 processes: grouped, float32" in lines
    assert any(line.startswith("on 6 sentences of ") for line in lines), result.stderr
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert (evaluation["sentences"], evaluation["search"]["beam"]) == (6, 1)
    assert len((out / "test.hyp").read_text(encoding="utf-8").splitlines()) == 6
    assert (out / "recipe.toml").read_bytes() == recipe.read_bytes()


def test_a_mistyped_option_is_reported_once_and_all_end(tmp_path: Path) -> None:
    stderr = tmp_path / "stderr"
    result = end(start(2, ["-m", "transduce", "train", "--stepps", "3"], stderr), stderr)
    assert result.status != 0
    assert result.stderr.count("No such option: --stepps") == 1, result.stderr
    assert "Try 'python -m transduce train -h' for help." in result.stderr


def test_processes_choose_a_path_that_all_of_them_support(tmp_path: Path) -> None:
    """Otherwise some sentences would be learned twice and others not at all."""
    program, stderr = tmp_path / "program.py", tmp_path / "stderr"
    program.write_text(DIFFERENT)
    torchrun = start(2, [str(program), str(tmp_path / "out")], stderr, tests=True)
    result = end(torchrun, stderr)
    assert result.status == 0, result.stderr
    paths, learned, message_counts = zip(
        *((tmp_path / f"out.{rank}").read_text().strip().split("|") for rank in range(2)),
        strict=True,
    )
    assert paths == ("grouped, float32",) * 2
    assert sorted(n for numbers in learned for n in json.loads(numbers)) == list(range(40))
    assert message_counts == ("0", "1"), "the one that could do better says why it does not"
