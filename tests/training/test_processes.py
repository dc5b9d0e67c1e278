"""Several processes learn what one learns; one of them writes and speaks; none hangs, any may die.

Most tests start torchrun with gloo on the CPU.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import (
    TINY,
    CommandLine,
    Result,
    environment,
    options,
    snapshot,
    threads_kept,
    tiny_pairs,
    write_pairs,
)

from transduce import cli
from transduce.batching.layouts import GroupedLayout
from transduce.checkpoints.checkpoint import load_tensors
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadSetting
from transduce.runs.folder import checkpoints
from transduce.system.processes import cores
from transduce.system.signals import ignore_signals, signals_as_interrupt, stop_signals
from transduce.training.distributed.processes import Processes, _own_gpu, join_processes
from transduce.training.train import train

STEPS = 20
# The rate of the paper's first steps is small enough for rounding to stay what it is.
SETTINGS = {
    "N": "1",
    "d_model": "32",
    "d_ff": "64",
    "h": "2",
    "d_k": "16",
    "d_v": "16",
    "P_drop": "0",
    "vocabulary": "300",
    "batch_tokens": "400",
    "warmup": "4000",
    "steps": str(STEPS),
    "save_every": "5",
    "validate_every": "10",
    "validate_bleu": "0",
    "log_every": "1",
    "threads": "1",
}
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
PATIENCE = 180  # seconds, for a machine that does much else
# Sends a signal after a step, to torchrun or to itself, and waits for what comes of it.
SIGNALLED = """
import os, signal, sys, time
from transduce.cli import main
from transduce.training.trainer import Trainer

rank, at, number, to = sys.argv.pop(1).split()
update = Trainer.update
came = []

def heard(number, frame):
    came.append(number)
    before(number, frame)

def signalled(self):
    global before
    done = update(self)
    if (self.processes.rank, self.state.step) == (int(rank), int(at)):
        if to == "torchrun":
            before = signal.signal(int(number), heard)
        os.kill(os.getppid() if to == "torchrun" else os.getpid(), int(number))
        while not came:  # torchrun passes it on
            time.sleep(0.01)
        signal.signal(int(number), before)
    return done

Trainer.update = signalled
main()
"""
Files = tuple[Path, Path]


# Makes engines of which only the second could pack; prints what each learns of an update.
DIFFERENT = """
import sys
import numpy as np
from torch import distributed as dist
from models import pairs_of, part_of, small_model
from transduce.training import gradient as engines
from transduce.corpus.updates import DataPosition
from transduce.config import TrainConfig
from transduce.training.distributed.processes import Processes

dist.init_process_group("gloo")
rank = dist.get_rank()
engines.choose = lambda *_: (rank == 1, "bf16" if rank else "float32")
part = part_of(pairs_of([(3 + n % 9, 3 + n % 5) for n in range(40)]))
said = []
recipe = TrainConfig(batch_tokens=400)
processes = Processes(rank, 2, 2)
gradient_step = engines.GradientStep(
    small_model(max_len=64), recipe, part, processes, said.append
)
update = gradient_step.prepare(np.arange(40), DataPosition(0, 1), 0.5)
own = sorted(int(one) for batch in update.batches for one in batch.order)
pieces = gradient_step.layout.micro_batches(np.arange(40))[rank::2]
learned = sorted(int(one) for piece in pieces for one in piece)
with open(f"{sys.argv[1]}.{rank}", "w") as file:
    print(gradient_step.path, learned, len(said), sep="|", file=file)
dist.destroy_process_group()
"""


def arguments(files: Files, out: Path, changes: dict[str, str]) -> list[str]:
    settings = options(SETTINGS | changes)
    return ["train", *map(str, files), "--out", str(out), "--preset", "tiny", *settings]


def start(
    processes: int, program: list[str], stderr: Path, *, tests: bool = False
) -> subprocess.Popen[bytes]:
    """Start torchrun; with `tests`, the program may import what tests share."""
    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with stderr.open("wb") as file:  # a pipe would be kept open by whoever is left over
        return subprocess.Popen(
            [*command, "--nproc-per-node", str(processes), *program, "--device", "cpu"],
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment({"PYTHONPATH": path} if tests else None),
        )


def end(torchrun: subprocess.Popen[bytes], stderr: Path) -> Result:
    try:
        torchrun.wait(PATIENCE)
    finally:
        if torchrun.poll() is None:
            torchrun.terminate()  # it ends its processes
            torchrun.wait(PATIENCE)
    return Result(torchrun.returncode, "", stderr.read_text())


def run(files: Files, out: Path, processes: int, **changes: str) -> Result:
    """Train with several processes to the end."""
    stderr = out.with_suffix(".stderr")
    program = ["-m", "transduce", *arguments(files, out, changes)]
    return end(start(processes, program, stderr), stderr)


def run_until(files: Files, out: Path, processes: int, signalled: str) -> Result:
    """Train until a process has sent a signal: its rank, the step, which signal, to whom."""
    stderr, program = out.with_suffix(".stderr"), out.with_suffix(".py")
    program.write_text(SIGNALLED)
    words = [str(program), signalled, *arguments(files, out, {})]
    return end(start(processes, words, stderr), stderr)


def run_alone(files: Files, out: Path, **changes: str) -> Path:
    with threads_kept():
        return train(*files, out=out, preset="tiny", settings=SETTINGS | changes, device="cpu")


@pytest.fixture(scope="module")
def alone(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes, never stopped."""
    return run_alone(tiny_files, tmp_path_factory.mktemp("alone") / "run")


