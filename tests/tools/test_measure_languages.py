"""One model of several languages is compared with single ones, and no model is trained twice."""

import json
from collections.abc import Iterator
from pathlib import Path

import measure_languages
import pytest
from conftest import TINY, threads_kept, tiny_pairs
from three_languages import french

from transduce.runs.folder import RunConfig

THREE = ("en", "de", "fr")


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts in three languages, and options for models that are trained in a moment."""
    pairs = [pair for pair in tiny_pairs(200) if " and " not in pair[0]]
    for split, part in (("train", pairs[20:]), ("val", pairs[:6]), ("test", pairs[6:14])):
        columns = ([s for s, _ in part], [t for _, t in part], [french(s) for s, _ in part])
        for language, lines in zip(THREE, columns, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    own = ("steps", "vocabulary", "batch_tokens")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with threads_kept():
        yield [
            *(str(tmp_path / split) for split in ("train", "val", "test")),
            *("--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--beam", "1"),
            *("--preset", "tiny", "--vocabulary", "300", "--batch", "200"),
            *(f"--set={name}={value}" for name, value in TINY.items() if name not in own),
            *("--device", "cpu", "--samples", "20"),
        ]


def test_every_direction_is_measured_and_compared(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments += ["--seconds", "0.01"]
    measure_languages.main(arguments)
    first = capsys.readouterr()
    assert first.err.count("trained in") == 8
    measure_languages.main(arguments)
    again = capsys.readouterr()
    assert (again.out, "trained in" in again.err) == (first.out, False)
    report = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    directions = ["en-de", "en-fr", "de-en", "de-fr", "fr-en", "fr-de"]
    assert [*report["differences"]] == [*directions, "mean"]
    assert report["zero-shot"] == ["de-fr", "fr-de"]
    mean, low, high = report["differences"]["mean"]
    assert low <= mean <= high
    assert {"pivot de-fr", "pivot de-en-fr", "joint fr-de", "single en-de"} < report["bleu"].keys()
    extra = report["parameters"]["joint"] - report["parameters"]["single"]
    assert extra % int(TINY["d_model"]) == 0, "tokens of target languages, and other pieces"
    with pytest.raises(SystemExit, match="choose another --work"):
        measure_languages.main([*arguments, "--batch", "300"])


def test_kinds_of_models_are_trained_apart_for_so_many_steps(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments += ["--steps", "2", "--languages", "en,de"]
    trained = {"single": ["single-en-de-1", "single-de-en-1"], "joint": ["joint-1"]}
    for kind, names in trained.items():
        measure_languages.main([*arguments, "--kinds", kind])
        shown = capsys.readouterr()
        assert [line.split(":")[0] for line in shown.err.splitlines() if "trained" in line] == names
        assert shown.out == ""
    assert not (tmp_path / "out").exists(), "made when all models are trained"
    measure_languages.main(arguments)
    shown = capsys.readouterr()
    assert "trained in" not in shown.err
    assert "| en-de | " in shown.out
    steps = {}
    for name in ("single-en-de-1", "joint-1"):
        selection = RunConfig.load(tmp_path / "work" / name).selection
        assert selection is not None
        steps[name] = selection.step
    assert steps == {"single-en-de-1": 2, "joint-1": 4}
    with pytest.raises(SystemExit, match="--kinds triple: expected single, joint, pivot"):
        measure_languages.main([*arguments, "--kinds", "single,triple"])
