"""`transduce paper table2`."""

from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options

EXAMPLES = """
[bold]Examples[/bold]

transduce paper table2 train.en train.de --valid dev.en dev.de --time 10m --out t2

transduce paper table2 pairs.tsv --systems small,recurrent-small --steps 2000 -o t2

Run the same command again to continue.
"""


def table2(
    source: options.Source,
    target: options.Target = None,
    *,
    out: options.Out,
    systems: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Presets to train; the others are compared with the first. Default: base, "
            "recurrent, convs2s and bytenet on a GPU, and their tiny versions on a CPU.",
        ),
    ] = None,
    valid: options.Valid = None,
    valid_tsv: options.ValidTsv = None,
    test: options.Test = None,
    test_tsv: options.TestTsv = None,
    languages: options.Languages = None,
    steps: options.Steps = None,
    time: options.Time = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    gather: options.Gather = False,
    keep_weights: options.KeepWeights = False,
    device: Device = "auto",
) -> None:
    """Train the Transformer and earlier models, each for the same time or steps.

    Reports BLEU, training FLOPs and time beside the paper's. The default budget is 100,000 steps.
    --time counts the time of steps only, not of validating and saving. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.comparison import Setup
    from transduce.experiments.table2 import table2 as measure
    from transduce.system.progress import console_progress

    held_out = (valid, valid_tsv, test, test_tsv, languages)
    setup = Setup(
        out=out,
        data=options.data_of(source, target, held_out),
        budget=options.budget_of(steps, time),
        settings=options.settings_of(set_, seed),
        device=device,
        keep_weights=keep_weights,
        gather=gather,
    )
    show(measure(setup, options.listed(systems), console_progress()), out)
