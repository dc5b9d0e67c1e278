"""A text is searched in parts: its sentences where it is split, and stretches of over-long ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.subwords import Coder
from transduce.text.reading import language_code
from transduce.translation.alignment import words_of

ENDS = (".", "!", "?", "…", "。", "！", "？", ";", ":")  # where an over-long sentence is best cut
WITHOUT_SPACES = frozenset({"zh", "yue", "ja", "th", "lo", "km", "my", "bo"})  # between sentences


@dataclass(frozen=True, slots=True)
class Part:
    """What is searched by itself."""

    ids: list[int]  # source tokens, without </s>
    gap: str = ""  # the white space before it, where it begins a sentence
    begins: bool = True  # a sentence; otherwise it goes on with one that was cut


def cut(ids: list[int], limit: int, subwords: Coder) -> list[list[int]]:
    """Cut a sentence that is longer than the model's limit: after a mark, else between words."""
    parts = []
    while len(ids) > limit:
        pieces = subwords.pieces(ids[: limit + 1])
        begins = [i for i in range(max(1, limit // 2), limit + 1) if subwords.starts_word(ids[i])]
        after_mark = [i for i in begins if pieces[i - 1].rstrip().endswith(ENDS)]
        end = (after_mark or begins or [limit])[-1]
        parts.append(ids[:end])
        ids = ids[end:]
    return [*parts, ids]


def gaps(parts: Sequence[Part], language: str) -> list[str]:
    """Return what stands before the translation of each part.

    It is what stands before the part; where that is nothing, a space if the target language has
    any between sentences.
    """
    space = "" if language_code(language) in WITHOUT_SPACES else " "
    return ["" if place == 0 else part.gap or space for place, part in enumerate(parts)]


def source_words(parts: Sequence[Part], subwords: Coder) -> list[list[int]]:
    """Tell for each token of each part which word of the text it is in."""
    sentences: list[list[int]] = []
    for part in parts:
        if part.begins:
            sentences.append([])
        sentences[-1] += part.ids
    before = [part.gap for part in parts if part.begins]
    found = words_of([subwords.piece_bytes(ids) for ids in sentences], before)
    words = iter([word for sentence in found for word in sentence])
    return [[next(words) for _ in part.ids] for part in parts]
