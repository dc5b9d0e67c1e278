"""Automatic trees: parsing raw text with several parsers, in blocks, and selecting trees."""

import dataclasses
import gzip
import json
import lzma
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import threads_kept
from small_training import Killed

from transduce import Parser, train_parser
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.parsing import automatic
from transduce.parsing.automatic import AutomaticTrees
from transduce.parsing.evaluation import score_tree, summarize
from transduce.parsing.raw_text import MAX_CHARACTERS, RawText, keys_of, sentence_key
from transduce.parsing.sequences import replace_tags, to_symbols
from transduce.parsing.trees import Tree, read_trees
from transduce.runs.folder import RunConfig
from transduce.subwords import EOS
from transduce.translation.types import Ints
from treebank import PARSER_SETTINGS, TWO_STEPS, trees, write

# Learned positions limit outputs to max_len: parsers that are hardly trained write long ones.
SOME_STEPS = PARSER_SETTINGS | {
    **dict.fromkeys(("steps", "save_every", "validate_every"), "40"),
    "positions": "learned",
    "max_len": "50",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two parsers of the same trees, with different seeds."""
    folder = tmp_path_factory.mktemp("parsers")
    train, dev = write(folder / "t.trees", trees(200)), write(folder / "d.trees", trees(10, 2))
    with threads_kept():
        return [
            train_parser(
                train,
                out=folder / seed,
                valid=dev,
                settings=SOME_STEPS | {"seed": seed},
                device="cpu",
            )
            for seed in ("1", "2")
        ]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(automatic, "BLOCK", 4)
    monkeypatch.setattr("transduce.translation.engines.pytorch.cores", lambda: 1)
    with threads_kept():
        yield


def work_on(folder: Path, runs: list[Path], *texts: RawText, **changes: Any) -> AutomaticTrees:
    options: dict[str, Any] = {"beam": 1, "keep": 0.5, "agreement": 0.0, "device": "cpu"}
    return AutomaticTrees(folder=folder, parsers=runs, texts=texts, **(options | changes))


@pytest.fixture
def raw(tmp_path: Path) -> RawText:
    """Ten sentences as words, and their gold trees."""
    gold = trees(10, seed=5)
    words = tmp_path / "raw.words"
    words.write_text("".join(f"{' '.join(tree.words())}\n" for tree in gold))
    return RawText(words, words=True, gold=write(tmp_path / "raw.trees", gold))


def test_kept_are_the_trees_that_the_summary_counts(
    runs: list[Path], raw: RawText, tmp_path: Path
) -> None:
    work = work_on(tmp_path / "out", runs, raw)
    summary = work.run(())
    kept = list(read_trees(work.trees))
    assert (summary.lines, summary.parsed, summary.agreed, summary.kept) == (10, 10, 10, 5)
    assert summary.kept == len(kept)
    assert summary.kept_words == sum(len(tree.words()) for tree in kept)
    assert 0 < summary.confidence < 1
    assert sorted(path.name for path in work.folder.glob("[!.]*")) == [
        *("automatic.trees", "manifest.json", "summary.json")
    ]
    assert work.run(()) == summary


def test_the_quality_is_the_f1_of_the_trees_against_gold(
    runs: list[Path], raw: RawText, tmp_path: Path
) -> None:
    work = work_on(tmp_path / "out", runs, raw, keep=0.4)
    quality = work.run(()).quality
    assert raw.gold is not None
    gold = {" ".join(tree.words()): tree for tree in read_trees(raw.gold)}
    scores = []
    for tree in read_trees(work.trees):
        answer = gold[" ".join(tree.words())]
        tags = [leaf.label for leaf in answer.leaves()]
        scores.append(score_tree(answer, replace_tags(tree, tags)))
    assert quality["kept"].f1 == pytest.approx(summarize(scores).f1)
    assert [quality[name].sentences for name in ("kept", "discarded", "all")] == [4, 6, 10]


def pair_of(parser: Parser, words: list[str], tree: Tree) -> tuple[Ints, Ints]:
    """Return the ids of the words and of the tree's symbols."""
    source = parser.codec.source.encode(" ".join(words))
    target = parser.codec.target.encode(" ".join(to_symbols(tree)))
    return np.array([*source, EOS]), np.array([*target, EOS])


def test_confidence_is_the_mean_log_probability_of_the_symbols(runs: list[Path]) -> None:
    parser = Parser.load(runs[0], device="cpu")
    gold = trees(90, 6)  # more than a batch
    words = [tree.words() for tree in gold]
    expected = []
    for sentence, tree in zip(words, gold, strict=True):
        (log_p,) = parser.engine.score([pair_of(parser, sentence, tree)])
        expected.append(sum(log_p) / len(log_p))
    assert parser.confidences(words, gold) == pytest.approx(expected, abs=1e-5)
    assert parser.confidences([], []) == []


def test_the_tree_is_the_most_probable_one_under_all_parsers(
    runs: list[Path], raw: RawText, tmp_path: Path
) -> None:
    work = work_on(tmp_path / "out", runs, raw, keep=1.0)
    work.run(())
    together = Parser.load(runs[0], others=[runs[1]], device="cpu")
    words = [tree.words() for tree in read_trees(raw.gold or "")]
    each = [Parser.load(run, device="cpu").parse_words(words, beam=1) for run in runs]
    differing = 0
    for sentence, first, second, chosen in zip(words, *each, read_trees(work.trees), strict=True):
        assert first is not None
        assert second is not None
        totals = [
            sum(together.engine.score([pair_of(together, sentence, tree)])[0])
            for tree in (first, second)
        ]
        differing += first != second
        assert chosen == (first if totals[0] >= totals[1] else second)
    assert differing


def test_a_killed_run_continues_with_the_same_bytes(
    runs: list[Path], raw: RawText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = work_on(tmp_path / "whole", runs, raw)
    whole.run(())
    parse, calls = automatic._parse_block, []

    def dying(*arguments: Any) -> dict[str, Any]:
        calls.append(len(arguments[2]))
        if len(calls) == 2:
            raise Killed
        return parse(*arguments)

    monkeypatch.setattr(automatic, "_parse_block", dying)
    again = work_on(tmp_path / "again", runs, raw)
    with pytest.raises(Killed):
        again.run(())
    assert [path.name for path in (again.folder / "blocks").iterdir()] == ["0000000.json"]
    again.run(())
    assert calls == [4, 4, 4, 2]
    for name in ("automatic.trees", "summary.json"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()


ODD = [
    "",
    "a dog (or 2) sees it.",
    " \t ",
    "dog " * 200,
    "x" * (MAX_CHARACTERS + 1),
    "Die Zelle überträgt 日本語 – naïvely.",
    "the mouse sees a cell .",
    "((()))",
    "a\u2009b \u00a0 \x1c c",
    "-LRB- <unk> </s> {}",
]


@pytest.mark.parametrize("words", [True, False])
def test_odd_lines_are_parsed_or_counted(words: bool, runs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "odd.txt.xz"
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in ODD).encode()))
    work = work_on(tmp_path / "out", runs, RawText(path, words), keep=1.0)
    summary = work.run({sentence_key(["the", "mouse", "sees", "a", "cell", "."])})
    assert (summary.lines, summary.blank, summary.too_long, summary.held_out) == (10, 2, 2, 1)
    found = [tree.words() for tree in read_trees(work.trees)]
    assert len(found) == summary.kept == summary.parsed == 5
    parser = Parser.load(runs[0], device="cpu")
    assert found == [parser.words(ODD[number], cut=words) for number in (1, 5, 7, 8, 9)]
    assert found[2] == ["-LRB--LRB--LRB--RRB--RRB--RRB-"] if words else ["-LRB-", "-LRB-", "-LRB-"]
    student = train_parser(
        write(tmp_path / "gold.trees", trees(20)),
        out=tmp_path / "student",
        valid=write(tmp_path / "dev.trees", trees(5, 2)),
        automatic=work.trees,
        settings=TWO_STEPS,
        device="cpu",
    )
    assert open_corpus(student / "corpus").manifest.corpora[1].train.pairs == 5


def test_several_texts_and_a_limit_of_lines(runs: list[Path], raw: RawText, tmp_path: Path) -> None:
    more = tmp_path / "more.gz"
    more.write_bytes(gzip.compress(b"every dog sees a tree.\n" * 5))
    texts = raw, RawText(more)
    everything = work_on(tmp_path / "all", runs, *texts, keep=1.0).run(())
    assert (everything.lines, everything.quality["all"].sentences) == (15, 10)
    some = work_on(tmp_path / "some", runs, *texts, keep=1.0, lines=12).run(())
    assert (some.lines, some.quality["all"].sentences) == (12, 10)
    few = work_on(tmp_path / "few", runs, *texts, keep=1.0, lines=5).run(())
    assert (few.lines, few.quality["all"].sentences) == (5, 5)


def test_one_parser_agrees_with_itself(runs: list[Path], raw: RawText, tmp_path: Path) -> None:
    summary = work_on(tmp_path / "out", runs[:1], raw, agreement=1.0).run(())
    assert (summary.parsed, summary.agreed, summary.kept) == (10, 10, 5)


def interrupted(folder: Path, runs: list[Path], raw: RawText) -> AutomaticTrees:
    """Return work whose blocks are parsed, but whose trees are not selected."""
    work = work_on(folder, runs, raw)
    with pytest.MonkeyPatch.context() as patch:

        def die(*_: object) -> None:
            raise Killed

        patch.setattr(AutomaticTrees, "_select", die)
        with pytest.raises(Killed):
            work.run(())
    return work


def test_spoiled_files_are_refused(runs: list[Path], raw: RawText, tmp_path: Path) -> None:
    work = interrupted(tmp_path / "out", runs, raw)
    block = work.folder / "blocks" / "0000001.json"
    text = block.read_text()
    block.write_text(text.replace("(NP ", "(VP ", 1))
    with pytest.raises(BadRun, match=r"0000001.json is damaged"):
        work.run(())
    block.write_text(text)
    work.run(())
    written = work.trees.read_text()
    work.trees.write_text(written.replace("(NP ", "(VP ", 1))
    with pytest.raises(BadRun, match=r"automatic.trees is damaged or missing"):
        work.run(())
    work.trees.unlink()
    with pytest.raises(BadRun, match=r"automatic.trees is damaged or missing"):
        work.run(())


def test_changed_parsers_text_or_search_are_refused(
    runs: list[Path], raw: RawText, tmp_path: Path
) -> None:
    work = interrupted(tmp_path / "out", runs, raw)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"parsers": runs[:1]}, "was started with other parsers"),
        ({"beam": 3}, "was started with another beam than 3"),
        ({"lines": 7}, "another limit on lines"),
        ({"texts": (raw, raw)}, "was started with other raw text"),
    ]
    for changes, error in cases:
        with pytest.raises(BadRun, match=error):
            dataclasses.replace(work, **changes).run(())
    raw.path.write_text("a dog .\n")
    with pytest.raises(BadRun, match="was started with other raw text"):
        work.run(())


