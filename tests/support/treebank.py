"""A small grammar that makes trees for tests, the same ones every time."""

import random
from collections.abc import Sequence
from pathlib import Path

from transduce.parsing.evaluation import Parseval, score_tree, summarize
from transduce.parsing.trees import Tree

PARSER_SETTINGS = {
    "N": "1",
    "d_model": "64",
    "d_ff": "128",
    "h": "2",
    "d_k": "16",
    "d_v": "16",
    "vocabulary": "300",
    "batch_tokens": "1000",
    "max_len": "80",
    "P_drop": "0",
    "eps_ls": "0",
    "steps": "100",
    "warmup": "30",
    "lr_scale": "0.3",
    "average": "1",
    "save_every": "100",
    "validate_every": "100",
    "log_every": "50",
    "threads": "1",
}
TWO_STEPS = PARSER_SETTINGS | {"steps": "2", "save_every": "2", "validate_every": "2"}
LEXICON = {
    "DT": ["the", "a", "every"],
    "JJ": ["red", "small", "old"],
    "NN": ["dog", "cell", "mouse", "tree"],
    "VBZ": ["sees", "likes", "binds"],
    "IN": ["in", "near", "with"],
    "RB": ["here", "today"],
}


def leaf(tag: str, chance: random.Random) -> Tree:
    return Tree(tag, word=chance.choice(LEXICON[tag]))


def noun_phrase(chance: random.Random, depth: int = 0) -> Tree:
    parts = [leaf("DT", chance)]
    if chance.random() < 0.4:
        parts.append(leaf("JJ", chance))
    phrase = Tree("NP", (*parts, leaf("NN", chance)))
    if depth < 2 and chance.random() < 0.3:
        behind = Tree("PP", (leaf("IN", chance), noun_phrase(chance, depth + 1)))
        return Tree("NP", (phrase, behind))
    return phrase


def sentence(chance: random.Random) -> Tree:
    verb = [leaf("VBZ", chance)]
    if chance.random() < 0.7:
        verb.append(noun_phrase(chance))
    if chance.random() < 0.4:
        verb.append(Tree("ADVP", (leaf("RB", chance),)))
    parts = (noun_phrase(chance), Tree("VP", tuple(verb)), Tree(".", word="."))
    return Tree("TOP", (Tree("S", parts),))


def trees(count: int, seed: int = 1) -> list[Tree]:
    chance = random.Random(seed)
    return [sentence(chance) for _ in range(count)]


LABELS = ("NP", "VP", "PP", "S", "ADVP", "PRT", "NP-SBJ-1", "NP=2", "TOP")
TAGS = ("NN", "VBZ", ",", ".", ":", "``", "''", "ADVP", "PRT", "-NONE-")


def perturbed(tree: Tree, chance: random.Random, *, words: bool = True) -> Tree:
    """Return a tree with some brackets changed; with `words`, some tags and words too."""
    if tree.word is not None:
        draw = chance.random() if words else 1.0
        if draw < 0.04:
            return Tree(chance.choice(TAGS), word=tree.word)
        return Tree(tree.label, word="changed" if draw < 0.042 else tree.word)
    parts = [perturbed(child, chance, words=words) for child in tree.children]
    draw = chance.random()
    if draw < 0.1:
        begin = chance.randrange(len(parts))
        end = chance.randint(begin + 1, len(parts))
        parts[begin:end] = [Tree(chance.choice(LABELS), tuple(parts[begin:end]))]
    elif draw < 0.2:
        place = chance.randrange(len(parts))
        parts[place : place + 1] = parts[place].children or [parts[place]]
    elif draw < 0.45 and len(parts) > 1 and len(parts[0].children) > 1:
        # The last part of the first becomes the first of the second: brackets cross.
        *rest, moved = parts[0].children
        second = Tree("VP", (moved, parts[1]))
        parts[:2] = [Tree(parts[0].label, tuple(rest)), second]
    elif draw < 0.55:
        return Tree(chance.choice(LABELS), tuple(parts))
    return Tree(tree.label, tuple(parts))


def joined(trees: list[Tree]) -> Tree:
    """Return several trees as one long sentence."""
    parts = [part for tree in trees for part in (tree.children if tree.label == "TOP" else (tree,))]
    return Tree("TOP", tuple(parts))


def write(path: Path, trees: list[Tree]) -> Path:
    """Write one tree a line."""
    path.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
    return path


def parseval(
    gold: Sequence[Tree], guesses: Sequence[Tree | None], cutoff: int | None = None
) -> Parseval:
    """Score guessed trees against gold trees."""
    return summarize((score_tree(*pair) for pair in zip(gold, guesses, strict=True)), cutoff)
