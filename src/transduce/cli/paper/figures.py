"""`transduce paper figures`."""

import itertools
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import TrainedRun
from transduce.errors import BadInput

EXAMPLES = """
[bold]Examples[/bold]

transduce paper figures runs/en-de --out figures

transduce paper figures runs/en-de "The dog that chased the cat wagged its tail." --out figures

transduce paper figures runs/en-de --text test.en --lines 500 --out figures
"""


def figures(
    run: TrainedRun,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SENTENCE", help="What it reads. Default: the paper's, for English."
        ),
    ] = None,
    *,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Find the sentences that show most in the first lines of a text."
        ),
    ] = None,
    lines: Annotated[int, typer.Option(min=1, help="How many lines of it.")] = 200,
    layer: Annotated[
        int | None,
        typer.Option(help="Of the encoder, from 1. Default: any above the middle, the strongest."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder for the pictures and figures.")
    ] = None,
) -> None:
    """Draw the paper's Figures 3 to 5: distant words, pronouns, and heads with different jobs.

    Heads and sentences are chosen by how strongly they show it, and the table says how strongly.
    """
    from transduce.cli.paper.printing import require, show
    from transduce.experiments.figures import figures as draw
    from transduce.system.progress import console_progress

    if sentences and text is not None:
        raise BadInput("expected sentences or --text FILE to find them in, not both")
    given = list(sentences or [])
    if text is not None:
        from transduce.text.reading import read_lines

        given = list(itertools.islice(read_lines(text), lines))
        if not given:
            raise BadInput(f"{text} is empty: expected a sentence a line")
    require(out, "figures")
    show(draw(run, given, console_progress(), found=text is not None, layer=layer), out)
