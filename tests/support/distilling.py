"""A teacher, a text, and a student that is trained in seconds."""

from pathlib import Path
from typing import Any

from conftest import TINY, threads_kept, write_pairs

from transduce.datasets import pocket
from transduce.training.train import train
from transduce.workflows.distillation import distill

LINES = 40
BLOCK = 8
SETTINGS = TINY | {"steps": "4", "vocabulary": "290", "N_decoder": "1"}
NAMES = ("source.txt", "target.txt")


def train_teacher(folder: Path) -> Path:
    """Train a model on a little of the pocket corpus."""
    files = write_pairs(folder, "train", pocket.pairs(400))
    changes = {"steps": "60", "vocabulary": "400", "warmup": "20", "cooldown": "0.5"}
    with threads_kept():
        return train(
            *files, out=folder / "run", preset="tiny", settings=TINY | changes, device="cpu"
        )


def write_sentences(path: Path) -> Path:
    """Write sentences of the pocket corpus; one line has two of them, another is blank."""
    lines = [source for source, _ in pocket.pairs(LINES - 1, seed=5)]
    lines[5] = f"{lines[5]} {lines[6]}"
    lines.insert(3, "")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(teacher: Path, text: Path, out: Path, *, beam: int = 2, **options: Any) -> Path:
    settings = SETTINGS | options.pop("settings", {})
    return distill(
        teacher,
        text,
        out=out,
        beam=beam,
        preset=options.pop("preset", "tiny"),
        settings=settings,
        device="cpu",
        **options,
    )
