"""`transduce paper positions`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options

EXAMPLES = """
[bold]Examples[/bold]

transduce paper positions

transduce paper positions train.en train.de --test test.en test.de --longest 20 --preset small \
--steps 12000 --out runs/positions
"""


def positions(
    source: options.SourceOrPocket = None,
    target: options.Target = None,
    *,
    out: options.Out = Path("runs/positions"),
    longest: Annotated[
        int, typer.Option(min=2, help="The longest side of a training pair, in words.")
    ] = 8,
    most: Annotated[int, typer.Option(min=10, help="The most test sentences of one length.")] = 200,
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
    seed: options.Seed = None,
    device: Device = "auto",
) -> None:
    """Train on short sentences, translate longer ones: sinusoidal or learned positions (3.5).

    Run the same command again to continue.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.positions import positions as measure
    from transduce.system.progress import console_progress

    trial = options.trial_of(out, source, preset, steps, set_, seed, device)
    held_out = (valid, valid_tsv, test, test_tsv, languages)
    data = options.data_or_pocket(out, source, target, held_out, pairs, held)
    show(measure(trial, data, longest, most, console_progress()), out)
