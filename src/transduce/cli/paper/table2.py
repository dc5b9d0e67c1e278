"""`transduce paper table2`."""

from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options

EXAMPLES = """
[bold]Examples[/bold]

transduce paper table2 train.en train.de --valid dev.en dev.de --time 10m --out t2

transduce paper table2 pairs.tsv --systems small,recurrent-small --steps 2000 -o t2

The same command again goes on where it was stopped.
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
            help="Presets to train; the first is what the others are compared with. Default: base, "
            "recurrent, convs2s and bytenet on a GPU, else small and the small ones of those.",
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
    """Train the Transformer and the models it replaced, for the same time or steps each.

    BLEU, training FLOPs and time, beside the paper's. A budget is 100,000 steps unless --steps or
    --time says otherwise; a time is that of steps alone: validating and saving do not count.
    Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments import table2 as experiment
    from transduce.experiments.budget import Budget
    from transduce.system.progress import console_progress

    settings, steps, seconds = options.settings_of(set_, steps, time, seed)
    finding = experiment.table2(
        options.data_of(source, target, valid, valid_tsv, test, test_tsv, languages),
        out=out,
        systems=options.listed(systems),
        budget=Budget(steps=steps, seconds=seconds),
        settings=settings,
        device=device,
        keep_weights=keep_weights,
        gather=gather,
        progress=console_progress(),
    )
    show(finding, out)
