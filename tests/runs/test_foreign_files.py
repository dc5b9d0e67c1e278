"""Commands neither overwrite nor delete files that they did not write."""

from pathlib import Path

import pytest
from conftest import CommandLine, snapshot

from transduce.errors import TransduceError
from transduce.experiments.findings import Finding


def test_getting_data_deletes_nothing_that_only_looks_like_its_own(
    cli: CommandLine, tmp_path: Path
) -> None:
    project, other = tmp_path / "proj", tmp_path / "other"
    mine = [
        *("sub/.data.old-2019/results.csv", ".notes.writing-7", ".x.spool-1/a", ".tmpAbCd12"),
        *("sub/.tmpAbCd12", "sub/.a.removing-1/b", ".transduce-0123456789abcdef/c"),
    ]
    for folder in (project, other):
        for name in mine:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("mine")
    (project / "linked").symlink_to(other)
    before = snapshot(tmp_path)
    assert cli("data", "get", "pocket", "--out", project).status == 0
    after = snapshot(tmp_path)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize("name", ["data.json", "archives/mine.tgz"])
def test_getting_data_does_not_overwrite_files_of_others(
    name: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = snapshot(tmp_path)
    assert "which transduce did not write" in cli("data", "get", "pocket", "--out", tmp_path).error
    assert snapshot(tmp_path) == before


def test_averaging_deletes_nothing_that_only_looks_like_its_own(
    cli: CommandLine, own_run: Path
) -> None:
    mine = ["checkpoints/.mine.old-2019/file", ".a.writing-1", "corpus/.tmpAbCd12"]
    for name in mine:
        (own_run / name).parent.mkdir(parents=True, exist_ok=True)
        (own_run / name).write_text("mine")
    assert cli("average", own_run, "--last", "1").status == 0
    assert [(own_run / name).read_text() for name in mine] == ["mine"] * 3


@pytest.mark.parametrize("name", ["train.en", "notes.txt", "data.json"])
def test_the_demo_does_not_write_into_a_folder_of_others(
    name: str, cli: CommandLine, tmp_path: Path
) -> None:
    data = tmp_path / "mt-data"
    data.mkdir()
    (data / name).write_text("mine")
    done = cli("demo", "--out", tmp_path / "mt", "--pairs", "1000", "--test", "5", "--time", "1s")
    assert f"mt-data holds {name}, which transduce did not write" in done.error
    assert snapshot(tmp_path) == {f"mt-data/{name}": snapshot(tmp_path)[f"mt-data/{name}"]}
    assert not (tmp_path / "mt").exists()


def test_the_texts_of_the_demo_are_rewritten_only_if_unchanged(tmp_path: Path) -> None:
    from transduce.datasets.pocket.files import write

    first = write(tmp_path / "data", 1000, 5)
    before = snapshot(tmp_path)
    write(tmp_path / "data", 1000, 5)
    assert snapshot(tmp_path) == before
    with pytest.raises(TransduceError, match="a run was trained on them"):
        write(tmp_path / "data", 1100, 5, overwrite=False)
    write(tmp_path / "data", 1100, 5)
    assert len(first["train"][0].read_text().splitlines()) == 1100
    (tmp_path / "data" / "notes.txt").touch()
    first["train"][0].write_text("changed by hand\n")
    with pytest.raises(TransduceError, match=r"holds train.en, which transduce did not write"):
        write(tmp_path / "data", 1000, 5)
    assert first["train"][0].read_text() == "changed by hand\n"
    # Older versions kept no record of what they wrote.
    write(tmp_path / "older", 1000, 5)
    (tmp_path / "older" / "data.json").unlink()  # older versions had none
    write(tmp_path / "older", 1000, 5)


@pytest.mark.parametrize("name", ["subwords.json", "recipe.toml", "notes.txt", ".lock"])
def test_training_does_not_write_into_a_folder_of_others(
    name: str, cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text("mine")
    (run / "lexicon.json").write_text("mine")
    before = snapshot(tmp_path)
    assert "holds something else" in cli("train", *tiny_files, "--out", run).error
    assert snapshot(tmp_path) == before


def test_a_command_that_is_refused_leaves_nothing_behind(
    cli: CommandLine, tiny_files: tuple[Path, Path], tiny_run: Path, tmp_path: Path
) -> None:
    source, target = tiny_files
    (tmp_path / "short").write_text("one line\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.toml").write_text('[data]\nsource = "short"\ntarget = "trees"\n')
    (tmp_path / "trees").write_text("(no tree\n\n")
    before = sorted(map(str, tmp_path.rglob("*")))
    out = ["--out", tmp_path / "deep" / "run"]
    for command in (
        ["train", source, tmp_path / "short", *out],
        ["train", source, tmp_path / "short", "--out", tmp_path / "empty"],
        ["train", source, target, *out, "--set", "vocabulary=5"],
        ["train", "--recipe", tmp_path / "bad.toml", *out],
        [
            "distill",
            tiny_run,
            tmp_path / "short",
            "--with",
            source,
            tmp_path / "short",
            "--valid",
            source,
            target,
            *out,
        ],
        ["data", "get", "pocket", *out, "--from", tmp_path / "missing"],
        ["paper", "table3", source, target, "--set", "d_modell=5", "--steps", "5", *out],
        ["paper", "scaling", "--set", "d_modell=5", *out],
        [
            "paper",
            "table4",
            tmp_path / "trees",
            "--valid",
            tmp_path / "trees",
            "--test",
            tmp_path / "trees",
            *out,
        ],
        ["import", tmp_path / "empty", *out],
        ["export", tmp_path / "empty", tmp_path / "deep" / "run", "--to", "ctranslate2"],
        ["average", tmp_path / "empty"],
    ):
        assert cli(*map(str, command)).error, command
        assert sorted(map(str, tmp_path.rglob("*"))) == before, command


def test_a_foreign_picture_is_not_overwritten_and_our_own_is(
    cli: CommandLine, own_run: Path, tmp_path: Path
) -> None:
    for ending in ("png", "svg", "pdf"):
        picture = tmp_path / f"curves.{ending}"
        picture.write_text("mine")
        error = cli("plot", own_run, "--out", picture).error
        assert "was not made by transduce" in error
        assert picture.read_text() == "mine"
        picture.unlink()
        for _ in range(2):
            assert cli("plot", own_run, "--out", picture).status == 0
    page = tmp_path / "page.html"
    page.write_text("mine")
    look: list[str | Path] = ["look", own_run, "a dog sees a cat", "--out", page]
    assert "was not made by transduce" in cli(*look).error
    assert page.read_text() == "mine"
    page.unlink()
    for _ in range(2):
        assert cli(*look).status == 0


@pytest.mark.parametrize("name", ["table1.json", "table1.svg", "table1-2.svg"])
def test_a_finding_does_not_overwrite_files_of_others(
    name: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("mine")
    assert cli("paper", "table1", "--out", tmp_path).error
    assert (tmp_path / name).read_text() == "mine"
    page = tmp_path / "report.html"
    page.write_text("mine")
    Finding(name="table2", title="T", said="S").save(tmp_path / "own")
    Finding(name="table2", title="T", said="S").save(tmp_path / "own")  # replaces its own file
    report = ("paper", "report", tmp_path / "own", "--out", page)
    assert "was not made by transduce" in cli(*report).error
    page.unlink()
    for _ in range(2):
        assert cli(*report).status == 0
