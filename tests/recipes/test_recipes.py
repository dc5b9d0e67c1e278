"""Recipe files are read and checked, and listed by the command."""

import tomllib
from pathlib import Path

import pytest
from conftest import CommandLine
from tiny_recipes import replace_data_sets, write_recipe

import transduce
from transduce.errors import BadInput, BadSetting
from transduce.presets import find_preset
from transduce.recipes import recipe
from transduce.recipes.recipe import find, parse


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path]]:
    return replace_data_sets(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_recipe(tmp_path)


@pytest.mark.parametrize("name", recipe.names())
def test_every_built_in_recipe_can_be_read_and_has_a_description(name: str) -> None:
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
        ("[data]\nname = 'a'\n[train]\nP_drop = 0.3", "Other settings are in [settings]"),
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
def test_an_invalid_recipe_is_refused_with_a_reason(text: str, words: str) -> None:
    with pytest.raises((BadInput, BadSetting)) as error:
        parse(text, "mine")
    assert str(error.value).startswith("mine")
    assert words in str(error.value)


def test_a_file_too_large_for_a_recipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    whole = "[data]\nname = 'a'\n"
    path.write_text(whole + "\n" * (recipe.MAX_SIZE - len(whole)), encoding="utf-8")
    assert recipe.read(path).data.name == "a"
    endless = [Path("/dev/zero")] if Path("/dev/zero").exists() else []
    path.write_text(whole + "\n" * recipe.MAX_SIZE, encoding="utf-8")
    for large in (path, *endless):
        with pytest.raises(BadInput, match=r"is not a recipe: it is larger than 64 KiB"):
            recipe.read(large)


def test_values_are_those_of_set() -> None:
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


def test_a_mistyped_name_gets_a_suggestion(cli: CommandLine) -> None:
    for command in (["recipes", "show", "pockte"], ["train", "--recipe", "pockte", "--out", "no"]):
        assert "there is no recipe pockte. Did you mean pocket?" in cli(*command).error
    assert "there is no file no.toml" in cli("recipes", "show", "no.toml").error
    assert not Path("no").exists()


def test_the_recipes_are_listed_and_shown(cli: CommandLine) -> None:
    listed = cli("recipes").stdout
    assert [line.split()[0] for line in listed.splitlines()] == recipe.names()
    shown = cli("recipes", "show", "pocket").stdout
    assert tomllib.loads(shown)["data"] == {"name": "pocket"}


def test_options_that_exclude_a_recipe_are_refused(file: Path, cli: CommandLine) -> None:
    out = file.parent / "run"
    assert "name two texts" in cli("train", "a.en", "--recipe", file, "--out", out).error
    assert "give --recipe too" in cli("train", "a.en", "--data", "d", "--out", out).error
    assert cli("train", "--out", out).status == 2
    assert (
        "--data is for data sets"
        in cli("train", "--recipe", file, "--data", "d", "--out", out).error
    )


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
