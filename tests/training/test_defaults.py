"""What is chosen if no preset is named."""

from pathlib import Path

import pytest
from small_training import train_small

from transduce.config import apply_settings
from transduce.errors import BadSetting
from transduce.presets import PRESETS, find_preset
from transduce.runs.folder import RunConfig
from transduce.settings.base import Value
from transduce.training import settings
from transduce.training.defaults import CPU, GPU, Row, choose_row
from transduce.training.train import Plan, train

ROWS = (*GPU, *CPU)
Files = tuple[Path, Path]


@pytest.mark.parametrize(("table", "device"), [(GPU, "cuda"), (CPU, "cpu"), (CPU, "mps")])
def test_every_number_of_pairs_has_a_row(table: tuple[Row, ...], device: str) -> None:
    limits = [row.pairs for row in table]
    assert limits == sorted(limits)
    assert [choose_row(int(limit), device) for limit in limits[:-1]] == list(table[:-1])
    assert [choose_row(int(limit) + 1, device) for limit in limits[:-1]] == list(table[1:])


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_is_its_preset_with_its_settings(row: Row) -> None:
    preset, before = row.to_preset(), find_preset(row.preset)
    values = preset.model.to_json() | preset.train.to_json()
    assert values == before.model.to_json() | before.train.to_json() | dict(row.settings)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_documentation_has_every_row(row: Row) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    settings = ", ".join(f"`{name}` {value:,g}" for name, value in row.settings.items())
    assert f"| `{row.preset}`" + (f": {settings} |" if settings else " |") in page


def test_a_large_corpus_on_a_gpu_gets_the_paper() -> None:
    row = choose_row(4_500_000, "cuda")
    assert row.to_preset() == PRESETS["base"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rdrop": "0"}, "P_drop 0.3, rdrop 0, keep 10, average 10"),
        ({"simcut": "3"}, "P_drop 0.3, keep 10, average 10, simcut 3"),  # rdrop excludes it
        ({"P_drop": 0}, "P_drop 0, keep 10, average 10"),  # without dropout, R-Drop does nothing
        ({"keep": 6}, "P_drop 0.3, rdrop 5, keep 6"),  # no more can be averaged than are kept
        ({"keep": "20"}, "P_drop 0.3, rdrop 5, keep 20, average 10"),
        ({"N": "2"}, "P_drop 0.3, rdrop 5, keep 10, average 10"),
    ],
)
def test_a_row_gives_way_to_the_settings_that_are_given(
    given: dict[str, Value], expected: str
) -> None:
    row = Row(1_000, "small", {"P_drop": 0.3, "rdrop": 5, "keep": 10, "average": 10})
    row = row.adapted_to(given)
    assert str(row) == f"preset small with {expected}"
    preset = row.to_preset()
    apply_settings(given, preset.model, preset.train)


def test_settings_that_are_given_replace_those_that_are_chosen(
    upper_case_pairs: Files, tmp_path: Path
) -> None:
    row = choose_row(10, "cpu")
    run = train(
        *upper_case_pairs, out=tmp_path / "run", device="cpu", steps=1, settings={"P_drop": 0.35}
    )
    config = RunConfig.load(run)
    assert config.preset == row.preset
    assert config.model.P_drop == 0.35
    assert (config.train.steps, config.train.average) == (1, row.to_preset().train.average)


def test_a_named_preset_is_not_changed(upper_case_pairs: Files, tmp_path: Path) -> None:
    run = train(*upper_case_pairs, out=tmp_path / "run", device="cpu", steps=1, preset="tiny")
    config, preset = RunConfig.load(run), find_preset("tiny")
    assert config.model.P_drop == preset.model.P_drop
    assert config.train.batch_tokens == preset.train.batch_tokens
    with pytest.raises(BadSetting, match="started with the preset tiny, not small"):
        train(*upper_case_pairs, out=run, device="cpu", steps=2, preset="small")


def test_a_setting_that_is_given_counts_more_than_that_of_the_model_to_start_from(
    upper_case_pairs: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = train_small(upper_case_pairs, tmp_path / "first", steps="2", P_drop="0.2")
    row = Row(1_000, "tiny", {"P_drop": 0.3, "rdrop": 5})
    monkeypatch.setattr(settings, "choose_row", lambda *_: row)
    for P_drop, rdrop in ((0.0, 0.0), (0.1, 5.0)):
        run = train(
            *upper_case_pairs, out=tmp_path / f"{P_drop}", start=first, device="cpu", steps=1,
            settings={"P_drop": P_drop},
        )  # fmt: skip
        config = RunConfig.load(run)
        assert (config.model.P_drop, config.train.rdrop) == (P_drop, rdrop)


def test_settings_are_checked_against_the_rows_of_the_device(tmp_path: Path) -> None:
    """A row for a GPU keeps ten checkpoints, those for a CPU keep five."""
    plan = Plan(run=tmp_path / "run", settings={"average": 8})
    plan.check("cuda")
    with pytest.raises(BadSetting, match="average = 8: expected at most keep, which is 5"):
        plan.check("cpu")
