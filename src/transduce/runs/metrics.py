"""Writing metrics.jsonl and samples.jsonl."""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from transduce.runs.tracking import Receiver
from transduce.system.files import (
    MAX_LOG_BYTES,
    name_errors_after,
    open_for_append,
    read_regular,
    write_text_file,
)


class JsonLines:
    """A file to which JSON objects are appended, one per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[str] | None = None

    def append(self, value: dict[str, Any]) -> None:
        """Write an object; the first one creates the file."""
        if self.file is None:
            self.file = open_for_append(self.path, "a")
        with name_errors_after(self.path):
            self.file.write(json.dumps(value, ensure_ascii=False) + "\n")
            self.file.flush()

    def flush(self) -> None:
        """Flush to disk."""
        if self.file is not None:
            with name_errors_after(self.path):
                self.file.flush()
                os.fsync(self.file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            with name_errors_after(self.path):
                self.file.close()


class Metrics(JsonLines):
    """metrics.jsonl: one object per logged step and per validation; receivers get them too."""

    def __init__(
        self,
        run: Path,
        step: int,
        *,
        receivers: Sequence[Receiver] = (),
        validated: int | None = None,
    ) -> None:
        super().__init__(run / "metrics.jsonl")
        drop_after(self.path, step, validated)
        self.file = open_for_append(self.path, "a")
        self.receivers = receivers

    @property
    def failure(self) -> Exception | None:
        """The exception of a receiver that ends training, if there is one."""
        return next((each.failure for each in self.receivers if each.failure), None)

    def add(self, step: int, **values: float) -> None:
        """Record the values for a step."""
        self.append({"step": step, **values})
        for receiver in self.receivers:
            receiver.add(step, values)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for receiver in self.receivers:
            receiver.close()


@dataclass(frozen=True, slots=True)
class Translated:
    """Sentences from the validation set, and their translations by a model."""

    source: Sequence[str]
    reference: Sequence[str]
    outputs: Sequence[str]


class Samples(JsonLines):
    """samples.jsonl: a few sentences, then their translations at each validation."""

    def __init__(self, run: Path, step: int) -> None:
        super().__init__(run / "samples.jsonl")
        self.has_sentences = any("source" in value for value in drop_after(self.path, step))

    def add(self, step: int, translated: Translated) -> None:
        """Record the translations from a validation."""
        if not self.has_sentences:
            self.append({"source": [*translated.source], "reference": [*translated.reference]})
            self.has_sentences = True
        self.append({"step": step, "outputs": [*translated.outputs]})


def drop_after(path: Path, step: int, validated: int | None = None) -> list[dict[str, Any]]:
    """Drop the objects recorded after the checkpoint at `step`; return the others.

    `validated` is the step of the last validation to keep, by default `step`. Objects without a
    step are kept.
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
        write_text_file(path, "".join(lines))
    return objects
