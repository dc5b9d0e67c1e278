"""`transduce paper table3`."""

from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options

EXAMPLES = """
[bold]Examples[/bold]

transduce paper table3 train.en train.de --valid dev.en dev.de --rows base,A,C --steps 2000 --out t3

transduce paper table3 pairs.tsv --languages en-de --rows base,C-N2,A-h1 --time 10m --out t3

transduce paper table3 pairs.tsv --rows base,C --shrink 8 --steps 500 --set batch_tokens=2000 -o t3

Run the same command again to continue; rows can be added at any time.
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
            help="Rows, by preset (base, C-N2, …) or by group (A to E). Default: all twenty.",
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
        options.of_budget(
            help="Divide d_model, d_ff, d_k and d_v of every row by this, for small machines.",
        ),
    ] = 1,
    set_: options.Set = None,
    seed: options.Seed = None,
    gather: options.Gather = False,
    keep_weights: options.KeepWeights = False,
    device: Device = "auto",
) -> None:
    """Train the variations of Table 3 with the same budget each, and compare their ranking.

    The default budget is 100,000 steps. --set applies to every row, except where the row itself
    differs from the base model. All finished rows of the folder are reported. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.comparison import Setup
    from transduce.experiments.table3 import table3 as measure
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
    rows_chosen = options.listed(rows)
    show(measure(setup, rows_chosen, console_progress(), shrink=shrink), out)
