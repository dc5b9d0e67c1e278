"""`transduce paper table4`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options
from transduce.cli.paper.options import TEXTS

EXAMPLES = """
[bold]Examples[/bold]

transduce paper table4 train.trees --valid dev.trees --test test.trees --out t4

transduce paper table4 train.trees.xz --valid dev.trees.xz --test test.trees.xz --time 20m -o t4

transduce paper table4 train.trees --valid dev.trees --test test.trees --preset parse --out t4

The same command again goes on where it was stopped. The parser is in the folder: transduce parse
t4/parser "A sentence."
"""


def table4(
    trees: Annotated[
        Path, typer.Argument(help="Trees in Penn brackets to train on (plain, gz, xz, zst).")
    ],
    *,
    out: options.Out,
    valid: Annotated[
        Path, typer.Option(rich_help_panel=TEXTS, help="Trees to choose the weights on.")
    ],
    test: Annotated[Path, typer.Option(rich_help_panel=TEXTS, help="Trees to score once.")],
    preset: Annotated[
        str, typer.Option(help="parse-small, or parse: the paper's size.")
    ] = "parse-small",
    masked: Annotated[
        bool,
        typer.Option("--masked", help="Write all words as XX: tags are then not predicted."),
    ] = False,
    steps: options.Steps = None,
    time: options.Time = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    device: Device = "auto",
) -> None:
    """Train a parser on trees, choose its weights, and score it once beside the paper's.

    Labelled precision, recall and F1 are what EVALB finds with Collins' settings. Without --steps
    or --time the preset says how long it trains. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.parser_experiment import Experiment
    from transduce.experiments.table4 import table4 as measured
    from transduce.system.progress import console_progress

    settings, steps, seconds = options.settings_of(set_, steps, time, seed)
    settings |= {"steps": str(steps)} if steps is not None else {}
    settings |= {"seconds": str(seconds)} if seconds is not None else {}
    experiment = Experiment(
        folder=out,
        train=trees,
        valid=valid,
        test=test,
        preset=preset,
        settings=settings,
        masked=masked,
        device=device,
    )
    show(measured(experiment, console_progress()), out)
