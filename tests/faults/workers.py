"""Processes of one training that die, hang or are slow, under torchrun on the CPU.

The rule (`transduce.training.distributed.heartbeat`): a death is noticed at once; a process without
a heartbeat for TRANSDUCE_PATIENCE seconds is killed by the others on its machine. Either way all
processes end, one of them names the lost one, and the same command resumes. The others wait for a
process that is slow for less than that. Prefetching, preparation and translation run in threads,
which die with their process.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from conftest import TINY, environment, options, tiny_pairs, write_pairs

from faults.tally import Tally
from transduce.checkpoints.checkpoint import load_tensors
from transduce.runs.folder import checkpoints

COUNT = 12
PATIENCE = 4.0  # seconds
BOUND = 60.0  # seconds until all have ended after one was lost
SLOW = 2.0  # seconds
SETTINGS = TINY | {"validate_bleu": "0", "log_every": "2", "steps": "20"}
PHASES = ("beginning", "step", "saving", "validation")
# A process sends itself a signal shortly after it has entered a phase for the n-th time.
PROGRAM = """
import os, subprocess, sys, threading, time

rank, phase, times, delay, number, pause, seen = sys.argv.pop(1).split("|")
if os.environ["RANK"] == rank:
    from transduce.training.distributed import processes
    from transduce.training import train as training

    def signalled():
        if float(pause):  # another process must send SIGCONT
            subprocess.Popen(["sh", "-c", f"sleep {pause}; kill -CONT {os.getpid()}"])
        with open(seen, "w") as file:
            file.write(str(time.time()))
        os.kill(os.getpid(), int(number))

    def wrap(owner, name):
        inner, calls = getattr(owner, name), [0]

        def wrapped(*args, **kwargs):
            calls[0] += 1
            if calls[0] == int(times):
                if float(delay):
                    threading.Timer(float(delay), signalled).start()
                else:
                    signalled()
            return inner(*args, **kwargs)

        setattr(owner, name, wrapped)

    trainer = training.Trainer
    wrap(*{
        "beginning": (processes, "_connect"),
        "step": (trainer, "update"),
        "saving": (trainer, "save"),
        "validation": (trainer, "validate"),
    }[phase])

