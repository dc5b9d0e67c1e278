"""A recipe says which data, which model, how long and how to measure; one command does it all."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, CommandLine, snapshot, tiny_pairs, write_pairs

import transduce
from transduce import datasets as data_sets
from transduce.datasets import catalogue
from transduce.errors import BadData, BadInput, BadSetting
from transduce.presets import find_preset
from transduce.recipes import recipe
from transduce.recipes.recipe import Overrides, find, parse
from transduce.runs.folder import RunConfig
from transduce.system.files import read_json
from transduce.system.progress import Silent
from transduce.translation.translator import Translator
from transduce.workflows import evaluation, following

SETTINGS = "\n".join(
    f"{name} = {value if value.isdecimal() else repr(value)}"
    for name, value in TINY.items()
    if name not in ("steps", "log_every")
)
TEXT = f"""
about = "tiny"
[data]
{{data}}
[train]
preset = "tiny"
steps = {{steps}}
[settings]
{SETTINGS}
[evaluate]
beam = 2
"""
FILES = """source = "train.en"
target = "train.de"
valid = ["valid.en", "valid.de"]
test = ["test.en", "test.de"]"""


def write_texts(folder: Path) -> dict[str, tuple[Path, Path]]:
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"train": (200, 1), "valid": (10, 2), "test": (12, 3)}
    return {
        part: write_pairs(folder, part, tiny_pairs(count, seed))
        for part, (count, seed) in counts.items()
    }


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    """What was asked of `transduce.datasets`, which writes tiny texts instead of fetching."""
    asked: list[tuple[str, Path]] = []

    def get(name: str, out: Path, *, progress: Any) -> data_sets.Got:
        asked.append((name, out))
        return data_sets.Got(out, ("en", "de"), **write_texts(out))

    monkeypatch.setattr(data_sets, "get", get)
    monkeypatch.setattr(data_sets, "resolve", lambda name: catalogue.named("pocket"))
    monkeypatch.setattr(data_sets, "refuse_foreign", lambda name, out: None)
    return asked


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recipe with texts beside it."""
    write_texts(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.format(data=FILES, steps=6), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_that_comes_along_can_be_read_and_says_what_it_is(name: str) -> None:
    found = find(name)
    assert found.about
    assert found.data.name
    assert found.preset


@pytest.mark.parametrize(
    ("name", "size", "steps", "average", "P_drop", "vocabulary", "subwords"),
    [
        ("wmt14-en-de-base", "base", 100_000, 5, 0.1, 37_000, "bpe"),
        ("wmt14-en-de-big", "big", 300_000, 20, 0.3, 37_000, "bpe"),
        ("wmt14-en-fr-base", "base", 100_000, 5, 0.1, 32_000, "wordpiece"),
        ("wmt14-en-fr-big", "big", 300_000, 20, 0.1, 32_000, "wordpiece"),
    ],
)
def test_the_papers_recipes_have_the_papers_numbers(
    name: str,
    size: str,
    steps: int,
    average: int,
    P_drop: float,
    vocabulary: int,
    subwords: str,
) -> None:
    found = find(name)
    assert found.data.name == name.rpartition("-")[0]
    chosen = find_preset(size)
    model, train = transduce.config.apply_settings(found.settings, chosen.model, chosen.train)
    assert model == chosen.model.replace(P_drop=P_drop)
    assert (train.steps, train.average, train.vocabulary) == (steps, average, vocabulary)
    assert (train.subwords, train.joint, train.warmup, train.eps_ls) == (subwords, True, 4000, 0.1)
    assert (train.batch_tokens, train.beta2, train.epsilon) == (25_000, 0.98, 1e-9)
    assert (found.evaluate.search.beam, found.evaluate.search.alpha) == (4, 0.6)
    assert found.evaluate.paper


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "mine is not a recipe: it is not valid TOML"),
        ("a = " + "[\n" * 3_000, "mine is not a recipe: it is nested too deeply"),
        ("[data]\nname = 'a'\n[settings]\nh." + "h." * 500 + "h = 1", "a line has more than 1,000"),
        ("[data]\nname = 'a'\n[train]\nseed = " + "9" * 900, "seed"),
        ("[data]\nname = 'a'\n[train]\ntime = '" + "9" * 400 + "h'", "expected a length of time"),
        ("", "there is no table [data]"),
        ("[dat]\nname = 'a'", "a recipe has no table or key dat. Did you mean data?"),
        ("[data]\nnme = 'a'", "[data] has no key nme. Did you mean name?"),
        ("[data]\nname = 'a'\nsource = 'b'", "[data] has name and source"),
        ("[data]\nname = 'a'\nvalid = ['b', 'c']", "[data] has name and valid"),
        ("[data]\ntarget = 'a'", "[data] has neither name nor source"),
        ("[data]\nname = 7", "data.name = 7: expected text in quotes"),
        ("[data]\nsource = 'a'\ntest = 3", "data.test = 3: expected two files"),
        ("[data]\nsource = 'a'\ntest = ['a', 'b', 'c']", "expected two files"),
        ("data = 'pocket'", "data = 'pocket': expected a table, headed by [data]"),
        ("about = 3\n[data]\nname = 'a'", "about = 3: expected text in quotes"),
        ("[data]\nname = 'a'\n[train]\nstep = 3", "[train] has no key step. Did you mean steps?"),
        ("[data]\nname = 'a'\n[train]\nsteps = '3'", "train.steps = '3': expected a whole number"),
        ("[data]\nname = 'a'\n[train]\nsteps = true", "train.steps = True: expected a whole"),
        ("[data]\nname = 'a'\n[train]\nbatch = 'all'", 'expected a whole number or "auto"'),
        (
            "[data]\nname = 'a'\n[train]\ntime = 'soon'",
            "mine: train.time = soon: expected a length",
        ),
        ("[data]\nname = 'a'\n[train]\npreset = 'bass'", "no preset bass. Did you mean base?"),
        ("[data]\nname = 'a'\n[settings]\nd_fff = 3", "no setting d_fff. Did you mean d_ff?"),
        ("[data]\nname = 'a'\n[settings]\nh = 'x'", "h = 'x': expected a whole number"),
        ("[data]\nname = 'a'\n[settings]\nh = [1]", "settings.h = [1]: expected a number"),
        ("[data]\nname = 'a'\n[settings]\nP_drop = 1.5", "P_drop = 1.5: expected a number from 0"),
        (
            "[data]\nname = 'a'\n[train]\nsteps = 1\n[settings]\nsteps = 2",
            "steps is set in [train] and in [settings]: set it once",
        ),
        (
            "[data]\nname = 'a'\n[evaluate]\nbeem = 3",
            "[evaluate] has no key beem. Did you mean beam",
        ),
        ("[data]\nname = 'a'\n[evaluate]\nbeam = 0", "mine: beam = 0: expected at least 1"),
        ("[data]\nname = 'a'\n[evaluate]\npaper = 1", "evaluate.paper = 1: expected true or false"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_said(text: str, words: str) -> None:
    with pytest.raises((BadInput, BadSetting)) as error:
        parse(text, "mine")
    assert str(error.value).startswith("mine")
    assert words in str(error.value)


def test_a_file_too_large_for_a_recipe_is_refused_whatever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    whole = "[data]\nname = 'a'\n"
    path.write_text(whole + "\n" * (recipe.MAX_SIZE - len(whole)), encoding="utf-8")
    assert recipe.read(path).data.name == "a"
    endless = [Path("/dev/zero")] if Path("/dev/zero").exists() else []
    path.write_text(whole + "\n" * recipe.MAX_SIZE, encoding="utf-8")
    for one in (path, *endless):
        with pytest.raises(BadInput, match=r"is not a recipe: it is larger than 64 KiB"):
            recipe.read(one)


def test_values_are_what_set_takes() -> None:
    text = "[data]\nsource='a.tsv'\ntest='t.tsv'\n[train]\ntime='1h30m'\nbatch='auto'\nseed=3\n"
    text += "[settings]\njoint = false\nP_drop = 0.25\nd_ff = 1_024\ntie = 'decoder'\n"
    found = parse(text, "mine", Path("there"))
    assert found.settings == {
        "seconds": "5400.0",
        "accumulate": "none",
        "seed": "3",
        "joint": "false",
        "P_drop": "0.25",
        "d_ff": "1024",
        "tie": "decoder",
    }
    assert found.data.train == (Path("there/a.tsv"), None)
    assert found.data.test == (Path("there/t.tsv"), None)


def test_a_name_that_is_mistyped_is_answered_with_the_right_one(cli: CommandLine) -> None:
    for command in (["recipes", "show", "pockte"], ["train", "--recipe", "pockte", "--out", "no"]):
        assert "there is no recipe pockte. Did you mean pocket?" in cli(*command).error
    assert "there is no file no.toml" in cli("recipes", "show", "no.toml").error
    assert not Path("no").exists()


def test_the_recipes_are_listed_and_shown(cli: CommandLine) -> None:
    listed = cli("recipes").stdout
    assert [line.split()[0] for line in listed.splitlines()] == recipe.names()
    shown = cli("recipes", "show", "pocket").stdout
    assert tomllib.loads(shown)["data"] == {"name": "pocket"}


def test_a_recipe_trains_and_evaluates_and_shows_it_when_it_is_asked_again(
    file: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = file.parent / "run"
    first = cli("train", "--recipe", file, "--out", out, "--device", "cpu")
    assert first.status == 0, first.stderr
    assert [line.split()[0] for line in first.stdout.splitlines()] == [
        *("BLEU", "chrF2", "chrF2++", "TER")
    ]
    kept = read_json(out / "evaluation.json")
    assert (kept["sentences"], kept["search"]["beam"]) == (12, 2)
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


def test_another_search_or_further_training_is_measured_anew(file: Path, cli: CommandLine) -> None:
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


def test_a_data_set_is_asked_for_by_its_name(
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
        ("d_ff = 64", "d_ff = 32", "was begun with d_ff = 64, not 32"),
        ('"train.en"', '"valid.en"', "has data.source = train.en, not valid.en"),
    ):
        file.write_text(text.replace(old, new), encoding="utf-8")
        assert words in cli(*command).error
    assert snapshot(out) == before


def test_a_run_that_no_recipe_began_is_not_gone_on_with_by_one(
    file: Path, own_run: Path, cli: CommandLine
) -> None:
    result = cli("train", "--recipe", file, "--out", own_run, "--set", "steps=20")
    assert "was not begun with a recipe" in result.error


def test_what_does_not_belong_together_is_refused(file: Path, cli: CommandLine) -> None:
    out = file.parent / "run"
    assert "name two texts" in cli("train", "a.en", "--recipe", file, "--out", out).error
    assert "give --recipe too" in cli("train", "a.en", "--data", "d", "--out", out).error
    assert cli("train", "--out", out).status == 2
    assert (
        "--data is for data sets"
        in cli("train", "--recipe", file, "--data", "d", "--out", out).error
    )


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
def test_text_that_cannot_be_had_is_said_before_torch_is_there_and_nothing_is_written(
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
    monkeypatch.setitem(sys.modules, "transduce.workflows.following", None)  # which takes torch
    assert words in cli("train", "--recipe", "mine.toml", "--out", "run", *options).error
    assert snapshot(file.parent) == before


def test_so_it_is_from_python_before_anything_is_written(file: Path) -> None:
    file.write_text(TEXT.format(data='name = "pockte"', steps=2), encoding="utf-8")
    run = file.parent / "run"
    with pytest.raises(BadInput, match="Did you mean pocket"):
        following.follow(recipe.read(file), run, Overrides(), progress=Silent())
    assert not run.exists()


def test_a_recipe_is_kept_only_when_its_text_has_come(
    sets: list[tuple[str, Path]], tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, out: Path, *, progress: Any) -> data_sets.Got:
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


def test_an_end_that_the_command_line_sets_is_the_only_one() -> None:
    found = parse("[data]\nname='a'\n[train]\nsteps=9\nepochs=2\n[settings]\nh=4", "mine")
    asked = Overrides(settings={"seconds": "60.0", "h": "4"})
    assert following.merge_settings(found.settings, asked.settings) == {"h": "4", "seconds": "60.0"}
    (line,) = following.differences(found, asked)
    assert line.endswith("seconds = 60.0, no steps, no epochs")


def test_without_its_library_the_papers_bleu_is_asked_for(
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


def test_processes_but_for_the_first_neither_fetch_nor_evaluate(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "train.en").unlink()  # it need not be on every machine
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(following, "train_on", lambda *_, **__: None)  # it asks for no texts
    monkeypatch.setattr(following, "evaluate", None)
    said: list[str] = []
    progress = type("Progress", (), {"say": said.append})()
    found = following.follow(recipe.read(file), file.parent / "run", Overrides(), progress=progress)
    assert found is None
    assert not said


def test_a_run_whose_data_could_not_be_fetched_begins_by_the_same_command(
    file: Path, cli: CommandLine
) -> None:
    (file.parent / "train.en").rename(file.parent / "away.en")
    command = ("train", "--recipe", file, "--out", file.parent / "run", "--device", "cpu")
    assert "train.en" in cli(*command).error
    assert not (file.parent / "run" / "config.json").exists()
    (file.parent / "away.en").rename(file.parent / "train.en")
    assert cli(*command).status == 0


def test_a_recipe_may_name_settings_as_other_toolkits_do() -> None:
    text = "[data]\nname='a'\n[settings]\ndropout=0.3\nmax_steps=9\n[evaluate]\nbeam_size=7\n"
    found = parse(text, "mine")
    assert found.settings == {"P_drop": "0.3", "steps": "9"}
    assert found.tables["settings"] == {"P_drop": 0.3, "steps": 9}
    assert [line.partition(":")[0] for line in found.alias_notes] == [
        "dropout is called P_drop here",
        "max_steps is called steps here",
    ]
    assert found.evaluate.search.beam == 7
    with pytest.raises(BadSetting, match="mine: lr is an absolute learning rate"):
        parse("[data]\nname='a'\n[settings]\nlr=0.1\n", "mine")
    with pytest.raises(BadSetting, match=r"mine: \[evaluate\] has two names of one setting"):
        parse("[data]\nname='a'\n[evaluate]\nbeam_size=7\nbeam=4\n", "mine")
    with pytest.raises(BadSetting, match=r"mine: steps is set in \[train\] and in \[settings\]"):
        parse("[data]\nname='a'\n[train]\nsteps=3\n[settings]\nmax_steps=9\n", "mine")


def test_a_test_text_is_translated_line_by_line_and_whole(tiny_run: Path) -> None:
    """Recorded scores must not depend on how lines are split into sentences."""
    lines = ["the dog sees a man. one bird likes the tree!"]
    found = evaluation._translate(tiny_run, lines, recipe.EvaluationSettings(), "cpu", Silent())
    translator = Translator.load(tiny_run, device="cpu")
    assert found == [one.text for one in translator.translate(lines, split=False)]
    assert found != [one.text for one in translator.translate(lines)]
