"""Pictures of attention show the weights and all words."""

import builtins
import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from inspections import SOURCE, Floats, make_inspection
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import same_color, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from transduce import inspection as public
from transduce.errors import BadInput, MissingExtra
from transduce.inspection.attention_drawing import draw
from transduce.inspection.head_jobs import find
from transduce.inspection.inspector import Inspection
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import COLOURS, drawing_style, save


def texts(figure: Figure) -> list[str]:
    """Return all texts of a picture that are not empty."""
    found = [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]
    return [text for text in found if text]


def boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return the texts of a picture and their boxes."""
    with drawing_style():
        renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
        figure.draw(renderer)
        return [
            (text.get_text(), text.get_window_extent(renderer))
            for text in figure.findobj(Text)
            if isinstance(text, Text) and text.get_text().strip() and text.get_visible()
        ]


def strokes(figure: Figure) -> list[LineCollection]:
    return [lines for lines in figure.axes[0].collections if isinstance(lines, LineCollection)]


def maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def image(axes: Axes) -> Floats:
    return np.asarray(axes.images[0].get_array())


def ticks(axes: Axes) -> tuple[list[str], list[str]]:
    down, across = axes.get_yticklabels(), axes.get_xticklabels()
    return [text.get_text() for text in down], [text.get_text() for text in across]


# Matrices.


def test_merging_pieces_adds_received_weights_and_averages_given_ones() -> None:
    found = make_inspection()
    attention = AttentionMatrices.of(found, "cross", words=True)
    assert attention.queries == ("Der", "Hund", "schläft", ".", "</s>")
    assert attention.keys == ("The", "dog", "sleeps", ".", "</s>")
    assert attention.weights[:, :, 2] == pytest.approx(found.cross[:, :, 2:4].mean(2))
    assert attention.weights[:, :, 3] == pytest.approx(found.cross[:, :, 4])
    assert attention.weights.sum(-1) == pytest.approx(1, abs=1e-6)
    decoder = AttentionMatrices.of(found, "decoder", words=True)
    assert decoder.keys == ("<s>", "Der", "Hund", "schläft", ".")
    assert decoder.weights[:, :, 4, 3] == pytest.approx(found.decoder[:, :, 5, 3:5].sum(-1))


def test_continuing_pieces_and_white_space_are_marked() -> None:
    assert AttentionMatrices.of(make_inspection(), "cross").queries == (
        "Der",
        "Hund",
        "schläf",
        "·t",
        ".",
        "</s>",
    )
    spaced = dataclasses.replace(make_inspection(), source=("The", "  ", " dog", " .", "</s>"))
    assert AttentionMatrices.of(spaced, "cross").keys == ("The", "␣", "dog", ".", "</s>")


# Maps.


def test_a_map_has_the_weights_of_a_head_or_a_mean_and_all_labels() -> None:
    found = make_inspection()
    alone = draw(found, "decoder", view="map", layer=1, heads=[2])
    (axes,) = maps(alone)
    assert image(axes) == pytest.approx(found.decoder[0, 1])
    written = ["Der", "Hund", "schläf", "·t", "."]
    assert ticks(axes) == ([*written, "</s>"], ["<s>", *written])
    assert "layer 1 of 2, head 2 of 3" in texts(alone)
    mean = draw(found, view="map")
    assert image(maps(mean)[0]) == pytest.approx(found.cross[1].mean(0))
    assert "layer 2 of 2, mean of all 3 heads" in texts(mean)
    some = draw(found, view="map", heads=[3, 1, 3], words=True)
    assert image(maps(some)[0]) == pytest.approx(
        AttentionMatrices.of(found, "cross", words=True).mean(2, [1, 3])
    )
    assert "layer 2 of 2, mean of heads 3 and 1" in texts(some)


def test_the_colour_bar_ends_just_above_the_largest_weight() -> None:
    figure = draw(make_inspection(), "encoder", view="map")
    shown = maps(figure)[0].images[0]
    low, high = shown.get_clim()
    assert low == 0
    assert image(maps(figure)[0]).max() <= high < image(maps(figure)[0]).max() + 0.1


def test_a_grid_has_a_map_for_each_head_and_names_rows_and_columns() -> None:
    found = make_inspection()
    figure = draw(found, "encoder", view="grid")
    small = maps(figure)
    assert len(small) == 6
    for axes, weights in zip(small, found.encoder.reshape(6, 5, 5), strict=True):
        assert image(axes) == pytest.approx(weights)
        assert axes.images[0].get_clim() == (0, 1)
    assert {"layer 1", "layer 2", "head 1", "head 2", "head 3"} <= {*texts(figure)}
    words = ["The", "dog", "sleeps", ".", "</s>"]
    assert ticks(small[0])[0] == ticks(small[3])[0] == ticks(small[5])[1] == words
    assert ticks(small[1]) == ([], [])


# Lines.


def test_a_line_is_as_strong_as_its_weight_in_the_colour_of_its_head() -> None:
    found = make_inspection()
    figure = draw(found, view="lines", layer=1, heads=[3, 1])
    assert len(strokes(figure)) == 2
    for drawn, head, colour in zip(strokes(figure), (2, 0), COLOURS, strict=False):
        weights = np.sort(found.cross[0, head][found.cross[0, head] >= 0.01])
        shown = np.asarray(drawn.get_colors())
        assert np.sort(shown[:, 3]) == pytest.approx(weights, abs=1e-6)
        assert {tuple(rgb) for rgb in shown[:, :3]} == {to_rgb(colour)}
        thick = np.asarray(drawn.get_linewidth())
        assert (np.diff(thick) >= 0).all()  # the strongest are drawn last
        assert thick == pytest.approx(0.6 + 2.4 * shown[:, 3])
    assert {"1", "3", "layer 1 of 2, heads 3 and 1"} <= {*texts(figure)}


def test_a_line_goes_from_its_query_to_its_key() -> None:
    found = dataclasses.replace(make_inspection(N=1, h=1), cross=np.zeros((1, 1, 6, 5), np.float32))
    found.cross[0, 0, 4, 1] = 1
    figure = draw(found, "cross", view="lines")
    (drawn,) = strokes(figure)
    (((_, from_y), (_, to_y)),) = [np.asarray(path.vertices).tolist() for path in drawn.get_paths()]
    axes = figure.axes[0]
    placed = {text.get_text(): text.get_position()[1] for text in figure.texts}
    for y, label in ((from_y, "."), (to_y, "dog")):
        at = figure.transFigure.inverted().transform(axes.transData.transform((0, y)))[1]
        expected = [text.get_position()[1] for text in figure.texts if text.get_text() == label]
        assert any(at == pytest.approx(y, abs=1e-3) for y in expected), placed


def test_a_square_shows_the_largest_weight_of_its_word() -> None:
    found = make_inspection()
    axes = draw(found, view="lines", layer=2, heads=[2]).axes[0]
    (squares,) = [patches for patches in axes.collections if isinstance(patches, PatchCollection)]
    strongest = found.cross[1, 1].max(0)
    shown = np.asarray(squares.get_facecolor())[:, 3]
    assert shown == pytest.approx(np.where(strongest < 0.01, 0, strongest), abs=1e-6)


def test_only_the_lines_of_a_named_word_are_drawn() -> None:
    found = make_inspection(" The dog sees the cat .")
    figure = draw(found, "encoder", view="lines", layer=1, word="THE")  # it occurs twice
    for drawn, weights in zip(strokes(figure), found.encoder[0][:, [0, 3]], strict=True):
        assert len(drawn.get_segments()) == (weights >= 0.01).sum()
    bold = [text.get_text() for text in figure.texts if text.get_fontweight() == "bold"]
    assert bold[1:] == ["The", "the", "1", "2", "3"]  # after the title
    whole = draw(make_inspection(), "cross", view="lines", word="schläft", words=True)
    assert len(strokes(whole)) == 3
    with pytest.raises(BadInput, match=r"--word schläft: .* Did you mean schläf\?"):
        draw(make_inspection(), "cross", view="lines", word="schläft")


def test_more_heads_than_colours_are_refused() -> None:
    many = make_inspection(h=9)
    with pytest.raises(BadInput, match=r"9 heads in one picture cannot be told apart: .* 8 with"):
        draw(many, view="lines")
    assert len(strokes(draw(many, view="lines", heads=range(2, 10)))) == 8


# Default views.


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "layers: 2, heads of each: 3"),
        ({"layer": 1}, "layer 1 of 2, mean of all 3 heads"),
        ({"heads": [2]}, "layer 2 of 2, head 2 of 3"),
        ({"word": "Hund"}, "layer 2 of 2, all 3 heads"),
        ({"view": "map", "heads": [1, 2]}, "layer 2 of 2, mean of heads 1 and 2"),
        ({"view": "lines"}, "layer 2 of 2, all 3 heads"),
    ],
)
def test_the_default_view_depends_on_the_options(options: dict[str, Any], expected: str) -> None:
    figure = draw(make_inspection(), **options)
    assert expected in texts(figure)
    expected_lines = options.get("view", "lines") == "lines" and {*options} - {"layer"}
    assert bool(strokes(figure)) == bool(expected_lines)


# Labels.

ODD = " $x_1$ 狗 ❤️😀 مرحبا {0} %s \\alpha^ <b> & _ " + "x" * 60 + " caf\udce9 \N{ZERO WIDTH SPACE}"


@pytest.mark.parametrize(
    "source",
    [SOURCE, ODD, " Ja", " a" * 15 + " " + "W" * 30, " of|ten long|est word|s in|side" * 20],
    ids=["plain", "odd", "short", "wide", "long"],
)
@pytest.mark.parametrize(
    "picture",
    [
        lambda found: draw(found, view="lines", heads=[1]),
        lambda found: draw(found, view="lines", word="Hund"),
        lambda found: draw(found, view="map"),
        lambda found: draw(found, view="map", words=True),
        draw,
    ],
    ids=["lines", "word", "map", "words", "grid"],
)
def test_no_label_is_cut_off_or_covers_another(
    picture: Callable[[Inspection], Figure], source: str, tmp_path: Path
) -> None:
    figure = picture(make_inspection(source))
    page = figure.bbox
    found = boxes(figure)
    for text, box in found:
        assert page.x0 <= box.x0 <= box.x1 <= page.x1, text
        assert page.y0 <= box.y0 <= box.y1 <= page.y1, text
    level = [(text, box) for text, box in found if not is_slanted(figure, text)]
    for (text, box), (other, its) in itertools.combinations(level, 2):
        across = min(box.x1, its.x1) - max(box.x0, its.x0)
        down = min(box.y1, its.y1) - max(box.y0, its.y0)
        assert across < 1 or down < 4, (text, other)  # accents and tails of letters may touch
    save(figure, tmp_path / "odd.png")


def test_labels_are_not_formulas_and_long_ones_are_shortened() -> None:
    for picture in (
        draw(make_inspection(ODD), view="lines", heads=[1]),
        draw(make_inspection(ODD), view="map"),
    ):
        assert {r"\$x_1\$", "x" * 31 + "…", "caf?"} <= {*texts(picture)}


def is_slanted(figure: Figure, text: str) -> bool:
    """Return whether a text is slanted: boxes of slanted texts overlap, their letters do not."""
    return any(
        label.get_text() == text and label.get_rotation() == 45
        for label in figure.findobj(Text)
        if isinstance(label, Text)
    )


# Files.


@pytest.mark.parametrize(
    ("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_equal_pictures_give_equal_files_with_their_fonts(
    ending: str, magic: bytes, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in ("one", "two")]
    for path in paths:
        save(draw(make_inspection(), view="lines", heads=[1, 2]), path)
    data, same = (path.read_bytes() for path in paths)
    assert data.startswith(magic)
    assert data == same
    assert b"<text" not in data
    if ending == "pdf":
        assert b"/FontFile2" in data  # TrueType, embedded
        assert b"/Type3" not in data


def test_drawing_leaves_the_callers_matplotlib_settings_unchanged(tmp_path: Path) -> None:
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30}):
        before = dict(mpl.rcParams)
        for figure in (
            draw(make_inspection()),
            draw(make_inspection(), layer=1),
            draw(make_inspection(), heads=[1]),
        ):
            save(figure, tmp_path / "picture.png")
        assert dict(mpl.rcParams) == before
    assert same_color(figure.get_facecolor(), "white")


def test_the_public_functions_are_imported_when_used() -> None:
    assert public.draw_attention is draw
    assert public.find_heads is find
    assert public.save is save
    assert {*public.__all__} <= {*dir(public)}
    with pytest.raises(AttributeError, match=r"transduce.inspection' has no attribute 'paint'"):
        public.paint  # noqa: B018


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return original(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"drawing needs matplotlib.*'transduce\[plot\]'"):
        draw(make_inspection())
