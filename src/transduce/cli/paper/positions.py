"""`transduce paper positions`."""

from pathlib import Path

from transduce.cli.declaring import option
from transduce.cli.paper import options

EXAMPLES = """
transduce paper positions
transduce paper positions train.en train.de --test test.en test.de --longest 20 --preset small \
--steps 12000 --out runs/positions
"""


def positions(
    *,
    out: options.Out = Path("runs/positions"),
    longest: int = option("The longest side of a training pair, in words.", default=8, min=2),
    most: int = option("The most test sentences of one length.", default=200, min=10),
    claim: options.Claim,
    seed: options.Seed = None,
) -> None:
    """Train on short sentences, translate longer ones: sinusoidal or learned positions (3.5).

    Run the same command again to continue.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.positions import positions as measure
    from transduce.system.progress import console_progress

    trial, data = claim.prepare(out, claim.settings(seed))
    show(measure(trial, data, longest, most, console_progress()), out)
