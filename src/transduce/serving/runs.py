"""What runs have logged, for the page that shows them live.

Clients name a run by what `GET /api/runs` calls it; no path ever comes from them.
"""

import contextlib
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
from transduce.runs.history import TRAINING, VALIDATION, Followed, Row, thinned
from transduce.serving import schemas
from transduce.serving.problems import SHOWN, Problem, json_response
from transduce.system.locks import in_use

POINTS = 2_000  # of a series at once; a screen has no more columns
VALIDATIONS = 200  # whose translations are sent
SIGNS = ("config.json", "metrics.jsonl", ".lock")  # each is the mark of a run folder

Json = dict[str, Any]


class Watched:
    """One run that is watched, as it was when it was last looked at."""

    def __init__(self, name: str, run: Path) -> None:
        self.name, self.run = name, run
        self.log = Followed(run)
        self.key = secrets.token_hex(4)  # what another server has sent means nothing here
        self.config: RunConfig | None = None
        self.parameters: int | None = None
        self.written = 0  # when config.json was; 0: it is not known

    def look(self) -> None:
        """Read what is new."""
        self.log.catch_up()
        self._read_config()
        if self.config is not None and self.parameters is None:
            try:
                self.parameters = count_values(weights_file(self.run, self.config)[0])
            except (OSError, BadRun):
                self.parameters = None  # there are no weights yet, or none that can be read

    def _read_config(self) -> None:
        try:
            written = (self.run / "config.json").stat().st_mtime_ns
            if written != self.written:
                self.config = RunConfig.load(self.run)
                self.written = written
        except (OSError, BadRun):
            self.config, self.written = None, 0

    @property
    def token(self) -> str:
        """How far a client has read that has all there is."""
        log = self.log
        counts = (len(log.training), len(log.validation), len(log.samples))
        return ".".join(map(str, (f"{self.key}{log.life}", *counts)))

    def summary_or_damage(self) -> Json:
        """Look at the run and return its summary; what is wrong with it must not hide others."""
        try:
            self.look()
            return self.summary()
        except Exception:
            note = "its files cannot be read: `transduce info` says why"
            return Watched(self.name, self.run).summary() | {"state": "damaged", "note": note}

    def summary(self) -> Json:
        """Return how the run stands."""
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
        """The last that something was logged of."""
        return int(max((rows[-1]["step"] for rows in self.log.rows if rows), default=0))

    def state(self) -> tuple[str, str]:
        """Return in one word how the run stands, and what more there is to say."""
        log, logged = self.log, any(self.log.rows)
        if not self.run.is_dir():
            return "gone", "its folder is no longer there"
        if in_use(self.run):
            return "training", "" if logged else "nothing is logged yet"
        if not logged and log.metrics.place:
            return "damaged", "no line of its metrics.jsonl can be read"
        if self.config is None:
            return "stopped", "its config.json is missing or damaged"
        finished = logged and self.config.ended_at(self.step)
        return "finished" if finished else "stopped", "" if logged else "it has logged nothing"

    def part_done(self) -> float | None:
        """Return how much of the run is behind it, 0 to 1, as far as that can be told."""
        if not self.log.training or self.config is None:
            return None
        last, recipe = self.log.training[-1], self.config.train
        parts = []
        if recipe.steps:
            parts.append(last["step"] / recipe.steps)
        if recipe.seconds:
            parts.append(last.get("seconds", 0.0) / recipe.seconds)
        if recipe.epochs and last.get("epoch"):
            of_first = [row["step"] for row in self.log.training if row.get("epoch") == 0]
            if of_first and of_first[-1]:  # an epoch has about so many steps
                parts.append(last["step"] / (of_first[-1] * recipe.epochs))
        return min(1.0, max(parts)) if parts else None

    def since(self, token: str, *, show_samples: bool = True) -> Json:
        """Return what was logged since the answer with this token; everything for another token.

        Numbers come as columns. Long stretches of training are thinned, their extremes kept.
        """
        log = self.log
        key, counts = _read(token)
        void = key != f"{self.key}{log.life}"
        training, validation, samples = (0, 0, 0) if void else counts
        new = log.samples[samples:] if show_samples else []
        stride = -(-len(new) // VALIDATIONS) or 1
        shown = new[::-1][::stride][::-1]  # the last is always there
        return {
            "name": self.name,
            "token": self.token,
            "void": void,
            "training": _columns(
                thinned(log.training[training:], TRAINING, POINTS), ("step", "seconds", *TRAINING)
            ),
            "validation": _columns(
                thinned(log.validation[validation:], VALIDATION, POINTS), ("step", *VALIDATION)
            ),
            "samples": {
                "source": log.source if show_samples else [],
                "reference": log.reference if show_samples else [],
                "step": [one.step for one in shown],
                "outputs": [one.outputs for one in shown],
            },
        }


class Board:
    """The runs that are watched, by name."""

    def __init__(self, watched: Sequence[Path], *, show_samples: bool = True) -> None:
        self.watched, self.show_samples = watched, show_samples
        self.runs: dict[str, Watched] = {}
        self.lock = threading.Lock()  # requests are answered in several threads

    def summaries(self) -> list[Json]:
        """Return how each run stands, with those that have appeared since."""
        with self.lock:
            self._find()
            return [run.summary_or_damage() for run in self.runs.values()]

    def since(self, name: str, token: str) -> Json:
        """Return what a run has logged since a token was given out."""
        with self.lock:
            if name not in self.runs:
                self._find()
            if name not in self.runs:
                raise KeyError(name)
            self.runs[name].look()
            return self.runs[name].since(token, show_samples=self.show_samples)

    def _find(self) -> None:
        known = {one.run for one in self.runs.values()}
        for run in dict.fromkeys(self._there()):
            if run not in known:
                name = run.name if run.name not in self.runs else str(run)
                name = name.encode("utf-8", "replace").decode()
                self.runs[name] = Watched(name, run)

    def _there(self) -> Iterator[Path]:
        """Yield the run folders among what is watched, and in the folders that are none."""
        for path in self.watched:
            if is_run(path):
                yield path.resolve()
            else:
                with contextlib.suppress(OSError):  # it is no folder, or not for us to read
                    yield from sorted(one.resolve() for one in path.iterdir() if is_run(one))


def is_run(path: Path) -> bool:
    """Tell whether a folder is that of a run, be it only just begun, which we may look into."""
    try:
        return any((path / sign).is_file() for sign in SIGNS)
    except PermissionError:
        return False


def router(watched: Sequence[Path], *, show_samples: bool = True) -> APIRouter:
    """Return the paths for the runs in some folders; sample translations can be left out."""
    board = Board(watched, show_samples=show_samples)
    answers = APIRouter(prefix="/api/runs", tags=["runs"])

    @answers.get("", response_model=list[schemas.Run])
    def list_runs() -> Response:
        """Tell how each run stands that is watched."""
        return json_response(board.summaries())

    @answers.get(
        "/data",
        response_model=schemas.RunData,
        responses={404: {"model": schemas.Error, "description": "No such run."}},
    )
    def run_data(run: str = "", since: str = "") -> Response:
        """Return what a run has logged since the answer that had this token, else all of it."""
        try:
            return json_response(board.since(run, since))
        except KeyError:
            hint = did_you_mean(run[:SHOWN], board.runs) or " /api/runs lists them."
            raise Problem(404, f"there is no run {run[:SHOWN]} here.{hint}") from None

    return answers


def _settings(config: RunConfig | None) -> Json:
    """Return what a client is told of the settings, where they are known."""
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


def _read(token: str) -> tuple[str, tuple[int, int, int]]:
    """Take a token apart; what is none stands for a client that has nothing."""
    key, *counts = token.split(".")
    if len(counts) != 3 or not all(map(_is_count, counts)):
        return "", (0, 0, 0)
    return key, (int(counts[0]), int(counts[1]), int(counts[2]))


def _is_count(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10
