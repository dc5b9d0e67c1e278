"""[[corpus]] tables of recipes: further texts with weights and tags."""

from pathlib import Path

import pytest
from conftest import CommandLine, tiny_pairs, write_pairs
from tiny_recipes import FILES, TEXT, replace_data_sets, write_recipe

from transduce import datasets as data_sets
from transduce.corpus.token_files import open_corpus
from transduce.datasets import DataFiles
from transduce.errors import BadInput, TransduceError
from transduce.recipes.data import check_data, fetch_data
from transduce.recipes.recipe import CorpusTable, Data, parse
from transduce.runs.folder import RunConfig
from transduce.system.progress import Silent
from transduce.text.corpora import with_names

CORPUS = """
[[corpus]]
source = "docs.en"
target = "docs.de"
weight = 0.5
tag = "docs"
[[corpus]]
dataset = "pocket"
weight = 3
"""


def test_corpus_tables_are_read() -> None:
    data = parse(TEXT.format(data=FILES, steps=1) + CORPUS, "mine", Path("folder")).data
    assert data.corpora == (
        CorpusTable(files=(Path("folder/docs.en"), Path("folder/docs.de")), weight=0.5, tag="docs"),
        CorpusTable(dataset="pocket", weight=3),
    )


def test_a_recipe_may_have_corpora_only() -> None:
    recipe = parse('[[corpus]]\nsource = "a.tsv"\nvalid = "b.tsv"', "mine")
    assert recipe.data.train is None
    assert recipe.data.corpora[0].text().valid == (Path("b.tsv"), None)
    assert recipe.data.corpora[0].text(with_valid=False).valid is None
    recipe = parse('[data]\ntest = "t.tsv"\n[[corpus]]\nsource = "a.tsv"', "mine")
    assert recipe.data.test == (Path("t.tsv"), None)


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ("corpus = 3", "corpus = 3: expected tables, each headed by"),
        ("[[corpus]]\nweight = 1", "expected either dataset, or source and target"),
        ('[[corpus]]\nsource = "a"\ndataset = "b"', "expected either dataset, or source"),
        ('[[corpus]]\nsource = "a"\nwieght = 1', "Did you mean weight"),
        ('[[corpus]]\nsource = "a"\nweight = 0', "the weight of a is 0"),
        ('[[corpus]]\nsource = "a"\nweight = true', "the weight of a is True"),
        ('[[corpus]]\nsource = "a"\nweight = "2"', "the weight of a is '2'"),
        ('[[corpus]]\nsource = "a"\ntag = "a b"', "the tag of a is 'a b'"),
        ('[[corpus]]\nsource = "a"\ntag = 1', "corpus.tag = 1: expected text"),
        ('[[corpus]]\nsource = "a"\nvalid = 1', "corpus.valid = 1: expected two files"),
        (
            '[[corpus]]\nsource = "a"\nname = "x"\n[[corpus]]\nsource = "b"\nname = "x"',
            "two corpora have the name x",
        ),
        (
            '[data]\nvalid = "v"\n[[corpus]]\nsource = "a"\nvalid = "b"',
            "expected validation text in one place",
        ),
        ('[data]\ntarget = "v"\n[[corpus]]\nsource = "a"', "neither name nor source"),
        (
            '[data]\nname = "pocket"\n[[corpus]]\nsource = "a"\nvalid = "b"',
            "the data set pocket has validation text, and so has [[corpus]]: remove valid",
        ),
    ],
)
def test_a_wrong_table_is_refused(tables: str, problem: str) -> None:
    with pytest.raises(TransduceError) as error:
        parse(tables, "mine")
    assert problem in str(error.value)


