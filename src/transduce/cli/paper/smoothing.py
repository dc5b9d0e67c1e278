"""`transduce paper smoothing`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options
from transduce.errors import BadInput

EXAMPLES = """
[bold]Examples[/bold]

transduce paper smoothing

transduce paper smoothing train.en train.de --valid dev.en dev.de --preset small --steps 12000 \
--seeds 3 --out runs/smoothing
"""


def smoothing(
    source: options.SourceOrPocket = None,
    target: options.Target = None,
    *,
    out: options.Out = Path("runs/smoothing"),
    eps: Annotated[
        str, typer.Option(metavar="0,0.1,…", help="Amounts of smoothing, including 0.")
    ] = "0,0.1,0.2",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings per amount, with seeds 1, 2, …")] = 1,
    valid: options.Valid = None,
    valid_tsv: options.ValidTsv = None,
    test: options.Test = None,
    test_tsv: options.TestTsv = None,
    languages: options.Languages = None,
    pairs: options.Pairs = options.PAIRS,
    held: options.Held = options.HELD,
    preset: options.Preset = "tiny",
    steps: options.ClaimSteps = 500,
    set_: options.Set = None,
    device: Device = "auto",
) -> None:
    """Train with and without label smoothing: perplexity, accuracy and BLEU (paper 5.4).

    Run the same command again to continue.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.smoothing import smoothing as measure
    from transduce.system.progress import console_progress

    try:
        amounts = [float(amount) for amount in eps.split(",")]
    except ValueError:
        raise BadInput(f"--eps {eps}: expected numbers such as 0,0.1,0.2") from None
    trial = options.trial_of(out, source, preset, steps, set_, None, device)
    held_out = (valid, valid_tsv, test, test_tsv, languages)
    data = options.data_or_pocket(out, source, target, held_out, pairs, held)
    show(measure(trial, data, amounts, range(1, seeds + 1), console_progress()), out)
