"""What runs have logged: metrics.jsonl and samples.jsonl, read whole or as they grow. No torch."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from transduce.errors import BadRun
from transduce.system.files import MAX_LOG_BYTES, open_regular, read_json, read_regular
from transduce.system.formatting import pluralize

TRAINING = ("loss", "perplexity", "learning_rate", "target_tokens_per_second")
VALIDATION = ("valid_loss", "valid_perplexity", "valid_bleu")
LOGGED = {"step", "epoch", "seconds", *TRAINING, *VALIDATION}
AT_ONCE = 1 << 26  # bytes that are read of a growing file in one go
MARK = 256  # bytes before a place in a file by which it is known again

Row = dict[str, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """One logged value over steps, or over time."""

    x: list[float]
    y: list[float]


@dataclass(frozen=True, slots=True)
class History:
    """What a run has logged."""

    run: Path
    name: str
    rows: list[Row]
    damaged: int = 0  # lines that could not be read
    measure: Mapping[str, float] = field(default_factory=dict)  # settings that the loss depends on

    def curve(self, logged: str | None, unit: float | None) -> Curve:
        """Return a logged value over steps, or over time in units of so many seconds."""
        pairs = [(row["step"], row[logged]) for row in self.rows if logged in row]
        steps, values = [step for step, _ in pairs], [value for _, value in pairs]
        return Curve(steps if unit is None else [s / unit for s in self.seconds(steps)], values)

    def seconds(self, steps: Sequence[float]) -> list[float]:
        """Return after how long these steps were made.

        A validation logs no time: it is taken from the steps logged before and after it, and
        behind the last of them from the pace of the whole run.
        """
        known = {0.0: 0.0} | {row["step"]: row["seconds"] for row in self.rows if "seconds" in row}
        logged = sorted(known)
        last = logged[-1]
        if last == 0:
            raise BadRun(f"{self.run} has not logged the time yet: draw it without --by time")
        between = np.interp(steps, logged, [known[step] for step in logged]).tolist()
        return [
            known[last] * step / last if step > last else seconds
            for step, seconds in zip(steps, between, strict=True)
        ]


def read_all(runs: Sequence[Path]) -> list[History]:
    """Read what runs have logged; a run that is named twice is read once.

    A folder that contains runs stands for those of its runs that have logged something.
    """
    runs = list({run.resolve(): run for one in runs for run in runs_in(one)}.values())
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    return [read(run, name) for run, name in zip(runs, names, strict=True)]


def runs_in(folder: Path) -> list[Path]:
    """Return the runs that a folder contains, or the folder itself if it is a run or has none."""
    if any((folder / name).is_file() for name in ("metrics.jsonl", "config.json")):
        return [folder]
    found: list[Path] = []
    with suppress(OSError):  # `read` reports a folder that cannot be read
        logs = sorted(folder.glob("*/metrics.jsonl"))
        found = [path.parent for path in logs if path.is_file() and path.stat().st_size]
    return found or [folder]


def read(run: Path, name: str) -> History:
    """Read metrics.jsonl; a line that a kill cut short is left out, as training does itself."""
    if not run.exists():
        raise BadRun(f"there is no run folder {run}: `transduce train` makes one")
    path = run / "metrics.jsonl"
    if not path.is_file() and not (run / "config.json").is_file():
        raise BadRun(f"{run} is not a run folder, and contains none: there is no metrics.jsonl")
    text = read_regular(path, MAX_LOG_BYTES).decode("utf-8", "replace") if path.exists() else ""
    lines = [line for line in text.split("\n") if line.strip()]
    rows = [row for row in map(as_row, map(parsed, lines)) if row]
    if lines and not rows:
        raise BadRun(f"{path} is damaged: none of its {pluralize(len(lines), 'line')} can be read")
    if not rows:
        raise BadRun(
            f"{run} has logged nothing yet: `transduce train` writes what it logs to metrics.jsonl"
        )
    return History(run, name, rows, len(lines) - len(rows), _measure(run))


def parsed(line: str) -> dict[str, Any] | None:
    """Return the object of a line, or nothing where it has none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def as_row(logged: dict[str, Any] | None) -> Row | None:
    """Return the numbers that were logged after a step, or nothing where they are none."""
    try:
        row = {name: float(value) for name, value in (logged or {}).items() if name in LOGGED}
    except (ValueError, TypeError, OverflowError):
        return None
    whole = "step" in row and all(map(math.isfinite, row.values()))
    return row if whole else None


