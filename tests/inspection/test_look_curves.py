"""Training curves: they show the logged values, and report what cannot be shown."""

import builtins
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from conftest import CommandLine, snapshot
from matplotlib.axes import Axes
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D

from transduce.errors import BadRun, MissingExtra
from transduce.inspection.curves import draw
from transduce.inspection.style import COLOURS, MARKERS, save
from transduce.runs.history import read_histories

Row = Mapping[str, float]


def log(*steps: int, seed: int = 1) -> list[Row]:
    """Return the metrics of training at these steps."""
    draws = random.Random(seed)
    return [
        {
            "step": step,
            "loss": draws.uniform(3, 5),
            "target_tokens_per_second": draws.uniform(900, 1100),
            "seconds": 0.5 * step,
        }
        for step in steps
    ]


def valid(*steps: int, seed: int = 2, bleu: bool = True) -> list[Row]:
    """Return the metrics of validations after these steps."""
    draws = random.Random(seed)
    return [
        {"step": step, "valid_loss": draws.uniform(3, 5)}
        | ({"valid_bleu": draws.uniform(5, 30)} if bleu else {})
        for step in steps
    ]


def write(run: Path, rows: Sequence[Row], config: Mapping[str, Any] | None = None) -> Path:
    """Write a run folder with these metrics."""
    run.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: row["step"]))
    (run / "metrics.jsonl").write_text(text)
    if config:
        (run / "config.json").write_text(json.dumps(config))
    return run


def logged(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if name in row]


def points(line: Line2D) -> list[tuple[float, float]]:
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    return list(zip(x.tolist(), y.tolist(), strict=True))


def titles(figure: Figure) -> list[str]:
    """Return the titles of the panels."""
    return [axes.get_title(loc="left").split()[0] for axes in figure.axes]


def listed(axes: Axes) -> list[str]:
    """Return the texts of the legend of a panel."""
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


# Drawing.


def test_the_lines_are_exactly_the_logged_values(tmp_path: Path) -> None:
    rows = [*log(5, 10, 15, 20), *valid(10, 20)]
    loss, bleu, speed = draw(read_histories([write(tmp_path / "run", rows)])).axes
    training, validation, _ = loss.lines
    assert points(training) == logged(rows, "loss")
    assert points(validation) == logged(rows, "valid_loss")
    assert points(bleu.lines[0]) == logged(rows, "valid_bleu")
    assert [points(line) for line in speed.lines] == [logged(rows, "target_tokens_per_second")]


def test_the_best_validation_has_a_ring_and_its_value(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"step": 10, "valid_loss": 4.0, "valid_bleu": 11.04},
        {"step": 20, "valid_loss": 3.25, "valid_bleu": 15.96},
        {"step": 30, "valid_loss": 3.25, "valid_bleu": 12.0},
    ]
    loss, bleu = draw(read_histories([write(tmp_path / "run", rows)])).axes
    assert points(loss.lines[-1]) == [(20, 3.25)]  # the first of two equal ones, as in training
    assert points(bleu.lines[-1]) == [(20, 15.96)]
    assert listed(loss) == ["3.250  run"]
    assert listed(bleu) == ["16.0"]


def test_a_run_has_the_same_colour_and_marker_in_all_panels(tmp_path: Path) -> None:
    runs = [write(tmp_path / f"r{i}", [*log(5, seed=i), *valid(5, seed=i)]) for i in range(8)]
    loss, bleu, speed = draw(read_histories(runs)).axes
    for i, (colour, marker) in enumerate(zip(COLOURS, MARKERS, strict=True)):
        lines = [*loss.lines[3 * i : 3 * i + 3], *bleu.lines[2 * i : 2 * i + 2], speed.lines[i]]
        assert all(same_color(line.get_color(), colour) for line in lines)
        assert loss.lines[3 * i + 1].get_marker() == bleu.lines[2 * i].get_marker() == marker
    assert [label.split()[1] for label in listed(loss)] == [run.name for run in runs]


def test_panels_and_lines_without_values_are_left_out(
    tmp_path: Path,
) -> None:
    without = write(tmp_path / "without", [*log(5, 10), *valid(10, bleu=False)])
    assert titles(draw(read_histories([without]))) == ["Loss,", "Speed"]
    with_bleu = write(tmp_path / "with", [*log(5, 10), *valid(10)])
    both = draw(read_histories([without, with_bleu]))
    assert titles(both) == ["Loss,", "Translation", "Speed"]
    assert listed(both.axes[1])[0] == "none"


