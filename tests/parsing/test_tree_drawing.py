"""A drawn tree has its words in a row, no crossing lines, and nothing outside the picture."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from transduce.parsing.drawing import draw
from transduce.parsing.trees import Tree, parse_trees
from treebank import trees

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str, kind: str) -> list[tuple[str, float, float]]:
    root = ET.fromstring(svg)
    nodes = [node for node in root.iter(f"{SVG}text") if node.get("class") == kind]
    return [(node.text or "", float(node.get("x", 0)), float(node.get("y", 0))) for node in nodes]


def test_words_are_in_a_row_from_left_to_right_without_overlap() -> None:
    (tree,) = parse_trees(["(S (NP (DT The) (NN phosphatidylinositol)) (VP (VBZ binds)))"], "FILE")
    words = texts(draw(tree), "word")
    assert [word for word, _, _ in words] == ["The", "phosphatidylinositol", "binds"]
    assert len({y for _, _, y in words}) == 1
    for (left, x, _), (right, after, _) in pairwise(words):
        assert after - x > 3.5 * (len(left) + len(right))


def test_each_label_is_drawn_once_above_its_words() -> None:
    tree = trees(1)[0]
    svg = draw(tree)
    inner = [node.label for node, entered in tree.visits() if entered and node.children]
    assert sorted(label for label, _, _ in texts(svg, "label")) == sorted(inner)
    assert texts(svg, "label")[0][2] == min(y for _, _, y in texts(svg, "label"))


def test_brackets_and_markup_characters_are_drawn_as_written() -> None:
    tree = Tree("NP", (Tree("-LRB-", word="-LRB-"), Tree("SYM", word="<&>")))
    assert [word for word, _, _ in texts(draw(tree), "word")] == ["(", "<&>"]


def test_everything_is_inside_the_picture_and_lines_go_down() -> None:
    for tree in trees(5):
        svg = draw(tree)
        root = ET.fromstring(svg)
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for kind in ("label", "tag", "word"):
            assert all(0 < x < width and 0 < y < height for _, x, y in texts(svg, kind))
        for path in re.findall(r'd="M\S+ ([\d.]+)V([\d.]+)H\S+ 0 \S+ \d+V([\d.]+)"', svg):
            begin, across, end = map(float, path)
            assert begin < across < end
