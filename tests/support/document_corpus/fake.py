"""A translator that changes every word, and moves words, spans and tags, as a model does.

Words inside an element stay inside it, so the words of each formatting are known beforehand.
"""

import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from transduce.markup import Inline, Tag

# Characters that some format must escape follow a few of the words.
SPECIAL = ("&", "<", ">", '"', "'", "*", "_", "|", "[", "]", "#", "~", "\\", ",", ";", "=", "&amp;")
LETTERS = re.compile(r"[^\W\d_]+")
Group = tuple[Tag, "list[Node]", Tag]
Node = str | Tag | Group


def tokens(token: str) -> list[str]:
    """Return the translation of a word, as words and other characters."""
    return re.findall(r"[^\W\d_]+|\S", word(token)) if LETTERS.fullmatch(token) else [token]


def word(text: str, special: bool = True) -> str:
    """Return the translation of a word."""
    place = sum(map(ord, text)) % (4 * len(SPECIAL))
    translated = f"{text.swapcase()}ö"
    return f"{translated} {SPECIAL[place]}" if special and place < len(SPECIAL) else translated


def translator(
    spans: Collection[str], seed: int = 1
) -> Callable[[Iterable[Inline]], Iterator[Inline]]:
    """Return a translator of inline content that keeps these spans."""
    longest_first = sorted(spans, key=len, reverse=True)
    units = re.compile("|".join([*map(re.escape, longest_first), r"[^\s]"]))
    draw = random.Random(seed)

    def translate(contents: Iterable[Inline]) -> Iterator[Inline]:
        for content in contents:
            nodes = _nodes(iter(content), lambda text: _units(text, units, spans))
            yield tuple(_joined(_moved(nodes, draw)))

    return translate


def _units(text: str, units: re.Pattern[str], spans: Collection[str]) -> Iterator[str]:
    """Yield words, translated, with what they touch; spans apart from words are moved alone."""
    position, current = 0, ""
    for match in units.finditer(text):
        if match.start() > position and current:
            yield LETTERS.sub(lambda m: word(m[0]), current)
            current = ""
        position = match.end()
        if match[0] in spans:
            if current:
                yield LETTERS.sub(lambda m: word(m[0]), current)
                current = ""
            yield match[0]
        else:
            current += match[0]
    if current:
        yield LETTERS.sub(lambda m: word(m[0]), current)


def _nodes(parts: Iterator[str | Tag], units: Callable[[str], Iterable[str]]) -> list[Node]:
    nodes: list[Node] = []
    for part in parts:
        if isinstance(part, str):
            nodes += units(part)
        elif part.kind == "single":
            nodes.append(part)
        elif part.kind == "open":
            inside: list[str | Tag] = []
            for inner in parts:
                if isinstance(inner, Tag) and inner.kind == "close" and inner.key == part.key:
                    nodes.append((part, _nodes(iter(inside), units), inner))
                    break
                inside.append(inner)
    return nodes


def _moved(nodes: list[Node], draw: random.Random) -> list[Node]:
    moved = [(n[0], _moved(n[1], draw), n[2]) if isinstance(n, tuple) else n for n in nodes]
    for _ in range(len(moved) // 3 + 1 if len(moved) > 1 else 0):  # e.g. a verb to the end
        moved.insert(draw.randrange(len(moved)), moved.pop(draw.randrange(len(moved))))
    return moved


def _joined(nodes: list[Node]) -> Iterator[str | Tag]:
    for number, node in enumerate(nodes):
        if number:
            yield " "
        if isinstance(node, tuple):
            yield node[0]
            yield from _joined(node[1])
            yield node[2]
        else:
            yield node
