"""Pictures of attention: lines between words as in the paper's Figures 3 to 5, maps and grids.

Q queries, K keys. Layers and heads count from 1. Lengths are in inches, font sizes in points. A
picture is as large as its sentence needs, so that no label covers another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.errors import BadInput, did_you_mean
from transduce.inspection.matrices import AttentionMatrices, Floats
from transduce.inspection.style import COLOURS, QUIET, drawable, drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from transduce.inspection.inspector import Inspection

VIEWS = ("lines", "map", "grid")
TITLES = {
    "encoder": "Self-attention of the encoder",
    "decoder": "Self-attention of the decoder",
    "cross": "Attention of the decoder to the source",
}
HEADINGS = {  # above the queries and above the keys
    "encoder": ("each word", "looks at"),
    "decoder": ("to write", "it looks at what is written"),
    "cross": ("to write", "it looks at the source"),
}
ROWS = {
    "encoder": "each row: what a word looks at",
    "decoder": "each row: the written words it looks at, to write the next one",
    "cross": "each row: the source words it looks at, to write a word",
}

DPI = 200
POINT = 1 / 72
MARGIN = 0.15
TITLE_SIZE, HEADING_SIZE, SMALL_SIZE = 13.0, 10.5, 9.5
HEADING_HEIGHT, PANEL_GAP = 0.34, 0.45  # if there are several panels
MAX_LABEL = 32  # letters
LEAST_WEIGHT = 0.01  # smaller weights have no line
SQUARE = 0.14  # width of a head's square next to a word
BAR_WIDTH, LEAST_BAR_HEIGHT = 0.95, 0.6  # of the colour bar
SLANT = 0.75  # height of a one-inch label at 45 degrees
FAINT = "#A0A0A0"


def draw(
    inspection: "Inspection",
    kind: str = "cross",
    *,
    view: str | None = None,
    layer: int | None = None,
    heads: Sequence[int] = (),
    word: str | None = None,
    words: bool = False,
) -> "Figure":
    """Draw one kind of attention: encoder, decoder or cross.

    `view` is lines, map or grid; by default lines if heads or a word are named, else the map of a
    layer if one is named, else a grid. `layer` is the last by default. `words` merges the pieces of
    a word.
    """
    if view is None:
        view = "lines" if heads or word is not None else "grid" if layer is None else "map"
    if view not in VIEWS:
        raise BadInput(f"--view {view}: expected {', '.join(VIEWS)}.{did_you_mean(view, VIEWS)}")
    if word is not None and view != "lines":
        raise BadInput(f"--word is for lines from one word: it does not go with --view {view}")
    if view == "grid" and (layer is not None or heads):
        raise BadInput("--view grid shows all layers and heads: leave --layer and --head out")
    attention = AttentionMatrices.of(inspection, kind, words=words)
    if view == "grid":
        return draw_grid(attention)
    number, chosen = attention.layer(layer), attention.select_heads(heads)
    if view == "map":
        return draw_map(attention, number, chosen)
    return draw_lines(attention, number, chosen, word)


def draw_lines(
    attention: AttentionMatrices, layer: int, heads: Sequence[int], word: str | None = None
) -> "Figure":
    """Draw two columns of words, and a line for each weight in the colour of its head.

    A larger weight has a thicker and darker line; weights below 1% have none. The squares next to
    a word show the largest weight that each head gives it. With `word`, only the lines from that
    word are drawn, as in the paper's Figure 3.
    """
    queries = None if word is None else attention.find(word)
    note = attention.describe(layer, heads)
    return panels(attention, layer, [Panel(heads, queries)], _title(attention), note)


@dataclass(frozen=True, slots=True)
class Panel:
    """One line drawing, for some heads and some queries (all by default)."""

    heads: Sequence[int]
    queries: Sequence[int] | None = None
    heading: str = ""


def panels(
    attention: AttentionMatrices, layer: int, parts: Sequence[Panel], title: str, *notes: str
) -> "Figure":
    """Draw lines of one layer in several panels; a head has the same colour in all."""
    heads = list(dict.fromkeys(head for panel in parts for head in panel.heads))
    if len(heads) > len(COLOURS):
        raise BadInput(
            f"{len(heads)} heads in one picture cannot be told apart: choose at most "
            f"{len(COLOURS)} with --head"
        )
    with drawing_style():
        top = HEADING_HEIGHT if any(panel.heading for panel in parts) else 0.0
        columns: list[_Columns] = []
        for panel in parts:
            x = columns[-1].x + columns[-1].width + PANEL_GAP if columns else 0.0
            columns.append(_Columns(attention, len(panel.heads), x, top))
            heading_width = _text_width([panel.heading], HEADING_SIZE)
            columns[-1].width = max(columns[-1].width, heading_width)
        page = _Page(columns[-1].x + columns[-1].width, top + columns[-1].height, title, *notes)
        for panel, column in zip(parts, columns, strict=True):
            page.text(column.x, HEADING_HEIGHT / 2 - 0.1, panel.heading, size=HEADING_SIZE)
            colours = [COLOURS[heads.index(head)] for head in panel.heads]
            column.fill(page, attention.weights[layer - 1], panel, colours)
    return page.figure


def draw_map(attention: AttentionMatrices, layer: int, heads: Sequence[int]) -> "Figure":
    """Draw the weights of one head, or the mean of several, as a matrix."""
    matrix = attention.mean(layer, heads)
    with drawing_style():
        queries, keys = _labels(attention.queries), _labels(attention.keys)
        cell = min(0.3, max(0.12, 14 / max(len(queries), len(keys))))
        size, slanted = min(11.0, 0.62 * cell / POINT), cell > 0.2
        width, height = cell * len(keys), cell * len(queries)
        left = _text_width(queries, size) + 0.1
        above = 0.1 + _text_width(keys, size) * (SLANT if slanted else 1.0)
        right = width + BAR_WIDTH
        if slanted:  # a label extends over the next columns
            ends = [
                cell * (n + 0.8) + SLANT * _text_width([key], size) for n, key in enumerate(keys)
            ]
            right = max(right, *ends)
        note = attention.describe(layer, heads, mean=True)
        bottom = above + max(LEAST_BAR_HEIGHT, height)
        page = _Page(left + right, bottom, _title(attention), note, ROWS[attention.kind])
        axes = page.axes(left, above, width, height)
        image = _matrix(axes, matrix, top=float(np.ceil(10 * matrix.max()) / 10))
        _ticks(axes, queries, keys, size, rotation=45 if slanted else 90)
        axes.xaxis.tick_top()
        page.colour_bar(image, left + width, above, height)
    return page.figure


def draw_grid(attention: AttentionMatrices) -> "Figure":
    """Draw a small map for every head: a row of maps for each layer."""
    layers, heads = attention.layers, attention.heads
    with drawing_style():
        queries, keys = _labels(attention.queries), _labels(attention.keys)
        cell = min(3.0, max(1.2, 13 / heads)) / max(len(queries), len(keys))
        width, height = (max(LEAST_BAR_HEIGHT, cell * len(side)) for side in (keys, queries))
        size = min(9.0, 0.8 * cell / POINT)
        if size < 4:  # too small to read
            queries, keys = [], []
        left = 0.3 + (_text_width(queries, size) + 0.08 if queries else 0.0)
        below = _text_width(keys, size) + 0.1 if keys else 0.0
        x_step, y_step = width + 0.12, height + 0.12
        page = _Page(
            left + heads * x_step + BAR_WIDTH,
            0.25 + layers * y_step + below,
            _title(attention),
            f"layers: {layers}, heads of each: {heads}",
            ROWS[attention.kind],
        )
        for head in range(heads):
            page.text(left + head * x_step + width / 2, 0.1, f"head {head + 1}", ha="center")
        for layer in range(layers):
            y = 0.25 + layer * y_step
            page.text(0.1, y + height / 2, f"layer {layer + 1}", ha="center", rotation=90)
            for head in range(heads):
                axes = page.axes(left + head * x_step, y, width, height)
                image = _matrix(axes, attention.weights[layer, head], top=1.0)
                at_left = queries if head == 0 else []
                below_axes = keys if layer + 1 == layers else []
                _ticks(axes, at_left, below_axes, size, rotation=90)
        page.colour_bar(image, left + heads * x_step - 0.12, 0.25, height)
    return page.figure


class _Page:
    """A figure with a title and notes; positions below them are in inches from the upper left."""

    def __init__(self, width: float, height: float, title: str, *notes: str) -> None:
        from matplotlib.figure import Figure

        self.top = MARGIN + 0.28 + 0.2 * len(notes) + 0.12
        title_width = _text_width([title], TITLE_SIZE, weight="bold")
        self.width = max(width, title_width, _text_width(notes, SMALL_SIZE)) + 2 * MARGIN
        self.height = self.top + height + MARGIN
        self.figure = Figure(figsize=(self.width, self.height), dpi=DPI)
        self.text(0, 0.13 + MARGIN - self.top, title, size=TITLE_SIZE, weight="bold")
        for number, note in enumerate(notes):
            self.text(0, 0.38 + 0.2 * number + MARGIN - self.top, note, color=QUIET)

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write text, vertically centred at `y`."""
        position = (MARGIN + x) / self.width, 1 - (self.top + y) / self.height
        defaults: dict[str, Any] = {"size": SMALL_SIZE, "va": "center_baseline"}
        self.figure.text(*position, text, **defaults | style)

    def axes(self, x: float, y: float, width: float, height: float) -> "Axes":
        """Add axes with this upper left corner."""
        left, bottom = (MARGIN + x) / self.width, 1 - (self.top + y + height) / self.height
        return self.figure.add_axes((left, bottom, width / self.width, height / self.height))

    def colour_bar(self, image: "AxesImage", x: float, y: float, height: float) -> None:
        """Draw the colour bar to the right of a map."""
        axes = self.axes(x + 0.25, y, 0.12, min(2.5, max(LEAST_BAR_HEIGHT, height)))
        _, top = image.get_clim()
        assert top is not None
        ticks = np.arange(0, top + 0.01, 0.1 if top <= 0.5 else 0.2)
        self.figure.colorbar(image, cax=axes, ticks=ticks).outline.set_visible(False)
        axes.tick_params(labelsize=SMALL_SIZE, length=2)
        axes.set_ylabel("weight", size=SMALL_SIZE)


