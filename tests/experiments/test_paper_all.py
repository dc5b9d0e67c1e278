"""`transduce paper all`: all experiments within a time budget, on one page."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine, options, tiny_pairs, write_pairs

from transduce.bench import hardware
from transduce.errors import BadInput, BadRun, BadSetting, Interrupted
from transduce.experiments import all_experiments
from transduce.experiments.all_experiments import NEEDS, ROWS, SHARES, AllExperiments
from transduce.experiments.findings import Finding
from transduce.experiments.rows import Data
from transduce.presets import TABLE_3
from transduce.system.progress import Progress, Silent

Files = tuple[Path, Path]

SIZE = {"N": "1", "h": "2", "d_model": "16", "d_ff": "16", "d_k": "8", "d_v": "8"}
SMALLEST = SIZE | {"vocabulary": "300", "batch_tokens": "400"}


def planned(out: Path, files: Files, seconds: float = 100.0) -> AllExperiments:
    """Return all experiments with a time budget."""
    return AllExperiments(data=Data(train=files), out=out, seconds=seconds, settings=SMALLEST)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the experiments that were started; none of them measures anything."""
    names: list[str] = []

    def run(
        self: AllExperiments, name: str, share: float, until: float, progress: Progress
    ) -> Finding:
        names.append(name)
        if name == "smoothing":
            raise BadSetting("it cannot be done")
        results = dict.fromkeys(ROWS if name == "table3" else [])
        return Finding(name=name, title=name, said="", data={"results": results})

    monkeypatch.setattr(AllExperiments, "_run_experiment", run)
    return names


