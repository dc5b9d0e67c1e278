"""How findings are printed: on terminals that are too narrow for their tables, and piped."""

import sys

import pytest
from rich.text import Text

from transduce.cli.paper import flowing
from transduce.cli.paper.printing import parts, show
from transduce.experiments.findings import Finding, Table

NUMBERS = tuple(f"paper: number {one}" for one in range(9))
TABLE = Table(
    "Times",
    ("layer", "d", *NUMBERS),
    tuple(
        (layer, d, *(f"{one}.25 ({one}.00 to {one}.50)" for one in range(9)))
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


def test_a_table_that_fits_is_not_cut() -> None:
    assert parts(TABLE, 400) == [TABLE]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_part_has_the_columns_that_tell_its_rows_apart(width: int) -> None:
    cut = parts(TABLE, width)
    assert len(cut) > 1
    assert [one for part in cut for one in part.columns[2:]] == list(NUMBERS)
    assert [part.title for part in cut] == ["Times", *[""] * (len(cut) - 1)]
    for part in cut:
        assert part.columns[:2] == ("layer", "d")
        assert [row[:2] for row in part.rows] == [row[:2] for row in TABLE.rows]


def test_no_number_is_broken_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(capsys, monkeypatch, "60")
    assert max(map(len, text.splitlines())) <= 60
    assert "…" not in text
    for row in TABLE.rows:
        assert all(cell in text for cell in row)
    assert "\n  " in text[text.index("- A note") :]  # what follows stands under it


def test_a_line_of_a_table_that_is_piped_stays_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, monkeypatch, "").splitlines()
    (line,) = (line for line in lines if "recurrent" in line and "1024" in line)
    assert all(cell in line for cell in TABLE.rows[-1])


def test_what_a_command_is_for_is_broken_by_the_terminal_alone() -> None:
    assert (
        flowing("Do it.\n\n    At once, and\n    again.\n    ") == "Do it.\n\nAt once, and again."
    )
