"""When to interrupt a training run: at the n-th file operation, or at a time within a phase.

The child to be interrupted (`faults.fork_server`) writes its phase and its number of file
operations into a few shared bytes, so that both are known after it is dead.
"""

import contextlib
import json
import mmap
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.fork_server import Ended, ForkServer
from transduce.datasets import pocket

PHASES = (
    *("starting", "preparation", "beginning", "steps", "validation", "saving", "averaging"),
    *("writing the model", "ended"),
)
NOTES = 8 + len(PHASES)  # bytes: the phase, the operations so far, how often each phase began
PAIRS = {"train": 1200, "valid": 40}
# A Transformer with dropout that learns subwords, validates, translates, saves six times, deletes
# old checkpoints and averages the last: everything that training does, within two seconds.
SETTINGS = {
    "N": "2",
    "d_model": "48",
    "d_ff": "96",
    "h": "2",
    "d_k": "24",
    "d_v": "24",
    "vocabulary": "500",
    "batch_tokens": "400",
    "steps": "36",
    "warmup": "20",
    "save_every": "6",
    "keep": "3",
    "average": "3",
    "validate_every": "9",
    "validate_bleu": "16",
    "log_every": "4",
    "threads": "1",
}
TIMED = ("seconds", "target_tokens_per_second")


@dataclass(frozen=True)
class Task:
    """A training command, and the folder of its uninterrupted run."""

    folder: Path
    texts: list[Path]  # train.en, train.de, valid.en, valid.de
    settings: dict[str, str]
    preset: str

    @classmethod
    def make(
        cls,
        folder: Path,
        pairs: dict[str, int] | None = None,
        small: dict[str, str] | None = None,
        changes: dict[str, str] | None = None,
    ) -> "Task":
        """Write the texts of a training, from the built-in corpus.

        `small` gives settings for the preset small.
        """
        texts = []
        for part, count in (pairs or PAIRS).items():
            sentences = pocket.pairs(count, part)  # type: ignore[arg-type]
            for side, language in enumerate(("en", "de")):
                texts.append(folder / f"{part}.{language}")
                texts[-1].write_text(
                    "".join(f"{pair[side]}\n" for pair in sentences), encoding="utf-8"
                )
        settings = (small or SETTINGS) | (changes or {})
        return cls(folder, texts, settings, "small" if small else "tiny")

    def command(self, run: Path) -> list[str | Path]:
        set_ = [word for setting in self.settings.items() for word in ("--set", "=".join(setting))]
        words: list[str | Path] = ["train", *self.texts[:2], "--valid", *self.texts[2:]]
        return [*words, "--out", run, "--device", "cpu", "--preset", self.preset, *set_]

    @property
    def whole(self) -> Path:
        return self.folder / "whole"


def result(run: Path) -> dict[str, Any]:
    """Return the content of a run folder, except times."""
    return {
        str(path.relative_to(run)): _content(path)
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def difference(run: Path, whole: Path) -> str:
    """Return the names of the files in which two runs differ."""
    left, right = result(run), result(whole)
    return ", ".join(sorted(name for name in left | right if left.get(name) != right.get(name)))


def _content(path: Path) -> Any:
    if path.name == "metrics.jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in TIMED} for line in lines]
    if path.name == "state.json":
        state = json.loads(path.read_text(encoding="utf-8"))
        del state["sha256"], state["seconds"], state["window"]["seconds"]
        return state
    return path.read_bytes()


# In the child process.


def watch(notes: str, run: str, at: int = 0, number: int = signal.SIGKILL, times: int = 1) -> None:
    """Record phases and file operations; at operation `at`, send this process `times` signals."""
    with Path(notes).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), NOTES)
    operations, active = 0, False

    def count(damage: Callable[[], object] = lambda: None) -> None:
        nonlocal operations, active
        if active:
            return
        active = True
        operations += 1
        shared[4:8] = operations.to_bytes(4, "little")
        if operations == at:
            if number == signal.SIGKILL:
                damage()
            for _ in range(times):
                os.kill(os.getpid(), number)
        active = False

    _record_phases(shared)
    for name in ("fsync", "replace"):
        _count_around(os, name, count)
    _count_partial_writes(count, random.Random(at))
    sys.addaudithook(lambda event, arguments: count() if _changes(event, arguments, run) else None)


def _changes(event: str, arguments: tuple[Any, ...], folder: str) -> bool:
    """Return whether an audit event changes something in a folder."""
    if event == "open":
        return _writes(arguments) and folder in str(arguments[0])
    if event in ("os.rename", "os.mkdir"):
        return folder in str(arguments[0])
    return event in ("os.remove", "os.rmdir")  # their names may be relative to the folder


