"""A small grammar that makes trees for tests, the same ones every time."""

import random

from transduce.parsing.trees import Tree

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
