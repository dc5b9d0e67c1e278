"""A recipe that trains a tiny model in a second, and its texts."""

from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, tiny_pairs, write_pairs

from transduce import datasets as data_sets
from transduce.datasets import catalogue

SETTINGS = "\n".join(
    f"{name} = {value if value.isdecimal() else repr(value)}"
    for name, value in TINY.items()
    if name not in ("steps", "log_every")
)
TEXT = f"""
about = "tiny"
[data]
{{data}}
[train]
preset = "tiny"
steps = {{steps}}
[settings]
{SETTINGS}
[evaluate]
beam = 2
"""
FILES = """source = "train.en"
target = "train.de"
valid = ["valid.en", "valid.de"]
test = ["test.en", "test.de"]"""


def write_texts(folder: Path) -> dict[str, tuple[Path, Path]]:
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"train": (200, 1), "valid": (10, 2), "test": (12, 3)}
    return {
        part: write_pairs(folder, part, tiny_pairs(count, seed))
        for part, (count, seed) in counts.items()
    }


def write_recipe(folder: Path) -> Path:
    """Write the recipe with texts beside it."""
    write_texts(folder)
    path = folder / "mine.toml"
    path.write_text(TEXT.format(data=FILES, steps=6), encoding="utf-8")
    return path


def replace_data_sets(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """Let `transduce.datasets` write tiny texts instead of downloading; return the requests."""
    requests: list[tuple[str, Path]] = []

    def get(name: str, out: Path, *, progress: Any) -> data_sets.DataFiles:
        requests.append((name, out))
        return data_sets.DataFiles(out, ("en", "de"), **write_texts(out))

    monkeypatch.setattr(data_sets, "get", get)
    monkeypatch.setattr(data_sets, "resolve", lambda name: catalogue.find("pocket"))
    monkeypatch.setattr(data_sets, "refuse_foreign", lambda name, out: None)
    return requests
