"""`transduce plot`."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
[bold]Examples[/bold]

transduce plot runs/en-de

transduce plot runs/small runs/base --by time --out compared.svg

transduce plot runs

transduce plot runs/en-de --what all --out all.pdf
"""


def plot(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run folders, or folders of runs.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The picture: .png, .svg or .pdf. "
            "Default: curves.png, in the folder of a single run, else here.",
        ),
    ] = None,
    what: Annotated[
        str | None,
        typer.Option(
            help="Some of loss,perplexity,bleu,rate,speed, or all. Default: loss,bleu,speed."
        ),
    ] = None,
    by: Annotated[str, typer.Option(help="What runs along the picture: step or time.")] = "step",
) -> None:
    """Draw how runs went: training and validation loss, BLEU, speed. Several are overlaid.

    A run may still be training: what it has logged until now is drawn. `transduce watch` shows
    it live.
    """
    from transduce.inspection import curves as look
    from transduce.inspection.style import check_ending, save
    from transduce.runs.history import read_all
    from transduce.system.formatting import pluralize
    from transduce.system.progress import console_progress

    progress = console_progress()
    if out is not None:
        check_ending(out)
    histories = read_all(runs)
    folder = histories[0].run if len(histories) == 1 else Path()
    place = out or folder / "curves.png"
    for one in histories:
        if one.damaged:
            progress.say(
                f"{one.run / 'metrics.jsonl'}: left out {pluralize(one.damaged, 'damaged line')}"
            )
    wanted = [name.strip() for name in what.split(",")] if what is not None else []
    save(look.draw(histories, what=wanted, by=by), place)
    progress.say(f"wrote {place}")
