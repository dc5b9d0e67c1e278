"""Length: the output is much shorter or longer than translations of such a source are."""

import math
import re

# Characters of a Latin alphabet that say as much as one character of the script.
DENSE = (
    (re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"), 3.0),
    (re.compile("[\u3041-\u30ff\uff66-\uff9f]"), 1.6),
    (re.compile("[\uac00-\ud7af]"), 2.2),
    (re.compile("[\u0590-\u06ff]"), 1.25),
)
MAY_BE_DENSE = re.compile("[\u0590-\uffff\U00020000-\U000323af]")
# Length of a text in a language, that of the same text in English being 1 (measured).
RELATIVE = {"en": 1.0, "de": 1.14, "fr": 1.15}
OTHER = 1.08
TOO_LONG = "too long"
# A text is too short or long from this logarithm of the ratio to the expected length on, plus a
# number divided by the square root of the characters of the source: short sentences vary more.
SHORTER, SHORTER_BY_LENGTH = 0.48, 1.1
LONGER, LONGER_BY_LENGTH = 0.25, 2.2


def find_length(source: str, output: str, languages: tuple[str, str]) -> str | None:
    """Describe how far the length of an output is from what is usual."""
    if not source.strip():
        return f"{len(output)} characters for an empty source" if output.strip() else None
    if not output.strip():
        return "empty"
    before, after = weighted_length(source), weighted_length(output)
    expected = before * RELATIVE.get(languages[1], OTHER) / RELATIVE.get(languages[0], OTHER)
    deviation = math.log(after / expected)
    by_length = 1 / math.sqrt(before)
    if deviation < -(SHORTER + SHORTER_BY_LENGTH * by_length):
        return f"too short: {after:.0f} characters where about {expected:.0f} are usual"
    if deviation > LONGER + LONGER_BY_LENGTH * by_length:
        return f"{TOO_LONG}: {after:.0f} characters where about {expected:.0f} are usual"
    return None


def weighted_length(text: str) -> float:
    """Return the length as that of a text in a Latin alphabet."""
    length = float(len(text))
    if text.isascii() or not MAY_BE_DENSE.search(text):
        return length
    for script, weight in DENSE:
        length += (weight - 1) * len(script.findall(text))
    return length
