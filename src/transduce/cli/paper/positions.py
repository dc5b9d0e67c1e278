"""`transduce paper positions`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options, texts

EXAMPLES = """
[bold]Examples[/bold]

transduce paper positions

transduce paper positions train.en train.de --test test.en test.de --longest 20 --preset small \
--steps 12000 --out runs/positions
"""


def positions(
    source: texts.Source = None,
    target: options.Target = None,
    *,
    out: options.Out = Path("runs/positions"),
    longest: Annotated[
        int, typer.Option(min=2, help="Words of either side that are trained on.")
    ] = 8,
    most: Annotated[int, typer.Option(min=10, help="Test sentences of a length, at most.")] = 200,
    valid: options.Valid = None,
    valid_tsv: options.ValidTsv = None,
    test: options.Test = None,
    test_tsv: options.TestTsv = None,
    languages: options.Languages = None,
    pairs: texts.Pairs = texts.PAIRS,
    held: texts.Held = texts.HELD,
    preset: texts.Preset = "tiny",
    steps: texts.Steps = 500,
    set_: options.Set = None,
    seed: options.Seed = None,
    device: Device = "auto",
) -> None:
    """Train on short sentences alone, and translate longer ones: sinusoids against learned (3.5).

    The same command again goes on where it was stopped.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.positions import positions as measure
    from transduce.system.progress import console_progress

    trial = texts.trial_of(out, source, preset, steps, set_, seed, device)
    given = (valid, valid_tsv, test, test_tsv, languages)
    data = texts.data_of(out, source, target, given, pairs, held)
    show(measure(trial, data, longest, most, console_progress()), out)
