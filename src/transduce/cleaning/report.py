"""What was found in a text: as rows of a table, as JSON, and as one HTML page."""

import dataclasses
import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transduce import pages
from transduce.cleaning.checking import BIN, BINS, RATIO_BINS, Counts, Settings
from transduce.cleaning.limits import MEANINGS
from transduce.errors import printable

STYLE = Path(__file__).parent / "page" / "report.css"
HEIGHT, BAR, GAP = 120, 14, 2  # of a histogram, in pixels
SHOWN = 300  # characters of an example


def rows(settings: Settings, counts: Counts) -> list[tuple[str, str, str, str]]:
    """Return a row for each rule: its name, number and share of pairs, and its meaning."""
    return [
        *(
            (rule, *_share(counts.removed.get(rule, 0), counts.pairs), MEANINGS[rule])
            for rule in settings.all_rules
        ),
        ("kept", *_share(counts.kept, counts.pairs), _several(counts)),
    ]


def example_lines(settings: Settings, counts: Counts, number: int) -> list[str]:
    """Return the first examples of each rule as lines."""
    return [
        f"{rule}, pair {line:,}: {_shown(source, 90)} ||| {_shown(target, 90)}"
        for rule in settings.all_rules
        for line, source, target in counts.examples.get(rule, [])[:number]
    ]


def to_json(name: str, settings: Settings, counts: Counts) -> dict[str, Any]:
    """Return all that was found, with the settings."""
    return {
        "text": name,
        "languages": list(settings.languages),
        "rules": list(settings.all_rules),
        "limits": dataclasses.asdict(settings.limits),
        "pairs": counts.pairs,
        "kept": counts.kept,
        "removed": {rule: counts.removed.get(rule, 0) for rule in settings.all_rules},
        "several_targets": counts.several_targets,
        "examples": {
            rule: [
                {"pair": line, "source": _shown(source), "target": _shown(target)}
                for line, source, target in examples
            ]
            for rule, examples in counts.examples.items()
        },
        "histograms": {
            "characters_per_bin": BIN,
            "source": counts.histograms[0][:BINS].tolist(),
            "target": counts.histograms[1][:BINS].tolist(),
            "ratio_log2_tenths": counts.histograms[2][:RATIO_BINS].tolist(),
        },
    }


def to_html(name: str, settings: Settings, counts: Counts) -> str:
    """Return a page with the counts, histograms and examples; it needs no other file."""
    title = f"Check of {printable(name)}"
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{counts.pairs:,} pairs, {' to '.join(settings.languages)}.</p>",
        "<p>A pair is counted at the first rule that it breaks.</p>",
        _table(("rule", "pairs", "share", ""), rows(settings, counts)),
        "<h2>Lengths</h2>",
        *(
            _histogram(caption, counts.histograms[row][:BINS].tolist(), _length_label)
            for row, caption in enumerate(("Source, characters", "Target, characters"))
        ),
        _histogram(
            "Length of the target divided by that of the source",
            counts.histograms[2][:RATIO_BINS].tolist(),
            _ratio_label,
        ),
        "<h2>Examples</h2>",
        *(
            f"<h3>{rule}</h3>"
            + _table(
                ("pair", "source", "target"),
                [(f"{line:,}", _shown(a), _shown(b)) for line, a, b in examples],
                numbers=(0,),
            )
            for rule, examples in counts.examples.items()
        ),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{pages.render_head(title, STYLE)}'
        f"</head>\n<body>\n<main>\n{chr(10).join(body)}\n</main>\n</body>\n</html>\n"
    )


def _share(number: int, total: int) -> tuple[str, str]:
    return f"{number:,}", f"{number / max(1, total):.2%}"


def _several(counts: Counts) -> str:
    if not counts.several_targets:
        return ""
    return f"of these, {counts.several_targets:,} have the source of an earlier pair"


def _shown(text: str, most: int = SHOWN) -> str:
    """Return a text for people: bytes that are not UTF-8 and control characters as escapes."""
    text = text.encode("utf-8", "backslashreplace").decode().strip()
    return printable(text if len(text) <= most else f"{text[:most]}…")


def _table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[int] = (1, 2)
) -> str:
    def row(values: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=number' if index in numbers else ''}>{html.escape(value)}</{tag}>"
            for index, value in enumerate(values)
        )

    lines = [f"<tr>{row(values, 'td')}</tr>" for values in cells]
    return f"<table>\n<tr>{row(columns, 'th')}</tr>\n{chr(10).join(lines)}\n</table>"


def _histogram(caption: str, values: Sequence[int], label: Callable[[int], str]) -> str:
    """Draw bars; every tenth has a label below."""
    most, step = max([*values, 1]), BAR + GAP
    parts = []
    for index, value in enumerate(values):
        height = value / most * HEIGHT
        parts.append(
            f'<rect x="{index * step}" y="{HEIGHT - height:.1f}" width="{BAR}" '
            f'height="{height:.1f}"><title>{label(index)}: {value:,}</title></rect>'
        )
        if index % 10 == 0:
            parts.append(f'<text x="{index * step}" y="{HEIGHT + 14}">{label(index)}</text>')
    size = f"0 0 {len(values) * step} {HEIGHT + 20}"
    return (
        f'<figure><figcaption>{caption}</figcaption><svg viewBox="{size}" role="img" '
        f'aria-label="{caption}">{"".join(parts)}</svg></figure>'
    )


def _length_label(index: int) -> str:
    return f"{index * BIN}+" if index == BINS - 1 else f"{index * BIN}"


def _ratio_label(index: int) -> str:
    return f"{2 ** ((index - RATIO_BINS // 2) / 10):.2g}"