class _Columns:
    """The layout of two columns of words with lines between them."""

    def __init__(self, attention: AttentionMatrices, heads: int, x: float, y: float) -> None:
        self.x, self.y = x, y  # upper left corner
        self.queries, self.keys = _labels(attention.queries), _labels(attention.keys)
        self.headings, self.heads = HEADINGS[attention.kind], heads
        longest = max(len(self.queries), len(self.keys))
        pitch = min(0.26, max(0.15, 20 / longest))
        self.size, height = 0.6 * pitch / POINT, pitch * longest
        query_widths = (
            _text_width(self.queries, self.size, weight="bold"),
            _text_width(self.headings[:1], SMALL_SIZE),
        )
        key_widths = (
            _text_width(self.keys, self.size),
            _text_width(self.headings[1:], SMALL_SIZE),
        )
        self.queries_end = max(query_widths)
        self.lines_begin = self.queries_end + 0.08
        self.lines_end = self.queries_end + min(4.5, max(2.2, 0.5 * height))
        self.squares = self.lines_end + 0.08
        self.keys_begin = self.squares + SQUARE * heads + 0.06
        self.width = self.keys_begin + max(key_widths)
        self.height = 0.3 + height
        # Both columns have the same height.
        self.query_y, self.key_y = (
            0.3 + (np.arange(count) + 0.5) * height / count
            for count in (len(self.queries), len(self.keys))
        )

    def fill(self, page: _Page, weights: Floats, panel: Panel, colours: Sequence[str]) -> None:
        """Write the words and draw the lines of a panel. Weights: (H, Q, K)."""
        queries = list(range(len(self.queries)) if panel.queries is None else panel.queries)
        shown = weights[[head - 1 for head in panel.heads]][:, queries]  # (heads, queries, K)
        shown = np.where(shown < LEAST_WEIGHT, 0, shown)
        if panel.queries is not None:  # with few lines, weak ones can be drawn darker
            shown = shown**0.6
        self._write_words(page, queries, bold=panel.queries is not None)
        axes = page.axes(self.x, self.y, self.width, self.height)
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        for number, (head, colour) in enumerate(zip(panel.heads, colours, strict=True)):
            if len(panel.heads) > 1:
                x = self.x + self.squares + SQUARE * (number + 0.42)
                style = {"size": 8, "color": colour, "weight": "bold"}
                page.text(x, self.y + 0.1, str(head), ha="center", **style)
            self._draw_head(axes, shown[number], number, colour, queries)

    def _write_words(self, page: _Page, queries: Sequence[int], *, bold: bool) -> None:
        queries_end, keys_begin = self.x + self.queries_end, self.x + self.keys_begin
        page.text(queries_end, self.y + 0.1, self.headings[0], ha="right", color=QUIET)
        page.text(keys_begin, self.y + 0.1, self.headings[1], color=QUIET)
        for index, (y, label) in enumerate(zip(self.query_y, self.queries, strict=True)):
            weight = "bold" if bold and index in queries else "normal"
            colour = "black" if index in queries else FAINT
            style = {"size": self.size, "weight": weight, "color": colour}
            page.text(queries_end, self.y + y, label, ha="right", **style)
        for y, label in zip(self.key_y, self.keys, strict=True):
            page.text(keys_begin, self.y + y, label, size=self.size)

    def _draw_head(
        self, axes: "Axes", weights: Floats, number: int, colour: str, queries: Sequence[int]
    ) -> None:
        """Draw the lines and squares of one head. Weights: (queries, K)."""
        from matplotlib.collections import LineCollection, PatchCollection
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Rectangle

        rgb = to_rgb(colour)
        # Lines of several heads between the same words would cover each other.
        line_y = self.key_y + 0.018 * (number - (self.heads - 1) / 2)
        lines = sorted(  # the strongest last, on top
            (float(weights[row, key]), queries[row], key)
            for row, key in np.argwhere(weights).tolist()
        )
        axes.add_collection(
            LineCollection(
                [
                    [(self.lines_begin, self.query_y[query]), (self.lines_end, line_y[key])]
                    for _, query, key in lines
                ],
                colors=[(*rgb, min(1.0, weight)) for weight, _, _ in lines],
                linewidths=[0.6 + 2.4 * weight for weight, _, _ in lines],
                capstyle="butt",
            )
        )
        corners = [(self.squares + SQUARE * number, y - 0.06) for y in self.key_y]
        axes.add_collection(
            PatchCollection(
                [Rectangle(corner, 0.85 * SQUARE, 0.12) for corner in corners],
                facecolors=[(*rgb, min(1.0, weight)) for weight in weights.max(0).tolist()],
                edgecolors="none",
            )
        )


