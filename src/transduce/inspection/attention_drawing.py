"""Pictures of what a model attends to: lines between words as in the paper's Figures 3 to 5, maps.

Q queries, K keys. Layers and heads count from 1. Lengths are in inches, sizes of letters in points.
A picture is as large as its sentence needs, and no label covers another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from transduce.errors import BadInput, did_you_mean
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import COLOURS, QUIET, drawable, drawing_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from transduce.inspection.inspector import Inspection

Floats = npt.NDArray[np.float32]

VIEWS = ("lines", "map", "grid")
TITLES = {
    "encoder": "Self-attention of the encoder",
    "decoder": "Self-attention of the decoder",
    "cross": "Attention of the decoder to the source",
}
HEADINGS = {  # over the queries and over the keys
    "encoder": ("each word", "looks at"),
    "decoder": ("to write", "it looks at what is written"),
    "cross": ("to write", "it looks at the source"),
}
ROWS = {
    "encoder": "each row: what a word looks at",
    "decoder": "each row: what it looks at of the written, to write the next word",
    "cross": "each row: what it looks at in the source, to write a word",
}

DPI = 200
POINT = 1 / 72
MARGIN = 0.15
TITLE, HEADING, SMALL = 13.0, 10.5, 9.5  # sizes of letters
HEADED, APART = 0.34, 0.45  # room for the headings of several drawings, and between these
LONGEST = 32  # letters of a label
LEAST = 0.01  # a smaller weight has no line
SQUARE = 0.14  # for that of a head, beside a word
BAR, BAR_LEAST = 0.95, 0.6  # for the bar of colours: its room, and its least height
SLANT = 0.75  # the height of what is one inch wide, at 45 degrees
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
    """Draw an attention: lines if heads or a word are named, else the map of a layer, else a grid.

    `kind` is encoder, decoder or cross; `view` lines, map or grid; `layer` the last by default.
    `words` takes the pieces of a word together.
    """
    if view is None:
        view = "lines" if heads or word is not None else "grid" if layer is None else "map"
    if view not in VIEWS:
        raise BadInput(f"--view {view}: expected {', '.join(VIEWS)}.{did_you_mean(view, VIEWS)}")
    if word is not None and view != "lines":
        raise BadInput(f"--word is for lines from one word: it does not go with --view {view}")
    if view == "grid" and (layer is not None or heads):
        raise BadInput("--view grid shows all layers and heads: leave --layer and --head out")
    if view == "lines":
        return lines(inspection, kind, layer=layer, heads=heads, word=word, words=words)
    if view == "map":
        return heatmap(inspection, kind, layer=layer, heads=heads, words=words)
    return grid(inspection, kind, words=words)


def lines(
    inspection: "Inspection",
    kind: str = "cross",
    *,
    layer: int | None = None,
    heads: Sequence[int] = (),
    word: str | None = None,
    words: bool = False,
) -> "Figure":
    """Draw two columns of words and a line for each weight; a head, all by default, has a colour.

    The larger the weight, the thicker and stronger the line; below 1% there is none. The squares
    beside a word are as strong as the largest weight that leads there, of each head. With `word`,
    only what that word looks at is drawn, as in the paper's Figure 3.
    """
    view = AttentionMatrices.of(inspection, kind, words=words)
    layer, chosen = view.layer(layer), view.some(heads)
    rows = None if word is None else view.places(word)
    title = _title(view, inspection)
    return panels(view, layer, [Panel(chosen, rows)], title, view.which(layer, chosen))


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing of lines: of which heads, from which words (all by default), and its heading."""

    heads: Sequence[int]
    rows: Sequence[int] | None = None
    heading: str = ""


