"""The logs of training runs, for the runs page.

Clients select a run by its name in `GET /api/runs`, never by a path.
"""

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response

from transduce.errors import BadRun, did_you_mean
from transduce.runs.arrays import count_values
from transduce.runs.folder import RunConfig, weights_file
from transduce.runs.history import TRAINING, VALIDATION, Row, RunLog, thin_out
from transduce.serving import schemas
from transduce.serving.problems import SHOWN, Problem, json_response
from transduce.system.locks import in_use

POINTS = 2_000  # per series in one answer; a screen has no more columns
VALIDATIONS = 200  # at most this many are sent with their translations
RUN_FILES = ("config.json", "metrics.jsonl", ".lock")  # a folder with one of these is a run
TOKEN = re.compile(r"(\w+)" + 3 * r"\.(\d{1,9})", re.ASCII)  # as in WatchedRun.token

Json = dict[str, Any]


class WatchedRun:
    """One run, as of the last refresh."""

    def __init__(self, name: str, run: Path) -> None:
        self.name, self.run = name, run
        self.log = RunLog(run)
        self.key = secrets.token_hex(4)  # makes tokens from other servers void
        self.config: RunConfig | None = None
        self.parameters: int | None = None
        self.config_time = 0  # modification time; 0: unknown

    def refresh(self) -> None:
        """Read what was logged since the last time."""
        self.log.catch_up()
        self._read_config()
        if self.config is not None and self.parameters is None:
            try:
                self.parameters = count_values(weights_file(self.run, self.config)[0])
            except (OSError, BadRun):
                self.parameters = None  # there are no weights yet, or they cannot be read

    def _read_config(self) -> None:
        try:
            modified = (self.run / "config.json").stat().st_mtime_ns
            if modified != self.config_time:
                self.config = RunConfig.load(self.run)
                self.config_time = modified
        except (OSError, BadRun):
            self.config, self.config_time = None, 0

    @property
    def token(self) -> str:
        """The log position of a client that has received everything logged so far."""
        log = self.log
        counts = (len(log.training), len(log.validation), len(log.samples))
        return ".".join(map(str, (f"{self.key}{log.restarts}", *counts)))

    def current_summary(self) -> Json:
        """Return the summary; a run that cannot be read is reported as damaged."""
        try:
            self.refresh()
            return self.summary()
        except Exception:
            note = "its files cannot be read: `transduce info` says why"
            return WatchedRun(self.name, self.run).summary() | {"state": "damaged", "note": note}

    def current_data(self, token: str, *, show_samples: bool = True) -> Json:
        """Return new data; none if the run cannot be read."""
        try:
            self.refresh()
            return self.since(token, show_samples=show_samples)
        except Exception:
            return WatchedRun(self.name, self.run).since("", show_samples=show_samples)

    def summary(self) -> Json:
        """Return the state of the run."""
        log = self.log
        state, note = self.state()
        last: Mapping[str, float] = log.training[-1] if log.training else {}
        valid: Mapping[str, float] = log.validation[-1] if log.validation else {}
        age = log.last_written and max(0.0, time.time() - log.last_written)
        part = 1.0 if state == "finished" else self.part_done()
        left = None
        if state == "training" and part and "seconds" in last:
            left = max(0.0, last["seconds"] * (1 - part) / part - (age or 0.0))
        return {
            "name": self.name,
            "state": state,
            "note": note,
            "step": self.step,
            "seconds": last.get("seconds"),
            "epoch": last.get("epoch"),
            "part": part,
            "left": left,
            "loss": last.get("loss"),
            "valid_loss": valid.get("valid_loss"),
            "bleu": valid.get("valid_bleu"),
            "speed": last.get("target_tokens_per_second"),
            "seconds_since_write": age,
            "parameters": self.parameters,
            "token": self.token,
            **_settings(self.config),
        }

    @property
    def step(self) -> int:
        """The last logged step."""
        return int(max((rows[-1]["step"] for rows in self.log.rows if rows), default=0))

    def state(self) -> tuple[str, str]:
        """Return the state in one word, and a note."""
        log, logged = self.log, any(self.log.rows)
        if not self.run.is_dir():
            return "gone", "its folder was removed"
        if in_use(self.run):
            return "training", "" if logged else "nothing logged yet"
        if not logged and log.metrics.offset:
            return "damaged", "its metrics.jsonl has no readable line"
        if self.config is None:
            return "stopped", "its config.json is missing or damaged"
        finished = logged and self.config.ended_at(self.step)
        return "finished" if finished else "stopped", "" if logged else "nothing was logged"

    def part_done(self) -> float | None:
        """Return the finished fraction of the run, 0 to 1; None if it cannot be estimated."""
        if not self.log.training or self.config is None:
            return None
        last, config = self.log.training[-1], self.config.train
        shares = []
        if config.steps:
            shares.append(last["step"] / config.steps)
        if config.seconds:
            shares.append(last.get("seconds", 0.0) / config.seconds)
        if config.epochs and last.get("epoch"):
            first_epoch = [row["step"] for row in self.log.training if row.get("epoch") == 0]
            if first_epoch and first_epoch[-1]:  # other epochs have about as many steps
                shares.append(last["step"] / (first_epoch[-1] * config.epochs))
        return min(1.0, max(shares)) if shares else None

    def since(self, token: str, *, show_samples: bool = True) -> Json:
        """Return what was logged since the answer with this token; everything for an unknown token.

        Numbers are returned as columns. Long series are thinned out; extreme values are kept.
        """
        log = self.log
        void, counts = True, [0, 0, 0]
        match = TOKEN.fullmatch(token)
        if match and match[1] == f"{self.key}{log.restarts}":
            void, counts = False, [int(count) for count in match.groups()[1:]]
        training, validation, samples = counts
        new = log.samples[samples:] if show_samples else []
        stride = -(-len(new) // VALIDATIONS) or 1
        shown = new[::-1][::stride][::-1]  # always includes the last
        return {
            "name": self.name,
            "token": self.token,
            "void": void,
            "training": _columns(
                thin_out(log.training[training:], TRAINING, POINTS), ("step", "seconds", *TRAINING)
            ),
            "validation": _columns(
                thin_out(log.validation[validation:], VALIDATION, POINTS), ("step", *VALIDATION)
            ),
            "samples": {
                "source": log.source if show_samples else [],
                "reference": log.reference if show_samples else [],
                "step": [sample.step for sample in shown],
                "outputs": [sample.outputs for sample in shown],
            },
        }


class Board:
    """The watched runs, by name."""

    def __init__(self, watched: Sequence[Path], *, show_samples: bool = True) -> None:
        self.watched, self.show_samples = watched, show_samples
        self.runs: dict[str, WatchedRun] = {}
        self.lock = threading.Lock()  # FastAPI answers these requests in several threads

    def summaries(self) -> list[Json]:
        """Return the state of each run, new runs included."""
        with self.lock:
            self._find()
            return [run.current_summary() for run in self.runs.values()]

    def since(self, name: str, token: str) -> Json:
        """Return what a run has logged since the answer with this token."""
        with self.lock:
            if name not in self.runs:
                self._find()
            if name not in self.runs:
                hint = did_you_mean(name[:SHOWN], self.runs) or " /api/runs lists them."
                raise Problem(404, f"there is no run {name[:SHOWN]} here.{hint}")
            return self.runs[name].current_data(token, show_samples=self.show_samples)

    def _find(self) -> None:
        known = {watched.run for watched in self.runs.values()}
        for run in dict.fromkeys(self._run_folders()):
            if run not in known:
                name = run.name if run.name not in self.runs else str(run)
                name = name.encode("utf-8", "replace").decode()
                self.runs[name] = WatchedRun(name, run)

    def _run_folders(self) -> Iterator[Path]:
        """Yield the watched run folders, and the run folders inside other watched folders."""
        for path in self.watched:
            if is_run(path):
                yield path.resolve()
            else:
                with contextlib.suppress(OSError):  # not a folder, or not readable
                    yield from sorted(
                        folder.resolve() for folder in path.iterdir() if is_run(folder)
                    )


def is_run(path: Path) -> bool:
    """Return whether a folder is a readable run folder, even if the run has just started."""
    try:
        return any((path / name).is_file() for name in RUN_FILES)
    except PermissionError:
        return False


def router(watched: Sequence[Path], *, show_samples: bool = True) -> APIRouter:
    """Return the routes of /api/runs; sample translations can be left out."""
    board = Board(watched, show_samples=show_samples)
    routes = APIRouter(prefix="/api/runs", tags=["runs"])

    @routes.get("", response_model=list[schemas.Run])
    def list_runs() -> Response:
        """Return the state of each watched run."""
        return json_response(board.summaries())

    @routes.get(
        "/data",
        response_model=schemas.RunData,
        responses={404: {"model": schemas.Error, "description": "No such run."}},
    )
    def run_data(run: str = "", since: str = "") -> Response:
        """Return what a run has logged since the answer with this token; without it, everything."""
        return json_response(board.since(run, since))

    return routes


def _settings(config: RunConfig | None) -> Json:
    """Return the settings for clients, if they are known."""
    if config is None:
        unknown = ("preset", "languages", "size")
        return {"planned": {}, "measure": {}} | dict.fromkeys(unknown)
    model, train = config.model, config.train
    depth = model.N if model.N_decoder is None else f"{model.N}+{model.N_decoder}"
    return {
        "planned": {"steps": train.steps, "seconds": train.seconds, "epochs": train.epochs},
        "measure": {"eps_ls": train.eps_ls, "vocabulary": model.target_vocabulary},
        "preset": config.preset,
        "languages": list(config.languages),
        "size": f"N {depth}, d_model {model.d_model}, d_ff {model.d_ff}, h {model.h}",
    }


def _columns(rows: Sequence[Row], names: Sequence[str]) -> dict[str, list[float | None]]:
    return {
        name: [None if name not in row else float(f"{row[name]:.7g}") for row in rows]
        for name in names
    }
