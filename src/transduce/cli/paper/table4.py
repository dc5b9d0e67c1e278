"""`transduce paper table4`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options

EXAMPLES = """
[bold]Examples[/bold]

transduce paper table4 train.trees --valid dev.trees --test test.trees --out t4

transduce paper table4 train.trees.xz --valid dev.trees.xz --test test.trees.xz --time 20m -o t4

transduce paper table4 train.trees --valid dev.trees --test test.trees --preset parse --out t4

Run the same command again to continue. To use the parser: transduce parse t4/parser "A sentence."
"""


def table4(
    trees: Annotated[
        Path, typer.Argument(help="Trees in Penn brackets to train on (plain, gz, xz, zst).")
    ],
    *,
    out: options.Out,
    valid: Annotated[Path, options.of_texts(help="Trees on which the weights are chosen.")],
    test: Annotated[Path, options.of_texts(help="Trees to score once.")],
    preset: Annotated[
        str, typer.Option(help="parse-small, or parse: the paper's size.")
    ] = "parse-small",
    masked: Annotated[
        bool,
        typer.Option("--masked", help="Write all words as XX, so that tags are not predicted."),
    ] = False,
    steps: options.Steps = None,
    time: options.Time = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    device: Device = "auto",
) -> None:
    """Train a parser on trees, choose its weights, and score it once, beside the paper's.

    Labelled precision, recall and F1 as EVALB computes them with Collins' settings. Without --steps
    or --time, the preset determines the training time. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.parser_experiment import ParserExperiment
    from transduce.experiments.table4 import table4 as measure
    from transduce.system.progress import console_progress

    seconds = options.seconds_of(steps, time)
    settings = options.settings_of(set_, seed)
    settings |= {"steps": str(steps)} if steps is not None else {}
    settings |= {"seconds": str(seconds)} if seconds is not None else {}
    experiment = ParserExperiment(
        folder=out,
        train=trees,
        valid=valid,
        test=test,
        preset=preset,
        settings=settings,
        masked=masked,
        device=device,
    )
    show(measure(experiment, console_progress()), out)
