"""`transduce paper table3`."""

from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options
from transduce.cli.paper.options import BUDGET

EXAMPLES = """
[bold]Examples[/bold]

transduce paper table3 train.en train.de --valid dev.en dev.de --rows base,A,C --steps 2000 --out t3

transduce paper table3 pairs.tsv --languages en-de --rows base,C-N2,A-h1 --time 10m --out t3

transduce paper table3 pairs.tsv --rows base,C --shrink 8 --steps 500 --set batch_tokens=2000 -o t3

The same command again goes on where it was stopped; other rows may be added at any time.
"""


def table3(
    source: options.Source,
    target: options.Target = None,
    *,
    out: options.Out,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Rows, by the names of their presets (base, C-N2, …) or by their groups A to E. "
            "Default: all twenty.",
        ),
    ] = None,
    valid: options.Valid = None,
    valid_tsv: options.ValidTsv = None,
    test: options.Test = None,
    test_tsv: options.TestTsv = None,
    languages: options.Languages = None,
    steps: options.Steps = None,
    time: options.Time = None,
    shrink: Annotated[
        int,
        typer.Option(
            rich_help_panel=BUDGET,
            help="Divide d_model, d_ff, d_k and d_v of every row, for small machines.",
        ),
    ] = 1,
    set_: options.Set = None,
    seed: options.Seed = None,
    gather: options.Gather = False,
    keep_weights: options.KeepWeights = False,
    device: Device = "auto",
) -> None:
    """Train the variations of Table 3 for the same budget each, and rank them as the paper did.

    A budget is 100,000 steps unless --steps or --time says otherwise. What a row changes stands;
    --set changes what it leaves as in the base model. Results are gathered of all rows that are
    finished in the folder. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments import table3 as experiment
    from transduce.experiments.budget import Budget
    from transduce.system.progress import console_progress

    settings, steps, seconds = options.settings_of(set_, steps, time, seed)
    finding = experiment.table3(
        options.data_of(source, target, valid, valid_tsv, test, test_tsv, languages),
        out=out,
        rows=options.listed(rows),
        budget=Budget(steps=steps, seconds=seconds),
        shrink=shrink,
        settings=settings,
        device=device,
        keep_weights=keep_weights,
        gather=gather,
        progress=console_progress(),
    )
    show(finding, out)