def test_only_the_named_panels_are_drawn(tmp_path: Path) -> None:
    histories = read_histories([write(tmp_path / "run", [*log(5), *valid(5)])])
    assert titles(draw(histories, what=["speed", "loss"])) == ["Loss,", "Speed"]
    assert titles(draw(histories, what=["bleu"])) == ["Translation"]


@pytest.mark.parametrize(
    ("pace", "word", "unit"), [(0.5, "seconds", 1), (10, "minutes", 60), (500, "hours", 3600)]
)
def test_over_time_a_validation_is_between_the_logged_steps_around_it(
    pace: float, word: str, unit: int, tmp_path: Path
) -> None:
    rows: list[Row] = [{"step": n, "loss": 4.0, "seconds": pace * n} for n in (10, 20, 40)]
    run = write(tmp_path / "run", [*rows, *valid(5, 20, 30, 60)])
    figure = draw(read_histories([run]), by="time")
    training, validation, _ = figure.axes[0].lines
    assert [x for x, _ in points(training)] == pytest.approx(
        [pace * n / unit for n in (10, 20, 40)]
    )
    expected = [pace * n / unit for n in (5, 20, 30, 60)]
    assert [x for x, _ in points(validation)] == pytest.approx(expected)
    assert figure.axes[-1].get_xlabel() == f"training time ({word})"


def test_perplexity_and_learning_rate_are_drawn_when_named(tmp_path: Path) -> None:
    rows = [
        *(
            {"perplexity": 10.0**i, "learning_rate": i / 1000, **row}
            for i, row in enumerate(log(5, 10))
        ),
        *({"valid_perplexity": 7.5, **row} for row in valid(10)),
    ]
    histories = read_histories([write(tmp_path / "run", rows)])
    assert titles(draw(histories)) == ["Loss,", "Translation", "Speed"]
    everything = draw(histories, what=["all"])
    assert titles(everything) == ["Loss,", "Perplexity,", "Translation", "Learning", "Speed"]
    assert everything.get_size_inches().tolist() == [12, 12]
    perplexity, rate = draw(histories, what=["rate", "perplexity"]).axes
    assert perplexity.get_yscale() == "log"
    assert points(perplexity.lines[0]) == [(5, 1.0), (10, 10.0)]
    assert points(perplexity.lines[1]) == [(10, 7.5)]
    assert listed(perplexity) == ["7.50  run"]
    assert points(rate.lines[0]) == [(5, 0.0), (10, 0.001)]
    assert listed(rate) == ["0.001"]
    assert rate.get_ylim()[0] == 0


def test_axes_of_rates_and_scores_begin_at_zero(tmp_path: Path) -> None:
    run = write(tmp_path / "run", [*log(5, 10), {"step": 10, "valid_bleu": 0.0}])
    loss, bleu, speed = draw(read_histories([run])).axes
    assert bleu.get_ylim() == (0, 1)
    assert speed.get_ylim()[0] == 0
    assert loss.get_xlim()[0] == 0
    assert loss.get_yscale() == loss.get_xscale() == "linear"


def test_a_steep_beginning_is_cropped_and_the_title_says_so(tmp_path: Path) -> None:
    steps = range(10, 1001, 10)
    rows: list[Row] = [{"step": n, "loss": 3 + 7 * 0.7 ** (n / 10)} for n in steps]
    (loss,) = draw(read_histories([write(tmp_path / "steep", rows)])).axes
    assert 3 + 7 * 0.7**6 < loss.get_ylim()[1] < 4
    assert loss.get_title(loc="left").endswith("(it starts above the axis, at 7.9)")
    assert points(loss.lines[0]) == logged(rows, "loss")
    even: list[Row] = [{"step": n, "loss": 10 - n / 200} for n in steps]
    (loss,) = draw(read_histories([write(tmp_path / "even", even)])).axes
    assert loss.get_ylim()[1] > 9.95
    assert loss.get_title(loc="left") == "Loss, lower is better"