def _count_partial_writes(count: Callable[..., None], chance: random.Random) -> None:
    """Leave a truncated file if the signal comes during a write."""
    import safetensors.torch

    from transduce.checkpoints import checkpoint
    from transduce.runs import metrics

    save, append = safetensors.torch.save_file, metrics.JsonLines.append

    def save_file(tensors: Any, path: Path, metadata: Any) -> None:
        save(tensors, path, metadata=metadata)
        count(lambda: os.truncate(path, chance.randrange(Path(path).stat().st_size)))
        count()

    def append_line(self: metrics.JsonLines, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False)

        def write_part() -> None:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(line[: chance.randrange(len(line))])

        count(write_part)
        append(self, value)
        count()

    vars(checkpoint)["save_file"] = save_file
    vars(metrics)["JsonLines"].append = append_line


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if mode is not None:
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def _count_around(module: Any, name: str, count: Callable[[], None]) -> None:
    """Count an operation before and after each call of a function."""
    original = getattr(module, name)

    def wrapped(*args: Any, **named: Any) -> Any:
        count()
        value = original(*args, **named)
        count()
        return value

    setattr(module, name, wrapped)


def _record_phases(shared: mmap.mmap) -> None:
    from transduce.training import train as training
    from transduce.training import trainer
    from transduce.training.saving import Checkpointer
    from transduce.training.trainer import Trainer

    def record(owner: Any, original: Callable[..., Any], phase: str, after: str = "") -> None:

        def wrapped(*args: Any, **named: Any) -> Any:
            before = shared[0]
            _enter(shared, PHASES.index(phase))
            value = original(*args, **named)
            _enter(shared, PHASES.index(after) if after else before)
            return value

        setattr(owner, original.__name__, wrapped)

    record(training, vars(training)["prepare"], "preparation", "beginning")
    record(Trainer, Trainer.train, "steps")
    record(Trainer, Trainer._validate, "validation")
    record(Checkpointer, Checkpointer.save, "saving")
    record(Trainer, Trainer.finish, "averaging", "ended")
    record(trainer, vars(trainer)["save_model"], "writing the model")


def _enter(shared: mmap.mmap, phase: int) -> None:
    shared[0] = phase
    shared[8 + phase] = min(255, shared[8 + phase] + 1)


# In the parent process.


@dataclass(frozen=True)
class Instant:
    """When to interrupt: at a file operation in the run folder, or after a phase began."""

    operation: int = 0
    phase: str = "starting"
    nth: int = 1
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.operation:
            return f"at operation {self.operation}"
        return f"{self.seconds:.3f} s after {self.phase} began for the {self.nth}. time"


def draw_instant(chance: random.Random, operations: int) -> Instant:
    """Draw an instant: half of them by file operation, half by time, in every phase."""
    if chance.random() < 0.5:
        return Instant(operation=chance.randint(1, operations))
    phase = chance.choice(PHASES[:-1])
    longest = {"steps": 0.6, "starting": 1.0, "preparation": 0.4, "validation": 0.15}
    nth = chance.randint(1, 3) if phase in ("validation", "saving") else 1
    return Instant(phase=phase, nth=nth, seconds=chance.random() * longest.get(phase, 0.03))


@dataclass(frozen=True)
class InterruptedRun:
    """A command that was interrupted."""

    ended: Ended
    phase: str  # in which it was interrupted or ended
    operations: int
    signalled: float | None  # time.monotonic() of the signal from outside, if any


class Interrupter:
    """Runs a training in a forked process and interrupts it."""

    def __init__(
        self, fork_server: ForkServer, task: Task, first: str = "faults.interruptions:watch"
    ) -> None:
        self.fork_server, self.task, self.first = fork_server, task, first
        self.notes = fork_server.scratch / "notes"

    def run(
        self,
        run: Path,
        instant: Instant | None,
        number: int,
        times: int = 1,
        command: list[str | Path] | None = None,
    ) -> InterruptedRun:
        """Run a command (by default the task's) to its end, interrupted at an instant."""
        self.notes.write_bytes(bytes(NOTES))
        sent: list[float] = []
        phases: list[int] = []

        def interrupt(pid: int) -> None:
            if instant is None or instant.operation:
                return
            with (
                self.notes.open("rb") as file,
                mmap.mmap(file.fileno(), NOTES, prot=mmap.PROT_READ) as shared,
            ):
                wanted = PHASES.index(instant.phase)
                while wanted and shared[8 + wanted] < instant.nth and _lives(pid):
                    time.sleep(0.001)
                time.sleep(instant.seconds)
                phases.append(shared[0])
                sent.append(time.monotonic())
                for again in range(times):
                    time.sleep(0.02 * again)
                    _send(pid, number)

        at = instant.operation if instant else 0
        options = {
            "notes": str(self.notes),
            "run": str(run.parent),
            "at": at,
            "number": int(number),
            "times": times,
        }
        ended = self.fork_server.run(
            *(command or self.task.command(run)),
            first=self.first,
            given=options,
            meanwhile=interrupt,
        )
        record = self.notes.read_bytes()
        phase = phases[0] if phases and number != signal.SIGKILL else record[0]
        operations = int.from_bytes(record[4:8], "little")
        return InterruptedRun(ended, PHASES[phase], operations, sent[0] if sent else None)


def _lives(pid: int) -> bool:
    """Return whether a process that is not our child is running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(pid, number)


def fresh(folder: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
