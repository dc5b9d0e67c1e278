"""Writing metrics.jsonl and samples.jsonl."""

import contextlib
import importlib.util
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from transduce.errors import MissingExtra
from transduce.system.files import (
    MAX_LOG_BYTES,
    atomic_write,
    name_errors_after,
    open_for_append,
    read_regular,
)


class Metrics:
    """metrics.jsonl: one object for each logged step, and TensorBoard's files if wanted."""

    def __init__(
        self, run: Path, step: int, *, tensorboard: bool, validated: int | None = None
    ) -> None:
        path = run / "metrics.jsonl"
        drop_after(path, step, validated)
        self.file = open_for_append(path, "a")
        self.board = _board(run, step) if tensorboard else None

    def add(self, step: int, **values: float) -> None:
        """Record the values of a step."""
        _append(self.file, {"step": step, **values})
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(name, value, step)

    def flush(self) -> None:
        """Flush to disk."""
        _flush(self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self.file)
        if self.board is not None:
            self.board.close()


@dataclass(frozen=True, slots=True)
class Translated:
    """Sentences of the validation set, and their translations by a model."""

    source: Sequence[str]
    reference: Sequence[str]
    outputs: Sequence[str]


class Samples:
    """samples.jsonl: a few sentences, then their translations at each validation."""

    def __init__(self, run: Path, step: int) -> None:
        self.path = run / "samples.jsonl"
        kept = drop_after(self.path, step)
        self.has_sentences = any("source" in value for value in kept)
        self.file: IO[str] | None = None  # opened when needed

    def add(self, step: int, translated: Translated) -> None:
        """Record the translations of a validation."""
        if self.file is None:
            self.file = open_for_append(self.path, "a")
        if not self.has_sentences:
            sentences = {"source": [*translated.source], "reference": [*translated.reference]}
            _append(self.file, sentences)
            self.has_sentences = True
        _append(self.file, {"step": step, "outputs": [*translated.outputs]})

    def flush(self) -> None:
        """Flush to disk."""
        if self.file is not None:
            _flush(self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            _close(self.file)


def drop_after(path: Path, step: int, validated: int | None = None) -> list[dict[str, Any]]:
    """Drop what a killed run recorded after the checkpoint to resume from; return the rest.

    `validated` is the step of the last validation to keep, if it is another. Objects without a step
    are kept.
    """
    validated = step if validated is None else validated
    if not path.exists():
        return []
    text = read_regular(path, MAX_LOG_BYTES).decode("utf-8", "replace")
    lines, objects = [], []
    for line in text.split("\n"):
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            value = json.loads(line)
            if value.get("step", 0) <= (validated if "valid_loss" in value else step):
                lines.append(line + "\n")
                objects.append(value)
    if "".join(lines) != text:
        with atomic_write(path) as beside:
            beside.write_text("".join(lines), encoding="utf-8", newline="\n")
    return objects


def _append(file: IO[str], value: dict[str, Any]) -> None:
    with name_errors_after(Path(file.name)):
        file.write(json.dumps(value, ensure_ascii=False) + "\n")
        file.flush()


def _flush(file: IO[str]) -> None:
    with name_errors_after(Path(file.name)):
        file.flush()
        os.fsync(file.fileno())


def _close(file: IO[str]) -> None:
    with name_errors_after(Path(file.name)):
        file.close()


def require_tensorboard() -> None:
    """Refuse --tensorboard without its library."""
    if importlib.util.find_spec("tensorboard") is None:
        raise MissingExtra("--tensorboard", "tensorboard", "tensorboard")


def _board(run: Path, step: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)
