"""`transduce paper figures`."""

import itertools
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import TrainedRun
from transduce.errors import BadInput

EXAMPLES = """
transduce paper figures runs/en-de --out figures
transduce paper figures runs/en-de "The dog that chased the cat wagged its tail." --out figures
transduce paper figures runs/en-de --text test.en --lines 500 --out figures
"""


def figures(
    run: TrainedRun,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SENTENCE", help="Sentences to read. Default: the paper's, which are English."
        ),
    ] = None,
    *,
    text: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Use the sentences of a text that show most."),
    ] = None,
    lines: Annotated[int, typer.Option(min=1, help="How many lines of the text to search.")] = 200,
    layer: Annotated[
        int | None,
        typer.Option(help="Encoder layer, from 1. Default: the strongest above the middle."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the pictures and numbers.")
    ] = None,
) -> None:
    """Draw the paper's Figures 3 to 5: distant words, pronouns, and heads with different jobs.

    Heads and sentences are chosen by how strongly they show this; the table says how strongly.
    """
    from transduce.cli.paper.printing import require_folder, show
    from transduce.experiments.figures import figures as draw
    from transduce.system.progress import console_progress

    if sentences and text is not None:
        raise BadInput("expected sentences or --text FILE, not both")
    given = list(sentences or [])
    if text is not None:
        from transduce.text.reading import read_lines

        given = list(itertools.islice(read_lines(text), lines))
        if not given:
            raise BadInput(f"{text} is empty: expected one sentence per line")
    require_folder(out, "figures")
    show(draw(run, given, console_progress(), search=text is not None, layer=layer), out)
