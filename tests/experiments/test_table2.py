"""`transduce paper table2`: a system that the paper names without a number."""

from pathlib import Path

import pytest
from conftest import TINY, CommandLine, options, tiny_pairs, write_pairs

from transduce.bench import hardware
from transduce.corpus.token_files import open_corpus
from transduce.experiments.experiment_folder import read_result
from transduce.experiments.findings import Finding
from transduce.experiments.rows import Result
from transduce.experiments.table2 import PAPERS_SYSTEM, SYSTEMS
from transduce.model.architecture import MODELS
from transduce.presets import find_preset


def test_every_earlier_model_is_compared_by_default_on_every_machine() -> None:
    for names in SYSTEMS.values():
        architectures = [find_preset(name).model.architecture for name in names]
        assert architectures == [*MODELS]
        assert {*architectures} == {*PAPERS_SYSTEM}


def test_the_neural_gpu_has_a_row_with_its_flops_and_no_number_of_the_paper(
    cli: CommandLine,
    tiny_files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(64, "float32", 1, 3))
    out, test = tmp_path / "t2", write_pairs(tmp_path, "test", tiny_pairs(10, seed=3))
    own = {"d_ff": "32", "N": "1", "P_drop": "0", "validate_bleu": "0", "batch_tokens": "200"}
    left_out = ("steps", "save_every", "validate_every", "h", "d_k", "d_v")
    settings = {name: value for name, value in (TINY | own).items() if name not in left_out}
    how = ["--systems", "tiny,neural-gpu-tiny", "--steps", "4", "--device", "cpu"]
    how += [*options(settings)]
    done = cli("paper", "table2", *tiny_files, *how, "--test", *test, "--out", out)
    assert done.status == 0, done.stderr
    finding = Finding.load(out / "table2.json")
    quality, cost, _ = finding.tables
    assert quality.rows[1][0] == "neural-gpu-tiny"
    assert quality.rows[1][6:] == ("Extended Neural GPU", "", "")
    assert cost.rows[1][-1] == ""
    (note,) = (note for note in finding.notes if "Extended Neural GPU" in note)
    assert "gives no number for it" in note
    assert "that number is not from the paper" in note
    result = read_result(out / "neural-gpu-tiny", Result)
    part = open_corpus(out / "corpus").train
    square, words = 32 * 32, result.model["target_vocabulary"]
    weights = 0
    for source, target in (part.pair(number) for number in range(len(part))):
        n, T = len(source), len(target)
        rows = n * n + sum(max(n, t) for t in range(1, T + 1))
        weights += rows * 9 * square + (T - 1) * 9 * square + T * (square + 32 * words)
    assert result.flops == pytest.approx(6 * weights * result.epochs)
