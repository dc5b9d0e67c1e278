"""Trees as sequences of symbols and back (after Vinyals et al. 2015, which paper 6.3 follows).

    (TOP (S (NP (NN Annexin)) (VP (VBZ binds))))   becomes   (S (NP NN ) (VP VBZ ) )

A constituent opens with a labelled bracket and closes with an unlabelled one, because a closing
label would be redundant. A word is written as its tag, or as XX if tags are masked; its position
says which word it is. TOP encloses every tree and is not written; the end of the sequence closes
it.
"""

from collections.abc import Iterable, Sequence

from transduce.parsing.trees import TOP, TOPS, Tree

CLOSE = ")"
MASK = "XX"


def to_symbols(tree: Tree, *, masked: bool = False) -> list[str]:
    """Return the symbols of a normalised tree; with `masked`, words are written as XX."""
    symbols: list[str] = []
    for node, entered in tree.visits():
        if node.word is not None:
            symbols.append(MASK if masked else node.label)
        elif node is not tree or node.label not in TOPS:
            symbols.append(f"({node.label}" if entered else CLOSE)
    return symbols


def to_tree(symbols: Iterable[str], words: Sequence[str]) -> Tree:
    """Return the tree that the symbols form over the words; raise ValueError if they form none."""
    labels, stack = [TOP], [list[Tree]()]
    remaining = iter(words)
    for symbol in symbols:
        if symbol.startswith("("):
            labels.append(symbol[1:])
            stack.append([])
        elif symbol == CLOSE:
            inner = stack.pop()
            if not stack or not inner:
                raise ValueError("a bracket is closed but not open, or is empty")
            stack[-1].append(Tree(labels.pop(), tuple(inner)))
        else:
            word = next(remaining, None)
            if word is None:
                raise ValueError(f"there are more tags than the {len(words)} words")
            stack[-1].append(Tree(symbol, word=word))
    if len(stack) > 1 or not stack[0] or next(remaining, None) is not None:
        raise ValueError("a bracket is not closed, or words are left over")
    return Tree(TOP, tuple(stack[0]))


def replace_tags(tree: Tree, tags: Sequence[str]) -> Tree:
    """Return a copy of the tree with these tags."""
    remaining = iter(tags)
    stack: list[list[Tree]] = [[]]
    for node, entered in tree.visits():
        if node.word is not None:
            stack[-1].append(Tree(next(remaining), word=node.word))
        elif entered:
            stack.append([])
        else:
            children = tuple(stack.pop())
            stack[-1].append(Tree(node.label, children))
    return stack[0][0]
