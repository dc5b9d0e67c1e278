"""Special tokens, and the interface of all kinds of subwords."""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol

from tokenizers import Encoding

from transduce.errors import BadInput

PAD, BOS, EOS, UNK = 0, 1, 2, 3
LINE_BREAK = re.compile(rb"[\n\r\0]")
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")  # in the order of their ids

# Markers stand for parts of a text, or surround them: sentinels replace spans that are copied, and
# <|term|> words <|is|> translation <|end|> shows the translation of a term.
SENTINELS = tuple(f"<|{number}|>" for number in range(1, 17))
TERM_MARKERS = ("<|term|>", "<|is|>", "<|end|>")

TO = "2"  # begins the tag of a target language: <2de>; other tags begin with a letter

AnyKind = Literal["bpe", "wordpiece", "sentencepiece"]  # the last is for imported models only


class Coder(Protocol):
    """Text to ids and back, for one language or a joint vocabulary."""

    names: list[str]  # the name of each id; all are different
    # Text never produces the last ids: <tag> for each of these tags, then markers.
    tags: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()  # SENTINELS, TERM_MARKERS, both or none

    @property
    def kind(self) -> AnyKind | Literal["symbols"]:
        """The kind of the subwords; symbols are not text."""

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, on all cores."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; `<pad>`, `<s>` and `</s>` are skipped."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        r"""Return the text of each piece in readable form, with a space if it begins a word.

        Incomplete characters are shown as <0xE2>, control characters as \n.
        """
        ids, first_tag = list(ids), self.first_tag
        return [
            self.names[piece] if piece < len(SPECIAL) or piece >= first_tag else readable(text)
            for piece, text in zip(ids, self.piece_bytes(ids), strict=True)
        ]

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each piece; special tokens have none."""

    def starts_word(self, piece: int) -> bool:
        """Return whether a piece begins with a space."""
        return self.piece_bytes([piece])[0].startswith(b" ")

    def forbidden_ids(self) -> list[int]:
        """Return the ids that a search must not produce.

        These are `<pad>`, `<s>`, `<unk>`, the tags, the term markers, and every piece with a NUL
        byte or with a line end, so that the output has as many lines as the input.
        """
        texts = enumerate(self.piece_bytes(range(len(self))))
        breaks = [piece for piece, text in texts if LINE_BREAK.search(text)]
        tags = range(self.first_tag, self.first_tag + len(self.tags))
        return [PAD, BOS, UNK, *breaks, *tags, *(self.term_markers or ())]

    @property
    def first_tag(self) -> int:
        """The first id that text never produces."""
        return len(self) - len(self.markers) - len(self.tags)

    @property
    def languages(self) -> tuple[str, ...]:
        """The target languages that have a tag; none in models of one target language."""
        return tuple(tag.removeprefix(TO) for tag in self.tags if tag.startswith(TO))

    @property
    def sentinels(self) -> Sequence[int]:
        """The ids that stand for copied spans; none if the model was trained without them."""
        first = self.first_tag + len(self.tags)
        return range(first, first + len(SENTINELS)) if SENTINELS[0] in self.markers else range(0)

    @property
    def term_markers(self) -> tuple[int, int, int] | None:
        """The ids before a term, before its translation and after it; None without terms."""
        if TERM_MARKERS[0] not in self.markers:
            return None
        return len(self) - 3, len(self) - 2, len(self) - 1

    def tag_ids(self, tag: str | None) -> list[int]:
        """Return the ids that mark a text with a tag: none without a tag."""
        if tag is None:
            return []
        if tag not in self.tags:
            if tag.startswith(TO):
                known = ", ".join(self.languages)
                raise BadInput(
                    f"there is no token of the target language {tag.removeprefix(TO)!r:.60}: "
                    + (
                        f"the model knows {known}"
                        if known
                        else "the model was trained with one target language"
                    )
                )
            known = ", ".join(tag for tag in self.tags if not tag.startswith(TO))
            raise BadInput(
                f"there is no tag {tag!r:.60}: "
                + (f"the model knows {known}" if known else "the model was trained without tags")
            )
        return [self.first_tag + self.tags.index(tag)]

    def language_ids(self, target: str) -> list[int]:
        """Return the ids that ask for a target language: none in models of one."""
        return self.tag_ids(TO + target) if self.languages else []

    def encode_parts(self, texts: Sequence[Sequence[str | int]]) -> list[list[int]]:
        """Return the ids of texts with tags and markers inside, which are given as ids."""
        assert all(isinstance(part, str) for text in texts for part in text)  # there are no others
        return self.encode_batch(["".join(map(str, text)) for text in texts])

    def decode_parts(self, ids: Iterable[int]) -> list[str | int]:
        """Return the text of ids between tags and markers, and these as ids."""
        text = self.decode(ids)
        return [text] if text else []

    def same_vocabulary(self, other: "Coder") -> bool:
        """Return whether both have the same ids: a joint vocabulary is one object."""
        return other is self

    def to_json(self) -> dict[str, Any]:
        """Return the content to store."""


def encodings(encode: Callable[..., list[Encoding]], texts: list[str]) -> list[Encoding]:
    """Encode texts with a function of `tokenizers`; refuse texts that are not valid Unicode."""
    try:
        return encode(texts, add_special_tokens=False)
    except TypeError:
        for number, text in enumerate(texts, start=1):
            if any(unicodedata.category(letter) == "Cs" for letter in text):
                raise BadInput(
                    f"text {number:,} of {len(texts):,} has a lone surrogate: "
                    "expected text that can be written as UTF-8"
                ) from None
        raise


@functools.cache
def readable(piece: bytes) -> str:
    r"""Format a piece for display: an incomplete character as <0xE2>, a control character as \n."""
    text = piece.decode("utf-8", errors="surrogateescape")
    return "".join(map(_escape, text))


def _escape(letter: str) -> str:
    category = unicodedata.category(letter)
    if category == "Cs":  # a byte of an incomplete character: surrogateescape adds 0xDC00
        return f"<0x{ord(letter) - 0xDC00:02X}>"
    return ascii(letter)[1:-1] if category == "Cc" else letter