def test_a_best_validation_at_the_beginning_is_not_cropped(tmp_path: Path) -> None:
    rows: list[Row] = [{"step": n, "loss": 20 * 0.5 ** (n / 10)} for n in range(10, 1001, 10)]
    rows.append({"step": 10, "valid_loss": 4.0})
    (loss,) = draw(read_histories([write(tmp_path / "run", rows)])).axes
    assert 4.0 < loss.get_ylim()[1] < 5


def test_a_title_warns_of_losses_that_are_not_comparable(tmp_path: Path) -> None:
    def run(name: str, eps_ls: float, vocabulary: int) -> Path:
        config = {"train": {"eps_ls": eps_ls}, "model": {"target_vocabulary": vocabulary}}
        return write(tmp_path / name, log(5, 10), config)

    def title(*runs: Path) -> str:
        return draw(read_histories(runs)).axes[0].get_title(loc="left")

    base, same = run("base", 0.1, 1000), run("same", 0.1, 1000)
    assert title(base, same) == "Loss, lower is better"
    assert title(base, run("sharp", 0, 1000)).endswith("they differ in eps_ls")
    assert title(base, run("both", 0, 2000)).endswith("they differ in eps_ls and vocabulary")
    (same / "config.json").write_text("{")
    assert title(base, same) == "Loss, lower is better"


def test_a_run_name_with_any_characters_is_shown_completely(tmp_path: Path) -> None:
    names = ["_hidden", "a$b$c", "x" * 60, "日本", "caf\udce9"]
    figure = draw(read_histories([write(tmp_path / name, log(5)) for name in names]))
    labels = [re.sub(r"^none  |\n|\\", "", label) for label in listed(figure.axes[0])]
    assert labels == [*names[:4], "caf?"]
    save(figure, tmp_path / "curves.png")  # no warning, and no formula


def test_runs_of_the_same_name_are_labelled_by_their_folders(tmp_path: Path) -> None:
    runs = [write(tmp_path / folder / "run", log(5)) for folder in ("a", "b")]
    assert [history.name for history in read_histories(runs)] == [str(run) for run in runs]
    again = tmp_path / "a" / ".." / "a" / "run"
    assert [history.name for history in read_histories([runs[0], again])] == ["run"]


def test_drawing_curves_leaves_the_callers_settings_unchanged(tmp_path: Path) -> None:
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 30}):
        before = dict(mpl.rcParams)
        figure = draw(read_histories([write(tmp_path / "run", log(5))]))
        save(figure, tmp_path / "curves.png")
        assert dict(mpl.rcParams) == before
    assert same_color(figure.axes[0].get_facecolor(), "white")


# Files.


def test_a_picture_has_1200_by_800_pixels_and_is_light(tmp_path: Path) -> None:
    save(draw(read_histories([write(tmp_path / "run", log(5))])), tmp_path / "curves.png")
    picture = imread(tmp_path / "curves.png")
    assert picture.shape[:2] == (800, 1200)
    assert picture[0, 0].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")]
)
def test_the_ending_chooses_the_format_and_equal_curves_give_equal_files(
    ending: str, magic: bytes, tmp_path: Path
) -> None:
    run = write(tmp_path / "run", [*log(5, 10), *valid(10)])
    paths = [tmp_path / f"{name}.{ending}" for name in ("one", "two")]
    for path in paths:
        save(draw(read_histories([run])), path)
    data, same = (path.read_bytes() for path in paths)
    assert data.startswith(magic)
    assert data == same


def test_without_matplotlib_plot_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return original(name, *args)

    histories = read_histories([write(tmp_path / "run", log(5))])
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"drawing needs matplotlib.*'transduce\[plot\]'"):
        draw(histories)


# Unreadable logs.


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = log(5, 10)
    path = write(tmp_path / "run", rows) / "metrics.jsonl"
    bad = ["", '{"step": 15, "lo', "3", "[]", '{"loss": 4}', '{"step": 20, "loss": null}']
    bad += ['{"step": 25, "loss": NaN}', f'{{"step": 1{"0" * 400}}}', "[" * 100_000, "\udcff"]
    path.write_text(path.read_text() + "\n".join(bad), errors="surrogateescape")
    (history,) = read_histories([tmp_path / "run"])
    assert history.damaged == len(bad) - 1  # a blank line is not damaged
    assert logged(history.rows, "loss") == logged(rows, "loss")


