"""Numbers: digits of the source that the output lost, changed or invented."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from transduce.translation.guard.number_words import is_written

SPACES = " \u00a0\u2009\u202f"
# A number with separators: 1,000.5 or 1.000,5 or 1 000,5 or 1'000.50; 2014-05-01; 18:30.
NUMBER = re.compile(rf"\d+(?:[.,'’:٫٬]\d+|[{SPACES}]\d{{3}}(?!\d))*")
HAS_DIGIT = re.compile(r"\d")
GROUP = re.compile(r"\d+")
MANY = 50  # numbers that are compared one by one
DECIMAL_ZEROS = re.compile(r"(?<=\d)[.,]0{1,2}$|(?<=[.,]\d)0$")  # 1.20 is 1.2
AFTERNOON = re.compile(r"(?:\d ?|\b)p\.? ?m\b|\d ?h\b|\bUhr|:\d\d|下午|午後", re.IGNORECASE)
# 1.2 million and 1 200 000 differ by zeros alone.
SCALE = re.compile(
    r"thousand|[mb]illion|tausend|milliard|\bmi(?:o|a)\b|\bm(?:rd|illes?|il)\b|\d ?[kmb]n?\b|тыс|"
    r"млн|млрд|миллион|миллиард|[千万億亿]|ألف|مليون|مليار",
    re.IGNORECASE,
)


def find_numbers(source: str, output: str) -> str | None:
    """Describe numbers that are in only one of the texts.

    Separators, the order of numbers, and leading zeros do not count. A number may be spelled out
    in the other text, be a roman numeral there, or be written with a word such as million.
    """
    if not (HAS_DIGIT.search(source) or HAS_DIGIT.search(output)):
        return None
    lost, invented = difference(numbers_of(source), numbers_of(output))
    if lost or invented:
        lost, invented = _without_same_values(lost, invented, f"{source} {output}")
        # The same digits may be grouped otherwise: 2014-05-01 and 1.5.2014, 2008/09 and 2008-2009.
        lost, invented = difference(groups(lost), groups(invented))
        lost, invented = _without_same_values(lost, invented, f"{source} {output}")
    lost = [number for number in lost[:MANY] if not _written_otherwise(number, output)]
    invented = [number for number in invented[:MANY] if not _written_otherwise(number, source)]
    parts = []
    if lost:
        parts.append(f"not in the output: {', '.join(lost[:5])}")
    if invented:
        parts.append(f"not in the source: {', '.join(invented[:5])}")
    return "; ".join(parts) or None


def numbers_of(text: str) -> list[str]:
    """Return the numbers of a text as written, with ASCII digits."""
    return [_ascii(match) for match in NUMBER.findall(text)]


def _ascii(number: str) -> str:
    return (
        number if number.isascii() else "".join(str(int(c)) if c.isdecimal() else c for c in number)
    )


def digits(number: str) -> str:
    """Return the digits of a number, without separators and zeros that say nothing."""
    if not number.isdecimal():
        number = "".join(GROUP.findall(DECIMAL_ZEROS.sub("", number)))
    return number.lstrip("0") or "0"


def difference(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the numbers of each text that have no counterpart of the same digits in the other."""
    if first == second:
        return [], []
    common = Counter(map(digits, first)) & Counter(map(digits, second))
    return list(_beyond(first, common.copy())), list(_beyond(second, common))


def _beyond(numbers: Iterable[str], common: Counter[str]) -> Iterator[str]:
    for number in numbers:
        if common[digits(number)]:
            common[digits(number)] -= 1
        else:
            yield number


def groups(numbers: Iterable[str]) -> list[str]:
    """Return the groups of digits of numbers, without 00: 7:00 is also written 7."""
    found = [group for number in numbers for group in GROUP.findall(number)]
    return [group for group in found if group != "00"]


def _without_same_values(
    lost: list[str], invented: list[str], texts: str
) -> tuple[list[str], list[str]]:
    """Remove numbers that say the same in another way: 6 pm and 18:00, '90s and 1990er."""
    clock, scaled = AFTERNOON.search(texts) is not None, SCALE.search(texts) is not None
    if len(lost) > MANY or len(invented) > MANY:
        return lost, invented
    left, remaining = [], list(invented)
    for number in lost:
        for other in remaining:
            if _same_value(digits(number), digits(other), clock=clock, scaled=scaled):
                remaining.remove(other)
                break
        else:
            left.append(number)
    return left, remaining


def _same_value(first: str, second: str, *, clock: bool, scaled: bool) -> bool:
    short, long = sorted((first, second), key=len)
    zeros = len(long) - len(short)
    if scaled and zeros and long == short + "0" * zeros:
        return True
    if len(long) == 4 and len(short) == 2 and long[:2] in {"18", "19", "20"}:
        return long.endswith(short)
    return clock and len(long) <= 2 and abs(int(first) - int(second)) == 12


def _written_otherwise(number: str, text: str) -> bool:
    """Whether a text has a number as a word or as a roman numeral."""
    value = digits(number)
    if len(value) > 4:
        return False
    if number == "000":  # of 50,000, if the other text has 50 thousand
        value = "1000"
    return is_written(int(value), text)
