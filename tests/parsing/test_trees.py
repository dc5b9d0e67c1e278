"""Trees in brackets: parsing, normalisation, writing, and errors."""

import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import BadInput
from transduce.parsing.sequences import MASK, replace_tags, to_symbols, to_tree
from transduce.parsing.trees import TOP, Tree, category, normalize, parse_trees, read_trees

PENN = "( (S (NP-SBJ-1 (DT The) (NN cell)) (VP (VBZ binds) (NP=2 (-NONE- *T*-1))) (. .)) )"

LEAVES = st.builds(
    lambda tag, word: Tree(tag, word=word),
    st.sampled_from(["NN", "DT", "VBZ", ",", "-LRB-", "PRP$"]),
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=6)
    .map(lambda word: word.translate(dict.fromkeys(map(ord, " ()"))))
    .filter(bool),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        Tree,
        st.sampled_from(["NP", "VP", "S", "X"]),
        st.lists(inner, min_size=1, max_size=4).map(tuple),
    ),
    max_leaves=20,
)
WHOLE = st.lists(TREES, min_size=1, max_size=3).map(lambda parts: Tree(TOP, tuple(parts)))


def read(text: str) -> list[Tree]:
    return list(parse_trees(text.split("\n"), "FILE"))


def parse_one(text: str) -> Tree:
    (tree,) = read(text)
    return tree


def chain(depth: int) -> Tree:
    tree = Tree("NN", word="cell")
    for _ in range(depth):
        tree = Tree("NP", (tree,))
    return tree


def test_a_tree_is_written_as_it_was_read() -> None:
    assert str(parse_one("(S (NP (DT The) (NN cell)) (VP (VBZ binds)))")) == (
        "(S (NP (DT The) (NN cell)) (VP (VBZ binds)))"
    )


def test_a_tree_may_span_several_indented_lines_as_in_the_penn_treebank() -> None:
    text = "( (S\n    (NP (NN Annexin) )\n    (VP (VBZ binds) )))\n\n(NP (NN A7))\n"
    first, second = read(text)
    assert normalize(first) == parse_one("(TOP (S (NP (NN Annexin)) (VP (VBZ binds))))")
    assert second == parse_one("(NP (NN A7))")


def test_normalisation_removes_traces_function_tags_and_indices_and_adds_top() -> None:
    assert normalize(parse_one(PENN)) == parse_one(
        "(TOP (S (NP (DT The) (NN cell)) (VP (VBZ binds)) (. .)))"
    )


