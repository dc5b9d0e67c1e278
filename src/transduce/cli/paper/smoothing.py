"""`transduce paper smoothing`."""

from pathlib import Path

from transduce.cli.declaring import option
from transduce.cli.paper import options

EXAMPLES = """
transduce paper smoothing
transduce paper smoothing train.en train.de --valid dev.en dev.de --preset small --steps 12000 \
--seeds 3 --out runs/smoothing
"""


def smoothing(
    *,
    out: options.Out = Path("runs/smoothing"),
    eps: str = option("Amounts of smoothing, including 0.", default="0,0.1,0.2", metavar="0,0.1,…"),
    seeds: int = option("Training runs per amount, with seeds 1, 2, …", default=1, min=1),
    claim: options.Claim,
) -> None:
    """Train with and without label smoothing: perplexity, accuracy and BLEU (paper 5.4).

    Run the same command again to continue.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.smoothing import smoothing as measure
    from transduce.system.progress import console_progress

    amounts = options.numbers(float, "--eps", eps, "0,0.1,0.2")
    trial, data = claim.prepare(out, claim.settings(None))
    show(measure(trial, data, amounts, range(1, seeds + 1), console_progress()), out)
