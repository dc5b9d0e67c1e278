"""Text with markers: sentinels instead of spans, and terms with their translations."""

from collections.abc import Sequence

from transduce.subwords.base import Coder


def mark(
    text: str,
    spans: Sequence[tuple[int, int, int]],
    terms: Sequence[tuple[int, int, str]] = (),
    *,
    coder: Coder,
) -> list[str | int]:
    """Return a text in parts, to be encoded with `coder.encode_parts`.

    A span is a start, an end and the number of its sentinel, from 1; the sentinel replaces it. A
    term is a start, an end and its translation, which follows it. They must not overlap. A space
    before a term belongs to its marker, so that the term is encoded as it is without markers.
    """
    parts: list[str | int] = []
    position = 0
    for begin, end, shown in sorted([*spans, *terms], key=lambda item: item[0]):
        assert position <= begin < end
        before = text[position:begin]
        if isinstance(shown, int):
            parts += [before, coder.sentinels[shown - 1]]
        else:
            assert coder.term_markers is not None
            term, translated, after = coder.term_markers
            parts += [before.removesuffix(" "), term, f" {text[begin:end]}"]
            parts += [translated, f" {shown}", after]
        position = end
    return [*parts, text[position:]]