@pytest.fixture(scope="module")
def pair(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """What two processes make, and what they say."""
    out = tmp_path_factory.mktemp("pair") / "run"
    return out, run(tiny_files, out, 2)


def require_equal(one: Path, other: Path) -> None:
    """Compare the last checkpoints: weights, and Adam's moments, which know a gradient's size."""
    weights, others = (last(run, "weights") for run in (one, other))
    far = max((weights[name] - others[name]).abs().max().item() for name in weights)
    moments, others = (last(run, "optimizer") for run in (one, other))
    part = max(
        ((moments[name] - others[name]).abs().max() / others[name].abs().max()).item()
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
    """Read what was logged, but for what the clock says."""
    timed = ("seconds", "target_tokens_per_second")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines]


def test_two_processes_learn_what_one_learns(alone: Path, pair: tuple[Path, Result]) -> None:
    out, result = pair
    assert result.status == 0, result.stderr
    require_equal(out, alone)


@pytest.mark.long
def test_so_they_do_in_more_pieces(tiny_files: Files, alone: Path, tmp_path: Path) -> None:
    result = run(tiny_files, tmp_path / "run", 2, accumulate="2")
    assert result.status == 0, result.stderr
    require_equal(tmp_path / "run", alone)


@pytest.mark.long
def test_so_do_three_where_updates_have_too_few_sentences_for_all(
    tiny_files: Files, tmp_path: Path
) -> None:
    """Then some compute fewer pieces than others, or none."""
    changes = {"batch_tokens": "90", "accumulate": "2"}
    alone = run_alone(tiny_files, tmp_path / "alone", **changes)
    layout = GroupedLayout(open_corpus(alone / "corpus").train, 90, 3 * 2)
    updates = layout.updates(np.random.default_rng([1, 0]))[:STEPS]
    assert {2, 5} <= {len(layout.micro_batches(update)) for update in updates}
    result = run(tiny_files, tmp_path / "run", 3, **changes)
    assert result.status == 0, result.stderr
    require_equal(tmp_path / "run", alone)
    require_same_log(tmp_path / "run", alone)


def require_same_log(one: Path, other: Path, *, without: int = 0) -> None:
    """Every step stands there once, with the same losses, but for one that may be missing."""
    left, right = steps_of(one), steps_of(other)
    right = [line for line in right if line["step"] != without]
    assert [line.keys() for line in left] == [line.keys() for line in right]
    for line, expected in zip(left, right, strict=True):
        assert line == pytest.approx(expected, rel=2e-6)


def test_only_the_first_writes(alone: Path, pair: tuple[Path, Result]) -> None:
    out, _ = pair
    assert snapshot(out).keys() == snapshot(alone).keys()
    trained = [line["step"] for line in steps_of(out) if "loss" in line]
    assert trained == list(range(1, STEPS + 1))
    require_same_log(out, alone)


def test_only_the_first_speaks_and_nothing_is_amiss(pair: tuple[Path, Result]) -> None:
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
    assert [(one.step, one.scheduled) for one in checkpoints(out)] == [(5, True), (7, False)]


@pytest.mark.parametrize("processes", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_stopped_run_goes_on_with_another_number_of_processes(
    processes: int, stopped: tuple[Path, Result], alone: Path, tiny_files: Files, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(stopped[0], tmp_path / "run"))
    go_on(tiny_files, out, processes)
    assert checkpoints(out)[-1].step == checkpoints(alone)[-1].step
    require_equal(out, alone)
    require_same_log(out, alone)


def go_on(files: Files, out: Path, processes: int) -> None:
    if processes == 1:
        run_alone(files, out)
    else:
        result = run(files, out, processes)
        assert result.status == 0, result.stderr
        assert "going on from step" in result.stderr


def test_whichever_process_dies_the_others_end_and_the_run_goes_on(
    alone: Path, tiny_files: Files, tmp_path: Path
) -> None:
    """The first one, if it lives, saves what it has learned with those that died."""
    out = tmp_path / "run"
    first = run_until(tiny_files, out, 2, f"0 7 {signal.SIGKILL:d} itself")
    require_lost(first, 0)
    assert [(one.step, one.scheduled) for one in checkpoints(out)] == [(5, True)]
    second = run_until(tiny_files, out, 2, f"1 12 {signal.SIGKILL:d} itself")
    require_lost(second, 1)
    assert "going on from step 5" in second.stderr
    kept = [(one.step, one.scheduled) for one in checkpoints(out)]
    assert kept == [(5, True), (10, True), (12, False)]
    go_on(tiny_files, out, 1)
    require_equal(out, alone)
    require_same_log(out, alone, without=12)  # half of its losses died


def require_lost(result: Result, rank: int) -> None:
    assert result.status != 0
    assert result.stderr.count(f"error: the process of rank {rank} (pid ") == 1, result.stderr
    assert result.stderr.count(") has ended or cannot be reached: what was saved ") == 1
    assert result.stderr.count("error: ") == 1, result.stderr
    assert "rank0" not in result.stderr  # whose traceback would begin so


def test_text_that_cannot_be_used_is_refused_once_and_all_end(
    tiny_files: Files, tmp_path: Path
) -> None:
    result = run((Path("there.en"), tiny_files[1]), tmp_path / "run", 2)
    assert result.status != 0
    assert result.stderr.count("error: there.en does not exist: expected a text file\n") == 1
    assert result.stderr.count("error: ") == 1, result.stderr  # torchrun adds words of its own


def test_a_recipe_is_followed_by_all_and_the_first_alone_evaluates(tmp_path: Path) -> None:
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


def test_what_is_mistyped_is_refused_once_and_all_end(tmp_path: Path) -> None:
    stderr = tmp_path / "stderr"
    result = end(start(2, ["-m", "transduce", "train", "--stepps", "3"], stderr), stderr)
    assert result.status != 0
    assert result.stderr.count("No such option: --stepps") == 1, result.stderr
    assert "Try 'python -m transduce train -h' for help." in result.stderr


def test_one_process_agrees_with_itself() -> None:
    one = Processes()
    assert one.first
    assert one.agree(1.5, True) == (1.5, True)
    assert one.agree(2.5, False) == (2.5, False)
    assert one.total(torch.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert one.from_first(lambda: "made") == "made"
    with join_processes(torch.device("cpu")) as (processes, device):
        assert (processes, device) == (one, torch.device("cpu"))


def test_processes_share_the_threads_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [Processes(0, 2, here).share(8) for here in (1, 2, 3, 16)] == [8, 4, 2, 1]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    for told, expected in (("1", 8), ("3", 6), ("", 8)):  # torchrun sets 1 where nothing is set
        monkeypatch.setenv("OMP_NUM_THREADS", told)
        assert cores() == expected


@pytest.fixture
def handlers() -> Iterator[None]:
    """Give signals back their handlers."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_one_of_several_is_asked_however_often_and_ends_undisturbed() -> None:
    """A scheduler's signal may come once more from torchrun, and another when one has ended."""
    with signals_as_interrupt(), stop_signals(several=True) as interrupted:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert interrupted()
        ignore_signals()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)


def test_a_process_with_a_reason_of_its_own_to_end_says_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the first ends for the same reason, torchrun has ended this one before."""
    waited: list[float] = []
    with monkeypatch.context() as patch:
        patch.setenv("LOCAL_RANK", "1")
        patch.setenv("WORLD_SIZE", "2")
        patch.setattr(sys, "argv", ["transduce", "distill", "nowhere", "text", "--out", "run"])
        patch.setattr(time, "sleep", waited.append)
        before = sys.stdout
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, getattr(sys, name))  # to have them back
        with pytest.raises(SystemExit):
            cli.main()
        assert sys.stdout is not before
        sys.stdout.close()
    assert waited == [cli.SECONDS_FOR_FIRST_PROCESS]
    assert "error: there is no run folder nowhere" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [
        ({"LOCAL_RANK": "1"}, ("translate", "RUN")),
        ({"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "2"}, ("translate", "RUN")),
        ({"LOCAL_RANK": "1"}, ("--debug", "info", "RUN")),
        ({"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "2"}, ("--version",)),
    ],
    ids=str,
)
def test_only_commands_that_train_together_leave_speaking_to_the_first_process(
    variables: dict[str, str], arguments: tuple[str, ...], tiny_run: Path, cli: CommandLine
) -> None:
    words = [str(tiny_run) if word == "RUN" else word for word in arguments]
    expected = cli(*words, input="a dog\n")
    assert expected.stdout
    assert cli(*words, input="a dog\n", env=variables).stdout == expected.stdout


def test_one_process_speaks_whatever_its_rank_is_said_to_be(
    tiny_files: tuple[Path, Path], tmp_path: Path, run_cli: CommandLine
) -> None:
    command: list[str | Path] = [
        "train",
        *tiny_files,
        "--out",
        tmp_path / "run",
        "--preset",
        "tiny",
    ]
    found = run_cli(*command, *options(TINY | {"steps": "1"}), env={"LOCAL_RANK": "1", "RANK": "1"})
    assert found.status == 0
    assert " translate " in found.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE = 'two' in the environment: expected a whole number"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE = '0' in the environment: expected a whole number of at"),
        ({"WORLD_SIZE": "-2", "LOCAL_RANK": "1"}, "WORLD_SIZE = '-2' in the environment"),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "one"}, "WORLD_SIZE = 2 but no RANK"),
        ({"LOCAL_WORLD_SIZE": "many"}, "LOCAL_WORLD_SIZE = 'many' in the environment"),
        (
            {"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
            "RANK = 2 and WORLD_SIZE = 2: expected a rank below the number of processes",
        ),
        (
            {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "http"},
            "MASTER_PORT = 'http' in the environment",
        ),
    ],
    ids=str,
)
def test_an_environment_that_torchrun_would_not_make_is_refused(
    variables: dict[str, str],
    message: str,
    tiny_files: tuple[Path, Path],
    tmp_path: Path,
    cli: CommandLine,
) -> None:
    command: list[str | Path] = ["train", *tiny_files, "--out", tmp_path / "run", "--device", "cpu"]
    assert message in cli(*command, env=variables).error
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize("command", ["distill", "translate"])
def test_every_command_refuses_numbers_of_torchrun_that_are_none(
    command: str, tiny_run: Path, tiny_files: tuple[Path, Path], tmp_path: Path, cli: CommandLine
) -> None:
    variable = {"distill": "WORLD_SIZE", "translate": "LOCAL_WORLD_SIZE"}[command]
    out: list[str | Path] = ["--out", tmp_path / "run"] if command == "distill" else []
    gradient_step = ["--engine", "ctranslate2"] if command == "translate" else []
    result = cli(command, tiny_run, tiny_files[0], *out, *gradient_step, env={variable: "two"})
    assert f"{variable} = 'two' in the environment" in result.error


@pytest.mark.parametrize(
    ("own", "processes", "gpus"),
    [(0, 2, 2), (1, 2, 2), (1, 2, 8), pytest.param(0, 8, 1, id="each is shown its own")],
)
def test_each_process_takes_its_own_gpu(
    own: int, processes: int, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = machine_with(gpus, own, processes, monkeypatch)
    assert _own_gpu() == torch.device("cuda", own)
    assert taken == [own]


@pytest.mark.parametrize("own", [0, 1, 2])
def test_more_processes_than_gpus_are_refused(own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = machine_with(2, own, 3, monkeypatch)
    with pytest.raises(BadSetting) as caught:
        _own_gpu()
    assert str(caught.value) == (
        "3 processes were started on a machine with 2 GPUs: "
        "expected at most 2 (torchrun --nproc-per-node), or --device cpu"
    )
    assert not taken


def machine_with(gpus: int, own: int, processes: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Feign a machine, and one of its processes; return the GPUs that it takes."""
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_RANK", str(own))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    return taken


def test_a_world_without_a_place_to_meet_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with (
        pytest.raises(BadSetting, match="WORLD_SIZE = 2 but no RANK"),
        join_processes(torch.device("cpu")),
    ):
        pass


def test_processes_take_the_path_that_all_of_them_can_take(tmp_path: Path) -> None:
    """If each took its own, some sentences would be learned twice and others not at all."""
    program, stderr = tmp_path / "program.py", tmp_path / "stderr"
    program.write_text(DIFFERENT)
    torchrun = start(2, [str(program), str(tmp_path / "out")], stderr, tests=True)
    result = end(torchrun, stderr)
    assert result.status == 0, result.stderr
    paths, learned, said = zip(
        *((tmp_path / f"out.{rank}").read_text().strip().split("|") for rank in range(2)),
        strict=True,
    )
    assert paths == ("grouped, float32",) * 2
    assert sorted(n for own in learned for n in json.loads(own)) == list(range(40))
    assert said == ("0", "1"), "the one that could do better says why it does not"
