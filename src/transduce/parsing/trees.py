"""Read, normalise and write trees in the bracket notation of the Penn Treebank.

    ( (S (NP-SBJ-1 (NN Annexin)) (VP (VBZ binds) (NP (NN calcium))) (. .)) )

A leaf is a tag and its word. The bracket around a whole tree may have no label. Nothing here is
recursive, so a tree may have any depth.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from transduce.errors import BadInput
from transduce.text.reading import display_name, read_lines

TOP = "TOP"  # the label of the bracket around a whole tree
TOPS = frozenset({"", TOP, "ROOT", "S1", "VROOT"})  # its labels in other treebanks
TRACE = "-NONE-"  # the tag of moved or omitted words
ESCAPES = {"(": "-LRB-", ")": "-RRB-"}  # for brackets inside words
# Only ASCII white space separates tokens, as in EVALB: some words in CRAFT contain a thin space.
TOKEN = re.compile(r"(?a:\((?P<label>[^\s()]*)|(?P<close>\))|(?P<word>[^\s()]+))")
CATEGORY = re.compile(r"[^-=|]+")  # matches NP in NP-SBJ-1 and NP=2, ADVP in ADVP|PRT
WIDTH = 100  # maximum line width of indented trees


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A constituent with its children, or a tag with its word.

    >>> Tree("NP", (Tree("DT", word="the"), Tree("NN", word="cell")))
    (NP (DT the) (NN cell))
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def __post_init__(self) -> None:
        if bool(self.children) == (self.word is not None):
            raise ValueError(f"{self.label!r} must have either children or a word")

    def visits(self) -> Iterator[tuple["Tree", bool]]:
        """Yield each constituent with True on entering and False on leaving; a leaf only once."""
        waiting = [(self, True)]
        while waiting:
            node, entered = waiting.pop()
            yield node, entered
            if entered and node.children:
                waiting.append((node, False))
                waiting.extend((child, True) for child in reversed(node.children))

    def leaves(self) -> list["Tree"]:
        """Return the tags with their words, from left to right."""
        return [node for node, _ in self.visits() if node.word is not None]

    def words(self) -> list[str]:
        """Return the words."""
        return [leaf.word for leaf in self.leaves() if leaf.word is not None]

    def __str__(self) -> str:
        pieces: list[str] = []
        for node, entered in self.visits():
            if node.word is not None:
                pieces.append(f" ({node.label} {escape(node.word)})")
            else:
                pieces.append(f" ({node.label}" if entered else ")")
        return "".join(pieces)[1:]

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def indented(self, width: int = WIDTH) -> str:
        """Return the tree on several lines; a constituent that fits stays on one line."""
        lengths: dict[int, int] = {}
        for node, entered in self.visits():
            if node.word is not None:
                lengths[id(node)] = len(str(node))
            elif not entered:
                lengths[id(node)] = (
                    len(node.label) + 2 + sum(lengths[id(child)] + 1 for child in node.children)
                )
        lines: list[str] = []
        waiting = [(self, 0, "")]
        while waiting:
            node, depth, closing = waiting.pop()
            if node.word is not None or 2 * depth + lengths[id(node)] + len(closing) <= width:
                lines.append("  " * depth + str(node) + closing)
                continue
            lines.append("  " * depth + f"({node.label}")
            *earlier, last = node.children
            waiting.append((last, depth + 1, closing + ")"))
            waiting.extend((child, depth + 1, "") for child in reversed(earlier))
        return "\n".join(lines)


def escape(word: str) -> str:
    """Return a word as it is written in trees, with brackets as -LRB- and -RRB-."""
    for bracket, name in ESCAPES.items():
        word = word.replace(bracket, name)
    return word


def unescape(word: str) -> str:
    """Return a word from a tree as plain text."""
    for bracket, name in ESCAPES.items():
        word = word.replace(name, bracket)
    return word


@dataclass(slots=True)
class _Open:
    """A bracket that has not been closed yet."""

    label: str
    line: int
    children: list[Tree] = field(default_factory=list)
    word: str | None = None

    def closed(self) -> Tree:
        return Tree(self.label, tuple(self.children), self.word)


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Yield the trees in a file, plain or compressed; `-` is standard input."""
    return parse_trees(read_lines(path), display_name(path))


def parse_trees(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the trees in some lines: one per line, or indented over several lines.

    A line that begins with a bracket begins a new tree, so errors name the right tree.
    """
    stack: list[_Open] = []
    count = 0
    for number, line in enumerate(lines, start=1):
        where = f"{name}, line {number:,}"
        if stack and line.startswith("("):
            raise _unclosed(name, stack)
        for token in TOKEN.finditer(line):
            if token["close"] is None:
                _add(stack, token, number, where)
                continue
            tree = _close(stack, where)
            if stack:
                stack[-1].children.append(tree)
            else:
                count += 1
                yield tree
    if stack:
        raise _unclosed(name, stack)
    if not count:
        raise BadInput(f"{name} has no trees: expected trees in brackets, such as (NP (NN cell))")


def _add(stack: list[_Open], token: re.Match[str], number: int, where: str) -> None:
    """Open a bracket, or put a word into the innermost open one."""
    word = token["word"]
    if word is not None and not stack:
        raise BadInput(f"{where}: {word} is outside all brackets: expected (TAG word)")
    leaf = stack[-1].word if stack and stack[-1].word is not None else word
    if leaf is not None and (stack[-1].children or stack[-1].word is not None):
        raise BadInput(
            f"{where}: {leaf} is not alone in its bracket: each word needs its own, (TAG word); "
            "brackets inside words are written -LRB- and -RRB-"
        )
    if word is None:
        stack.append(_Open(token["label"], number))
    else:
        stack[-1].word = word


def _close(stack: list[_Open], where: str) -> Tree:
    """Close the innermost bracket."""
    if not stack:
        raise BadInput(f"{where}: a bracket is closed that was never opened")
    node = stack.pop()
    if not node.children and node.word is None:
        raise BadInput(f"{where}: ({node.label}) is empty: expected words in every bracket")
    if not node.label and node.word is not None:
        raise BadInput(f"{where}: {node.word} has no tag: expected (TAG word)")
    if not node.label and stack:
        raise BadInput(f"{where}: a bracket has no label: only the outermost may have none")
    return node.closed()


def _unclosed(name: str, stack: list[_Open]) -> BadInput:
    many = len(stack)
    return BadInput(
        f"{name}, line {stack[0].line:,}: the tree that begins here is not closed: "
        f"{many} {'bracket is' if many == 1 else 'brackets are'} still open where it should end"
    )


def normalize(tree: Tree) -> Tree | None:
    """Return a tree in the form used for training and scoring, or None if no word is left.

    As usual since Collins, traces and constituents without words are removed, and so are function
    tags and indices (NP-SBJ-1 and NP=2 become NP; -LRB- is kept). The root is TOP. Unary chains,
    such as NP over NP, are kept.
    """
    stack: list[list[Tree]] = [[]]
    for node, entered in tree.visits():
        if node.word is not None:
            if node.label != TRACE:
                stack[-1].append(Tree(category(node.label), word=node.word))
        elif entered:
            stack.append([])
        elif children := stack.pop():
            stack[-1].append(Tree(category(node.label), tuple(children)))
    (whole,) = stack
    if not whole:
        return None
    (root,) = whole
    return Tree(TOP, root.children if root.children and root.label in TOPS else (root,))


def category(label: str) -> str:
    """Return a label without function tags and indices."""
    match = CATEGORY.match(label)
    return match[0] if match else label