def _matrix(axes: "Axes", weights: Floats, *, top: float) -> "AxesImage":
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
    axes.spines[:].set(linewidth=0.5, color="#B0B0B0")
    return axes.imshow(
        weights, cmap="Blues", vmin=0, vmax=top, aspect="auto", interpolation="nearest"
    )


def _ticks(
    axes: "Axes", queries: Sequence[str], keys: Sequence[str], size: float, *, rotation: int
) -> None:
    """Write labels on the left and below."""
    style: dict[str, Any] = {"size": size, "color": "black"}
    axes.set_yticks(range(len(queries)), queries, **style)
    if rotation == 45:
        style |= {"ha": "left", "va": "bottom", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(keys)), keys, rotation=rotation, **style)
    axes.tick_params(length=0, pad=3)


def _title(attention: AttentionMatrices) -> str:
    name = f": {attention.model}" if attention.model else ""
    return drawable(f"{TITLES[attention.kind]}{name}")


def _labels(texts: Sequence[str]) -> list[str]:
    """Return labels that can be drawn, long ones shortened."""
    return [
        drawable(text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…") for text in texts
    ]


def _text_width(texts: Sequence[str], size: float, *, weight: str = "normal") -> float:
    """Return the width of the widest text as drawn."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=size, weight=weight)
    measure = RendererAgg(1, 1, DPI).get_text_width_height_descent  # type: ignore[no-untyped-call]
    sizes = [measure(text, font, ismath=False) for text in texts]  # type: ignore[no-untyped-call]
    return max((float(width) for width, _, _ in sizes), default=0.0) / DPI
