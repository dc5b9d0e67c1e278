"""`transduce paper table3`."""

from transduce.cli.declaring import option
from transduce.cli.paper import options

EXAMPLES = """
transduce paper table3 train.en train.de --valid dev.en dev.de --rows base,A,C --steps 2000 --out t3
transduce paper table3 pairs.tsv --languages en-de --rows base,C-N2,A-h1 --time 10m --out t3
transduce paper table3 pairs.tsv --rows base,A,C --steps 6000 --seeds 2 --jobs 3 --out t3
transduce paper table3 pairs.tsv --rows base,C --shrink 8 --steps 500 --set batch_tokens=2000 -o t3
Run the same command again to continue; rows can be added at any time.
"""


def table3(
    *,
    rows: str | None = option(
        "Rows, by preset (base, C-N2, …) or by group (A to E). Default: all twenty.",
        metavar="A,B,…",
    ),
    shrink: int = option(
        "Divide d_model, d_ff, d_k and d_v of every row by this, for small machines.",
        default=1,
        rich_help_panel=options.BUDGET,
    ),
    seeds: int = option(
        "Training runs per row, with seeds 1, 2, …; the table has their means.",
        default=1,
        min=1,
        rich_help_panel=options.BUDGET,
    ),
    jobs: int = option(
        "Train this many rows side by side, each in a process of its own; with --steps.",
        default=1,
        min=1,
        rich_help_panel="Machine",
    ),
    training: options.Rows,
) -> None:
    """Train the variations of Table 3 with the same budget each, and compare their ranking.

    The default budget is 100,000 steps. --set applies to every row, except where the row itself
    differs from the base model. All finished rows of the folder are reported. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.table3 import table3 as measure
    from transduce.system.progress import console_progress

    finding = measure(
        training.setup(jobs=jobs),
        options.listed(rows),
        console_progress(),
        shrink=shrink,
        seeds=seeds,
    )
    show(finding, training.out)