def test_text_without_words_and_parsers_that_never_agree_are_refused(
    runs: list[Path], raw: RawText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty.txt"
    for text, error in [("", "is empty"), ("\n \n", "has only 2 blank lines")]:
        empty.write_text(text)
        with pytest.raises(BadInput, match=f"empty.txt {error}: expected sentences to parse"):
            work_on(tmp_path / "out", runs, RawText(empty)).run(())
    monkeypatch.setattr(automatic, "agreement", lambda several: 0.3)
    with pytest.raises(BadInput, match=r"the parsers agree on none of 10 sentences to 0.9"):
        work_on(tmp_path / "none", runs, raw, agreement=0.9).run(())


def test_an_ensemble_needs_parsers_of_the_same_trees(runs: list[Path], tmp_path: Path) -> None:
    other = train_parser(
        write(tmp_path / "o.trees", trees(40, 9)),
        out=tmp_path / "other",
        settings=TWO_STEPS | {"vocabulary": "280"},
        device="cpu",
    )
    with pytest.raises(BadRun, match="have different subwords or symbols of trees"):
        Parser.load(runs[0], others=[other], device="cpu")


def test_an_ensemble_averages_probabilities(runs: list[Path]) -> None:
    together = Parser.load(runs[0], others=[runs[1]], device="cpu")
    parsers = [Parser.load(run, device="cpu") for run in runs]
    for tree in trees(3, 6):
        pair = pair_of(together, tree.words(), tree)
        each = [parser.engine.score([pair])[0] for parser in parsers]
        (joint,) = together.engine.score([pair])
        mean = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(*each, strict=True)]
        assert joint == pytest.approx(mean, abs=1e-4)
    assert together.engine.name.startswith("2 models with ")


