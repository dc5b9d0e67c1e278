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


def made(run: Path) -> dict[str, str]:
    """Return the hash of every file of a run, except those with times."""
    told = {path: value for path, value in snapshot(run).items() if not clocked(path)}
    assert len(told) > 15
    return told


def clocked(path: str) -> bool:
    return path.endswith(("state.json", "metrics.jsonl"))


def logged(run: Path) -> list[dict[str, float]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k not in TIMED} for line in lines]


@pytest.fixture(scope="module")
def runs(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One command, twice, in processes whose hashes are seeded otherwise."""
    folder, found = tmp_path_factory.mktemp("runs"), []
    for seed in ("1", "2"):
        home = folder / seed
        home.mkdir()
        command = ["train", *map(str, tiny_files), "--out", "run", "--preset", "tiny"]
        subprocess.run(
            [*COMMAND, *command, "--device", "cpu", *options(SETTINGS)],
            cwd=home,
            env=environment({"PYTHONHASHSEED": seed}),
            check=True,
            capture_output=True,
        )
        found.append(home / "run")
    return found


def test_a_text_is_prepared_and_a_model_trained_to_the_same_bytes(runs: list[Path]) -> None:
    one, other = map(made, runs)
    assert {"config.json", "corpus/manifest.json", "model.safetensors"} <= one.keys()
    assert one == other
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
    one, other = made(runs[0]), made(out)
    assert json.loads((out / "config.json").read_text())["train"]["deterministic"] is True
    assert {name for name in one if one[name] != other[name]} == {"config.json"}


def test_checkpoints_have_one_mean(runs: list[Path], tmp_path: Path, cli: CommandLine) -> None:
    found = []
    for number, run in enumerate(runs):
        own = Path(shutil.copytree(run, tmp_path / str(number)))
        result = cli("average", own, "--last", "2")
        assert result.status == 0, result.stderr
        found.append((own / "model.safetensors").read_bytes())
    assert found[0] == found[1]


def test_translations_do_not_depend_on_the_hash_seed(
    runs: list[Path], tiny_files: Files, run_cli: CommandLine
) -> None:
    found = []
    for run, seed in zip(runs, ("1", "2"), strict=True):
        result = run_cli(
            *("translate", run, "--engine", "torch", "--device", "cpu", "--nbest", "2"),
            input="".join(tiny_files[0].read_text().splitlines(keepends=True)[:20]),
            env={"PYTHONHASHSEED": seed},
        )
        assert result.status == 0, result.stderr
        found.append(result.stdout)
    assert found[0] == found[1]
    assert found[0].strip()


def test_a_corpus_does_not_depend_on_batch_size_or_threads(
    runs: list[Path],
    tiny_files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    """And with as many threads as tokenizers likes."""
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
