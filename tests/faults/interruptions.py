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
from typing import IO, Any

from faults.fork_server import Ended, ForkServer
from transduce.datasets import pocket

PHASES = (
    *("starting", "preparation", "beginning", "steps", "validation", "saving", "averaging"),
    *("writing the model", "ended"),
)
NOTES = 8 + len(PHASES)  # bytes: the phase, the touches so far, how often each phase was begun
PAIRS = {"train": 1200, "valid": 40}
# A Transformer with dropout that learns its own subwords, validates, translates, saves six times,
# deletes what is old and ends with a mean: everything that training does, within two seconds.
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
    """A training by the command line, and how it ends if nothing disturbs it."""

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
        """Write the texts of a training, some of the corpus that comes along.

        With `small`, these are the settings of that preset.
        """
        texts = []
        for part, count in (pairs or PAIRS).items():
            made = pocket.pairs(count, part)  # type: ignore[arg-type]
            for side, language in enumerate(("en", "de")):
                texts.append(folder / f"{part}.{language}")
                texts[-1].write_text("".join(f"{pair[side]}\n" for pair in made), encoding="utf-8")
        settings = (small or SETTINGS) | (changes or {})
        return cls(folder, texts, settings, "small" if small else "tiny")

    def command(self, run: Path) -> list[str | Path]:
        set_ = [word for one in self.settings.items() for word in ("--set", "=".join(one))]
        words: list[str | Path] = ["train", *self.texts[:2], "--valid", *self.texts[2:]]
        return [*words, "--out", run, "--device", "cpu", "--preset", self.preset, *set_]

    @property
    def whole(self) -> Path:
        return self.folder / "whole"


def result(run: Path) -> dict[str, Any]:
    """Return all that a run folder holds, but for what tells the time."""
    return {
        str(path.relative_to(run)): _content(path)
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def difference(run: Path, whole: Path) -> str:
    """Name a file in which a run is not what another is, or nothing."""
    one, other = result(run), result(whole)
    return ", ".join(sorted(name for name in one | other if one.get(name) != other.get(name)))


def _content(path: Path) -> Any:
    if path.name == "metrics.jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in TIMED} for line in lines]
    if path.name == "state.json":
        state = json.loads(path.read_text(encoding="utf-8"))
        del state["sha256"], state["seconds"], state["window"]["seconds"]
        return state
    return path.read_bytes()


# What the child does.


def watch(notes: str, run: str, at: int = 0, number: int = signal.SIGKILL, times: int = 1) -> None:
    """Note phases and touches; at touch `at`, send this process a signal, `times` times."""
    with Path(notes).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), NOTES)
    touches, touching = 0, False

    def touch(strike: Callable[[], object] = lambda: None) -> None:
        nonlocal touches, touching
        if touching:
            return
        touching = True
        touches += 1
        shared[4:8] = touches.to_bytes(4, "little")
        if touches == at:
            if number == signal.SIGKILL:
                strike()
            for _ in range(times):
                os.kill(os.getpid(), number)
        touching = False

    _note_phases(shared)
    for name in ("fsync", "replace"):
        _touch_around(os, name, touch)
    _touch_halfway(touch, random.Random(at))
    sys.addaudithook(lambda event, arguments: touch() if _touches(event, arguments, run) else None)


def _touches(event: str, arguments: tuple[Any, ...], folder: str) -> bool:
    """Tell whether what Python is about to do changes something in a folder."""
    if event == "open":
        return _writes(arguments) and folder in str(arguments[0])
    if event in ("os.rename", "os.mkdir"):
        return folder in str(arguments[0])
    return event in ("os.remove", "os.rmdir")  # within a folder these are named without it


