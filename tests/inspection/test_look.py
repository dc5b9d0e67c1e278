"""Pictures of attention show the weights and all words; a head with a job is found."""

import builtins
import dataclasses
import itertools
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
from conftest import CommandLine
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import same_color, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from transduce import inspection as look
from transduce.errors import BadInput, MissingExtra
from transduce.inspection.attention_drawing import draw, grid, heatmap, lines
from transduce.inspection.head_jobs import find
from transduce.inspection.inspector import Inspection
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import COLOURS, drawing_style, save

Floats = npt.NDArray[np.float32]

SOURCE = " The dog sleeps ."
TARGET = " Der Hund schläf|t ."


def sharp(*shape: int, seed: int = 1) -> Floats:
    """Make rows that sum to 1, with large and small weights."""
    scores = 3 * np.random.default_rng(seed).normal(size=shape)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    return np.asarray(weights, dtype=np.float32)


def causal(*shape: int) -> Floats:
    weights = np.tril(sharp(*shape))
    return np.asarray(weights / weights.sum(-1, keepdims=True), dtype=np.float32)


def pieces_of(text: str) -> tuple[list[str], list[int], list[str]]:
    """Cut a text at spaces and bars: its pieces, their words, and the words, with </s>."""
    words = text.split()
    pieces = [
        " " * (not place) + piece for word in words for place, piece in enumerate(word.split("|"))
    ]
    numbers = [n for n, word in enumerate(words) for _ in word.split("|")]
    spelled = [word.replace("|", "") for word in words]
    return [*pieces, "</s>"], [*numbers, len(words)], [*spelled, "</s>"]


def made(source: str = SOURCE, target: str = TARGET, N: int = 2, h: int = 3) -> Inspection:
    """Make an inspection of these pieces with weights of no meaning."""
    of_source, source_words, source_spelled = pieces_of(source)
    of_target, target_words, target_spelled = pieces_of(target)
    S, T = len(of_source), len(of_target)
    return Inspection(
        model="made",
        languages=("en", "de"),
        sentences=(" ".join(source_spelled[:-1]), " ".join(target_spelled[:-1])),
        source=tuple(of_source),
        target=tuple(of_target),
        inputs=("<s>", *of_target[:-1]),
        source_words=tuple(source_words),
        target_words=tuple(target_words),
        spelled=(tuple(source_spelled), tuple(target_spelled)),
        probabilities=np.linspace(0.5, 1, T, dtype=np.float32),
        alternatives=((),) * T,
        encoder=sharp(N, h, S, S),
        decoder=causal(N, h, T, T),
        cross=sharp(N, h, T, S),
    )


def texts(figure: Figure) -> list[str]:
    """Return everything that is written in a picture, but for what is empty."""
    found = [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]
    return [text for text in found if text]


def boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return where everything that is written stands, in points of the picture."""
    with drawing_style():
        renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
        figure.draw(renderer)
        return [
            (text.get_text(), text.get_window_extent(renderer))
            for text in figure.findobj(Text)
            if isinstance(text, Text) and text.get_text().strip() and text.get_visible()
        ]


def strokes(figure: Figure) -> list[LineCollection]:
    return [one for one in figure.axes[0].collections if isinstance(one, LineCollection)]


def maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def image(axes: Axes) -> Floats:
    return np.asarray(axes.images[0].get_array())


def ticks(axes: Axes) -> tuple[list[str], list[str]]:
    down, across = axes.get_yticklabels(), axes.get_xticklabels()
    return [one.get_text() for one in down], [one.get_text() for one in across]


# Views.


def test_pieces_of_a_word_receive_together_and_look_on_average() -> None:
    found = made()
    view = AttentionMatrices.of(found, "cross", words=True)
    assert view.queries == ("Der", "Hund", "schläft", ".", "</s>")
    assert view.keys == ("The", "dog", "sleeps", ".", "</s>")
    assert view.weights[:, :, 2] == pytest.approx(found.cross[:, :, 2:4].mean(2))
    assert view.weights[:, :, 3] == pytest.approx(found.cross[:, :, 4])
    assert view.weights.sum(-1) == pytest.approx(1, abs=1e-6)
    own = AttentionMatrices.of(found, "decoder", words=True)
    assert own.keys == ("<s>", "Der", "Hund", "schläft", ".")
    assert own.weights[:, :, 4, 3] == pytest.approx(found.decoder[:, :, 5, 3:5].sum(-1))


def test_a_piece_within_a_word_is_marked_and_white_space_is_seen() -> None:
    assert AttentionMatrices.of(made(), "cross").queries == (
        "Der",
        "Hund",
        "schläf",
        "·t",
        ".",
        "</s>",
    )
    spaced = dataclasses.replace(made(), source=("The", "  ", " dog", " .", "</s>"))
    assert AttentionMatrices.of(spaced, "cross").keys == ("The", "␣", "dog", ".", "</s>")


# Maps.


def test_a_map_is_the_weights_of_a_head_or_their_mean_with_every_word_beside() -> None:
    found = made()
    alone = heatmap(found, "decoder", layer=1, heads=[2])
    (axes,) = maps(alone)
    assert image(axes) == pytest.approx(found.decoder[0, 1])
    written = ["Der", "Hund", "schläf", "·t", "."]
    assert ticks(axes) == ([*written, "</s>"], ["<s>", *written])
    assert "layer 1 of 2, head 2 of 3" in texts(alone)
    mean = heatmap(found)
    assert image(maps(mean)[0]) == pytest.approx(found.cross[1].mean(0))
    assert "layer 2 of 2, mean of all 3 heads" in texts(mean)
    some = heatmap(found, heads=[3, 1, 3], words=True)
    assert image(maps(some)[0]) == pytest.approx(
        AttentionMatrices.of(found, "cross", words=True).mean(2, [1, 3])
    )
    assert "layer 2 of 2, mean of heads 3 and 1" in texts(some)


def test_the_bar_of_colours_reaches_just_over_the_largest_weight() -> None:
    figure = heatmap(made(), "encoder")
    shown = maps(figure)[0].images[0]
    low, high = shown.get_clim()
    assert low == 0
    assert image(maps(figure)[0]).max() <= high < image(maps(figure)[0]).max() + 0.1


def test_a_grid_has_a_map_for_each_head_and_names_rows_and_columns() -> None:
    found = made()
    figure = grid(found, "encoder")
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


def test_a_line_is_as_strong_as_its_weight_and_each_head_has_its_colour() -> None:
    found = made()
    figure = lines(found, layer=1, heads=[3, 1])
    assert len(strokes(figure)) == 2
    for drawn, head, colour in zip(strokes(figure), (2, 0), COLOURS, strict=False):
        weights = np.sort(found.cross[0, head][found.cross[0, head] >= 0.01])
        shown = np.asarray(drawn.get_colors())
        assert np.sort(shown[:, 3]) == pytest.approx(weights, abs=1e-6)
        assert {tuple(one) for one in shown[:, :3]} == {to_rgb(colour)}
        thick = np.asarray(drawn.get_linewidth())
        assert (np.diff(thick) >= 0).all()  # the strongest are drawn last
        assert thick == pytest.approx(0.6 + 2.4 * shown[:, 3])
    assert {"1", "3", "layer 1 of 2, heads 3 and 1"} <= {*texts(figure)}


def test_a_line_goes_from_its_query_to_its_key() -> None:
    found = dataclasses.replace(made(N=1, h=1), cross=np.zeros((1, 1, 6, 5), np.float32))
    found.cross[0, 0, 4, 1] = 1
    figure = lines(found, "cross")
    (drawn,) = strokes(figure)
    (((_, from_y), (_, to_y)),) = [np.asarray(path.vertices).tolist() for path in drawn.get_paths()]
    axes = figure.axes[0]
    placed = {text.get_text(): text.get_position()[1] for text in figure.texts}
    for y, label in ((from_y, "."), (to_y, "dog")):
        at = figure.transFigure.inverted().transform(axes.transData.transform((0, y)))[1]
        expected = [text.get_position()[1] for text in figure.texts if text.get_text() == label]
        assert any(at == pytest.approx(one, abs=1e-3) for one in expected), placed


def test_a_square_is_as_strong_as_what_leads_to_its_word() -> None:
    found = made()
    axes = lines(found, layer=2, heads=[2]).axes[0]
    (squares,) = [one for one in axes.collections if isinstance(one, PatchCollection)]
    strongest = found.cross[1, 1].max(0)
    shown = np.asarray(squares.get_facecolor())[:, 3]
    assert shown == pytest.approx(np.where(strongest < 0.01, 0, strongest), abs=1e-6)


def test_only_the_lines_of_a_word_are_drawn_where_it_is_named() -> None:
    found = made(" The dog sees the cat .")
    figure = lines(found, "encoder", layer=1, word="THE")  # it stands there twice
    for drawn, weights in zip(strokes(figure), found.encoder[0][:, [0, 3]], strict=True):
        assert len(drawn.get_segments()) == (weights >= 0.01).sum()
    bold = [text.get_text() for text in figure.texts if text.get_fontweight() == "bold"]
    assert bold[1:] == ["1", "2", "3", "The", "the"]  # after the title
    whole = lines(made(), "cross", word="schläft", words=True)
    assert len(strokes(whole)) == 3
    with pytest.raises(BadInput, match=r"--word schläft: .* Did you mean schläf\?"):
        lines(made(), "cross", word="schläft")


def test_heads_that_could_not_be_told_apart_are_refused() -> None:
    many = made(h=9)
    with pytest.raises(BadInput, match=r"9 heads in one picture cannot be told apart: .* 8 with"):
        lines(many)
    assert len(strokes(lines(many, heads=range(2, 10)))) == 8


# What is drawn where nothing is said.


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
def test_the_picture_follows_from_what_is_named(options: dict[str, Any], expected: str) -> None:
    figure = draw(made(), **options)
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
        lambda found: lines(found, heads=[1]),
        lambda found: lines(found, word="Hund"),
        heatmap,
        lambda found: heatmap(found, words=True),
        grid,
    ],
    ids=["lines", "word", "map", "words", "grid"],
)
def test_whatever_is_written_is_whole_and_covers_nothing_else(
    picture: Callable[[Inspection], Figure], source: str, tmp_path: Path
) -> None:
    figure = picture(made(source))
    page = figure.bbox
    found = boxes(figure)
    for text, box in found:
        assert page.x0 <= box.x0 <= box.x1 <= page.x1, text
        assert page.y0 <= box.y0 <= box.y1 <= page.y1, text
    level = [one for one in found if not leaning(figure, one[0])]
    for (text, box), (other, its) in itertools.combinations(level, 2):
        across = min(box.x1, its.x1) - max(box.x0, its.x0)
        down = min(box.y1, its.y1) - max(box.y0, its.y0)
        assert across < 1 or down < 4, (text, other)  # accents and tails of letters may touch
    save(figure, tmp_path / "odd.png")


def test_labels_are_no_formulas_and_none_is_endless() -> None:
    for picture in (lines(made(ODD), heads=[1]), heatmap(made(ODD))):
        assert {r"\$x_1\$", "x" * 31 + "…", "caf?"} <= {*texts(picture)}


def leaning(figure: Figure, text: str) -> bool:
    """Tell whether a text is slanted: the boxes of such overlap though their letters do not."""
    return any(
        one.get_text() == text and one.get_rotation() == 45
        for one in figure.findobj(Text)
        if isinstance(one, Text)
    )


# What is written.


@pytest.mark.parametrize(
    ("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_equal_pictures_are_equal_files_that_need_no_font_of_the_reader(
    ending: str, magic: bytes, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in ("one", "two")]
    for path in paths:
        save(lines(made(), heads=[1, 2]), path)
    one, two = (path.read_bytes() for path in paths)
    assert one.startswith(magic)
    assert one == two
    assert b"<text" not in one
    if ending == "pdf":
        assert b"/FontFile2" in one  # TrueType, embedded
        assert b"/Type3" not in one


def test_a_program_that_draws_keeps_its_own_style(tmp_path: Path) -> None:
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30}):
        before = dict(mpl.rcParams)
        for figure in (draw(made()), draw(made(), layer=1), draw(made(), heads=[1])):
            save(figure, tmp_path / "picture.png")
        assert dict(mpl.rcParams) == before
    assert same_color(figure.get_facecolor(), "white")


def test_the_public_functions_are_there_and_are_imported_late() -> None:
    assert look.draw_attention is draw
    assert look.find_heads is find
    assert look.save is save
    assert {*look.__all__} <= {*dir(look)}
    with pytest.raises(AttributeError, match=r"transduce.inspection' has no attribute 'paint'"):
        look.paint  # noqa: B018


# Heads with a job.


def planted(kind: str, layer: int, head: int, where: Callable[[int], int], text: str) -> Inspection:
    """Make an inspection in which all look at all alike, but for one head."""
    found = made(text, text)
    arrays = {}
    for name in ("encoder", "decoder", "cross"):
        weights = np.ones_like(found.attention(name))
        weights = np.tril(weights) if name == "decoder" else weights
        weights = weights / weights.sum(-1, keepdims=True)
        if name == kind:
            weights[layer - 1, head - 1] = 0
            for query in range(weights.shape[2]):
                weights[layer - 1, head - 1, query, where(query) % weights.shape[3]] = 1
        arrays[name] = weights.astype(np.float32)
    return dataclasses.replace(found, **arrays)


LONG = " if the dog sees the cat , it runs ."


@pytest.mark.parametrize(
    ("kind", "job", "where"),
    [
        ("encoder", "the word before", lambda query: max(0, query - 1)),
        ("encoder", "the word after", lambda query: query + 1),
        ("encoder", "the word itself", lambda query: query),
        ("encoder", "two words before", lambda query: max(0, query - 2)),
        ("encoder", "the first of all", lambda query: 0),
        ("encoder", "the end, </s>", lambda query: -1),
        ("encoder", "commas and full stops", lambda query: 6),
        ("encoder", "the same word elsewhere", lambda query: {1: 4, 4: 1}.get(query, 0)),
        ("encoder", "3 or more words away", lambda query: 9 if query < 5 else 0),
        ("decoder", "the word before", lambda query: query),
        ("decoder", "the first of all", lambda query: 0),
        ("decoder", "the same word elsewhere", lambda query: 2 if query == 4 else query),
        ("cross", "the end, </s>", lambda query: -1),
        ("cross", "the same word elsewhere", lambda query: query),
        ("cross", "the word it translates", lambda query: query),
    ],
)
def test_a_head_that_does_nothing_else_is_found(
    kind: str, job: str, where: Callable[[int], int]
) -> None:
    found = find([planted(kind, 2, 3, where, LONG), planted(kind, 2, 3, where, LONG)])
    (best,) = [one for one in found if (one.job, one.kind) == (job, kind)]
    assert (best.layer, best.head) == (2, 3)
    assert best.share == pytest.approx(1)
    assert 0 < best.baseline < 0.7


def test_the_share_by_chance_is_that_of_a_head_that_looks_at_all_alike() -> None:
    found = find([planted("none", 1, 1, lambda query: query, LONG)])
    assert found
    for one in found:
        assert one.share == pytest.approx(one.baseline, abs=1e-6)


def test_a_word_that_moves_is_one_translated_from_quite_another_place() -> None:
    moved = {3: 8, 8: 3}
    found = planted("cross", 2, 3, lambda query: moved.get(query, query), LONG)
    (best,) = [one for one in find([found]) if one.job == "the word it translates, moved"]
    assert (best.layer, best.head, best.share) == (2, 3, 1)
    level = planted("cross", 2, 3, lambda query: query, LONG)
    assert not [one for one in find([level]) if one.job == "the word it translates, moved"]


@pytest.mark.parametrize(
    ("job", "steps"),
    [
        ("the word it has just translated", -1),
        ("the word before that", -1),
        ("the word after that", 1),
    ],
)
def test_heads_may_look_beside_what_the_last_layer_translates(job: str, steps: int) -> None:
    found = planted("cross", 2, 3, lambda query: query, LONG)
    found.cross[0, 1] = np.eye(11, 11, k=steps)
    (best,) = [one for one in find([found]) if one.job == job]
    assert (best.layer, best.head, best.share) == (1, 2, 1)


def test_the_example_is_the_sentence_of_some_words_that_shows_the_job_most() -> None:
    inspections = [
        planted("encoder", 1, 1, lambda query: query + 1, text)
        for text in (" a dog", LONG, LONG, " a cat")
    ]
    inspections[1].encoder[0, 0] = inspections[1].encoder[0, 1]
    inspections[2].encoder[0, 0] /= 2  # less than in the short ones
    (best,) = [one for one in find(inspections) if one.job == "the word after"]
    assert best.example == 2


# The command.

SENTENCE = "the dog sees a tree."


def test_the_command_prints_what_each_word_looks_at(cli: CommandLine, tiny_run: Path) -> None:
    result = cli("look", tiny_run, SENTENCE, "--target", "der Hund sieht Bäume.")
    assert result.status == 0
    first, names, _, *rows, which = result.stdout.splitlines()
    assert first == "der Hund sieht Bäume."
    assert re.split("  +", names) == [
        *("to write", "probability", "it looks most at", "share", "then at", "share")
    ]
    assert [row.split()[0] for row in rows] == ["der", "Hund", "sieht", "Bäume", ".", "</s>"]
    assert which.strip() == "cross attention, layer 1 of 1, mean of all 2 heads"
    assert all(re.search(r"\d+%\s+\S+\s+\d+%\s*$", row) for row in rows)
    assert "--out attention.png" in result.stderr
    encoder = cli("look", tiny_run, SENTENCE, "--kind", "encoder", "--head", "2").stdout
    assert "encoder attention, layer 1 of 1, head 2 of 2" in encoder
    assert "sees" in encoder


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ([], "grid.svg"),
        (["--layer", "1", "--kind", "encoder"], "map.png"),
        (["--head", "1", "--head", "2", "--words"], "new/lines.pdf"),
    ],
)
def test_the_command_draws_what_is_asked_for(
    options: list[str], name: str, cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    result = cli("look", tiny_run, SENTENCE, *options, "--out", tmp_path / name)
    assert (result.status, result.stdout) == (0, "")
    assert result.stderr == f"wrote {tmp_path / name}\n"
    assert (tmp_path / name).stat().st_size > 1000
    if name.endswith("png"):
        assert imread(tmp_path / name).shape[0] > 300


def test_the_command_writes_a_page_of_everything(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    result = cli("look", tiny_run, SENTENCE, "-o", tmp_path / "page.html")
    assert result.stderr == f"wrote {tmp_path / 'page.html'}\n"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>What tiny attends to" in page
    assert SENTENCE in page


def test_the_command_finds_heads_and_tells_how_to_see_one(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    text = tmp_path / "some text.en"
    text.write_text("\n".join([SENTENCE, "", "it's a dog!", "z " * 200]), encoding="utf-8")
    result = cli("look", tiny_run, "--find", text)
    assert result.status == 0
    names, _, *rows = result.stdout.splitlines()
    assert re.split("  +", names) == ["looks at", "kind", "layer", "head", "share", "by chance"]
    assert rows
    for row in rows:
        share, chance = re.findall(r"(\d+)%", row)
        assert int(share) >= 2 * int(chance) - 1
    said, command = result.stderr.splitlines()
    assert said.startswith("over 2 sentences; ")
    assert command.startswith(f"transduce look {tiny_run} ")
    arguments = shlex.split(command)[1:-1]
    assert cli(*arguments, tmp_path / "head.svg").stderr.startswith("wrote ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["look", "RUN"], 'expected a sentence, such as "Two dogs run.", or else --find FILE'),
        (["look", "RUN", "yes", "--find", "text"], "or else --find FILE"),
        (["look", "RUN", " "], "the sentence is empty: expected some words"),
        (["look", "RUN", "yes", "--target", ""], "the given translation is empty"),
        (["look", "RUN", "z " * 200], "subwords, </s> counted: at most 128 can be looked at"),
        (["look", "RUN", "yes", "-o", "a.jpeg"], "a.jpeg: expected a name that ends in .svg, .png"),
        (["look", "RUN", "yes", "--view", "map"], "are for pictures: say where with --out"),
        (["look", "RUN", "yes", "--kind", "crosss"], "--kind crosss: expected encoder, decoder, c"),
        (["look", "RUN", "yes", "--kind", "crosss"], "Did you mean cross?"),
        (["look", "RUN", "yes", "--layer", "0"], "--layer 0: the decoder has layers 1 to 1"),
        (
            ["look", "RUN", "yes", "--head", "3", "-o", "a.svg"],
            "--head 3: a layer has heads 1 to 2",
        ),
        (["look", "RUN", "yes", "--view", "mat", "-o", "a.svg"], "--view mat: expected lines, map"),
        (
            ["look", "RUN", "yes", "--view", "grid", "--head", "1", "-o", "a.svg"],
            "leave --layer and",
        ),
        (
            ["look", "RUN", "yes", "--view", "map", "--word", "a", "-o", "a.svg"],
            "go with --view map",
        ),
        (
            [
                "look",
                "RUN",
                "every dog",
                "--kind",
                "encoder",
                "--words",
                "--word",
                "dogs",
                "-o",
                "a.svg",
            ],
            "--word dogs: it is not among every dog </s>. Did you mean dog?",
        ),
        (
            ["look", "RUN", "yes", "--head", "1", "-o", "a.html"],
            "a page shows every layer and head",
        ),
        (["look", "RUN", "--find", "text", "--layer", "1"], "--find tries all layers and heads"),
        (["look", "RUN", "--find", "nothing"], "nothing"),
        (["look", "RUN", "--find", "blank"], "blank has no sentence that can be looked at"),
        (["look", "none", "yes"], "there is no run folder none"),
        (["look", "RUN", "text"], "text is a file: expected a sentence, such as"),
        (["look", "RUN", "tset.en"], "tset.en is no sentence, and there is no such file: expected"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(
    arguments: list[str],
    expected: str,
    cli: CommandLine,
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("yes\n")
    (tmp_path / "blank").write_text("\n\n")
    result = cli(*(str(tiny_run) if one == "RUN" else one for one in arguments))
    assert expected in result.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blank", "text"]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return original(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"drawing needs matplotlib.*'transduce\[plot\]'"):
        draw(made())
