"""Findings are printed on terminals that are too narrow for their tables, and into pipes."""

import sys

import pytest
from rich.text import Text

from transduce.cli.declaring import unwrap
from transduce.cli.paper.printing import show, split
from transduce.experiments.findings import Finding, Table

NUMBERS = tuple(f"paper: number {number}" for number in range(9))
TABLE = Table(
    "Times",
    ("layer", "d", *NUMBERS),
    tuple(
        (layer, d, *(f"{n}.25 ({n}.00 to {n}.50)" for n in range(9)))
        for layer in ("self-attention", "recurrent")
        for d in ("512", "1024")
    ),
)
NOTE = "A note that is long enough to be broken into several lines on a terminal of few letters."
FINDING = Finding(name="table1", title="Table 1", said="", tables=(TABLE,), notes=(NOTE,))


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wide: str) -> str:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: bool(wide))
    monkeypatch.setenv("COLUMNS", wide or "80")
    show(FINDING, None)
    return Text.from_ansi(capsys.readouterr().out).plain


def test_a_table_that_fits_is_not_split() -> None:
    assert split(TABLE, 400) == [TABLE]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_part_has_the_columns_that_identify_its_rows(width: int) -> None:
    parts = split(TABLE, width)
    assert len(parts) > 1
    assert [name for part in parts for name in part.columns[2:]] == list(NUMBERS)
    assert [part.title for part in parts] == ["Times", *[""] * (len(parts) - 1)]
    for part in parts:
        assert part.columns[:2] == ("layer", "d")
        assert [row[:2] for row in part.rows] == [row[:2] for row in TABLE.rows]


def test_no_number_is_wrapped_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(capsys, monkeypatch, "60")
    assert max(map(len, text.splitlines())) <= 60
    assert "…" not in text
    for row in TABLE.rows:
        assert all(cell in text for cell in row)
    assert "\n  " in text[text.index("- A note") :]  # wrapped lines are indented


def test_a_row_stays_on_one_line_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, monkeypatch, "").splitlines()
    (line,) = (line for line in lines if "recurrent" in line and "1024" in line)
    assert all(cell in line for cell in TABLE.rows[-1])


def test_the_terminal_wraps_the_description_of_a_command() -> None:
    assert unwrap("Do it.\n\n    At once, and\n    again.\n    ") == "Do it.\n\nAt once, and again."