def _touch_halfway(touch: Callable[..., None], chance: random.Random) -> None:
    """Have files be cut short by what strikes while they are written."""
    import safetensors.torch

    from transduce.checkpoints import checkpoint
    from transduce.runs import metrics

    save, append = safetensors.torch.save_file, metrics._append

    def save_file(tensors: Any, path: Path, metadata: Any) -> None:
        save(tensors, path, metadata=metadata)
        touch(lambda: os.truncate(path, chance.randrange(Path(path).stat().st_size)))
        touch()

    def append_line(file: IO[str], value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False)
        touch(lambda: (file.write(line[: chance.randrange(len(line))]), file.flush()))
        append(file, value)
        touch()

    vars(checkpoint)["save_file"] = save_file
    metrics._append = append_line


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if mode is not None:
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def _touch_around(module: Any, name: str, touch: Callable[[], None]) -> None:
    """Have a function of a module touch before and after what it does."""
    original = getattr(module, name)

    def wrapped(*args: Any, **named: Any) -> Any:
        touch()
        value = original(*args, **named)
        touch()
        return value

    setattr(module, name, wrapped)


def _note_phases(shared: mmap.mmap) -> None:
    from transduce.training import train as training
    from transduce.training import trainer

    def noting(owner: Any, name: str, phase: str, after: str = "") -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **named: Any) -> Any:
            before = shared[0]
            _enter(shared, PHASES.index(phase))
            value = original(*args, **named)
            _enter(shared, PHASES.index(after) if after else before)
            return value

        setattr(owner, name, wrapped)

    noting(training, "prepare", "preparation", "beginning")
    noting(trainer.Trainer, "steps", "steps")
    noting(trainer.Trainer, "_validate", "validation")
    noting(trainer.Trainer, "_save", "saving")
    noting(trainer.Trainer, "finish", "averaging", "ended")
    noting(trainer, "save_model", "writing the model")


def _enter(shared: mmap.mmap, phase: int) -> None:
    shared[0] = phase
    shared[8 + phase] = min(255, shared[8 + phase] + 1)


# What is done to it.


@dataclass(frozen=True)
class Instant:
    """When to strike: at a touch of the run folder, or so long after a phase has begun."""

    touch: int = 0
    phase: str = "starting"
    nth: int = 1
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.touch:
            return f"at touch {self.touch}"
        return f"{self.seconds:.3f} s after {self.phase} began, time {self.nth}"


def drawn(chance: random.Random, touches: int) -> Instant:
    """Draw an instant: half of them by what is written, half by the clock, in every phase."""
    if chance.random() < 0.5:
        return Instant(touch=chance.randint(1, touches))
    phase = chance.choice(PHASES[:-1])
    longest = {"steps": 0.6, "starting": 1.0, "preparation": 0.4, "validation": 0.15}
    nth = chance.randint(1, 3) if phase in ("validation", "saving") else 1
    return Instant(phase=phase, nth=nth, seconds=chance.random() * longest.get(phase, 0.03))


@dataclass(frozen=True)
class Struck:
    """What came of a command that was struck."""

    ended: Ended
    phase: str  # in which it was struck, or ended
    touches: int
    signalled: float | None  # when, by time.monotonic; None: never from outside


class Striker:
    """Runs a training in a warm process and strikes it."""

    def __init__(
        self, warm: ForkServer, task: Task, first: str = "faults.interruptions:watch"
    ) -> None:
        self.warm, self.task, self.first = warm, task, first
        self.notes = warm.scratch / "notes"

    def run(
        self,
        run: Path,
        instant: Instant | None,
        number: int,
        times: int = 1,
        command: list[str | Path] | None = None,
    ) -> Struck:
        """Run a command, the task's or another, until it ends, struck at an instant."""
        self.notes.write_bytes(bytes(NOTES))
        sent: list[float] = []
        phases: list[int] = []

        def strike(pid: int) -> None:
            if instant is None or instant.touch:
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

        at = instant.touch if instant else 0
        given = {
            "notes": str(self.notes),
            "run": str(run.parent),
            "at": at,
            "number": int(number),
            "times": times,
        }
        ended = self.warm.run(
            *(command or self.task.command(run)), first=self.first, given=given, meanwhile=strike
        )
        noted = self.notes.read_bytes()
        phase = phases[0] if phases and number != signal.SIGKILL else noted[0]
        touches = int.from_bytes(noted[4:8], "little")
        return Struck(ended, PHASES[phase], touches, sent[0] if sent else None)


def _lives(pid: int) -> bool:
    """Tell whether a process, no child of ours, is neither gone nor dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        os.kill(pid, number)


def fresh(folder: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
