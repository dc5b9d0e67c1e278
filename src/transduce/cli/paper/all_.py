"""`transduce paper all`."""

from pathlib import Path

from transduce.cli.declaring import option, option_group
from transduce.cli.options import parse_time
from transduce.cli.paper import options

EXAMPLES = """
transduce paper all train.en train.de --valid dev.en dev.de --test test.en test.de --time 30m -o all
transduce paper all pairs.tsv --languages en-de --trees train.trees dev.trees test.trees --time 2h \
--out all
Run the same command again to continue, including experiments that were left out for lack of time.
"""


@option_group(options.TEXTS)
class Texts(options.Texts):
    """The texts and the trees."""

    trees: tuple[Path, Path, Path] | None = option(
        "Trees in Penn brackets, for Table 4. Default: Table 4 is left out.",
        metavar="TRAIN DEV TEST",
    )


@option_group(options.BUDGET)
class Settings(options.Settings):
    """The models to train, and settings for all training runs."""

    seed: options.Seed = None
    systems: str | None = option("As for table2.", metavar="A,B,…")
    rows: str | None = option(
        "As for table3. Default: the most informative first, as many as time allows.",
        metavar="A,B,…",
    )


def all_(
    *,
    out: options.Out,
    time: str = option("Time for all experiments together: 30m, 2h.", default=...),
    texts: Texts,
    training: Settings,
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
    experiments = AllExperiments(
        data=texts.data(),
        out=out,
        seconds=parse_time(time),
        trees=texts.trees,
        systems=options.listed(training.systems),
        rows=row_names(options.listed(training.rows)) if training.rows else ROWS,
        settings=training.settings(training.seed),
        device=training.device,
    )
    left_out = experiments.run(show, progress)
    progress.say(f"wrote {report([out], out, left_out=left_out)}")
