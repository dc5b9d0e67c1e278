"""Glossaries and spans are measured in every condition, and no finished run is measured again."""

import json
from pathlib import Path

import measure_terms
import pytest
from conftest import TINY, threads_kept, tiny_pairs
from terms_report import report


def test_every_condition_is_measured_once_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(f"{source} {{x}}", f"{{x}} {target}") for source, target in tiny_pairs(200)]
    text = tmp_path / "pairs.en-de.tsv"
    text.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    own = ("steps", "vocabulary", "batch_tokens")
    arguments = [
        *(str(text), str(text), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")),
        *("--preset", "tiny", "--steps", "2", "--vocabulary", "300", "--batch", "200"),
        *(f"--set={name}={value}" for name, value in TINY.items() if name not in own),
        *("--seeds", "1", "--conditions", "plain,spans", "--jobs", "1", "--terms", "9"),
        *("--sentences", "4", "--device", "cpu"),
    ]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with threads_kept():
        measure_terms.main(arguments)
        first = capsys.readouterr().out
        assert first.count("trained in") == 2
        measure_terms.main(arguments)
    again = capsys.readouterr().out
    assert "trained in" not in again  # both runs are kept
    assert again.splitlines()[:-1] == first.splitlines()[-len(again.splitlines()) : -1]

    figures = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert len(figures["scores"]) == 2 * 5  # conditions, variants
    protected = [row for row in figures["counts"] if row["variant"].startswith("spans")]
    for row in protected:
        exact, total = (
            sum(row["spans"].get(f"{kind}, {key}", 0) for kind in ("copied", "aligned"))
            for key in ("exact", "all")
        )
        assert exact == total == 4
    with_glossary = [row for row in figures["terms"] if "glossary" in row["variant"]]
    assert min(row["found"] for row in with_glossary) > 0
    assert all(
        row["found"] == 0 for row in figures["terms"] if row["variant"] == "plain" and row["seed"]
    )


def test_other_options_need_another_work_folder(tmp_path: Path) -> None:
    text = tmp_path / "pairs.en-de.tsv"
    text.write_text("a dog\tein Hund\n", encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    (work / "options.json").write_text("{}")
    with pytest.raises(SystemExit, match="choose another --work"):
        measure_terms.main([str(text), str(text), "--work", str(work)])


def test_a_report_has_the_differences_of_each_seed() -> None:
    def run(condition: str, seed: int, outputs: list[str]) -> dict[str, object]:
        variant = {"outputs": outputs, "seconds": 1.0, "again": 1, "searches": {}, "spans": {}}
        names = ("plain", "glossary", "required", "spans", "spans+glossary")
        better = {"glossary": {**variant, "outputs": ["drei kleine Hunde laufen schnell"]}}
        variants = dict.fromkeys(names, variant) | better
        return {"condition": condition, "seed": seed, "seconds": 9.0, "variants": variants}

    gathered = {
        "plan": {"test_name": "valid", "preset": "tiny", "steps": 2, "languages": "en-de"},
        "pairs": [("three small dogs run fast", "drei kleine Hunde laufen schnell")],
        "terms": [("dogs", "Hunde")],
        "runs": [run("plain", seed, ["drei kleine Tiere laufen schnell"]) for seed in (1, 2)],
    }
    protected = {
        "plain": False,
        "glossary": False,
        "required": False,
        "spans": True,
        "spans+glossary": True,
    }
    lines, figures = report(gathered, protected)
    gains = [row for row in figures["differences"] if row["what"] == "glossary"]
    assert [(row["seed"], row["difference"] > 50) for row in gains] == [(1, True), (2, True)]
    accuracy = [line for line in lines if line.startswith("plain: glossary  ")]
    assert "100.00 (± 0.00)" in accuracy[0]
