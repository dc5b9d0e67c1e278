"""Read texts ahead in blocks, so that texts of similar length can be searched together."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from transduce.markup.inline import Inline

T = TypeVar("T", bound=str | Inline)

MAX_CHARACTERS = 4_000_000  # per block, to bound memory


def read_blocks(texts: Iterable[T], size: int, ready: Callable[[], bool]) -> Iterator[list[T]]:
    """Yield blocks of up to `size` texts; a block ends early when no further text is ready."""
    block: list[T] = []
    characters = 0
    for text in texts:
        block.append(text)
        parts = [text] if isinstance(text, str) else text
        characters += sum(len(part) for part in parts if isinstance(part, str))
        if len(block) >= size or characters >= MAX_CHARACTERS or not ready():
            yield block
            block, characters = [], 0
    if block:
        yield block