def panels(
    view: AttentionMatrices, layer: int, parts: Sequence[Panel], title: str, *notes: str
) -> "Figure":
    """Draw lines of one layer, several drawings side by side; a head keeps its colour in all."""
    heads = list(dict.fromkeys(head for part in parts for head in part.heads))
    if len(heads) > len(COLOURS):
        raise BadInput(
            f"{len(heads)} heads in one picture cannot be told apart: choose at most "
            f"{len(COLOURS)} with --head"
        )
    with drawing_style():
        headed = HEADED if any(part.heading for part in parts) else 0.0
        columns: list[_Columns] = []
        for part in parts:
            x = columns[-1].x + columns[-1].wide + APART if columns else 0.0
            columns.append(_Columns(view, len(part.heads), x, headed))
            columns[-1].wide = max(columns[-1].wide, _width([part.heading], HEADING))
        wide, tall = columns[-1].x + columns[-1].wide, headed + columns[-1].tall
        page = _Page(wide, tall, title, *notes)
        for part, own in zip(parts, columns, strict=True):
            page.text(own.x, HEADED / 2 - 0.1, part.heading, size=HEADING)
            own.fill(
                page, view.weights[layer - 1], part, [heads.index(head) for head in part.heads]
            )
    return page.figure


def heatmap(
    inspection: "Inspection",
    kind: str = "cross",
    *,
    layer: int | None = None,
    heads: Sequence[int] = (),
    words: bool = False,
) -> "Figure":
    """Draw the weights of one head, or the mean of several, all by default, as a matrix."""
    view = AttentionMatrices.of(inspection, kind, words=words)
    layer, chosen = view.layer(layer), view.some(heads)
    matrix = view.mean(layer, chosen)
    with drawing_style():
        queries, keys = _labels(view.queries), _labels(view.keys)
        cell = min(0.3, max(0.12, 14 / max(len(queries), len(keys))))
        size, slanted = min(11.0, 0.62 * cell / POINT), cell > 0.2
        wide, tall = cell * len(keys), cell * len(queries)
        left = _width(queries, size) + 0.1
        above = 0.1 + _width(keys, size) * (SLANT if slanted else 1.0)
        right = wide + BAR
        if slanted:  # a label reaches over the columns after its own
            ends = [cell * (n + 0.8) + SLANT * _width([key], size) for n, key in enumerate(keys)]
            right = max(right, *ends)
        which = view.which(layer, chosen, mean=True)
        down = above + max(BAR_LEAST, tall)
        page = _Page(left + right, down, _title(view, inspection), which, ROWS[view.kind])
        axes = page.axes(left, above, wide, tall)
        image = _map(axes, matrix, top=float(np.ceil(10 * matrix.max()) / 10))
        _ticks(axes, queries, keys, size, rotation=45 if slanted else 90)
        axes.xaxis.tick_top()
        page.colour_bar(image, left + wide, above, tall)
    return page.figure


def grid(inspection: "Inspection", kind: str = "cross", *, words: bool = False) -> "Figure":
    """Draw a small map for every head: a row of maps is a layer."""
    view = AttentionMatrices.of(inspection, kind, words=words)
    with drawing_style():
        queries, keys = _labels(view.queries), _labels(view.keys)
        cell = min(3.0, max(1.2, 13 / view.heads)) / max(len(queries), len(keys))
        wide, tall = (max(BAR_LEAST, cell * len(side)) for side in (keys, queries))
        size = min(9.0, 0.8 * cell / POINT)
        if size < 4:  # letters that nobody could read
            queries, keys = [], []
        left = 0.3 + (_width(queries, size) + 0.08 if queries else 0.0)
        below = _width(keys, size) + 0.1 if keys else 0.0
        across, down = wide + 0.12, tall + 0.12
        which = f"layers: {view.layers}, heads of each: {view.heads}"
        page = _Page(
            left + view.heads * across + BAR,
            0.25 + view.layers * down + below,
            _title(view, inspection),
            which,
            ROWS[view.kind],
        )
        for h in range(view.heads):
            page.text(left + h * across + wide / 2, 0.1, f"head {h + 1}", ha="center")
        for n in range(view.layers):
            y = 0.25 + n * down
            page.text(0.1, y + tall / 2, f"layer {n + 1}", ha="center", rotation=90)
            for h in range(view.heads):
                axes = page.axes(left + h * across, y, wide, tall)
                image = _map(axes, view.weights[n, h], top=1.0)
                lowest = n + 1 == view.layers
                _ticks(axes, queries if h == 0 else [], keys if lowest else [], size, rotation=90)
        page.colour_bar(image, left + view.heads * across - 0.12, 0.25, tall)
    return page.figure


