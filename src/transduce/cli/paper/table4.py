"""`transduce paper table4`."""

from pathlib import Path

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.paper import options

EXAMPLES = """
transduce paper table4 train.trees --valid dev.trees --test test.trees --out t4
transduce paper table4 train.trees.xz --valid dev.trees.xz --test test.trees.xz --time 20m -o t4
transduce paper table4 train.trees --valid dev.trees --test test.trees --preset parse --out t4
Run the same command again to continue. To use the parser: transduce parse t4/parser "A sentence."
"""


@option_group(options.TEXTS)
class Trees:
    """The held-out trees."""

    valid: Path = option("Trees on which the weights are chosen.", default=...)
    test: Path = option("Trees to score once.", default=...)


def table4(
    trees: Path = argument("Trees in Penn brackets to train on (plain, gz, xz, zst)."),
    *,
    out: options.Out,
    held_out: Trees,
    preset: str = option("parse-small, or parse: the paper's size.", default="parse-small"),
    masked: bool = flag("Write all words as XX, so that tags are not predicted.", "--masked"),
    training: options.Training,
) -> None:
    """Train a parser on trees, choose its weights, and score it once, next to the paper's scores.

    Labelled precision, recall and F1 as EVALB computes them with Collins' settings. Without --steps
    or --time, the preset determines the training time. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.parser_experiment import ParserExperiment
    from transduce.experiments.table4 import table4 as measure
    from transduce.recipes.recipe import settings_of
    from transduce.system.progress import console_progress

    budget = settings_of(steps=training.steps, seconds=training.seconds)
    experiment = ParserExperiment(
        folder=out,
        train=trees,
        valid=held_out.valid,
        test=held_out.test,
        preset=preset,
        settings=training.settings(training.seed) | budget,
        masked=masked,
        device=training.device,
    )
    show(measure(experiment, console_progress()), out)
