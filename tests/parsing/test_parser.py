"""Parsers: training, loading, parsing, and refusals."""

import dataclasses
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CommandLine, snapshot, threads_kept

import transduce
from transduce import Parser, Tree, train_parser
from transduce.checkpoints.checkpoint import load_tensors
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.parsing.sequences import replace_tags
from transduce.parsing.trees import TOP, parse_trees
from transduce.runs.folder import RunConfig
from transduce.system.progress import Silent
from transduce.translation.types import Hypothesis
from treebank import PARSER_SETTINGS, TWO_STEPS, parseval, trees, write


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("trees")
    return write(folder / "train.trees", trees(400)), write(folder / "dev.trees", trees(40, 2))


@pytest.fixture(scope="module")
def run(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A trained parser."""
    out = tmp_path_factory.mktemp("runs") / "parser"
    with threads_kept():
        train_parser(files[0], out=out, valid=files[1], settings=PARSER_SETTINGS, device="cpu")
    before = snapshot(out)
    yield out
    assert snapshot(out) == before, "a test has changed the run that all tests share"


@pytest.fixture
def parser(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parser]:
    monkeypatch.setattr("transduce.translation.engines.pytorch.cores", lambda: 1)
    with threads_kept():
        yield Parser.load(run, device="cpu")


def gold_tags(gold: Tree, guess: Tree | None) -> Tree:
    assert guess is not None
    return replace_tags(guess, [leaf.label for leaf in gold.leaves()])


def right_branching(tree: Tree) -> Tree:
    *leaves, inner = tree.leaves()
    for leaf in reversed(leaves):
        inner = Tree("NP", (leaf, inner))
    return Tree(TOP, (inner,))


def test_a_parser_is_much_better_than_right_branching_trees(parser: Parser) -> None:
    gold = trees(40, seed=3)
    found = parser.parse_words([tree.words() for tree in gold], beam=4)
    assert [tree and tree.words() for tree in found] == [tree.words() for tree in gold]
    ours = parseval(gold, [gold_tags(*pair) for pair in zip(gold, found, strict=True)])
    baseline = parseval(gold, [right_branching(tree) for tree in gold])
    assert ours.errors == 0
    assert baseline.f1 < 30
    assert ours.f1 > 2 * baseline.f1


def test_a_sentence_becomes_one_tree_over_its_words(parser: Parser) -> None:
    tree = parser("The dog doesn't see (it).")
    assert tree.label == TOP
    assert tree.words() == ["The", "dog", "does", "n't", "see", "-LRB-", "it", "-RRB-", "."]


def test_the_search_is_the_papers(parser: Parser) -> None:
    search = parser.config.search
    assert (search.beam, search.alpha, search.extra) == (21, 0.3, 300)
    assert parser.config.task == "parsing"


def test_a_tree_does_not_depend_on_its_neighbours(parser: Parser) -> None:
    sentences = [" ".join(tree.words()) for tree in trees(9, seed=4)]
    together = parser.parse(sentences, cut=True, beam=3)
    assert together == [parser.parse([sentence], cut=True, beam=3)[0] for sentence in sentences]


def test_a_blank_sentence_has_no_tree(parser: Parser) -> None:
    first, blank, last = parser.parse(["a dog .", "  ", "a cell ."], beam=2)
    assert blank is None
    assert first is not None
    assert last is not None
    with pytest.raises(BadInput, match="no words to parse"):
        parser("")


def test_something_other_than_a_sentence_is_refused(parser: Parser) -> None:
    with pytest.raises(BadInput, match="expected one sentence"):
        parser(["a dog"])  # type: ignore[arg-type]


def test_a_sentence_longer_than_the_limit_is_refused_with_its_number(parser: Parser) -> None:
    with pytest.raises(BadInput, match=r"sentence 2 has 99 words in .* reads at most 80"):
        parser.parse(["a dog", "dog " * 99])
    assert parser.fits(["dog"] * 10)
    assert not parser.fits(["dog"] * 99)


def test_compounds_are_split_if_the_trees_split_them(parser: Parser) -> None:
    assert parser.words("a red-brown dog") == ["a", "red-brown", "dog"]
    parser.hyphens = True
    assert parser.words("a red-brown dog") == ["a", "red", "-", "brown", "dog"]
    assert parser.words("a red-brown dog", cut=True) == ["a", "red-brown", "dog"]


def test_parsers_are_among_the_public_names() -> None:
    for name in ("Parser", "Tree", "train_parser"):
        assert name in transduce.__all__
        assert getattr(transduce, name).__name__ == name


def test_the_command_prints_one_tree_per_line_and_keeps_blank_lines(
    cli: CommandLine, run: Path
) -> None:
    text = "the dog sees a cell.\n\nevery mouse likes it.\n"
    done = cli("parse", run, "--beam", "2", "--device", "cpu", input=text)
    assert done.status == 0
    first, blank, last = done.stdout.split("\n")[:3]
    assert blank == ""
    found = [" ".join(tree.words()) for tree in parse_trees([first, last], "stdout")]
    assert found == ["the dog sees a cell .", "every mouse likes it ."]


def test_sentences_are_read_from_arguments_or_a_file(
    cli: CommandLine, run: Path, tmp_path: Path
) -> None:
    sentences = ["a dog sees the cell .", "a cell ."]
    given = cli("parse", run, *sentences, "--words", "--beam", "2")
    path = tmp_path / "sentences.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in sentences))
    assert given.stdout.count("\n") == 2
    assert cli("parse", run, "").stdout == "\n"
    assert cli("parse", run, path, "--words", "--beam", "2").stdout == given.stdout


def test_a_sentence_may_contain_a_slash(cli: CommandLine, run: Path) -> None:
    done = cli("parse", run, "a dog and/or a cell", "--words", "--beam", "2")
    assert "and/or" in done.stdout


def test_a_tree_is_written_indented_and_drawn(cli: CommandLine, run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "tree.svg"
    sentence = "the small dog near a tree sees every old cell with a mouse today and the red tree."
    done = cli("parse", run, sentence, "--pretty", "--draw", picture, "--beam", "2")
    assert done.status == 0
    assert done.stdout.startswith("(TOP\n  ")
    (tree,) = parse_trees(done.stdout.splitlines(), "stdout")
    texts = ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    assert [text.text for text in texts if text.get("class") == "word"] == tree.words()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["a dog", "--draw", "tree.png"], "expected a name that ends in .svg"),
        (["a dog", "a cell", "--draw", "tree.svg"], "--draw draws one tree"),
        (["-", "--draw", "tree.svg"], "--draw draws one tree"),
        (["a dog", "--draw", "no/tree.svg"], "--draw no/tree.svg: there is no folder no"),
        (["missing.txt"], "missing.txt does not exist"),
        (["texts/missing"], "texts/missing does not exist"),
        ([" ", "--draw", "tree.svg"], "there are no words to parse"),
        (["dog " * 99], "sentence 1 has 99 words"),
        (["a dog", "--beam", "0"], "beam = 0"),
    ],
)
def test_bad_arguments_of_parse_are_refused_in_one_sentence(
    cli: CommandLine, run: Path, arguments: list[str], error: str
) -> None:
    assert error in cli("parse", run, *arguments).error


def test_a_parser_does_not_translate_and_a_translator_does_not_parse(
    cli: CommandLine, run: Path, tiny_run: Path, tmp_path: Path
) -> None:
    error = cli("translate", run, input="a dog").error
    assert error == f"{run} holds a parser: use it with `transduce parse`"
    error = cli("parse", tiny_run, "a dog").error
    assert error == f"{tiny_run} holds a translator: use it with `transduce translate`"
    assert "holds a parser" in cli("look", run, "a dog").error
    out = tmp_path / "out"
    assert "holds a parser" in cli("export", run, out, "--to", "huggingface").error


def test_info_describes_a_parser(cli: CommandLine, run: Path) -> None:
    output = cli("info", run).stdout
    assert "words to trees" in output
    assert "symbols of trees" in output


def test_training_resumes_and_refuses_other_trees_or_settings(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    train, dev = files
    out = tmp_path / "parser"
    with threads_kept():
        train_parser(train, out=out, valid=dev, settings=TWO_STEPS, device="cpu")
        more = TWO_STEPS | {"steps": "4"}
        train_parser(train, out=out, valid=dev, settings=more, device="cpu")
        once = tmp_path / "once"
        train_parser(train, out=once, valid=dev, settings=more, device="cpu")
    resumed, whole = (load_tensors(run / "model.safetensors") for run in (out, once))
    assert all((resumed[name] == whole[name]).all() for name in whole)
    assert RunConfig.load(out).train.steps == 4
    with pytest.raises(BadRun, match="holds other trees than"):
        train_parser(dev, out=out, valid=dev, settings=more)
    with pytest.raises(BadRun, match="was started with validation trees"):
        train_parser(train, out=out, settings=more)
    with pytest.raises(BadRun, match="was started with tags kept, not masked"):
        train_parser(train, out=out, valid=dev, settings=more, masked=True)
    with pytest.raises(BadSetting, match="was started with the preset parse-small"):
        train_parser(train, out=out, valid=dev, settings=more, preset="parse")


def test_masked_tags_are_neither_learned_nor_written(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    with threads_kept():
        out = train_parser(
            files[0], out=tmp_path / "run", settings=TWO_STEPS, masked=True, device="cpu"
        )
        tree = Parser.load(out, device="cpu")("a dog sees it.")
    assert {leaf.label for leaf in tree.leaves()} == {"XX"}


def test_bad_trees_and_folders_are_refused_before_anything_is_trained(
    files: tuple[Path, Path], tiny_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    bad = tmp_path / "bad.trees"
    for text, error in [
        ("(NP (NN a))\n(NP (NN b)\n(NP (NN c))\n", "bad.trees, line 2: the tree that begins here"),
        ("(NP (NN a))\n()\n", "bad.trees, line 2"),
        ("(NN f(x))\n", "bad.trees, line 1: f is not alone"),
        ("", "bad.trees has no trees"),
    ]:
        bad.write_text(text)
        with pytest.raises(BadInput, match=error):
            train_parser(bad, out=out, settings=TWO_STEPS)
        assert not (out / "config.json").exists()
    with pytest.raises(BadInput, match="does not exist: expected a file of trees"):
        train_parser(tmp_path / "missing", out=out)
    with pytest.raises(BadInput, match="is not a regular file"):
        train_parser("-", out=out)
    with pytest.raises(BadRun, match="holds a translator"):
        train_parser(files[0], out=tiny_run)
    with pytest.raises(BadSetting, match="there is no preset"):
        train_parser(files[0], out=out, preset="pars")


def test_sentences_that_are_too_long_are_counted_and_reported(tmp_path: Path) -> None:
    messages: list[str] = []

    class Recorder(Silent):
        def say(self, text: str) -> None:
            messages.append(text)

    many = trees(30)
    long = Tree(TOP, tuple(part for tree in many[:9] for part in tree.children))
    path = write(tmp_path / "train.trees", [*many, long, Tree(TOP, (Tree("-NONE-", word="*"),))])
    with threads_kept():
        train_parser(
            path, out=tmp_path / "run", settings=TWO_STEPS, device="cpu", progress=Recorder()
        )
    assert f"{path}: 31 trees; 1 without words are left out" in messages
    assert any(line.startswith("train:") and "1 over-long" in line for line in messages), messages


def test_output_that_is_not_a_tree_is_an_error(parser: Parser) -> None:
    """The constraint prevents it; without the constraint, the output is checked."""

    class Careless:
        batch = 4

        def search(self, jobs: list[object], config: object, batch: int) -> Iterator[object]:
            yield 0, [Hypothesis([4, 4], 0.0, 0.0)]

    parser.engine = Careless()  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"bracket|words"):
        parser("a dog")


def test_a_run_copied_elsewhere_still_parses(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    config = RunConfig.load(copy)
    dataclasses.replace(config, search=config.search.replace(beam=2)).save(copy)
    with threads_kept():
        assert Parser.load(copy, device="cpu")("a dog sees it.").words()[-1] == "."


def test_the_error_of_a_missing_parser_says_how_to_train_one(
    cli: CommandLine, tmp_path: Path
) -> None:
    error = cli("parse", tmp_path / "none", "A word.").error
    assert error.endswith("`transduce paper table4` trains one")
