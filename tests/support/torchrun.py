"""Trainings by several processes, started by torchrun with gloo on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import Result, environment, options, threads_kept

from transduce.training.train import train

STEPS = 20
# The rates of the paper's first steps are so small that rounding errors do not grow.
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
SECONDS = 180  # for a busy machine
# Sends a signal after a step, to torchrun or to itself, and waits for its effect.
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


def arguments(files: Files, out: Path, changes: dict[str, str]) -> list[str]:
    settings = options(SETTINGS | changes)
    return ["train", *map(str, files), "--out", str(out), "--preset", "tiny", *settings]


def start(
    processes: int, program: list[str], stderr: Path, *, tests: bool = False
) -> subprocess.Popen[bytes]:
    """Start torchrun; with `tests`, the program may import helpers of the tests."""
    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with stderr.open("wb") as file:  # a pipe would stay open in a process that is left over
        return subprocess.Popen(
            [*command, "--nproc-per-node", str(processes), *program, "--device", "cpu"],
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment({"PYTHONPATH": path} if tests else None),
        )


def end(torchrun: subprocess.Popen[bytes], stderr: Path) -> Result:
    try:
        torchrun.wait(SECONDS)
    finally:
        if torchrun.poll() is None:
            torchrun.terminate()  # it ends its processes
            torchrun.wait(SECONDS)
    return Result(torchrun.returncode, "", stderr.read_text())


def run(files: Files, out: Path, processes: int, **changes: str) -> Result:
    """Train with several processes to the end."""
    stderr = out.with_suffix(".stderr")
    program = ["-m", "transduce", *arguments(files, out, changes)]
    return end(start(processes, program, stderr), stderr)


def run_until(files: Files, out: Path, processes: int, signalled: str) -> Result:
    """Train until a process has sent a signal: its rank, the step, the signal, the receiver."""
    stderr, program = out.with_suffix(".stderr"), out.with_suffix(".py")
    program.write_text(SIGNALLED)
    words = [str(program), signalled, *arguments(files, out, {})]
    return end(start(processes, words, stderr), stderr)


def run_alone(files: Files, out: Path, **changes: str) -> Path:
    with threads_kept():
        return train(*files, out=out, preset="tiny", settings=SETTINGS | changes, device="cpu")
