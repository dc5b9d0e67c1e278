"""metrics.jsonl: what a run records of itself."""

import contextlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any, Self

from transduce.errors import MissingExtra
from transduce.files import replacing


class Metrics:
    """metrics.jsonl: one object a logged step, and TensorBoard's files if asked."""

    def __init__(self, run: Path, step: int, *, tensorboard: bool) -> None:
        path = run / "metrics.jsonl"
        self._forget_after(path, step)
        self.file = path.open("a", encoding="utf-8")
        self.board = _board(run, step) if tensorboard else None

    def add(self, step: int, **values: float) -> None:
        """Record the values of a step."""
        self.file.write(json.dumps({"step": step, **values}) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(name, value, step)

    def flush(self) -> None:
        """Put what was recorded on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()

    @staticmethod
    def _forget_after(path: Path, step: int) -> None:
        """Drop what a killed run recorded after the checkpoint that it goes on from."""
        if not path.exists():
            return
        kept = []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
        with replacing(path) as beside:
            beside.write_text("".join(kept), encoding="utf-8")


def require_tensorboard() -> None:
    """Say early that TensorBoard's library is missing."""
    if importlib.util.find_spec("tensorboard") is None:
        raise MissingExtra("--tensorboard", "tensorboard", "tensorboard")


def _board(run: Path, step: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)
