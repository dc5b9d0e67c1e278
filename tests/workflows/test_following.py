"""One command follows a recipe from the data to the scores."""

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine, snapshot
from tiny_recipes import FILES, TEXT, replace_data_sets, write_recipe

from transduce import datasets as data_sets
from transduce.errors import BadData, BadInput
from transduce.recipes import recipe
from transduce.recipes.recipe import Overrides, parse
from transduce.runs.folder import Origin, RunConfig
from transduce.system.files import read_json
from transduce.system.progress import Silent
from transduce.training.start import Start
from transduce.training.train import Plan
from transduce.translation.translator import Translator
from transduce.workflows import evaluation, following


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    return replace_data_sets(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_recipe(tmp_path)


def test_a_recipe_trains_and_evaluates_and_shows_the_stored_scores_when_repeated(
    file: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = file.parent / "run"
    first = cli("train", "--recipe", file, "--out", out, "--device", "cpu")
    assert first.status == 0, first.stderr
    assert [line.split()[0] for line in first.stdout.splitlines()] == [
        *("BLEU", "chrF2", "chrF2++", "TER")
    ]
    stored = read_json(out / "evaluation.json")
    assert (stored["sentences"], stored["search"]["beam"]) == (12, 2)
    assert len((out / "test.hyp").read_text(encoding="utf-8").splitlines()) == 12
    assert (out / "recipe.toml").read_text(encoding="utf-8") == file.read_text(encoding="utf-8")
    assert RunConfig.load(out).train.steps == 6
    scored = cli("score", out / "test.hyp", file.parent / "test.de")
    assert scored.stdout == first.stdout
    before = snapshot(out)
    monkeypatch.setattr(evaluation, "_translate", None)  # it is not translated again
    again = cli("train", "--recipe", file, "--out", out, "--device", "cpu")
    assert again.stdout == first.stdout
    assert "has finished" in again.stderr
    assert snapshot(out) == before


def test_another_search_or_further_training_is_evaluated_again(
    file: Path, cli: CommandLine
) -> None:
    out = file.parent / "run"
    command = ("train", "--recipe", file, "--out", out, "--device", "cpu")
    cli(*command)
    first = read_json(out / "evaluation.json")
    (out / "test.hyp").write_text("somebody wrote into it\n", encoding="utf-8")
    cli(*command)
    assert read_json(out / "evaluation.json") == first
    assert len((out / "test.hyp").read_text(encoding="utf-8").splitlines()) == 12
    file.write_text(file.read_text(encoding="utf-8").replace("beam = 2", "beam = 1"))
    assert cli(*command).status == 0
    second = read_json(out / "evaluation.json")
    assert second["search"]["beam"] == 1
    further = cli(*command, "--steps", "8")
    assert "the command line overrides the recipe: steps = 8 instead of 6" in further.stderr
    third = read_json(out / "evaluation.json")
    assert len({first["of"], second["of"], third["of"]}) == 3
    assert "8" in third["weights"]


def test_a_data_set_is_requested_by_its_name(
    sets: list[tuple[str, Path]], tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = TEXT.format(data='name = "sacrebleu:x/y:en-de"', steps=2)
    Path("mine.toml").write_text(text, encoding="utf-8")
    done = cli("train", "--recipe", "mine.toml", "--out", "a", "--device", "cpu")
    assert done.status == 0, done.stderr
    cli("train", "--recipe", "mine.toml", "--out", "b", "--data", "there", "--device", "cpu")
    name = "sacrebleu:x/y:en-de"
    assert sets == [(name, Path("data/sacrebleu-x-y-en-de")), (name, Path("there"))]
    assert RunConfig.load(Path("a")).languages == ("en", "de")


def test_another_recipe_on_the_same_folder_is_refused(file: Path, cli: CommandLine) -> None:
    out = file.parent / "run"
    command = ("train", "--recipe", file, "--out", out, "--device", "cpu")
    cli(*command)
    before = snapshot(out)
    text = file.read_text(encoding="utf-8")
    for old, new, words in (
        ("d_ff = 64", "d_ff = 32", "was started with d_ff = 64, not 32"),
        ('"train.en"', '"valid.en"', "has data.source = train.en, not valid.en"),
    ):
        file.write_text(text.replace(old, new), encoding="utf-8")
        assert words in cli(*command).error
    assert snapshot(out) == before


def test_a_run_started_without_a_recipe_is_not_resumed_with_one(
    file: Path, own_run: Path, cli: CommandLine
) -> None:
    result = cli("train", "--recipe", file, "--out", own_run, "--set", "steps=20")
    assert "was not started with a recipe" in result.error


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ('name = "pockte"', [], "there is no data set 'pockte'. Did you mean pocket?"),
        ('name = "sacrebleu:wmt14:en-de"', [], "wmt14:en-de has no training text"),
        ('name = "pocket"', ["--data", "."], "which transduce did not write"),
        ('name = "pocket"', ["--valid", "no.en", "no.de"], "no.en does not exist"),
        (FILES, ["--data", "there"], "names files: --data is for data sets"),
        (FILES.replace("train.de", "no.de"), [], "no.de does not exist: expected a text file"),
        (FILES.replace("valid.en", "no.en"), [], "no.en does not exist: expected a text file"),
        (FILES.replace("test.en", "no.en"), [], "no.en does not exist: expected a text file"),
        (FILES.replace('"test.en", "test.de"', '"."'), [], "is a folder: expected a text file"),
    ],
)
def test_missing_texts_are_reported_before_torch_is_imported(
    data: str,
    options: list[str],
    words: str,
    cli: CommandLine,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file.write_text(TEXT.format(data=data, steps=2), encoding="utf-8")
    before = snapshot(file.parent)
    monkeypatch.chdir(file.parent)
    monkeypatch.setitem(
        sys.modules, "transduce.workflows.following", None
    )  # loading the model needs torch
    assert words in cli("train", "--recipe", "mine.toml", "--out", "run", *options).error
    assert snapshot(file.parent) == before


def test_missing_texts_are_refused_from_python_before_anything_is_written(file: Path) -> None:
    file.write_text(TEXT.format(data='name = "pockte"', steps=2), encoding="utf-8")
    run = file.parent / "run"
    with pytest.raises(BadInput, match="Did you mean pocket"):
        following.follow(recipe.read(file), run, Overrides(), progress=Silent())
    assert not run.exists()


def test_a_recipe_is_stored_only_after_its_text_was_fetched(
    sets: list[tuple[str, Path]], tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, out: Path, *, progress: Any) -> data_sets.DataFiles:
        raise BadData("the network is down")

    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(TEXT.format(data='name = "x"', steps=2), encoding="utf-8")
    command = ("train", "--recipe", "mine.toml", "--out", "run", "--device", "cpu")
    with monkeypatch.context() as patch:
        patch.setattr(data_sets, "get", fail)
        assert "the network is down" in cli(*command).error
    assert not Path("run", "recipe.toml").exists()
    assert cli(*command).status == 0
    assert Path("run", "recipe.toml").exists()


def test_a_limit_of_the_command_line_replaces_those_of_the_recipe() -> None:
    found = parse("[data]\nname='a'\n[train]\nsteps=9\nepochs=2\n[settings]\nh=4", "mine")
    overrides = Overrides(settings={"seconds": "60.0", "h": "4"})
    assert following.merge_settings(found.settings, overrides.settings) == {
        "h": "4",
        "seconds": "60.0",
    }
    (line,) = following.differences(found, overrides)
    assert line.endswith("seconds = 60.0, no steps, no epochs")


def test_the_papers_bleu_without_its_library_names_the_extra(
    file: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("beam = 2", "paper = true"), encoding="utf-8")
    out = file.parent / "run"
    command = ("train", "--recipe", file, "--out", out, "--device", "cpu")
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    lines = cli(*command).stdout.splitlines()
    assert "pip install 'transduce[paper]'" in lines[-1]
    assert lines[0].startswith("BLEU")
    monkeypatch.undo()
    pytest.importorskip("sacremoses")
    assert cli(*command).stdout.splitlines()[-1].startswith("paper BLEU = ")


def test_only_the_main_process_fetches_and_evaluates(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "train.en").unlink()  # it need not exist on every machine
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(following, "train_on", lambda *_, **__: None)  # it requests no texts
    monkeypatch.setattr(following, "evaluate", None)
    messages: list[str] = []
    progress = type("Progress", (), {"say": messages.append})()
    found = following.follow(recipe.read(file), file.parent / "run", Overrides(), progress=progress)
    assert found is None
    assert not messages


def test_a_run_whose_data_could_not_be_fetched_starts_with_the_same_command(
    file: Path, cli: CommandLine
) -> None:
    (file.parent / "train.en").rename(file.parent / "away.en")
    command = ("train", "--recipe", file, "--out", file.parent / "run", "--device", "cpu")
    assert "train.en" in cli(*command).error
    assert not (file.parent / "run" / "config.json").exists()
    (file.parent / "away.en").rename(file.parent / "train.en")
    assert cli(*command).status == 0


def test_a_test_text_is_translated_line_by_line_without_splitting(tiny_run: Path) -> None:
    """Recorded scores must not depend on how lines are split into sentences."""
    lines = ["the dog sees a man. one bird likes the tree!"]
    settings = recipe.EvaluationSettings()
    found = evaluation._translate(tiny_run, lines, settings, ("en", "de"), "cpu", Silent())
    translator = Translator.load(tiny_run, device="cpu")
    assert found == [text.text for text in translator.translate(lines, split=False)]
    assert found != [text.text for text in translator.translate(lines)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "ja"), ({"languages": "en-fr"}, "fr"), ({"start": True}, "de")],
)
def test_the_tokeniser_is_that_of_the_language_that_training_chooses(
    options: dict[str, Any],
    expected: str,
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first corpus does not state its languages; the second or the model does."""
    for name in ("a.tsv", "docs.en", "docs.ja", "test.tsv"):
        (tmp_path / name).touch()
    tables = """[data]
source = "a.tsv"
test = "test.tsv"
[[corpus]]
source = "docs.en"
target = "docs.ja"
"""
    required: list[str] = []
    monkeypatch.setattr(following, "require_tokeniser", required.append)
    monkeypatch.setattr(following, "train_on", lambda texts, *_, **__: texts())
    monkeypatch.setattr(following, "evaluate", lambda *_, **__: None)
    overrides = Overrides(**options | ({"start": tiny_run} if "start" in options else {}))
    found = parse(tables, "mine", tmp_path)
    following.follow(found, tmp_path / "run", overrides, progress=Silent())
    assert required == [expected]


def test_the_languages_of_a_resumed_run_come_from_its_own_folder(
    tiny_run: Path, tmp_path: Path
) -> None:
    """The run that it started from may be gone."""
    assert following.known_pairs(Plan(run=tmp_path / "run")) == ()
    assert following.known_pairs(Plan(run=tiny_run)) == (), "trained from scratch"
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    origin = Origin(run="gone", subwords="0", weights="step 1", sha256="0", more=0)
    dataclasses.replace(RunConfig.load(run), origin=origin).save(run)
    assert following.known_pairs(Plan(run=run, start=Start(Path("gone")))) == (("en", "de"),)
