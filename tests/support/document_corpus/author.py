"""Texts of documents: sentences with spans that a translation must contain unchanged."""

import random
from collections.abc import Callable, Sequence


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORDS = names(
    "the a every new old open quick small large green guest room garden window kitchen table "
    "river teacher student letter report meeting ticket train station morning evening winter "
    "summer price garage house street city bridge market doctor cook reads writes opens "
    "closes finds paints sees likes buys sells keeps brings under over near behind with "
    "without before after and but because often never always today slowly Anna Berlin Monday "
    "naïve café Zoë"
)
ENDS = (".", ".", ".", "!", "?", ":")

# How a span is written, by kind; the number makes it unique in its document.
SPANS: dict[str, Callable[[int], str]] = {
    "brace": lambda n: f"{{name{n}}}",
    "mustache": lambda n: f"{{{{ user.name{n} }}}}",
    "shell": lambda n: f"${{HOME{n}}}",
    "python": lambda n: f"%(count{n})s",
    "numbered": lambda n: f"%{n}$s",
    "variable": lambda n: f"$item{n}",
    "url": lambda n: f"https://example.org/a/{n}?page={n}#top{n}",
    "email": lambda n: f"help{n}@example.org",
    "path": lambda n: f"/usr/share/kit/f{n}.conf",
    "drive": lambda n: f"C:\\Data\\f{n}.txt",
    "file": lambda n: f"report{n}.pdf",
    "option": lambda n: f"--level-{n}",
    "call": lambda n: f"start{n}()",
    "unit": lambda n: f"{n} kg",
    "code": lambda n: f"`make all{n}`",
    "tag": lambda n: f'<img src="p{n}.png">',
}


class Author:
    """Writes the texts of one document; the same seed gives the same texts."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[str] = tuple(SPANS),
        *,
        shape: int = 0,
        size: float = 1.0,
    ) -> None:
        self.draw = random.Random(seed)
        self.kinds = tuple(kinds)
        self.shape = shape  # which variant of its format a document is
        self.size = size  # of the document
        self.spans: set[str] = set()
        self._number = self.draw.randrange(10, 90)

    def times(self, count: int) -> range:
        """Return a range for the parts of a document, fewer if it is small."""
        return range(max(1, round(count * self.size)))

    def number(self) -> int:
        """Return a number that the document does not have yet."""
        self._number += 1
        return self._number

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def span(self) -> str:
        text = SPANS[self.draw.choice(self.kinds)](self.number())
        self.spans.add(text)
        return text

    def words(self, least: int = 1, most: int = 5) -> str:
        return " ".join(self.draw.choice(WORDS) for _ in range(self.draw.randint(least, most)))

    def text(self, least: int = 1, most: int = 5, spans: float = 0.5) -> str:
        """Return a few words, and spans among them."""
        parts = self.words(least, most).split()
        while self.chance(spans):
            parts.insert(self.draw.randrange(len(parts) + 1), self.span())
        return " ".join(parts)

    def sentence(self, spans: float = 0.5) -> str:
        text = self.text(4, 12, spans)
        if self.chance(0.2):
            text += f" ({self.text(2, 4, spans)})"
        elif self.chance(0.2):
            text += f", {self.text(2, 5, spans)}"
        start = text[0].upper() if text[0].isalpha() and text.split()[0] in WORDS else text[0]
        return start + text[1:] + self.draw.choice(ENDS)
