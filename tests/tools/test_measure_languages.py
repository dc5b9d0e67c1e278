"""One model of several languages is compared with single ones, and no model is trained twice."""

import json
from pathlib import Path

import measure_languages
import pytest
from conftest import TINY, threads_kept, tiny_pairs
from three_languages import french

THREE = ("en", "de", "fr")


def test_every_direction_is_measured_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [pair for pair in tiny_pairs(200) if " and " not in pair[0]]
    for split, part in (("train", pairs[20:]), ("val", pairs[:6]), ("test", pairs[6:14])):
        columns = ([s for s, _ in part], [t for _, t in part], [french(s) for s, _ in part])
        for language, lines in zip(THREE, columns, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    own = ("steps", "vocabulary", "batch_tokens")
    arguments = [
        *(str(tmp_path / split) for split in ("train", "val", "test")),
        *("--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--beam", "1"),
        *("--preset", "tiny", "--seconds", "0.01", "--vocabulary", "300", "--batch", "200"),
        *(f"--set={name}={value}" for name, value in TINY.items() if name not in own),
        *("--device", "cpu", "--samples", "20"),
    ]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with threads_kept():
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