def test_a_recipe_trains_on_all_its_corpora(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    requests = replace_data_sets(monkeypatch)
    path = write_recipe(tmp_path)
    write_pairs(tmp_path, "docs", tiny_pairs(50, 7))
    path.write_text(path.read_text(encoding="utf-8") + CORPUS, encoding="utf-8")
    command = ("train", "--recipe", path, "--out", tmp_path / "run", "--device", "cpu")
    result = cli(*command)
    assert result.status == 0, result.stderr
    assert requests == [("pocket", Path("data/pocket"))]
    assert RunConfig.load(tmp_path / "run").corpus_weights == (1.0, 0.5, 3.0)
    manifest = open_corpus(tmp_path / "run" / "corpus").manifest
    assert [(corpus.name, corpus.tag) for corpus in manifest.corpora] == [
        ("train", None),
        ("docs", "docs"),
        ("pocket", None),
    ]
    assert [corpus.train.pairs for corpus in manifest.corpora] == [200, 50, 200]
    tagged = cli("translate", tmp_path / "run", "a dog", "--tag", "docs", "--device", "cpu")
    assert tagged.status == 0, tagged.stderr
    refused = cli("translate", tmp_path / "run", "a dog", "--tag", "doc", "--device", "cpu")
    assert (refused.status, "no tag 'doc': the model knows docs" in refused.stderr) == (1, True)
    path.write_text(path.read_text(encoding="utf-8").replace("0.5", "0.6"), encoding="utf-8")
    result = cli(*command)
    assert result.status == 1
    assert "was started with a recipe that has corpus" in result.stderr
    both = cli(*command, "--corpus", tmp_path / "docs.en")
    assert "name two texts: give one of them" in both.stderr


def test_a_data_set_without_validation_text_may_be_beside_a_corpus_with_it() -> None:
    """Data sets of mtdata have training text only."""
    tables = '[data]\nname = "mtdata:a-b-1-eng-deu"\n[[corpus]]\nsource = "a"\nvalid = "b"'
    assert parse(tables, "mine").data.corpora[0].valid == (Path("b"), None)


def test_files_in_the_opposite_direction_are_refused_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read in the languages of the data set, unless they state their own."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.de", "a.en"):
        Path(name).touch()
    tables = '[data]\nname = "pocket"\n[[corpus]]\nsource = "a.de"\ntarget = "a.en"\n'
    with pytest.raises(BadInput) as error:
        check_data(parse(tables, "mine").data, None)
    assert "the languages of a.de and a.en are de-en, but those of the data set" in str(error.value)
    assert 'add languages = "de-en" to [[corpus]]' in str(error.value)
    check_data(parse(f'{tables}languages = "de-en"', "mine").data, None)


@pytest.mark.parametrize(
    "tables",
    [
        '[data]\nname = "pocket"\n[[corpus]]\ndataset = "multi30k-en-de"',
        '[data]\nname = "multi30k-en-de"\n[[corpus]]\ndataset = "multi30k-en-fr"',
        '[[corpus]]\ndataset = "iwslt17-de-en"\n[[corpus]]\ndataset = "multi30k-en-de"',
        '[data]\nname = "pocket"\n[[corpus]]\nsource = "a.en"\ntarget = "a.de"',
        '[data]\nname = "pocket"\n[[corpus]]\nsource = "a.eng"\ntarget = "a.deu"',
        '[data]\nsource = "a.en"\nlanguages = "en-gsw"\n[[corpus]]\ndataset = "pocket"',
    ],
)
def test_corpora_in_the_same_languages_and_data_sets_in_others_are_accepted(
    tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.de", "a.eng", "a.deu"):
        Path(name).touch()
    check_data(parse(tables, "mine").data, None)


def fetched(monkeypatch: pytest.MonkeyPatch, languages: dict[str, str], tables: str) -> Data:
    """Return the data of a recipe whose data sets have these languages."""

    def get(name: str, out: Path, *, progress: Silent) -> DataFiles:
        first, second = languages[name].split("-")
        files = out / f"train.{first}", out / f"train.{second}"
        return DataFiles(out, (first, second), files, (out / "v.a", out / "v.b"), None)

    monkeypatch.setattr(data_sets, "get", get)
    return fetch_data(parse(tables, "mine").data, None, Silent())


def names_of(data: Data) -> list[str]:
    return [corpus.name or "" for corpus in with_names(c.text() for c in data.corpora)]


def test_data_sets_in_other_languages_keep_them_and_their_validation_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    languages = {"pocket": "en-de", "mtdata:x": "de-en", "mtdata:y": "en-de"}
    tables = '[data]\nname = "pocket"\n[[corpus]]\ndataset = "mtdata:{}"'
    (same,) = fetched(monkeypatch, languages, tables.format("y")).corpora
    assert (same.name, same.languages, same.valid) == ("mtdata-y", None, None)
    (other,) = fetched(monkeypatch, languages, tables.format("x")).corpora
    folder = Path("data/mtdata-x")
    assert (other.languages, other.valid) == ("de-en", (folder / "v.a", folder / "v.b"))
    stated = tables.format("x") + '\nlanguages = "de-en_GB"'
    assert fetched(monkeypatch, languages, stated).corpora[0].languages == "de-en_GB"


def test_corpora_of_data_sets_have_valid_and_different_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = "mtdata:Statmt-a_long_name_of_a_data_set-with_its_subset-2024.1-eng-deu"
    tables = "".join(f'[[corpus]]\ndataset = "{name}"\n' for name in (long, long, "pocket"))
    tables += '[[corpus]]\nsource = "a.tsv"\nname = "pocket"\n[[corpus]]\ndataset = "pocket"\n'
    names = names_of(fetched(monkeypatch, {long: "en-de", "pocket": "en-de"}, tables))
    stem = "mtdata-Statmt-a_long_name_of_a_data_set-with_its_subset-2024.1-eng-deu"
    assert names == [stem[:60], f"{stem[:52]}-2", "pocket-2", "pocket", "pocket-3"]