def test_weights_of_automatic_trees_reach_training(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.trees", trees(30))
    other = write(tmp_path / "automatic.trees", [*trees(20, 7), *trees(20, 8)])

    def train(weight: float) -> Path:
        return train_parser(
            gold,
            out=tmp_path / "run",
            valid=write(tmp_path / "dev.trees", trees(5, 2)),
            automatic=other,
            weight=weight,
            settings=TWO_STEPS,
            device="cpu",
        )

    run = train(0.5)
    assert RunConfig.load(run).corpus_weights == (1.0, 0.5)
    corpora = open_corpus(run / "corpus").manifest.corpora
    assert [(corpus.name, corpus.train.pairs) for corpus in corpora] == [
        ("gold", 30),
        ("automatic", 40),
    ]
    with pytest.raises(BadSetting, match=r"was started with corpora of weight 1, 0.5, not 1, 2"):
        train(2.0)
    write(tmp_path / "automatic.trees", trees(40, 8))
    with pytest.raises(BadRun, match=r"automatic.trees holds other trees than"):
        train(0.5)


def test_a_student_learns_words_from_both_files_and_tags_from_gold(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.trees", trees(30))
    text = "(TOP (NP (NN wombat) (FW wombat)))\n" * 40
    other = tmp_path / "automatic.trees"
    other.write_text(text)
    run = train_parser(
        gold,
        out=tmp_path / "run",
        valid=write(tmp_path / "dev.trees", trees(5, 2)),
        automatic=other,
        settings=TWO_STEPS,
        device="cpu",
    )
    parser = Parser.load(run, device="cpu")
    assert len(parser.codec.source.encode("wombat")) == 1
    assert "FW" in parser.codec.target.names
    assert "wombat" not in json.loads((run / "lexicon.json").read_text())["words"]


def test_an_automatic_file_of_a_run_without_one_is_refused(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.trees", trees(30))
    train_parser(gold, out=tmp_path / "run", settings=TWO_STEPS, device="cpu")
    with pytest.raises(BadRun, match="was started without automatic trees"):
        train_parser(gold, out=tmp_path / "run", automatic=gold, settings=TWO_STEPS, device="cpu")


def test_a_sentence_is_held_out_however_its_words_are_written() -> None:
    tree = [r"Shares", "rose", r"1\/2", "``", "a", "-LRB-", "b", "-RRB-", "''", "."]
    raw = ["Shares", "rose", "1/2", '"', "a", "(", "b", ")", '"', "."]
    assert sentence_key(tree) == sentence_key(raw)
    assert sentence_key(raw) != sentence_key(raw[:-1])


def test_keys_of_trees_are_their_words() -> None:
    some = trees(3)
    assert keys_of(some) == {"".join(tree.words()) for tree in some}
