"""Trees as sequences of symbols and back (after Vinyals et al. 2015, which paper 6.3 follows).

    (TOP (S (NP (NN Annexin)) (VP (VBZ binds))))   is   (S (NP NN ) (VP VBZ ) )

A constituent opens with its label and closes with a bracket that has none: what it closes is known
from what is open, so a label there could only be wrong. A word is its tag, or XX where tags are
masked; which word it is, its place tells, so a sequence is put over exactly the words it was made
for. TOP is around every tree and therefore not written; the end of the sequence closes it.
"""

from collections.abc import Iterable, Sequence

from transduce.parsing.trees import TOP, TOPS, Tree

CLOSE = ")"
MASK = "XX"


def to_symbols(tree: Tree, *, masked: bool = False) -> list[str]:
    """Return the symbols of a plain tree; with `masked`, words have no tags."""
    found: list[str] = []
    for node, entered in tree.visits():
        if node.word is not None:
            found.append(MASK if masked else node.label)
        elif node is not tree or node.label not in TOPS:
            found.append(f"({node.label}" if entered else CLOSE)
    return found


def to_tree(symbols: Iterable[str], words: Sequence[str]) -> Tree:
    """Return the tree that symbols put over words; ValueError if they make none."""
    labels, parts = [TOP], [list[Tree]()]
    left = iter(words)
    for symbol in symbols:
        if symbol.startswith("("):
            labels.append(symbol[1:])
            parts.append([])
        elif symbol == CLOSE:
            inner = parts.pop()
            if not parts or not inner:
                raise ValueError("a bracket is closed that is not open or is empty")
            parts[-1].append(Tree(labels.pop(), tuple(inner)))
        else:
            word = next(left, None)
            if word is None:
                raise ValueError(f"there are more symbols for words than the {len(words)} words")
            parts[-1].append(Tree(symbol, word=word))
    if len(parts) > 1 or not parts[0] or next(left, None) is not None:
        raise ValueError("brackets stay open or words are left")
    return Tree(TOP, tuple(parts[0]))


def replace_tags(tree: Tree, tags: Sequence[str]) -> Tree:
    """Return a tree with other tags over its words."""
    left = iter(tags)
    stack: list[list[Tree]] = [[]]
    for node, entered in tree.visits():
        if node.word is not None:
            stack[-1].append(Tree(next(left), word=node.word))
        elif entered:
            stack.append([])
        else:
            parts = tuple(stack.pop())
            stack[-1].append(Tree(node.label, parts))
    return stack[0][0]
