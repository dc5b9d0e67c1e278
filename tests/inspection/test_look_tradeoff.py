"""The picture of speed and BLEU: every model is in it, and those that no other beats are joined."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from transduce.errors import BadInput
from transduce.inspection.style import COLOURS, save
from transduce.inspection.tradeoff import Measured, draw, unbeaten

SMALL = Measured("small", 31, 38.9)
STUDENT = Measured("student", 140, 38.1)
SLIM = Measured("slim $6-1$", 210, 37.2)
POOR = Measured("trained alone", 139, 35.0)
ALL = [SMALL, STUDENT, SLIM, POOR]


def test_every_model_stands_where_it_was_measured_and_is_named_with_its_numbers() -> None:
    (axes,) = draw(ALL, where="Multi30k, 1 thread").axes
    line, *points = axes.lines
    assert [np.asarray(p.get_xydata()).tolist() for p in points] == [
        [[one.speed, one.bleu]] for one in ALL
    ]
    assert len({(p.get_color(), p.get_marker()) for p in points}) == len(ALL)
    legend = axes.get_legend()
    assert legend
    said = [text.get_text() for text in legend.get_texts()]
    assert said[1] == "student\n38.1 BLEU, 140 sentences/s"
    assert said[2].startswith(r"slim \$6-1\$")
    joined = [[31, 38.9], [140, 38.1], [210, 37.2]]
    assert np.asarray(line.get_xydata()).tolist() == joined
    assert "Multi30k, 1 thread" in axes.get_title(loc="left")


def test_no_model_lies_outside() -> None:
    for some in (ALL, [SMALL], [SMALL, SMALL]):
        (axes,) = draw(some).axes
        for one in some:
            assert axes.get_xlim()[0] < one.speed < axes.get_xlim()[1]
            assert axes.get_ylim()[0] < one.bleu < axes.get_ylim()[1]


def test_what_another_beats_in_both_is_not_joined() -> None:
    assert unbeaten(ALL) == [SMALL, STUDENT, SLIM]
    assert unbeaten([POOR, STUDENT]) == [STUDENT]
    assert unbeaten([Measured("a", 5, 30), Measured("b", 5, 31)]) == [Measured("b", 5, 31)]


def test_the_picture_can_be_written(tmp_path: Path) -> None:
    save(draw(ALL), tmp_path / "tradeoff.png")
    assert imread(tmp_path / "tradeoff.png").shape[:2] == (500, 1000)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(BadInput, match="0 models in one picture"):
        draw([])
    with pytest.raises(BadInput, match=rf"expected 1 to {len(COLOURS)}"):
        draw([SMALL] * 9)
    with pytest.raises(BadInput, match=r"small at 0 sentences/s: expected more than 0"):
        draw([Measured("small", 0, 38.9)])
