"""`transduce paper table4`."""

from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import without_none
from transduce.cli.paper import options
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.experiments.semi_supervised import RawOptions

EXAMPLES = """
transduce paper table4 train.trees --valid dev.trees --test test.trees --out t4
transduce paper table4 train.trees.xz --valid dev.trees.xz --test test.trees.xz --time 20m -o t4
transduce paper table4 train.trees --valid dev.trees --test test.trees --preset parse --out t4
transduce paper table4 train.trees --valid dev.trees --test test.trees --gold 0.25 --out semi
transduce paper table4 train.trees --valid dev.trees --test test.trees --unlabelled text.gz -o raw
Run the same command again to continue. To use the parser: transduce parse t4/parser "A sentence."
"""


@option_group(options.TEXTS)
class Trees:
    """The held-out trees."""

    valid: Path = option("Trees on which the weights are chosen.", default=...)
    test: Path = option("Trees to score once.", default=...)


@option_group("Raw text (semi-supervised)")
class RawText:
    """Raw text, how it is parsed, and which of its trees a second parser learns from."""

    unlabelled: list[Path] | None = option(
        "Raw text, one sentence per line (plain, gz, xz, zst). Repeatable.", metavar="FILE"
    )
    gold: float | None = option(
        "Learn from this first share of the trees; the words of the others are raw text."
    )
    unseen: float | None = option(
        "With --gold: hold out this last share of the trees, to score. Default: 0.1."
    )
    words: bool = flag("Words of the raw text are separated by spaces already.", "--words")
    lines: int | None = option("Parse at most this many lines. Default: all.", min=1)
    parsers: int | None = option("Parsers that must agree on a tree. Default: 2.")
    raw_beam: int | None = option("Beam size for the raw text. Default: 4.")
    keep: float | None = option(
        "Share of the sentences with agreement to keep, the most confident. Default: 0.5."
    )
    agreement: float | None = option("Least F1 between two parsers, 0 to 1. Default: 0.9.")
    weight: float | None = option(
        "How often an epoch has each automatic tree; gold trees: once. Default: 1."
    )
    student_steps: int | None = option(
        "Steps of the semi-supervised parser. Default: as the supervised one.", min=1
    )
    student_vocabulary: int | None = option(
        "Its subwords. Default: as the supervised one; with --preset parse 32,000."
    )
    ensemble: bool = flag("Also score all parsers together.", "--ensemble")

    def chosen(self) -> "RawOptions | None":
        """Return the options, or None if there is no raw text."""
        from transduce.experiments.semi_supervised import RawOptions

        numbers = without_none(
            gold=self.gold,
            unseen=self.unseen,
            lines=self.lines,
            parsers=self.parsers,
            raw_beam=self.raw_beam,
            keep=self.keep,
            agreement=self.agreement,
            weight=self.weight,
            student_steps=self.student_steps,
            student_vocabulary=self.student_vocabulary,
        )
        flags = {"words": self.words, "ensemble": self.ensemble}
        if self.gold is None and not self.unlabelled:
            given = [*numbers, *(name for name, value in flags.items() if value)]
            if given:
                raise BadInput(
                    f"--{given[0].replace('_', '-')} is for raw text: give some with "
                    "--unlabelled FILE or --gold SHARE"
                )
            return None
        if self.unseen is not None and self.gold is None:
            raise BadInput("--unseen holds out trees with --gold: give --gold SHARE")
        if self.words and not self.unlabelled:
            raise BadInput("--words is for the raw text of --unlabelled FILE: give some")
        return RawOptions(unlabelled=tuple(self.unlabelled or ()), **numbers, **flags)


def table4(
    trees: Path = argument("Trees in Penn brackets to train on (plain, gz, xz, zst)."),
    *,
    out: options.Out,
    held_out: Trees,
    preset: str = option(
        "parse-small, parse-tiny for a CPU, or parse: the paper's size.", default="parse-small"
    ),
    masked: bool = flag("Write all words as XX, so that tags are not predicted.", "--masked"),
    beam: int | None = option("Beam size for validation and test trees. Default: 21."),
    raw: RawText,
    training: options.Training,
) -> None:
    """Train a parser on trees, choose its weights, and score it once, next to the paper's scores.

    Labelled precision, recall and F1 as EVALB computes them with Collins' settings. With raw text,
    a second parser also learns from the trees that several parsers agree on. Without --steps
    or --time, the preset determines the training time. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.parser_experiment import ParserExperiment
    from transduce.experiments.semi_supervised import SemiSupervised
    from transduce.experiments.table4 import table4 as measure
    from transduce.experiments.table4_semi import table4_semi
    from transduce.recipes.recipe import settings_of
    from transduce.system.progress import console_progress

    raw_options = raw.chosen()
    budget = settings_of(steps=training.steps, seconds=training.seconds)
    experiment = ParserExperiment(
        folder=out,
        train=trees,
        valid=held_out.valid,
        test=held_out.test,
        preset=preset,
        settings=training.settings(training.seed) | budget,
        masked=masked,
        beam=beam,
        device=training.device,
    )
    progress = console_progress()
    if raw_options is None:
        show(measure(experiment, progress), out)
    else:
        show(table4_semi(SemiSupervised(base=experiment, raw=raw_options), progress), out)
