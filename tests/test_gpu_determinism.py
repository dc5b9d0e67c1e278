"""With the setting `deterministic`, the same seed on one GPU gives the same bits."""

import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND, environment, options, snapshot

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

Files = tuple[Path, Path]
# The shape of `small`, but for its depth and its vocabulary.
SETTINGS = {
    "N": "2",
    "vocabulary": "300",
    "batch_tokens": "1500",
    "steps": "30",
    "save_every": "10",
    "validate_every": "15",
    "validate_bleu": "8",
    "log_every": "5",
    "threads": "1",
}


def train(files: Files, out: Path, preset: str, **changes: str) -> None:
    """Train in a process of its own."""
    words = options(SETTINGS | changes)
    subprocess.run(
        [
            *(*COMMAND, "train", *map(str, files), "--out", str(out)),
            *("--preset", preset, "--device", "cuda", "--deterministic", *words),
        ],
        env=environment(),
        check=True,
        timeout=300,
    )


def learned(run: Path) -> dict[str, str]:
    """Return the hashes of all that was learned."""
    return {name: value for name, value in snapshot(run).items() if name.endswith(".safetensors")}


WAYS = {
    "packed, bf16, CUDA graph": ("small", {}),
    "float32": ("small", {"precision": "float32"}),
    "torch's kernels": ("small", {"kernels": "false"}),
    "dropout in attention": ("small", {"attention_dropout": "0.1"}),
    "layers computed again": ("small", {"recompute": "true"}),
    "additive attention": ("small", {"attention": "additive"}),
    "in pieces": ("small", {"accumulate": "3"}),
    "cuDNN's LSTM": ("recurrent-tiny", {"N": "1"}),
    "ConvS2S": ("convs2s-tiny", {}),
    "ByteNet": ("bytenet-tiny", {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_gives_the_same_bits(way: str, tiny_files: Files, tmp_path: Path) -> None:
    preset, changes = WAYS[way]
    for name in ("one", "other"):
        train(tiny_files, tmp_path / name, preset, **changes)
    one, other = (learned(tmp_path / name) for name in ("one", "other"))
    assert len(one) > 6
    assert one == other


def test_a_run_that_was_stopped_gives_the_same_bits(tiny_files: Files, tmp_path: Path) -> None:
    changes = {"validate_every": "10", "cooldown": "0"}  # a rate that does not know the end
    train(tiny_files, tmp_path / "whole", "small", **changes)
    train(tiny_files, tmp_path / "stopped", "small", **changes, steps="20")
    train(tiny_files, tmp_path / "stopped", "small", **changes)
    assert learned(tmp_path / "whole") == learned(tmp_path / "stopped")


def test_another_seed_gives_other_bits(tiny_files: Files, tmp_path: Path) -> None:
    train(tiny_files, tmp_path / "one", "small")
    train(tiny_files, tmp_path / "other", "small", seed="2")
    one, other = (learned(tmp_path / name) for name in ("one", "other"))
    assert one.keys() == other.keys()
    assert not any(one[name] == other[name] for name in one)
