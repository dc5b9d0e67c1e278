"""With the setting `deterministic`, the same seed on one GPU gives the same bits.

Starting a process and torch takes longer than a training of 30 steps, so each process trains
several runs, and all processes run at the same time.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from attention_settings import MODERN
from conftest import environment, options, snapshot

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

Files = tuple[Path, Path]
# The shape of `small`, except for its depth and its vocabulary.
SETTINGS = dict(
    pair.split("=")
    for pair in [
        "N=2",
        "vocabulary=300",
        "batch_tokens=1500",
        "steps=30",
        "save_every=10",
        "validate_every=15",
        "validate_bleu=8",
        "log_every=5",
        "threads=1",
    ]
)
WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "packed, bf16, CUDA graph": ("small", {}),
    "float32": ("small", {"precision": "float32"}),
    "torch's kernels": ("small", {"kernels": "false"}),
    "dropout in attention": ("small", {"attention_dropout": "0.1"}),
    "layers computed again": ("small", {"recompute": "true"}),
    "additive attention": ("small", {"attention": "additive"}),
    "Muon": ("small", {"optimizer": "muon"}),
    "settings that are not in the paper": ("small", {k: str(v) for k, v in MODERN.items()}),
    "BPE dropout": ("small", {"bpe_dropout": "0.1"}),
    "in pieces": ("small", {"accumulate": "3"}),
    "cuDNN's LSTM": ("recurrent-tiny", {"N": "1"}),
    "ConvS2S": ("convs2s-tiny", {}),
    "ByteNet": ("bytenet-tiny", {}),
    "Neural GPU": ("neural-gpu-tiny", {}),
}
# A schedule that does not depend on the number of steps.
STOPPED = {"validate_every": "10", "cooldown": "0", "warmup": "10"}
OPTIMIZERS = ("adam", "muon")
# Runs commands one after the other in one process.
COMMANDS = """
import json, sys
from transduce.cli import main
for words in json.load(sys.stdin):
    sys.argv = ["transduce", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def command(files: Files, out: Path, preset: str, **changes: str) -> list[str]:
    """Return the arguments of a training command."""
    return [
        *("train", *map(str, files), "--out", str(out), "--preset", preset),
        *("--device", "cuda", "--deterministic", *options(SETTINGS | changes)),
    ]


@pytest.fixture(scope="module")
def runs(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train with every setting twice, in different processes, and the runs of the other tests."""
    folder = tmp_path_factory.mktemp("runs")
    plans = [
        [
            command(tiny_files, folder / name / str(number), preset, **changes)
            for number, (preset, changes) in enumerate(WAYS.values())
            if number % 2 == share
        ]
        for name in ("first", "second")
        for share in (0, 1)
    ]
    for optimizer in OPTIMIZERS:
        changes = {**STOPPED, "optimizer": optimizer}
        plans[1].append(command(tiny_files, folder / optimizer / "whole", "small", **changes))
        for steps in ("20", "30"):
            out = folder / optimizer / "stopped"
            plans[3].append(command(tiny_files, out, "small", **changes, steps=steps))
    plans[2].append(command(tiny_files, folder / "another seed", "small", seed="2"))
    started = []
    for number, plan in enumerate(plans):
        (folder / f"{number}.json").write_text(json.dumps(plan))
        with (folder / f"{number}.json").open() as file:
            started.append(
                subprocess.Popen([sys.executable, "-c", COMMANDS], stdin=file, env=environment())
            )
    assert [process.wait(300) for process in started] == [0] * len(plans)
    return folder


def learned(run: Path) -> dict[str, str]:
    """Return the hashes of all weights and checkpoints."""
    return {name: value for name, value in snapshot(run).items() if name.endswith(".safetensors")}


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_gives_the_same_bits(way: str, runs: Path) -> None:
    number = str([*WAYS].index(way))
    first, second = (learned(runs / name / number) for name in ("first", "second"))
    assert len(first) > 6
    assert first == second


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_that_was_stopped_gives_the_same_bits(optimizer: str, runs: Path) -> None:
    assert learned(runs / optimizer / "whole") == learned(runs / optimizer / "stopped")


def test_another_seed_gives_other_bits(runs: Path) -> None:
    first, second = learned(runs / "first" / "0"), learned(runs / "another seed")
    assert first.keys() == second.keys()
    assert not any(first[name] == second[name] for name in first)
