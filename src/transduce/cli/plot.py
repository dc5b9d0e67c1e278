"""`transduce plot`."""

from pathlib import Path

from transduce.cli.declaring import argument, option

EXAMPLES = """
transduce plot runs/en-de
transduce plot runs/small runs/base --by time --out compared.svg
transduce plot runs
transduce plot runs/en-de --what all --out all.pdf
"""


def plot(
    runs: list[Path] = argument("Run folders, or folders of runs.", metavar="RUN…"),
    *,
    out: Path | None = option(
        "The picture: .png, .svg or .pdf. "
        "Default: curves.png, in the run folder if there is one run.",
        "--out",
        "-o",
    ),
    what: str | None = option(
        "Some of loss,perplexity,bleu,source,rate,speed, or all. Default: loss,bleu,speed."
    ),
    by: str = option("The horizontal axis: step or time.", default="step"),
) -> None:
    """Draw training curves: training and validation loss, BLEU, speed. Several runs are overlaid.

    Runs that are still training can be drawn too; `transduce watch` shows them live.
    """
    from transduce.inspection.curves import draw
    from transduce.inspection.style import check_ending, save
    from transduce.runs.history import read_histories
    from transduce.system.formatting import pluralize
    from transduce.system.progress import console_progress

    progress = console_progress()
    if out is not None:
        check_ending(out)
    histories = read_histories(runs)
    folder = histories[0].run if len(histories) == 1 else Path()
    path = out or folder / "curves.png"
    for history in histories:
        if history.damaged:
            lines = pluralize(history.damaged, "damaged line")
            progress.say(f"{history.run / 'metrics.jsonl'}: left out {lines}")
    wanted = [name.strip() for name in what.split(",")] if what is not None else []
    save(draw(histories, what=wanted, by=by), path)
    progress.say(f"wrote {path}")
