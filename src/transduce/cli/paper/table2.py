"""`transduce paper table2`."""

from transduce.cli.declaring import option
from transduce.cli.paper import options

EXAMPLES = """
transduce paper table2 train.en train.de --valid dev.en dev.de --time 10m --out t2
transduce paper table2 pairs.tsv --systems small,recurrent-small --steps 2000 -o t2
Run the same command again to continue.
"""


def table2(
    *,
    systems: str | None = option(
        "Presets to train; the others are compared with the first. Default: base, "
        "recurrent, convs2s, bytenet and neural-gpu on a GPU, and their tiny versions on a CPU.",
        metavar="A,B,…",
    ),
    training: options.Rows,
) -> None:
    """Train the Transformer and earlier models, each for the same time or steps.

    Reports BLEU, training FLOPs and time next to the paper's. The default budget is 100,000 steps.
    --time counts training steps only, not validation and saving. Ctrl-C saves.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.table2 import table2 as measure
    from transduce.system.progress import console_progress

    show(measure(training.setup(), options.listed(systems), console_progress()), training.out)