@pytest.mark.parametrize(
    ("label", "stays"),
    [
        *[("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("ADVP|PRT", "ADVP"), ("PRP$", "PRP$")],
        *[("-LRB-", "-LRB-"), ("-NONE-", "-NONE-"), ("=", "="), ("``", "``")],
    ],
)
def test_a_label_is_reduced_to_its_category(label: str, stays: str) -> None:
    assert category(label) == stays


@pytest.mark.parametrize("top", ["(", "(TOP", "(ROOT", "(S1", "(VROOT"])
def test_the_outermost_bracket_becomes_top_whatever_its_label(top: str) -> None:
    assert normalize(parse_one(f"{top} (NP (NN cell)) (. .))")) == parse_one(
        "(TOP (NP (NN cell)) (. .))"
    )


def test_a_tree_whose_root_is_a_constituent_or_a_word_gets_a_top() -> None:
    assert normalize(parse_one("(NP (NN cell))")) == parse_one("(TOP (NP (NN cell)))")
    assert normalize(parse_one("(NN cell)")) == parse_one("(TOP (NN cell))")
    assert normalize(parse_one("(S (NN cell))")) == parse_one("(TOP (S (NN cell)))")


def test_a_tree_of_traces_only_has_no_words() -> None:
    assert normalize(parse_one("( (S (NP (-NONE- *)) (VP (-NONE- *))) )")) is None


def test_a_word_may_contain_non_ascii_spaces() -> None:
    tree = parse_one("(NN Xpd\N{THIN SPACE}TTD)")
    assert tree.words() == ["Xpd\N{THIN SPACE}TTD"]


def test_brackets_in_a_word_are_escaped() -> None:
    assert str(Tree("NN", word="f(x)")) == "(NN f-LRB-x-RRB-)"


def test_a_very_deep_tree_is_read_written_and_compared() -> None:
    deep = chain(20_000)
    assert parse_one(str(deep)) == deep
    whole = normalize(deep)
    assert whole is not None
    assert to_tree(to_symbols(whole), ["cell"]) == whole
    assert len(chain(2_000).indented().splitlines()) > 1_900


def test_compressed_trees_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trees.xz"
    path.write_bytes(lzma.compress(f"{PENN}\n{PENN}\n".encode()))
    assert list(read_trees(path)) == [parse_one(PENN)] * 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("(NP (NN a))\n(NP (NN b)\n(NP (NN c)))", "FILE, line 2: the tree that begins here is not"),
        ("(NP (NN a))\n(S (NP (NN b)", "line 2: .* 2 brackets are still open"),
        ("(NP (NN a)))", "FILE, line 1: a bracket is closed that was never opened"),
        ("(NP (NN a))\n()", r"FILE, line 2: \(\) is empty"),
        ("(NP (NN a) (PP))", r"\(PP\) is empty"),
        ("", "FILE has no trees"),
        ("\n\n", "FILE has no trees"),
        ("(NN f(x))", "line 1: f is not alone in its bracket: .* -LRB- and -RRB-"),
        ("(NN red cell)", "cell is not alone|red is not alone"),
        ("(NP the (NN cell))", "the is not alone in its bracket"),
        ("(NP (DT the) cell)", "cell is not alone in its bracket"),
        ("( cell)", "cell has no tag"),
        ("(S ( (NN cell)))", "a bracket has no label"),
        ("the cell", "the is outside all brackets"),
    ],
)
def test_invalid_trees_are_refused_with_their_line(text: str, error: str) -> None:
    with pytest.raises(BadInput, match=error):
        read(text)


def test_indented_text_is_the_same_tree_within_the_line_width() -> None:
    tree = Tree(TOP, tuple(Tree("NP", (Tree("NN", word="cell"),) * 3) for _ in range(4)))
    text = tree.indented(40)
    assert max(map(len, text.splitlines())) <= 40
    assert len(text.splitlines()) == 5
    assert read(text) == [tree]


def test_a_constituent_has_either_children_or_a_word() -> None:
    with pytest.raises(ValueError, match="either children or a word"):
        Tree("NP")
    with pytest.raises(ValueError, match="either children or a word"):
        Tree("NP", (Tree("NN", word="a"),), "a")


@given(WHOLE)
def test_a_tree_is_unchanged_by_writing_and_reading_brackets(tree: Tree) -> None:
    assert parse_one(str(tree)) == tree
    assert parse_one(tree.indented(30)) == tree


@given(WHOLE)
def test_a_tree_is_unchanged_by_conversion_to_symbols_and_back(tree: Tree) -> None:
    assert to_tree(to_symbols(tree), tree.words()) == tree


@given(WHOLE)
def test_masked_symbols_keep_everything_but_the_tags(tree: Tree) -> None:
    masked = to_tree(to_symbols(tree, masked=True), tree.words())
    assert {leaf.label for leaf in masked.leaves()} == {MASK}
    assert replace_tags(masked, [leaf.label for leaf in tree.leaves()]) == tree


def test_symbols_are_openings_with_labels_tags_and_closings_without() -> None:
    tree = parse_one("(TOP (S (NP (NN Annexin)) (VP (VBZ binds))) (. .))")
    assert " ".join(to_symbols(tree)) == "(S (NP NN ) (VP VBZ ) ) ."
    assert " ".join(to_symbols(tree, masked=True)) == "(S (NP XX ) (VP XX ) ) XX"


@pytest.mark.parametrize(
    "symbols", ["", ")", "(NP )", "(NP NN", "NN )", "NN NN NN", "NN", "(NP ) NN NN"]
)
def test_symbols_that_are_not_a_tree_over_the_words_are_refused(symbols: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|words"):
        to_tree(symbols.split(), ["a", "b"])


def test_trees_need_no_torch() -> None:
    names = ("trees", "sequences", "evaluation", "words", "drawing")
    code = f"import sys, {', '.join(f'transduce.parsing.{name}' for name in names)}\n"
    code += "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
