"""Formatting and parsing of numbers and durations."""

import re

from transduce.errors import BadInput

UNITS = {
    r"d(?:ays?)?": 86_400,
    r"h(?:(?:ou)?rs?)?": 3_600,
    r"m(?:in(?:ute)?s?)?": 60,
    r"s(?:ec(?:ond)?s?)?": 1,
}
TIME = re.compile(
    r"\s*" + "".join(rf"(?:(\d{{1,9}}(?:\.\d{{1,9}})?)\s*{unit}\s*)?" for unit in UNITS),
    re.IGNORECASE | re.ASCII,
)


def format_duration(seconds: float) -> str:
    """Format a duration: 8s, 3m20s, 2h05m."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    return f"{seconds // 3600}h{seconds // 60 % 60:02}m"


def parse_duration(text: str, name: str) -> float:
    """Parse a duration such as 90s, 3 min, 1h30m or 1.5 hours into seconds.

    A number without a unit is refused, because it is ambiguous.
    """
    if re.fullmatch(r"\s*\d{1,9}\s*", text):
        n = text.strip()
        raise BadInput(f"{name} {n}: {n} what? Write {n}s, {n}m or {n}h: seconds, minutes or hours")
    match = TIME.fullmatch(text)
    amounts = match.groups("0") if match else ()
    seconds = sum(
        float(amount) * unit for amount, unit in zip(amounts, UNITS.values(), strict=False)
    )
    if not seconds:
        raise BadInput(
            f"{name} {text:.60}: expected a length of time such as 90s, 30m, 1h30m or 1.5 hours"
        )
    return seconds


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: 1 step, 2,000 steps, 0 processes."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_bytes(size: float) -> str:
    """Format a number of bytes: 812 bytes, 1.4 MB, 2.6 GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:.0f} {name}"
    return f"{size:.0f} bytes"
