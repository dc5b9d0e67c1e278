"""A drawn tree has its words in a row, everything in the picture, and no lines that cross."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from transduce.parsing.drawing import draw
from transduce.parsing.trees import Tree, parse_trees
from treebank import trees

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str, kind: str) -> list[tuple[str, float, float]]:
    root = ET.fromstring(svg)
    found = [one for one in root.iter(f"{SVG}text") if one.get("class") == kind]
    return [(one.text or "", float(one.get("x", 0)), float(one.get("y", 0))) for one in found]


def test_words_stand_in_a_row_from_left_to_right_with_room_between_them() -> None:
    (tree,) = parse_trees(["(S (NP (DT The) (NN phosphatidylinositol)) (VP (VBZ binds)))"], "FILE")
    words = texts(draw(tree), "word")
    assert [word for word, _, _ in words] == ["The", "phosphatidylinositol", "binds"]
    assert len({y for _, _, y in words}) == 1
    for (left, x, _), (right, after, _) in pairwise(words):
        assert after - x > 3.5 * (len(left) + len(right))


def test_each_label_is_there_once_above_what_it_holds() -> None:
    tree = trees(1)[0]
    svg = draw(tree)
    inner = [node.label for node, entered in tree.visits() if entered and node.children]
    assert sorted(label for label, _, _ in texts(svg, "label")) == sorted(inner)
    assert texts(svg, "label")[0][2] == min(y for _, _, y in texts(svg, "label"))


def test_brackets_and_signs_of_markup_are_drawn_as_people_write_them() -> None:
    tree = Tree("NP", (Tree("-LRB-", word="-LRB-"), Tree("SYM", word="<&>")))
    assert [word for word, _, _ in texts(draw(tree), "word")] == ["(", "<&>"]


def test_everything_lies_within_the_picture_and_goes_only_down() -> None:
    for tree in trees(5):
        svg = draw(tree)
        root = ET.fromstring(svg)
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for kind in ("label", "tag", "word"):
            assert all(0 < x < width and 0 < y < height for _, x, y in texts(svg, kind))
        for path in re.findall(r'd="M\S+ ([\d.]+)V([\d.]+)H\S+ 0 \S+ \d+V([\d.]+)"', svg):
            begin, across, end = map(float, path)
            assert begin < across < end
