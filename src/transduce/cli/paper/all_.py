"""`transduce paper all`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device, parse_time
from transduce.cli.paper import options
from transduce.cli.paper.options import BUDGET, TEXTS

EXAMPLES = """
[bold]Examples[/bold]

transduce paper all train.en train.de --valid dev.en dev.de --test test.en test.de --time 30m -o all

transduce paper all pairs.tsv --languages en-de --trees train.trees dev.trees test.trees --time 2h \
--out all

The same command again goes on where it was stopped, and with what there was no time for.
"""


Trees = Annotated[
    tuple[Path, Path, Path] | None,
    typer.Option(
        rich_help_panel=TEXTS,
        metavar="TRAIN DEV TEST",
        help="Trees in Penn brackets, for Table 4. Default: Table 4 is left out.",
    ),
]


def all_(
    source: options.Source,
    target: options.Target = None,
    *,
    out: options.Out,
    time: Annotated[str, typer.Option(help="Time for everything together: 30m, 2h.")],
    trees: Trees = None,
    valid: options.Valid = None,
    valid_tsv: options.ValidTsv = None,
    test: options.Test = None,
    test_tsv: options.TestTsv = None,
    languages: options.Languages = None,
    systems: Annotated[
        str | None,
        typer.Option(rich_help_panel=BUDGET, metavar="A,B,…", help="As for table2."),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=BUDGET,
            metavar="A,B,…",
            help="As for table3. Default: the most telling first, as many as time allows.",
        ),
    ] = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    device: Device = "auto",
) -> None:
    """Measure everything within a time, and put it on one page: OUT/report.html.

    Each experiment has a share of the time: Tables 2 and 3 a third each, Table 4 a fifth where
    trees are given, Table 1, the figures and the claims the rest. What does not fit is left out,
    and the page says so.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.all_experiments import ROWS, AllExperiments
    from transduce.experiments.report import report
    from transduce.experiments.table3 import named
    from transduce.system.progress import console_progress

    settings, _, _ = options.settings_of(set_, None, None, seed)
    progress = console_progress()
    everything = AllExperiments(
        data=options.data_of(source, target, valid, valid_tsv, test, test_tsv, languages),
        out=out,
        seconds=parse_time(time),
        trees=trees,
        systems=options.listed(systems),
        rows=named(options.listed(rows)) if rows else ROWS,
        settings=settings,
        device=device,
    )
    left_out = everything.run(show, progress)
    progress.say(f"wrote {report([out], out, left_out=left_out)}")
