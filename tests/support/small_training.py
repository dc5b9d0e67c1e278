"""Small trainings on the CPU, for tests."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from conftest import TINY, threads_kept

from transduce.checkpoints.checkpoint import load_tensors
from transduce.system.progress import Silent
from transduce.training.train import train
from transduce.training.trainer import Trainer

Files = tuple[Path, Path]

SETTINGS = {
    "N": "1",
    "d_model": "16",
    "d_ff": "32",
    "h": "2",
    "d_k": "8",
    "d_v": "8",
    "vocabulary": "300",
    "batch_tokens": "150",
    "steps": "24",
    "save_every": "6",
    "validate_every": "8",
    "validate_bleu": "4",
    "log_every": "5",
    "keep": "3",
    "average": "2",
    "select": "average",
    "warmup": "10",
    "threads": "1",
}


class Killed(Exception):
    """Simulates kill -9: nothing is saved or cleaned up after it."""


def killing(at: int, owner: type = Trainer, method: str = "update") -> Callable[..., Any]:
    """Return a replacement of a method that raises Killed from step `at` on."""
    original = getattr(owner, method)

    def dying(self: Any, *args: Any, **named: Any) -> Any:
        step = self.state.step if owner is Trainer else args[0].step
        if step >= at:
            raise Killed
        return original(self, *args, **named)

    return dying


class Recorder(Silent):
    """Keeps the messages of a training."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def write_upper_case_pairs(folder: Path) -> Files:
    """Write sentences and their upper case, a task that a tiny model learns quickly."""
    words = ["ein", "zwei", "drei", "Hund", "Katze", "läuft", "schläft", "groß"]
    lines = [
        " ".join(words[(i * k) % 8] for k in range(1, 2 + i % 6)) + f" {i % 13}."
        for i in range(160)
    ]
    source, target = folder / "train.de", folder / "train.up"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    target.write_text("\n".join(lines).upper() + "\n", encoding="utf-8")
    return source, target


def train_small(files: Files, out: Path, **changes: str) -> Path:
    """Train the smallest model on upper-case pairs."""
    return train(*files, out=out, preset="tiny", settings=SETTINGS | changes, device="cpu")


def train_tiny(
    files: Files,
    out: Path,
    changes: Mapping[str, str] | None = None,
    progress: Recorder | None = None,
) -> Path:
    """Train 12 steps on the tiny files that all tests share."""
    few = {"steps": "12", "validate_every": "4", "validate_bleu": "3"}
    settings = TINY | few | dict(changes or {})
    with threads_kept():
        return train(
            *files, out=out, settings=settings, preset="tiny", device="cpu", progress=progress
        )


def records(run: Path) -> list[dict[str, float]]:
    """Return the logged metrics of a run, except times."""
    timed = ("seconds", "target_tokens_per_second")
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k not in timed} for line in lines]


def samples(run: Path) -> list[str]:
    """Return the lines of samples.jsonl."""
    return (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()


def weights(run: Path) -> dict[str, list[float]]:
    """Return the weights of the model, as lists."""
    return {k: v.flatten().tolist() for k, v in load_tensors(run / "model.safetensors").items()}