class _Page:
    """A figure with a title, and room below it that is measured in inches from its upper left."""

    def __init__(self, wide: float, tall: float, title: str, *notes: str) -> None:
        from matplotlib.figure import Figure

        self.top = MARGIN + 0.28 + 0.2 * len(notes) + 0.12
        texts = [_width([title], TITLE, weight="bold"), *(_width([note], SMALL) for note in notes)]
        self.wide = max(wide, *texts) + 2 * MARGIN
        self.tall = self.top + tall + MARGIN
        self.figure = Figure(figsize=(self.wide, self.tall), dpi=DPI)
        self.text(0, 0.13 + MARGIN - self.top, title, size=TITLE, weight="bold")
        for number, note in enumerate(notes):
            self.text(0, 0.38 + 0.2 * number + MARGIN - self.top, note, color=QUIET)

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write something, half of its height above `y`."""
        place = (MARGIN + x) / self.wide, 1 - (self.top + y) / self.tall
        defaults: dict[str, Any] = {"size": SMALL, "va": "center_baseline"}
        self.figure.text(*place, text, **defaults | style)

    def axes(self, x: float, y: float, wide: float, tall: float) -> "Axes":
        """Make axes whose upper left corner is here."""
        left, bottom = (MARGIN + x) / self.wide, 1 - (self.top + y + tall) / self.tall
        return self.figure.add_axes((left, bottom, wide / self.wide, tall / self.tall))

    def colour_bar(self, image: "AxesImage", x: float, y: float, tall: float) -> None:
        """Tell what the colours mean, to the right of a map."""
        axes = self.axes(x + 0.25, y, 0.12, min(2.5, max(BAR_LEAST, tall)))
        _, top = image.get_clim()
        assert top is not None
        ticks = np.arange(0, top + 0.01, 0.1 if top <= 0.5 else 0.2)
        self.figure.colorbar(image, cax=axes, ticks=ticks).outline.set_visible(False)
        axes.tick_params(labelsize=SMALL, length=2)
        axes.set_ylabel("weight", size=SMALL)


class _Columns:
    """Two columns of words with room for lines between them; where everything stands."""

    def __init__(self, view: AttentionMatrices, heads: int, x: float, y: float) -> None:
        self.x, self.y = x, y  # of the upper left corner
        self.queries, self.keys = _labels(view.queries), _labels(view.keys)
        self.headings, self.heads = HEADINGS[view.kind], heads
        longest = max(len(self.queries), len(self.keys))
        pitch = min(0.26, max(0.15, 20 / longest))
        self.size, rows = 0.6 * pitch / POINT, pitch * longest
        of_queries, of_keys = ([heading] for heading in self.headings)
        self.left = max(_width(self.queries, self.size, weight="bold"), _width(of_queries, SMALL))
        self.begin, self.end = self.left + 0.08, self.left + min(4.5, max(2.2, 0.5 * rows))
        self.squares = self.end + 0.08
        self.names = self.squares + SQUARE * heads + 0.06
        self.wide = self.names + max(_width(self.keys, self.size), _width(of_keys, SMALL))
        self.tall = 0.3 + rows
        # Both columns are as tall, so that equal places are level.
        self.from_y, self.to_y = (
            0.3 + (np.arange(count) + 0.5) * rows / count
            for count in (len(self.queries), len(self.keys))
        )

    def fill(self, page: _Page, weights: Floats, part: Panel, colours: Sequence[int]) -> None:
        """Write the words and draw the lines of some heads. (H, Q, K)."""
        rows = list(range(len(self.queries)) if part.rows is None else part.rows)
        some = weights[[head - 1 for head in part.heads]][:, rows]  # (heads, rows, K)
        some = np.where(some < LEAST, 0, some)
        if part.rows is not None:  # few lines, with room for the weak
            some = some**0.6
        self.write(page, part.heads, colours, rows, alone=part.rows is not None)
        axes = page.axes(self.x, self.y, self.wide, self.tall)
        axes.set(xlim=(0, self.wide), ylim=(self.tall, 0))
        axes.set_axis_off()
        for number, (matrix, colour) in enumerate(zip(some, colours, strict=True)):
            self.draw(axes, matrix, number, COLOURS[colour], rows)

    def write(
        self,
        page: _Page,
        heads: Sequence[int],
        colours: Sequence[int],
        rows: Sequence[int],
        *,
        alone: bool,
    ) -> None:
        """Write the words, and over the squares the numbers of several heads."""
        left, names, top = self.x + self.left, self.x + self.names, self.y + 0.1
        page.text(left, top, self.headings[0], ha="right", color=QUIET)
        page.text(names, top, self.headings[1], color=QUIET)
        for number, (head, colour) in enumerate(zip(heads, colours, strict=True)):
            if len(heads) > 1:
                x = self.x + self.squares + SQUARE * (number + 0.42)
                style = {"size": 8, "color": COLOURS[colour], "weight": "bold"}
                page.text(x, top, str(head), ha="center", **style)
        for place, (y, label) in enumerate(zip(self.from_y, self.queries, strict=True)):
            weight = "bold" if alone and place in rows else "normal"
            tint = "black" if place in rows else FAINT
            style = {"size": self.size, "weight": weight, "color": tint}
            page.text(left, self.y + y, label, ha="right", **style)
        for y, label in zip(self.to_y, self.keys, strict=True):
            page.text(names, self.y + y, label, size=self.size)

    def draw(
        self, axes: "Axes", weights: Floats, number: int, name: str, rows: Sequence[int]
    ) -> None:
        """Draw the lines from some rows, and the squares, of one head. (rows, K)."""
        from matplotlib.collections import LineCollection, PatchCollection
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Rectangle

        colour = to_rgb(name)
        # Lines of several heads between the same words would cover each other.
        to_y = self.to_y + 0.018 * (number - (self.heads - 1) / 2)
        drawn = [
            (float(weights[row, key]), rows[row], key) for row, key in np.argwhere(weights).tolist()
        ]
        drawn.sort()  # the strongest come last and are covered by none
        axes.add_collection(
            LineCollection(
                [[(self.begin, self.from_y[q]), (self.end, to_y[k])] for _, q, k in drawn],
                colors=[(*colour, min(1.0, strength)) for strength, _, _ in drawn],
                linewidths=[0.6 + 2.4 * strength for strength, _, _ in drawn],
                capstyle="butt",
            )
        )
        corners = [(self.squares + SQUARE * number, y - 0.06) for y in self.to_y]
        axes.add_collection(
            PatchCollection(
                [Rectangle(corner, 0.85 * SQUARE, 0.12) for corner in corners],
                facecolors=[(*colour, min(1.0, strength)) for strength in weights.max(0).tolist()],
                edgecolors="none",
            )
        )


def _map(axes: "Axes", weights: Floats, *, top: float) -> "AxesImage":
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
    axes.spines[:].set(linewidth=0.5, color="#B0B0B0")
    return axes.imshow(
        weights, cmap="Blues", vmin=0, vmax=top, aspect="auto", interpolation="nearest"
    )


def _ticks(
    axes: "Axes", queries: Sequence[str], keys: Sequence[str], size: float, *, rotation: int
) -> None:
    """Write labels at the left and below."""
    style: dict[str, Any] = {"size": size, "color": "black"}
    axes.set_yticks(range(len(queries)), queries, **style)
    if rotation == 45:
        style |= {"ha": "left", "va": "bottom", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(keys)), keys, rotation=rotation, **style)
    axes.tick_params(length=0, pad=3)


def _title(view: AttentionMatrices, inspection: "Inspection") -> str:
    name = f": {inspection.model}" if inspection.model else ""
    return drawable(f"{TITLES[view.kind]}{name}")


def _labels(texts: Sequence[str]) -> list[str]:
    """Return labels that can be drawn, none of them endless."""
    return [drawable(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…") for text in texts]


def _width(texts: Sequence[str], size: float, *, weight: str = "normal") -> float:
    """Return how wide the widest of some texts is drawn."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=size, weight=weight)
    measure = RendererAgg(1, 1, DPI).get_text_width_height_descent  # type: ignore[no-untyped-call]
    sizes = [measure(text, font, ismath=False) for text in texts]  # type: ignore[no-untyped-call]
    return max((float(wide) for wide, _, _ in sizes), default=0.0) / DPI
