"""`transduce paper all`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device, parse_time
from transduce.cli.paper import options

EXAMPLES = """
[bold]Examples[/bold]

transduce paper all train.en train.de --valid dev.en dev.de --test test.en test.de --time 30m -o all

transduce paper all pairs.tsv --languages en-de --trees train.trees dev.trees test.trees --time 2h \
--out all

Run the same command again to continue, also with experiments that were left out for lack of time.
"""


Trees = Annotated[
    tuple[Path, Path, Path] | None,
    options.of_texts(
        metavar="TRAIN DEV TEST",
        help="Trees in Penn brackets, for Table 4. Default: Table 4 is left out.",
    ),
]


def all_(
    source: options.Source,
    target: options.Target = None,
    *,
    out: options.Out,
    time: Annotated[str, typer.Option(help="Time for all experiments together: 30m, 2h.")],
    trees: Trees = None,
    valid: options.Valid = None,
    valid_tsv: options.ValidTsv = None,
    test: options.Test = None,
    test_tsv: options.TestTsv = None,
    languages: options.Languages = None,
    systems: Annotated[
        str | None, options.of_budget(metavar="A,B,…", help="As for table2.")
    ] = None,
    rows: Annotated[
        str | None,
        options.of_budget(
            metavar="A,B,…",
            help="As for table3. Default: the most informative first, as many as time allows.",
        ),
    ] = None,
    set_: options.Set = None,
    seed: options.Seed = None,
    device: Device = "auto",
) -> None:
    """Run all experiments within a time budget, and write one page: OUT/report.html.

    Each experiment has a share of the time: Tables 2 and 3 a third each, Table 4 a fifth if trees
    are given, and Table 1, the figures and the claims the rest. The page says what was left out
    for lack of time.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.all_experiments import ROWS, AllExperiments
    from transduce.experiments.report import report
    from transduce.experiments.table3 import row_names
    from transduce.system.progress import console_progress

    progress = console_progress()
    held_out = (valid, valid_tsv, test, test_tsv, languages)
    experiments = AllExperiments(
        data=options.data_of(source, target, held_out),
        out=out,
        seconds=parse_time(time),
        trees=trees,
        systems=options.listed(systems),
        rows=row_names(options.listed(rows)) if rows else ROWS,
        settings=options.settings_of(set_, seed),
        device=device,
    )
    left_out = experiments.run(show, progress)
    progress.say(f"wrote {report([out], out, left_out=left_out)}")
