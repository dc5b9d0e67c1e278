"""Run folders written by tests, with the metrics that training would have logged."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.config import ModelConfig, TrainConfig
from transduce.runs.folder import RunConfig

SOURCES = ["Two dogs run.", "A man sleeps.", "Nobody came <b>today</b>."]
REFERENCES = ["Zwei Hunde laufen.", "Ein Mann schläft.", "Heute kam niemand."]


def training(*steps: int, loss: float = 9.0, pace: float = 0.5) -> list[dict[str, float]]:
    """Return the metrics of training at these steps."""
    return [
        {
            "step": step,
            "epoch": 0,
            "loss": loss / (1 + step / 500),
            "nll": 1.0,
            "perplexity": math.exp(loss / (1 + step / 500)),
            "learning_rate": step * 1e-6,
            "target_tokens_per_second": 1000.0 + step,
            "seconds": pace * step,
        }
        for step in steps
    ]


def validation(*steps: int, loss: float = 9.0) -> list[dict[str, float]]:
    """Return the metrics of validation after these steps."""
    return [
        {
            "step": step,
            "valid_loss": loss / (1 + step / 600),
            "valid_nll": 1.0,
            "valid_perplexity": math.exp(loss / (1 + step / 600)),
            "valid_bleu": step / 100,
        }
        for step in steps
    ]


def samples(*outputs: tuple[int, str, str, str]) -> list[dict[str, Any]]:
    """Return lines of samples.jsonl: the sentences, then the outputs of each step."""
    return [
        {"source": SOURCES, "reference": REFERENCES},
        *({"step": step, "outputs": texts} for step, *texts in outputs),
    ]


def append(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add lines to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_run(
    run: Path,
    rows: Sequence[Mapping[str, Any]],
    translated: Sequence[Mapping[str, Any]] = (),
    **settings: Any,
) -> Path:
    """Write a run folder with these metrics."""
    run.mkdir(parents=True)
    config = RunConfig(
        model=ModelConfig(source_vocabulary=100, target_vocabulary=100),
        train=TrainConfig(**{"steps": 5000, "validate_bleu": 100} | settings),
        languages=("en", "de"),
        preset="tiny",
    )
    config.save(run)
    ordered = sorted(rows, key=lambda row: (row["step"], "valid_loss" in row))
    append(run / "metrics.jsonl", ordered)
    if translated:
        append(run / "samples.jsonl", translated)
    return run
