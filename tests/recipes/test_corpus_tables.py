"""[[corpus]] tables of recipes: further texts with weights and tags."""

from pathlib import Path

import pytest
from conftest import CommandLine, tiny_pairs, write_pairs
from tiny_recipes import FILES, TEXT, replace_data_sets, write_recipe

from transduce.corpus.token_files import open_corpus
from transduce.errors import TransduceError
from transduce.recipes.recipe import CorpusTable, parse
from transduce.runs.folder import RunConfig

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
