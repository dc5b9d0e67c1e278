"""Processes of one training that die, hang or are slow, under torchrun on the CPU.

The rule (`transduce.training.distributed.heartbeat`): one that dies is noticed at once; one that
gives no sign of life for TRANSDUCE_PATIENCE seconds is killed by the others on its machine. Either
way all end, one of them says which was lost, and the same command goes on. One that is slow for
less is waited for.
What feeds a training, prepares its text and translates are threads, which die with their process.
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
BOUND = 60.0  # seconds, for all to have ended after one was lost
SLOW = 2.0  # seconds
SETTINGS = TINY | {"validate_bleu": "0", "log_every": "2", "steps": "20"}
PHASES = ("beginning", "step", "saving", "validation")
# Sends itself a signal a moment after a phase was entered for the so-manieth time.
PROGRAM = """
import os, subprocess, sys, threading, time

rank, phase, times, delay, number, pause, seen = sys.argv.pop(1).split("|")
if os.environ["RANK"] == rank:
    from transduce.training.train.distributed import processes
    from transduce.training import train as training

    def signalled():
        if float(pause):  # somebody must wake us
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
    """Which process is struck, when and how."""

    kind: str  # death, hang or slowness
    rank: int
    phase: str
    times: int  # that it was entered
    delay: float  # seconds after that

    @classmethod
    def drawn(cls, number: int, draw: random.Random) -> "Fault":
        """Take all kinds and phases by turns, and the rest by chance."""
        kind = ("death", "hang", "slowness")[number % 3]
        phase = PHASES[number // 3 % len(PHASES)]
        most = {"beginning": 1, "step": 20, "saving": 4, "validation": 2}[phase]
        return cls(kind, draw.randrange(2), phase, draw.randint(1, most), draw.uniform(0, 0.02))

    def words(self, seen: Path) -> str:
        """Return what the program is told."""
        number = signal.SIGKILL if self.kind == "death" else signal.SIGSTOP
        pause = SLOW if self.kind == "slowness" else 0.0
        facts = (self.rank, self.phase, self.times, self.delay, int(number), pause, seen)
        return "|".join(map(str, facts))


@dataclass(frozen=True)
class Ended:
    """What came of torchrun."""

    status: int
    stderr: str
    seconds: float  # since the fault, or since the start
    left: int  # processes that did not end with it


class Trial:
    """A text, and what two processes learn from it where nothing goes wrong."""

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
        seen, stderr = self.folder / f"{name}.seen", self.folder / f"{name}.stderr"
        seen.unlink(missing_ok=True)
        program = [str(self.program), fault.words(seen)] if fault else ["-m", "transduce"]
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
            for one in left:  # those of this trial alone
                os.kill(one, signal.SIGKILL)
            status = torchrun.wait()
        since = float(seen.read_text()) if seen.exists() else began
        return Ended(status, stderr.read_text(errors="replace"), ended - since, len(left))

    def left(self) -> list[int]:
        """Return the processes that this trial has started and that still run."""
        mark, found = f"TRIAL={self.folder}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # it has ended, or is another's
                continue
        return found

    def strike(self, fault: Fault, name: str) -> str:
        """Strike a process; return what is wrong with what came of it, if anything is."""
        struck = self.run(name, fault)
        said = [line for line in struck.stderr.splitlines() if line.startswith("error: ")]
        wrong = {
            "nothing was struck": not (self.folder / f"{name}.seen").exists(),
            f"{struck.left} processes were left": struck.left > 0,
        }
        if fault.kind == "slowness":
            wrong["it ended"] = struck.status != 0
        else:
            self.longest = max(self.longest, struck.seconds)
            wrong["it went on"] = struck.status == 0
            wrong[f"the others took {struck.seconds:.0f} s to end"] = struck.seconds > BOUND
            # Before they have met, torchrun alone knows of a death.
            alone = fault.kind == "death" and fault.phase == "beginning" and not said
            named = len(said) == 1 and f"the process of rank {fault.rank} " in said[0]
            wrong[f"it was not said once which process was lost: {said}"] = not (alone or named)
        return "; ".join(words for words, so in wrong.items() if so)

    def go_on(self, name: str) -> str:
        """Train to the end where it is not reached; return what differs from the undisturbed."""
        done = self.run(name)
        if done.status:
            return f"it did not go on: {done.stderr[-2000:]}"
        return "" if learned(self.folder / name) == self.sound() else "the weights differ"

    def sound(self) -> dict[str, bytes]:
        """Return what is learned where nothing goes wrong."""
        if not (self.folder / "sound").exists():
            done = self.run("sound")
            assert done.status == 0, done.stderr
        return learned(self.folder / "sound")


def learned(run: Path) -> dict[str, bytes]:
    """Return the bytes of the weights that translate, and of the last checkpoint."""
    last = checkpoints(run)[-1].path
    moments = load_tensors(last / "optimizer.safetensors")
    return {
        "model": (run / "model.safetensors").read_bytes(),
        "weights": (last / "weights.safetensors").read_bytes(),
        **{name: one.numpy().tobytes() for name, one in moments.items() if name != "random"},
    }


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Strike so many trainings, by turns in all ways and phases."""
    bounded = Tally("processes lost: all end in bounded time and say which, none is left", seed)
    same = Tally("processes lost or slow: the same command ends with identical weights", seed)
    trial = Trial(folder, seed)
    trial.sound()
    for number in range(count):
        fault, name = Fault.drawn(number, random.Random(f"{seed} {number}")), f"run-{number}"
        for tally, wrong in ((bounded, trial.strike(fault, name)), (same, trial.go_on(name))):
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
