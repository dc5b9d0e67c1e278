"""Text with inline tags, independent of a document format."""

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag inside a text, such as <b>, </b> or <br>.

    An open and a close tag with the same `key` form an element; elements of a text are nested. A
    single tag stands for something inside the text, such as an image or a placeholder. Each tag
    of a text is in its translation exactly once, so (kind, key) identifies it.
    """

    kind: Literal["open", "close", "single"]
    key: int
    data: Any = field(default=None, compare=False)  # for the document format


Inline = tuple[str | Tag, ...]  # text and tags in order


def inline_text(content: Inline) -> str:
    """Return the text without its tags."""
    return "".join(part for part in content if isinstance(part, str))
