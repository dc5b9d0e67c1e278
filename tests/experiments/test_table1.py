"""Table 1: costs grow as powers, and paths are as long as derived by hand."""

import math
from pathlib import Path

import pytest
import torch
from conftest import CommandLine
from hypothesis import given
from hypothesis import strategies as st

from transduce.experiments import table1_measurement
from transduce.experiments.findings import Finding
from transduce.experiments.path_lengths import path_length
from transduce.experiments.statistics import fit_largest, fit_power
from transduce.experiments.table1 import table1
from transduce.experiments.table1_layers import (
    TABLE_1,
    Cost,
    Kind,
    LayerPass,
    Sizes,
    count_operations,
    make_pass,
    measure_cost,
    operations,
)
from transduce.experiments.table1_measurement import Plan
from transduce.system.progress import Silent

CPU = torch.device("cpu")
TINY = Plan(n=(8, 16, 32), d=(16,), r=4, seconds=20)


# --- Paths -------------------------------------------------------------------------------------


def digits(n: int, k: int) -> int:
    """Return log_k n, rounded up."""
    count, reached = 0, 1
    while reached < n:
        count, reached = count + 1, reached * k
    return count


@pytest.mark.parametrize("n", [2, 3, 4, 9, 10, 28, 50])
@pytest.mark.parametrize(("k", "r"), [(3, 3), (2, 4), (5, 9), (3, 32)])
def test_paths_are_as_long_as_derived_by_hand(n: int, k: int, r: int) -> None:
    assert path_length("self-attention", n, k=k, r=r) == 1
    assert path_length("recurrent", n, k=k, r=r) == n
    assert path_length("convolutional", n, k=k, r=r) == math.ceil((n - 1) / (k - 1))
    assert path_length("convolutional", n, k=k, r=r, dilated=True) == digits(n, k)
    assert path_length("restricted", n, k=k, r=r) == math.ceil((n - 1) / ((r - 1) // 2))


# --- Fits --------------------------------------------------------------------------------------


@given(st.floats(-3, 3), st.floats(1e-6, 1e6), st.integers(2, 12))
def test_a_fit_recovers_the_exponent(exponent: float, factor: float, points: int) -> None:
    x = [2.0**i for i in range(points)]
    found = fit_power(x, [factor * value**exponent for value in x])
    assert found is not None
    assert found.exponent == pytest.approx(exponent, abs=1e-9)
    assert (found.first, found.last) == (1, 2 ** (points - 1))
    if points > 2:
        assert found.low == pytest.approx(exponent, abs=1e-6)
    else:
        assert math.isnan(found.low)


def test_the_interval_is_students() -> None:
    """Worked by hand: residuals 0.1, -0.2, 0.1 over 0, 1, 2 leave an error of sqrt(0.03)."""
    away = [0.1, -0.2, 0.1]
    found = fit_power(
        [math.e**i for i in range(3)], [math.e ** (i + y) for i, y in enumerate(away)]
    )
    assert found is not None
    half_width = 12.706 * math.sqrt(0.06 / 1 / 2)
    assert (found.exponent, found.low, found.high) == pytest.approx(
        (1, 1 - half_width, 1 + half_width)
    )
    assert str(found) == f"1.00 ({1 - half_width:.2f} to {1 + half_width:.2f})"


def test_only_large_n_are_fitted_and_one_point_is_not_enough() -> None:
    x = [2.0**i for i in range(8)]
    found = fit_largest(x, [5.0] * 4 + [value**2 for value in x[4:]])
    assert found is not None
    assert found.exponent == pytest.approx(2)
    assert (found.first, found.last) == (16, 128)
    assert fit_power([1], [1]) is None


# --- Costs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["self-attention", "recurrent", "convolutional"])
def test_operations_are_those_that_torch_counts(kind: Kind) -> None:
    for sizes in (Sizes(n=8, d=16, k=3, r=4), Sizes(n=12, d=128, k=5, r=4, batch=2)):
        assert operations(kind, sizes) == count_operations(kind, sizes)


def test_restricted_attention_costs_a_small_multiple_of_its_formula() -> None:
    """Attention is computed in blocks of tokens, each with a window of keys."""
    short, long = (Sizes(n=n, d=16, k=3, r=32) for n in (256, 512))
    assert count_operations("restricted", long) == 2 * count_operations("restricted", short)
    assert 1 <= count_operations("restricted", short) / operations("restricted", short) <= 2.5


def test_exponents_of_the_formulas_are_the_papers() -> None:
    for kind, paper in TABLE_1.items():
        base = operations(kind, Sizes(n=64, d=64, k=3, r=8))
        assert operations(kind, Sizes(n=128, d=64, k=3, r=8)) == base * 2**paper.n
        assert operations(kind, Sizes(n=64, d=128, k=3, r=8)) == base * 2**paper.d


@pytest.mark.parametrize("kind", list(TABLE_1))
def test_memory_for_the_backward_pass_grows_linearly_with_n(kind: Kind) -> None:
    """No n x n matrix is memory: attention uses fused kernels."""
    memory = []
    for n in (128, 256):
        sizes = Sizes(n=n, d=32, k=3, r=8)
        measured = measure_cost(make_pass(kind, sizes, CPU))
        assert measured.forward > 0 < measured.backward
        assert measured.seconds == measured.forward + measured.backward
        memory.append(measured.memory)
    assert 1.2 < memory[1] / memory[0] < 2.1


def test_attention_is_measured_with_and_without_projections() -> None:
    sizes = Sizes(n=8, d=16, k=3, r=4)
    alone = make_pass("restricted", sizes, CPU, projected=False)
    assert (alone.x.shape, alone.weights) == ((8, 48), [])
    whole = make_pass("restricted", sizes, CPU)
    assert (whole.x.shape, len(whole.weights)) == ((8, 16), 2)


# --- The experiment ----------------------------------------------------------------------------


def test_a_row_ends_when_time_runs_out_and_a_note_says_so() -> None:
    finding = table1(Plan(n=TINY.n, d=(16,), r=4, seconds=1e-9), "cpu", Silent())
    assert all(len(row["cells"]) == 1 for row in finding.data["rows"])
    assert finding.notes[-1].startswith("Out of time, these ended before the largest n: self-")
    assert "recurrent of d = 16 after 8" in finding.notes[-1]
    assert finding.notes[0] == "At d = 16 too few n were measured to fit how time grows."


def test_a_row_ends_when_memory_runs_out_and_other_errors_are_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(layer: LayerPass) -> Cost:
        if len(layer.x) > 8:
            raise RuntimeError("CUDA out of memory. Tried to allocate 3 TiB")
        return Cost(1e-3, 1e-3, 1000)

    monkeypatch.setattr(table1_measurement, "measure_cost", full)
    finding = table1(TINY, "cpu", Silent())
    assert finding.notes[-1].startswith("Out of memory, these ended before the largest n: self")
    assert {len(row["cells"]) for row in finding.data["rows"]} == {1}

    def broken(layer: LayerPass) -> Cost:
        raise RuntimeError("illegal instruction")

    monkeypatch.setattr(table1_measurement, "measure_cost", broken)
    with pytest.raises(RuntimeError, match="illegal instruction"):
        table1(TINY, "cpu", Silent())


def test_exponents_are_shown_beside_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With times that grow as in the paper, and some that do not."""

    def timed(layer: LayerPass) -> Cost:
        n, width = layer.x.shape
        if width == 48:  # attention alone
            return Cost(n**2 * 1e-6, n**2 * 1e-6, n)
        return Cost(n**1.5 * 1e-6, n**1.5 * 1e-6, n)

    monkeypatch.setattr(table1_measurement, "measure_cost", timed)
    finding = table1(TINY, "cpu", Silent())
    first = {row[0]: row for row in finding.tables[0].rows}
    assert first["self-attention"][:6] == (
        *("self-attention", "16", "O(n^2 d)", "O(1)", "2", "2.00 (2.00 to 2.00)"),
    )
    assert first["convolutional"][5] == "1.50 (1.50 to 1.50)"
    assert first["self-attention"][-1] == "8 to 32"
    assert finding.notes[0].endswith(
        "farther than 0.25 from it: recurrent, convolutional, restricted."
    )


def test_a_layer_measured_at_one_n_has_no_exponent(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(layer: LayerPass) -> Cost:
        n, width = layer.x.shape
        seconds = n**2 * 1e-9 if width == 48 else 1e9
        return Cost(seconds, seconds, n)

    monkeypatch.setattr(table1_measurement, "measure_cost", timed)
    finding = table1(TINY, "cpu", Silent())
    assert finding.notes[0] == (
        "Time at d = 16 grows with n to the power of: self-attention 2.00 (paper 2), restricted "
        "2.00 (paper 1); farther than 0.25 from it: restricted; too few n were measured of: "
        "recurrent, convolutional."
    )


def test_a_file_as_out_is_refused_before_anything_is_measured(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "out").touch()
    result = cli("paper", "table1", "--out", tmp_path / "out")
    assert result.error == f"--out {tmp_path / 'out'} is a file: expected a folder"
    assert not result.stdout


def test_table1_runs_from_the_command_line(cli: CommandLine, tmp_path: Path) -> None:
    done = cli(
        *("paper", "table1", "--n", "8..32", "--d", "16,32", "--r", "4", "--device", "cpu"),
        *("--batch", "2", "--out", tmp_path),
    )
    assert done.status == 0, done.stderr
    for words in ("self-attention + projections", "O(k n d^2)", "O(log_k n)", "And with d: "):
        assert words in done.stdout
    finding = Finding.load(tmp_path / "table1.json")
    assert [row["layer"] for row in finding.data["rows"][:6]] == [
        *("self-attention", "self-attention", "recurrent", "convolutional"),
        *("restricted", "restricted"),
    ]
    for row in finding.data["rows"]:
        assert [cell["n"] for cell in row["cells"]] == [8, 16, 32]
        assert all(cell["forward"] > 0 and cell["memory"] > 0 for cell in row["cells"])
    assert finding.data["batch"] == 2
    assert (tmp_path / "table1.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--n", "many", "--n many: expected numbers such as 512,1024"),
        ("--n", "64..16", "--n 64..16: expected a range such as 16..8192"),
        ("--n", "0..16", "--n 0..16: expected a range such as 16..8192"),
        ("--n", "1,2", "--n 1: expected 2 to 1,048,576 tokens"),
        ("--d", "15", "--d 15: expected an even number, at most 32,768"),
        ("--d", "wide", "--d wide: expected numbers such as 512,1024"),
        ("--k", "1", "--k 1: expected a width of 2 to 1,000"),
        ("--r", "2", "--r 2: expected 3 to 32,768 tokens, so that it extends in both directions"),
        ("--seconds", "0", "--seconds 0: expected more than 0"),
        ("--k", "1001", "--k 1001: expected a width of 2 to 1,000"),
        ("--batch", "0", "--batch 0: expected 1 to 65,536 sentences"),
    ],
)
def test_impossible_sizes_are_refused_in_one_sentence(
    option: str, value: str, expected: str, cli: CommandLine
) -> None:
    assert cli("paper", "table1", option, value, "--device", "cpu").error == expected
