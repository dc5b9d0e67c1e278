"""Read texts ahead in blocks, so that texts of similar length can be searched together."""

from collections.abc import Callable, Iterable, Iterator

MAX_CHARACTERS = 4_000_000  # per block, to bound memory


def read_blocks(texts: Iterable[str], size: int, ready: Callable[[], bool]) -> Iterator[list[str]]:
    """Yield blocks of up to `size` texts; a block ends early when no further text is ready."""
    block: list[str] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text)
        if len(block) >= size or characters >= MAX_CHARACTERS or not ready():
            yield block
            block, characters = [], 0
    if block:
        yield block
