"""The same seed on the same machine gives the same bits on a CPU."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND, TINY, CommandLine, environment, options, snapshot

from transduce.corpus import encoding

Files = tuple[Path, Path]
SETTINGS = TINY | {"steps": "10", "validate_every": "5", "P_drop": "0.1"}
TIMED = ("seconds", "target_tokens_per_second")


def hashes_of(run: Path) -> dict[str, str]:
    """Return the hash of every file of a run, except those with times."""
    hashes = {path: digest for path, digest in snapshot(run).items() if not has_times(path)}
    assert len(hashes) > 15
    return hashes


def has_times(path: str) -> bool:
    return path.endswith(("state.json", "metrics.jsonl"))


def logged(run: Path) -> list[dict[str, float]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k not in TIMED} for line in lines]


@pytest.fixture(scope="module")
def runs(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one command, in processes with different PYTHONHASHSEED."""
    folder, trained = tmp_path_factory.mktemp("runs"), []
    for seed in ("1", "2"):
        directory = folder / seed
        directory.mkdir()
        command = ["train", *map(str, tiny_files), "--out", "run", "--preset", "tiny"]
        subprocess.run(
            [*COMMAND, *command, "--device", "cpu", *options(SETTINGS)],
            cwd=directory,
            env=environment({"PYTHONHASHSEED": seed}),
            check=True,
            capture_output=True,
        )
        trained.append(directory / "run")
    return trained


def test_preparation_and_training_give_the_same_bytes(runs: list[Path]) -> None:
    first, second = map(hashes_of, runs)
    assert {"config.json", "corpus/manifest.json", "model.safetensors"} <= first.keys()
    assert first == second
    assert logged(runs[0]) == logged(runs[1])


def test_the_bytes_are_the_same_with_deterministic(
    runs: list[Path], tiny_files: Files, tmp_path: Path, cli: CommandLine
) -> None:
    out = tmp_path / "run"
    result = cli(
        *("train", *tiny_files, "--out", out, "--preset", "tiny", "--device", "cpu"),
        *("--deterministic", *options(SETTINGS)),
    )
    assert result.status == 0, result.stderr
    plain, deterministic = hashes_of(runs[0]), hashes_of(out)
    assert json.loads((out / "config.json").read_text())["train"]["deterministic"] is True
    assert {name for name in plain if plain[name] != deterministic[name]} == {"config.json"}


def test_averaging_gives_the_same_bytes(runs: list[Path], tmp_path: Path, cli: CommandLine) -> None:
    models = []
    for number, run in enumerate(runs):
        copy = Path(shutil.copytree(run, tmp_path / str(number)))
        result = cli("average", copy, "--last", "2")
        assert result.status == 0, result.stderr
        models.append((copy / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_translations_do_not_depend_on_the_hash_seed(
    runs: list[Path], tiny_files: Files, run_cli: CommandLine
) -> None:
    outputs = []
    for run, seed in zip(runs, ("1", "2"), strict=True):
        result = run_cli(
            *("translate", run, "--engine", "torch", "--device", "cpu", "--nbest", "2"),
            input="".join(tiny_files[0].read_text().splitlines(keepends=True)[:20]),
            env={"PYTHONHASHSEED": seed},
        )
        assert result.status == 0, result.stderr
        outputs.append(result.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].strip()


def test_a_corpus_does_not_depend_on_batch_size_or_threads(
    runs: list[Path],
    tiny_files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    monkeypatch.setattr(encoding, "BATCH_PAIRS", 7)
    monkeypatch.setenv("RAYON_NUM_THREADS", "3")
    out = tmp_path / "run"
    result = cli(
        *("train", *tiny_files, "--out", out, "--preset", "tiny", "--device", "cpu"),
        *options(SETTINGS | {"steps": "1"}),
    )
    assert result.status == 0, result.stderr
    assert snapshot(out / "corpus") == snapshot(runs[0] / "corpus")
    assert (out / "subwords.json").read_bytes() == (runs[0] / "subwords.json").read_bytes()
