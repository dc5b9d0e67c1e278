"""Helpers for tests of the cache of CTranslate2 exports."""

from pathlib import Path

import pytest
import torch
from conftest import tiny_pairs

from transduce.checkpoints.checkpoint import save_model
from transduce.interop.export import ctranslate2_cache as cache
from transduce.runs.arrays import load_arrays
from transduce.runs.folder import RunConfig
from transduce.translation.translator import Translator


def load(run: Path, quantize: str = "none") -> Translator:
    return Translator.load(run, engine="ctranslate2", quantize=quantize)


def entries(folder: Path) -> list[Path]:
    """Return the exports of a cache; nothing else may be left in it."""
    found = sorted((folder / "ctranslate2").iterdir())
    assert all(cache.KEY.fullmatch(path.name) for path in found)
    return found


def change_weights(run: Path, factor: float) -> None:
    arrays = load_arrays(run / "model.safetensors")
    tensors = {name: torch.from_numpy(one) * factor for name, one in arrays.items()}
    save_model(run, RunConfig.load(run), tensors, "changed")


def assert_translates_by_its_weights(run: Path) -> None:
    expected = Translator.load(run, engine="torch").score(tiny_pairs(3))
    for found, ours in zip(load(run).score(tiny_pairs(3)), expected, strict=True):
        assert found.score == pytest.approx(ours.score, abs=1e-3)