def _measure(run: Path) -> dict[str, float]:
    """Return what must be equal in two runs for their losses to be comparable, if it is known."""
    with suppress(BadRun, KeyError, TypeError, ValueError):  # a run that lacks it is drawn as well
        config = read_json(run / "config.json")
        eps_ls, vocabulary = config["train"]["eps_ls"], config["model"]["target_vocabulary"]
        return {"eps_ls": float(eps_ls), "vocabulary": float(vocabulary)}
    return {}


class Growing:
    """A file of JSON lines that another process adds to, and at times writes anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place, self.inode, self.mark = 0, 0, b""  # mark: the bytes before the place

    def new(self) -> tuple[bool, list[dict[str, Any]]]:
        """Tell whether what was read before is void, and return what is there beyond it.

        A run that is resumed drops what it had logged after its checkpoint, so its file is another
        one, or has other bytes where we stand. A line that is not yet whole waits.
        """
        try:
            with open_regular(self.path) as file:
                found = os.fstat(file.fileno())
                inode = found.st_ino
                file.seek(self.place - len(self.mark))
                same = file.read(len(self.mark)) == self.mark and inode == self.inode
                begin = self.place if same else 0
                file.seek(begin)
                read = file.read(min(AT_ONCE, max(0, found.st_size - begin)))
        except (OSError, BadRun):
            read, same, inode = b"", False, 0
        void = self.place > 0 and not same
        if not same:
            self.place, self.inode, self.mark = 0, inode, b""
        whole = read[: read.rfind(b"\n") + 1]
        self.place += len(whole)
        self.mark = (self.mark + whole)[-MARK:]
        lines = whole.decode("utf-8", "replace").split("\n")
        return void, [one for one in map(parsed, lines) if one is not None]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a validation made of the sentences that are shown."""

    step: int
    outputs: list[str]


class Followed:
    """What a run has logged until now; `catch_up` reads what has come since."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.metrics = Growing(run / "metrics.jsonl")
        self.translations = Growing(run / "samples.jsonl")
        self.life = 0  # how often what had been read became void
        self.training: list[Row] = []
        self.validation: list[Row] = []
        self.source: list[str] = []
        self.reference: list[str] = []
        self.samples: list[Sample] = []

    def catch_up(self) -> None:
        """Read what was logged since the last time, or all of it where the run was resumed."""
        void, logged = self.metrics.new()
        if void:
            self.life += 1
            self.training, self.validation = [], []
        rows = [row for row in map(as_row, logged) if row]
        self.training += [row for row in rows if "loss" in row]
        self.validation += [row for row in rows if "valid_loss" in row]
        void, translated = self.translations.new()
        if void:
            self.life += 1
            self.source, self.reference, self.samples = [], [], []
        for one in translated:
            self._take(one)

    def _take(self, one: dict[str, Any]) -> None:
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            if "source" in one:
                self.source, self.reference = _texts(one["source"]), _texts(one["reference"])
            else:
                self.samples.append(Sample(int(one["step"]), _texts(one["outputs"])))

    @property
    def rows(self) -> tuple[list[Row], list[Row]]:
        """What was logged of training, and of validation."""
        return self.training, self.validation

    @property
    def last_written(self) -> float | None:
        """When something was last logged, in seconds since the epoch."""
        try:
            return (self.run / "metrics.jsonl").stat().st_mtime
        except OSError:
            return None


def _texts(value: Any) -> list[str]:
    """Return texts that can be sent on: JSON may hold half a surrogate pair."""
    if not isinstance(value, list):
        raise TypeError(value)
    return [str(one).encode("utf-8", "replace").decode() for one in value]


def thinned(rows: Sequence[Row], names: Sequence[str], most: int) -> list[Row]:
    """Return about `most` rows, among them every stretch's lowest and highest of each value."""
    if len(rows) <= most:
        return list(rows)
    values = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    keep = {0, len(rows) - 1}
    stretches = np.array_split(np.arange(len(rows)), max(1, most // (2 * len(names))))
    for places in stretches:
        for extreme in (values[places].argmin(axis=0), values[places].argmax(axis=0)):
            keep.update(places[extreme].tolist())
    return [rows[place] for place in sorted(keep)]
