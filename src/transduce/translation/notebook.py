"""Translations and attention as self-contained HTML for notebooks.

All text is escaped. Text and background colours are left to the notebook, for light and dark
themes. There are no scripts and no requests to other hosts.
"""

import html
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

CELL, LETTER, FONT = 22, 7.2, 12  # pixels: side of a cell, width of a letter, font size
MAX_LABEL = 32  # characters
MIN_WEIGHT = 0.01  # smaller weights are not drawn
BLUE = "#3b82f6"  # visible on white and on black
LINE = "border-top:1px solid rgba(128,128,128,0.35)"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts; the last column contains numbers."""
    *text_titles, last = (f"{_text(title)}</th>" for title in head)
    names = "".join(
        f'<th style="text-align:start;padding:4px 12px 4px 0">{title}' for title in text_titles
    )
    names += f'<th style="text-align:right;padding:4px 0">{last}'
    lines = []
    for row in rows:
        *texts, number = row
        cells = "".join(
            f'<td dir="auto" style="text-align:start;padding:4px 12px 4px 0;{LINE};'
            f'white-space:pre-wrap;vertical-align:top">{_text(text)}</td>'
            for text in texts
        )
        style = f"text-align:right;vertical-align:top;padding:4px 0;{LINE}"
        lines.append(
            f'<tr style="background:none">{cells}'
            f'<td style="{style};font-variant-numeric:tabular-nums">{_text(number)}</td></tr>'
        )
    return (
        '<table style="border-collapse:collapse;margin:0"><thead>'
        f"<tr>{names}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def heatmap(weights: Floats, queries: Sequence[str], keys: Sequence[str], about: str) -> str:
    """Return a heat map of weights, (Q, K): each row shows the attention of a query.

    Hovering over a cell shows its weight.
    """
    rows, columns = _labels(queries), _labels(keys)
    left, top = (8 + LETTER * max(map(_width, side), default=0) for side in (rows, columns))
    slant = 0.87 * top + 6  # the height of labels at 60 degrees
    wide, high = left + CELL * len(columns) + top / 2, slant + CELL * len(rows) + 4
    drawn = [
        f'<text x="{left - 6:.0f}" y="{slant + CELL * (row + 0.5):.0f}" '
        f'style="text-anchor:end;dominant-baseline:central">{_text(label)}</text>'
        for row, label in enumerate(rows)
    ]
    for column, label in enumerate(columns):
        x, y = left + CELL * (column + 0.5), slant - 6
        position = f'x="{x:.0f}" y="{y:.0f}" transform="rotate(-60 {x:.0f} {y:.0f})"'
        drawn.append(f"<text {position}>{_text(label)}</text>")
    for row, column in np.argwhere(weights >= MIN_WEIGHT).tolist():
        weight = float(weights[row, column])
        x, y = left + CELL * column, slant + CELL * row
        drawn.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{CELL - 1}" height="{CELL - 1}" rx="2" '
            f'fill="{BLUE}" fill-opacity="{min(1.0, weight):.2f}">'
            f"<title>{_text(rows[row])} → {_text(columns[column])}: {weight:.0%}</title></rect>"
        )
    frame = (
        f'<rect x="{left - 0.5:.1f}" y="{slant - 0.5:.1f}" width="{CELL * len(columns)}" '
        f'height="{CELL * len(rows)}" fill="none" stroke="currentColor" stroke-opacity="0.35"/>'
    )
    return (
        f'<figure style="margin:0;overflow-x:auto"><figcaption>{_text(about)}</figcaption>'
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{_text(about)}" '
        f'width="{wide:.0f}" height="{high:.0f}" fill="currentColor" font-family="sans-serif" '
        f'font-size="{FONT}">{frame}{"".join(drawn)}</svg></figure>'
    )


def _text(text: str) -> str:
    return html.escape(text)


def _labels(texts: Sequence[str]) -> list[str]:
    """Return the texts as single-line labels of limited length."""
    lines = [" ".join(text.split()) or "\N{OPEN BOX}" for text in texts]
    return [line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1] + "…" for line in lines]


def _width(text: str) -> int:
    """Return the width of a label in characters; East Asian ones count twice."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)
