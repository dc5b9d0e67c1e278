"""The arithmetic of the scaling model, against numbers computed by hand."""

import pytest

import scaling_model
from scaling_model import BUCKET, LOGGED, Machine, Model, all_reduce, predict

FAST = Machine(gpus=4, within=100.0, between=50.0, achieved=1.0, hop=0.0)
MODEL = Model("m", speed=1_000.0, parameters=1_000, last=100)


def test_an_all_reduce_moves_each_byte_twice_within_and_between_machines() -> None:
    assert all_reduce(400.0, 1, FAST) == 0
    assert all_reduce(400.0, 2, FAST) == pytest.approx(2 * 1 / 2 * 400 / 100)
    assert all_reduce(400.0, 4, FAST) == pytest.approx(2 * 3 / 4 * 400 / 100)
    between = 2 * 1 / 2 * 400 / 50
    assert all_reduce(400.0, 8, FAST) == pytest.approx(2 * 3 / 4 * 400 / 100 + between)


def test_every_bucket_pays_the_latency_of_its_hops() -> None:
    machine = Machine(gpus=4, within=1e30, between=1e30, hop=0.5)
    hops = 2 + 1  # of 4 GPUs, of 2 machines
    assert all_reduce(BUCKET, 8, machine) == pytest.approx(2 * hops * 0.5)
    assert all_reduce(BUCKET + 1, 8, machine) == pytest.approx(2 * 2 * hops * 0.5)


def test_compute_hides_all_but_the_last_gradient() -> None:
    # All: 2 * 3/4 * 4,000 / 100 = 60 s; the last parameter: 6 s; 54 s are hidden by 2/3 of 90 s.
    step = predict(MODEL, 4, 90_000, FAST, largest=100_000)
    assert (step.ideal, step.compute) == (90, 90)
    assert step.communication == pytest.approx(60)
    assert step.exposed == pytest.approx(6)
    assert step.overlapped == pytest.approx(90 / 96)
    assert step.sequential == pytest.approx(90 / 150)
    assert step.tokens == 360_000


def test_only_the_last_micro_batch_hides_communication() -> None:
    # 3 passes of 30 s: 54 s are hidden by 2/3 of 30 s.
    step = predict(MODEL, 4, 90_000, FAST, largest=30_000)
    assert step.compute == 90
    assert step.exposed == pytest.approx(6 + 54 - 20)


def test_gradients_of_half_the_size_take_half_the_time() -> None:
    whole, half = (predict(MODEL, 8, 10, FAST, width=width).communication for width in (4, 2))
    assert half == pytest.approx(whole / 2)


def test_a_pass_takes_at_least_the_time_of_its_launches() -> None:
    step = predict(MODEL, 1, 4_000, FAST, launch=3.0, largest=2_000)
    assert (step.ideal, step.compute) == (4, 6)
    assert step.overlapped == pytest.approx(4 / 6)


def test_models_have_the_sizes_of_the_paper() -> None:
    base, big = scaling_model.paper_model("base", 1.0), scaling_model.paper_model("big", 1.0)
    assert base.last == 37_000 * 512
    assert 62e6 < base.parameters < 64e6
    assert 213e6 < big.parameters < 215e6


def test_logged_runs_lie_between_no_overlap_and_perfect_scaling() -> None:
    """docs/many-gpus.md says so: the prediction without overlap is the one to rely on."""
    found = list(scaling_model.compare_with_logs())
    assert [gpus for gpus, *_ in found] == [gpus for gpus, *_ in LOGGED]
    for _, logged, overlapped, sequential in found:
        assert sequential - 0.03 < logged <= 1
        assert sequential <= overlapped


def test_the_table_has_a_row_for_each_model_network_and_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scaling_model.main(["--gpus", "8", "64"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "predicted, not measured"
    table = [line.split("\t") for line in lines[1 : lines.index("")]]
    assert all(len(row) == len(scaling_model.HEADER) for row in table)
    where = ["one machine", "infiniband-400", "ethernet-100"]
    assert [row[:2] for row in table[1:]] == [[m, w] for m in ("base", "big") for w in where]