def test_all_experiments_are_on_one_page(
    cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables, the figures and the page; slow experiments have tests of their own."""
    shares = {name: SHARES[name] for name in ("table2", "table3", "figures")}
    monkeypatch.setattr(all_experiments, "SHARES", shares)
    monkeypatch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(64, "float32", 1, 3))
    hour = {"table2": 3600.0, "table3": 3600.0}
    monkeypatch.setattr(all_experiments, "OVERHEAD", hour)
    monkeypatch.setattr(all_experiments, "LEAST_TRAINING_SHARE", 0.0)  # one second for each
    out, valid = tmp_path / "all", write_pairs(tmp_path, "dev", tiny_pairs(20, seed=2))
    texts: list[str | Path] = [*tiny_files, "--valid", *valid]
    command: list[str | Path] = ["paper", "all", *texts, "--time", "1h"]
    how = ["--systems", "tiny", "--rows", "base", "--device", "cpu", *options(SMALLEST)]
    done = cli(*command, *how, "--out", out)
    assert done.status == 0, done.stderr
    page = (out / "report.html").read_text(encoding="utf-8")
    for name in shares:
        assert (out / name / f"{name}.json").exists()
        assert f'<section id="{name}">' in page
    assert "no trees were given" in page
    again = cli(*command, *how, "--out", out)
    assert again.stderr.count("1 of 1 rows are finished already") == 2


def test_french_is_shown_beside_german_and_memory_networks_need_no_text(
    cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = {name: SHARES[name] for name in ("table2", "table2_en_fr", "memory")}
    monkeypatch.setattr(all_experiments, "SHARES", shares)
    monkeypatch.setattr(all_experiments, "OVERHEAD", dict.fromkeys(shares, 3600.0))
    monkeypatch.setattr(all_experiments, "LEAST_TRAINING_SHARE", 0.0)  # one second for each
    monkeypatch.setattr(all_experiments, "MEMORY", {"steps": 10, "stories": 70})
    monkeypatch.setattr(all_experiments, "MOST_SEEDS", 1)
    monkeypatch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(64, "float32", 1, 3))
    out, valid = tmp_path / "all", write_pairs(tmp_path, "dev", tiny_pairs(20, seed=2))
    french: list[str | Path] = [
        "--french",
        *tiny_files,
        "--french-valid",
        *valid,
        "--set",
        "subwords=bpe",
    ]
    how = ["--systems", "tiny", "--device", "cpu", *options(SMALLEST)]
    texts: list[str | Path] = [*tiny_files, "--valid", *valid, *french]
    done = cli("paper", "all", *texts, "--time", "1h", *how, "--out", out)
    assert done.status == 0, done.stderr
    page = (out / "report.html").read_text(encoding="utf-8")
    for name in shares:
        assert f'<section id="{name}">' in page
    tables = Finding.load(out / "table2_en_fr" / "table2_en_fr.json").tables
    assert any("en-de" in " ".join(table.columns) for table in tables)


def test_french_held_out_text_without_french_is_refused(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    texts: list[str | Path] = [*tiny_files, "--french-test", *tiny_files]
    error = cli("paper", "all", *texts, "--time", "1h", "--out", tmp_path / "all").error
    assert "--french-valid and --french-test go with --french EN FR" in error


@pytest.mark.parametrize(("hours", "semi_supervised"), [(0.5, False), (12, True)])
def test_table_4_is_semi_supervised_if_there_is_time(
    hours: float,
    semi_supervised: bool,
    tiny_files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("table4", "table4_semi"):
        data: dict[str, Any] = {"rows": {}} if name == "table4_semi" else {}
        finding = Finding(name="table4", title=name, said="", data=data)
        monkeypatch.setattr(all_experiments, name, lambda *_, finding=finding: finding)
    monkeypatch.setattr(all_experiments, "SHARES", {"table4": 0.2, "table3": 0.8})
    plan = planned(tmp_path / "all", tiny_files, hours * 3600)
    plan = dataclasses.replace(plan, trees=(tiny_files[0],) * 3, device="cpu")
    finding = plan._table4(plan.shares()["table4"], Silent())
    assert (finding.title == "table4_semi") == semi_supervised
    skipped = plan._unfinished("table4", finding)
    assert [note.partition(";")[0] for note in skipped] == (
        [] if semi_supervised else ["table4: too little time for a semi-supervised parser"]
    )


def test_the_shares_add_up_to_the_time(tiny_files: Files, tmp_path: Path) -> None:
    plan = planned(tmp_path, tiny_files)
    assert sum(plan.shares().values()) == pytest.approx(100)
    assert not {"table4", "table2_en_fr"} & plan.shares().keys()
    assert sorted(ROWS) == sorted(TABLE_3)


def test_a_training_leaves_time_for_work_besides_its_steps() -> None:
    assert all_experiments._budget("table2", 2000.0, 4).seconds == 420
    assert all_experiments._budget("table2", 400.0, 4).seconds == 30


def test_an_experiment_that_fails_does_not_stop_the_others(
    tiny_files: Files, tmp_path: Path, started: list[str]
) -> None:
    saved: list[str] = []
    plan = planned(tmp_path / "all", tiny_files)
    left_out = plan.run(lambda finding, folder: saved.append(folder.name), Silent())
    assert started == [name for name in SHARES if name not in NEEDS]
    assert saved == [name for name in started if name != "smoothing"]
    assert "smoothing: it cannot be done" in left_out
    assert left_out[0].startswith("table2_en_fr: no French was given (--french EN FR)")
    assert left_out[1].startswith("table4: no trees")
    assert any(note.startswith("table2: no time was left for tiny") for note in left_out)


def test_experiments_without_time_are_skipped_and_reported(
    tiny_files: Files, tmp_path: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, *[1.0] * 4, *[99.0] * 60])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    left_out = planned(tmp_path / "all", tiny_files).run(lambda finding, folder: None, Silent())
    assert started == ["table1", "table2", "figures", "scaling"][: len(started)]
    assert any("smoothing: too little of the 1m40s was left" in note for note in left_out)


def test_other_optional_texts_are_refused(
    tiny_files: Files, tmp_path: Path, started: list[str]
) -> None:
    """The time for each experiment depends on them."""
    plan = planned(tmp_path / "all", tiny_files)
    plan.run(lambda finding, folder: None, Silent())
    with_trees = dataclasses.replace(plan, trees=(tiny_files[0],) * 3)
    with pytest.raises(BadRun, match=r"other optional texts \(--french, --trees\)"):
        with_trees.run(lambda finding, folder: None, Silent())
    french = Data(train=tiny_files, languages="en-fr")
    twice = dataclasses.replace(plan, data=french, french=french, out=tmp_path / "two")
    with pytest.raises(BadInput, match="is English and French too: leave out --french"):
        twice.run(lambda finding, folder: None, Silent())


def test_another_time_or_a_foreign_folder_is_refused(
    tiny_files: Files, tmp_path: Path, started: list[str]
) -> None:
    out = tmp_path / "all"
    planned(out, tiny_files).run(lambda finding, folder: None, Silent())
    with pytest.raises(BadRun, match="started with a time of 1m40s, not 3m20s"):
        planned(out, tiny_files, 200).run(lambda finding, folder: None, Silent())
    with pytest.raises(BadRun, match="holds something else"):
        planned(tiny_files[0].parent, tiny_files).run(lambda finding, folder: None, Silent())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"settings": {"d_modl": "16"}}, "there is no setting d_modl"),
        ({"systems": ["smal"]}, "there is no preset smal"),
    ],
)
def test_typing_mistakes_are_refused_before_anything_is_measured(
    changes: dict[str, Any], error: str, tiny_files: Files, tmp_path: Path, started: list[str]
) -> None:
    wrong = dataclasses.replace(planned(tmp_path / "all", tiny_files), **changes)
    with pytest.raises(BadSetting, match=error):
        wrong.run(lambda finding, folder: None, Silent())
    assert started == []


def test_ctrl_c_says_how_to_resume(
    tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> Finding:
        raise KeyboardInterrupt

    monkeypatch.setattr(AllExperiments, "_run_experiment", interrupt)
    with pytest.raises(Interrupted, match="the same command"):
        planned(tmp_path / "all", tiny_files).run(lambda finding, folder: None, Silent())