from transduce.cli import main
main()
"""


@dataclass(frozen=True)
class Fault:
    """Which process fails, when and how."""

    kind: str  # death, hang or slowness
    rank: int
    phase: str
    times: int  # the phase was entered
    delay: float  # seconds after that

    @classmethod
    def draw(cls, number: int, draw: random.Random) -> "Fault":
        """Take all kinds and phases in turn, and draw the rest."""
        kind = ("death", "hang", "slowness")[number % 3]
        phase = PHASES[number // 3 % len(PHASES)]
        most = {"beginning": 1, "step": 20, "saving": 4, "validation": 2}[phase]
        return cls(kind, draw.randrange(2), phase, draw.randint(1, most), draw.uniform(0, 0.02))

    def words(self, marker: Path) -> str:
        """Return the argument of the program."""
        number = signal.SIGKILL if self.kind == "death" else signal.SIGSTOP
        pause = SLOW if self.kind == "slowness" else 0.0
        facts = (self.rank, self.phase, self.times, self.delay, int(number), pause, marker)
        return "|".join(map(str, facts))


@dataclass(frozen=True)
class Ended:
    """The result of torchrun."""

    status: int
    stderr: str
    seconds: float  # since the fault, or since the start
    left: int  # processes that did not end with it


class Trial:
    """A text, and the weights that two processes learn from it without faults."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder / f"seed-{seed}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.program = self.folder / "program.py"
        self.program.write_text(PROGRAM, encoding="utf-8")
        self.files = write_pairs(self.folder, "text", tiny_pairs(300))
        self.longest = 0.0

    def run(self, name: str, fault: Fault | None = None) -> Ended:
        """Train with two processes, and wait for the end of torchrun."""
        marker, stderr = self.folder / f"{name}.seen", self.folder / f"{name}.stderr"
        marker.unlink(missing_ok=True)
        program = [str(self.program), fault.words(marker)] if fault else ["-m", "transduce"]
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", *program, "train", *map(str, self.files)),
            *("--out", str(self.folder / name), "--preset", "tiny", "--device", "cpu"),
            *options(SETTINGS),
        ]
        env = environment({"TRANSDUCE_PATIENCE": str(PATIENCE), "TRIAL": str(self.folder)})
        began = time.time()
        with stderr.open("wb") as file:
            torchrun = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, env=env)
        try:
            torchrun.wait(120 + BOUND)
        finally:
            ended, left = time.time(), self.left()
            for pid in left:  # only processes of this trial
                os.kill(pid, signal.SIGKILL)
            status = torchrun.wait()
        since = float(marker.read_text()) if marker.exists() else began
        return Ended(status, stderr.read_text(errors="replace"), ended - since, len(left))

    def left(self) -> list[int]:
        """Return the running processes that this trial has started."""
        mark, found = f"TRIAL={self.folder}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # it has ended, or belongs to another user
                continue
        return found

    def inject_fault(self, fault: Fault, name: str) -> str:
        """Inject a fault; return what is wrong with the result, if anything."""
        ended_run = self.run(name, fault)
        errors = [line for line in ended_run.stderr.splitlines() if line.startswith("error: ")]
        wrong = {
            "no fault was injected": not (self.folder / f"{name}.seen").exists(),
            f"{ended_run.left} processes were left": ended_run.left > 0,
        }
        if fault.kind == "slowness":
            wrong["it ended"] = ended_run.status != 0
        else:
            self.longest = max(self.longest, ended_run.seconds)
            wrong["it continued"] = ended_run.status == 0
            wrong[f"the others took {ended_run.seconds:.0f} s to end"] = ended_run.seconds > BOUND
            # Before they are connected, only torchrun notices a death.
            alone = fault.kind == "death" and fault.phase == "beginning" and not errors
            named = len(errors) == 1 and f"the process of rank {fault.rank} " in errors[0]
            wrong[f"the lost process was not named once: {errors}"] = not (alone or named)
        return "; ".join(words for words, is_wrong in wrong.items() if is_wrong)

    def resume(self, name: str) -> str:
        """Train to the end; return what differs from the run without faults."""
        done = self.run(name)
        if done.status:
            return f"it did not resume: {done.stderr[-2000:]}"
        return "" if learned(self.folder / name) == self.reference() else "the weights differ"

    def reference(self) -> dict[str, bytes]:
        """Return the weights learned without faults."""
        if not (self.folder / "reference").exists():
            done = self.run("reference")
            assert done.status == 0, done.stderr
        return learned(self.folder / "reference")


def learned(run: Path) -> dict[str, bytes]:
    """Return the bytes of the model and of the last checkpoint."""
    last = checkpoints(run)[-1].path
    moments = load_tensors(last / "optimizer.safetensors")
    return {
        "model": (run / "model.safetensors").read_bytes(),
        "weights": (last / "weights.safetensors").read_bytes(),
        **{name: tensor.numpy().tobytes() for name, tensor in moments.items() if name != "random"},
    }


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Inject `count` faults, of each kind and phase in turn."""
    bounded = Tally(
        "processes lost: all end in bounded time, the lost one is named, none is left", seed
    )
    same = Tally("processes lost or slow: the same command ends with identical weights", seed)
    trial = Trial(folder, seed)
    trial.reference()
    for number in range(count):
        fault, name = Fault.draw(number, random.Random(f"{seed} {number}")), f"run-{number}"
        for tally, wrong in (
            (bounded, trial.inject_fault(fault, name)),
            (same, trial.resume(name)),
        ):
            if wrong:
                tally.fail(f"{name}, seed {seed}: {fault}: {wrong}")
            elif tally is same or fault.kind != "slowness":
                tally.hold(f"{fault.kind}, {fault.phase}")
        shutil.rmtree(trial.folder / name, ignore_errors=True)
    bounded.figures |= {
        "patience, seconds": PATIENCE,
        "longest from the fault to the end of all, seconds": round(trial.longest, 1),
    }
    return [bounded, same]
