"""`transduce paper all`."""

from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.declaring import option, option_group
from transduce.cli.options import parse_time
from transduce.cli.paper import options
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.experiments.rows import Data

FRENCH_PAIR = "en-fr"

EXAMPLES = """
transduce paper all train.en train.de --valid dev.en dev.de --test test.en test.de --time 30m -o all
transduce paper all pairs.tsv --languages en-de --trees train.trees dev.trees test.trees --time 2h \
--out all
Run the same command again to continue, including experiments that were left out for lack of time.
"""


@option_group(options.TEXTS)
class Texts(options.Texts):
    """The texts and the trees."""

    french: tuple[str, str] | None = option(
        "English and French text to train on, for a second Table 2. Default: it is left out.",
        metavar="EN FR",
    )
    french_valid: tuple[str, str] | None = option("Its validation text.", metavar="EN FR")
    french_test: tuple[str, str] | None = option("Its test text.", metavar="EN FR")
    trees: tuple[Path, Path, Path] | None = option(
        "Trees in Penn brackets, for Table 4. Default: Table 4 is left out.",
        metavar="TRAIN DEV TEST",
    )

    def french_data(self) -> "Data | None":
        """Return the English and French texts."""
        from transduce.experiments.rows import Data

        if self.french is None:
            if self.french_valid or self.french_test:
                raise BadInput("--french-valid and --french-test go with --french EN FR: give it")
            return None
        return Data(
            train=self.french,
            valid=self.french_valid,
            test=self.french_test,
            languages=FRENCH_PAIR,
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

    Each experiment has a share of the time: Tables 2 and 3 about a quarter each, Table 2 into
    French and Table 4 a seventh each if their texts are given, and Table 1, the figures and the
    claims the rest. The page says what was left out for lack of time.
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
        french=texts.french_data(),
        trees=texts.trees,
        systems=options.listed(training.systems),
        rows=row_names(options.listed(training.rows)) if training.rows else ROWS,
        settings=training.settings(training.seed),
        device=training.device,
    )
    left_out = experiments.run(show, progress)
    progress.say(f"wrote {report([out], out, left_out=left_out)}")