def test_a_run_without_logged_time_is_refused_on_a_time_axis(tmp_path: Path) -> None:
    histories = read_histories([write(tmp_path / "run", valid(5))])
    with pytest.raises(BadRun, match=r"run has not logged the time yet"):
        draw(histories, by="time")


# The command.


def test_the_command_draws_a_run_into_its_folder(cli: CommandLine, own_run: Path) -> None:
    before = snapshot(own_run)
    result = cli("plot", own_run)
    assert (result.status, result.stdout) == (0, "")
    assert result.stderr == f"wrote {own_run / 'curves.png'}\n"
    assert imread(own_run / "curves.png").shape[:2] == (800, 1200)
    (own_run / "curves.png").unlink()
    assert snapshot(own_run) == before


def test_several_runs_are_drawn_into_the_working_folder_or_to_out(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [write(tmp_path / name, [*log(5), *valid(5)]) for name in ("a", "b")]
    monkeypatch.chdir(tmp_path)
    assert cli("plot", *runs, "--by", "time").stderr == "wrote curves.png\n"
    assert (tmp_path / "curves.png").exists()
    result = cli("plot", *runs, "--out", "new/both.svg", "--what", "loss, bleu")
    assert result.stderr == f"wrote {Path('new/both.svg')}\n"
    assert (tmp_path / "new" / "both.svg").exists()


def test_a_folder_of_runs_means_all_its_runs_with_logged_values(
    cli: CommandLine, tmp_path: Path
) -> None:
    for name in ("b", "a"):
        write(tmp_path / "runs" / name, log(5, 10))
    (tmp_path / "runs" / "begun").mkdir()
    (tmp_path / "runs" / "begun" / "metrics.jsonl").touch()
    assert [history.name for history in read_histories([tmp_path / "runs"])] == ["a", "b"]
    assert cli("plot", tmp_path / "runs", "--out", tmp_path / "both.svg").status == 0
    both = (tmp_path / "both.svg").read_text()
    cli("plot", tmp_path / "runs" / "a", tmp_path / "runs" / "b", "--out", tmp_path / "named.svg")
    assert (tmp_path / "named.svg").read_text() == both


def test_the_command_reports_damaged_lines(cli: CommandLine, tmp_path: Path) -> None:
    path = write(tmp_path / "run", log(5, 10)) / "metrics.jsonl"
    path.write_text(path.read_text()[:-9])
    result = cli("plot", tmp_path / "run")
    assert result.status == 0
    assert result.stderr.splitlines()[0] == f"{path}: left out 1 damaged line"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "--out", "curves.jpeg"], "curves.jpeg: expected a name that ends in .png, .svg"),
        (["run", "--out", "curves"], "--out curves: expected a name that ends in .png"),
        (["run", "--out", "folder.png"], "folder.png is a folder"),
        (["run", "--by", "tokens"], "--by tokens: expected step or time."),
        (
            ["run", "--what", "loss,blue"],
            "--what blue: expected all, or some of loss, perplexity, bleu, source, rate, speed. ",
        ),
        (["run", "--what", "bleu"], "--what bleu: run logged nothing of it"),
        (["nothing"], "there is no run folder nothing: `transduce train` makes one"),
        (["folder.png"], "folder.png is not a run folder, and contains none"),
        (["run", "run/metrics.jsonl"], "run/metrics.jsonl is not a run folder"),
        (["begun"], "begun has logged nothing yet"),
        (["empty"], "empty has logged nothing yet"),
        (["damaged"], "damaged/metrics.jsonl is damaged: none of its 2 lines can be read"),
        ([f"many/{i}" for i in range(9)], "9 runs in one picture cannot be told apart"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_bad_arguments_of_plot_are_refused_in_one_sentence(
    arguments: list[str],
    expected: str,
    cli: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "run", log(5, 10))
    write(tmp_path / "empty", [])
    write(tmp_path / "damaged", []).joinpath("metrics.jsonl").write_text('{"step"\n3\n')
    write(tmp_path / "begun", [], {"model": {}}).joinpath("metrics.jsonl").unlink()
    for i in range(9):
        write(tmp_path / "many" / str(i), log(5))
    (tmp_path / "folder.png").mkdir()
    before = snapshot(tmp_path)
    assert expected in cli("plot", *arguments).error
    assert snapshot(tmp_path) == before
