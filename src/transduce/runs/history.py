"""Reading metrics.jsonl and samples.jsonl, whole or as they grow. Imports no torch."""

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
VALIDATION = ("valid_loss", "valid_perplexity", "valid_source_use", "valid_bleu")
LOGGED = {"step", "epoch", "seconds", *TRAINING, *VALIDATION}
AT_ONCE = 1 << 26  # bytes read from a growing file at once
TAIL = 256  # bytes before the offset, compared to detect that the file was rewritten

Row = dict[str, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """One logged value over steps, or over time."""

    x: list[float]
    y: list[float]


@dataclass(frozen=True, slots=True)
class History:
    """The log of a run."""

    run: Path
    name: str
    rows: list[Row]
    damaged: int = 0  # lines that could not be read
    measure: Mapping[str, float] = field(default_factory=dict)  # settings that the loss depends on

    def curve(self, logged: str | None, unit: float | None) -> Curve:
        """Return a logged value over steps, or over time in units of `unit` seconds."""
        pairs = [(row["step"], row[logged]) for row in self.rows if logged in row]
        steps, values = [step for step, _ in pairs], [value for _, value in pairs]
        return Curve(steps if unit is None else [s / unit for s in self.seconds(steps)], values)

    def seconds(self, steps: Sequence[float]) -> list[float]:
        """Return the times of steps, in seconds.

        Validations are logged without a time. It is interpolated between the logged steps, and
        after the last one extrapolated from the speed of the whole run.
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


def read_histories(paths: Sequence[Path]) -> list[History]:
    """Read the logs of runs; a run that is named twice is read once.

    A folder that contains runs stands for all its runs with a non-empty log.
    """
    runs = list({run.resolve(): run for path in paths for run in find_runs(path)}.values())
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    return [read_history(run, name) for run, name in zip(runs, names, strict=True)]


def find_runs(folder: Path) -> list[Path]:
    """Return the runs in a folder, or the folder itself if it is a run or contains none."""
    if any((folder / name).is_file() for name in ("metrics.jsonl", "config.json")):
        return [folder]
    runs: list[Path] = []
    with suppress(OSError):  # `read_history` reports a folder that cannot be read
        logs = sorted(folder.glob("*/metrics.jsonl"))
        runs = [path.parent for path in logs if path.is_file() and path.stat().st_size]
    return runs or [folder]


def read_history(run: Path, name: str) -> History:
    """Read metrics.jsonl, without lines that were cut short when the process was killed."""
    if not run.exists():
        raise BadRun(f"there is no run folder {run}: `transduce train` makes one")
    path = run / "metrics.jsonl"
    if not path.is_file() and not (run / "config.json").is_file():
        raise BadRun(f"{run} is not a run folder, and contains none: there is no metrics.jsonl")
    text = read_regular(path, MAX_LOG_BYTES).decode("utf-8", "replace") if path.exists() else ""
    lines = [line for line in text.split("\n") if line.strip()]
    rows = [row for row in map(to_row, map(parse_line, lines)) if row]
    if lines and not rows:
        raise BadRun(f"{path} is damaged: none of its {pluralize(len(lines), 'line')} can be read")
    if not rows:
        raise BadRun(f"{run} has logged nothing yet: `transduce train` writes metrics.jsonl")
    return History(run, name, rows, len(lines) - len(rows), _measure(run))


def parse_line(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line, or None if the line is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def to_row(logged: dict[str, Any] | None) -> Row | None:
    """Return the logged numbers of a step, or None if they are damaged."""
    try:
        row = {name: float(value) for name, value in (logged or {}).items() if name in LOGGED}
    except (ValueError, TypeError, OverflowError):
        return None
    whole = "step" in row and all(map(math.isfinite, row.values()))
    return row if whole else None


def _measure(run: Path) -> dict[str, float]:
    """Return the settings that must be equal for losses to be comparable; {} if unknown."""
    with suppress(BadRun, KeyError, TypeError, ValueError):  # the run can be drawn without them
        config = read_json(run / "config.json")
        eps_ls, vocabulary = config["train"]["eps_ls"], config["model"]["target_vocabulary"]
        return {"eps_ls": float(eps_ls), "vocabulary": float(vocabulary)}
    return {}


class GrowingFile:
    """A JSON Lines file that a different process appends to and sometimes rewrites."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset, self.inode, self.tail = 0, 0, b""  # tail: the bytes before the offset

    def read_new(self) -> tuple[bool, list[dict[str, Any]]]:
        """Return whether earlier lines are void, and the lines added since the last call.

        A resumed run drops what it had logged after its checkpoint: then the file is a new one, or
        has different bytes before the offset. An unfinished line is read by a later call.
        """
        try:
            with open_regular(self.path) as file:
                status = os.fstat(file.fileno())
                inode = status.st_ino
                file.seek(self.offset - len(self.tail))
                same = file.read(len(self.tail)) == self.tail and inode == self.inode
                begin = self.offset if same else 0
                file.seek(begin)
                content = file.read(min(AT_ONCE, max(0, status.st_size - begin)))
        except (OSError, BadRun):
            content, same, inode = b"", False, 0
        void = self.offset > 0 and not same
        if not same:
            self.offset, self.inode, self.tail = 0, inode, b""
        whole = content[: content.rfind(b"\n") + 1]
        self.offset += len(whole)
        self.tail = (self.tail + whole)[-TAIL:]
        lines = whole.decode("utf-8", "replace").split("\n")
        return void, [value for value in map(parse_line, lines) if value is not None]


@dataclass(frozen=True, slots=True)
class Sample:
    """The translations of the sample sentences at a validation."""

    step: int
    outputs: list[str]


class RunLog:
    """The log of a run that may still be training; `catch_up` reads new lines."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.metrics = GrowingFile(run / "metrics.jsonl")
        self.translations = GrowingFile(run / "samples.jsonl")
        self.restarts = 0  # how often earlier lines became void
        self.training: list[Row] = []
        self.validation: list[Row] = []
        self.source: list[str] = []
        self.reference: list[str] = []
        self.samples: list[Sample] = []

    def catch_up(self) -> None:
        """Read the lines logged since the last call, or the whole log if the run was resumed."""
        void, logged = self.metrics.read_new()
        if void:
            self.restarts += 1
            self.training, self.validation = [], []
        rows = [row for row in map(to_row, logged) if row]
        self.training += [row for row in rows if "loss" in row]
        self.validation += [row for row in rows if "valid_loss" in row]
        void, translated = self.translations.read_new()
        if void:
            self.restarts += 1
            self.source, self.reference, self.samples = [], [], []
        for value in translated:
            self._add_sample(value)

    def _add_sample(self, value: dict[str, Any]) -> None:
        with suppress(KeyError, TypeError, ValueError, OverflowError):  # a damaged line
            if "source" in value:
                self.source, self.reference = _texts(value["source"]), _texts(value["reference"])
            else:
                self.samples.append(Sample(int(value["step"]), _texts(value["outputs"])))

    @property
    def rows(self) -> tuple[list[Row], list[Row]]:
        """The rows logged by training and by validation."""
        return self.training, self.validation

    @property
    def last_written(self) -> float | None:
        """The time of the last log entry, in seconds since 1970; None if there is no log."""
        try:
            return (self.run / "metrics.jsonl").stat().st_mtime
        except OSError:
            return None


def _texts(value: Any) -> list[str]:
    """Return texts that can be encoded as UTF-8: JSON may contain lone surrogates."""
    if not isinstance(value, list):
        raise TypeError(value)
    return [str(text).encode("utf-8", "replace").decode() for text in value]


def thin_out(rows: Sequence[Row], names: Sequence[str], most: int) -> list[Row]:
    """Return about `most` rows, including the lowest and highest value in every interval."""
    if len(rows) <= most:
        return list(rows)
    values = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    chosen = {0, len(rows) - 1}
    stretches = np.array_split(np.arange(len(rows)), max(1, most // (2 * len(names))))
    for stretch in stretches:
        for extreme in (values[stretch].argmin(axis=0), values[stretch].argmax(axis=0)):
            chosen.update(stretch[extreme].tolist())
    return [rows[number] for number in sorted(chosen)]
