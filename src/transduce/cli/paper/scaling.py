"""`transduce paper scaling`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options, texts
from transduce.errors import BadInput

EXAMPLES = """
[bold]Examples[/bold]

transduce paper scaling

transduce paper scaling --no-train --widths 4,64,512,4096

transduce paper scaling train.en train.de --valid dev.en dev.de --preset base --d-k 512 \
--steps 5000 --out runs/scaling
"""


def scaling(
    source: texts.Source = None,
    target: options.Target = None,
    *,
    out: options.Out = Path("runs/scaling"),
    widths: Annotated[
        str | None, typer.Option(metavar="4,16,…", help="d_k to measure the softmax at.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Train at a large d_k too.")
    ] = True,
    heads: Annotated[int, typer.Option(min=1, help="Heads, h, of what is trained.")] = 1,
    d_k: Annotated[int, typer.Option(min=1, help="d_k and d_v of what is trained.")] = 256,
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
    """Measure what 1 / sqrt(d_k) is for: the softmax of random dot products, and trained models.

    The same command again goes on where it was stopped.
    """
    from transduce.cli.paper.printing import require, show
    from transduce.experiments.scaling import WIDTHS
    from transduce.experiments.scaling import scaling as measure
    from transduce.system.progress import console_progress

    try:
        sizes = [int(one) for one in widths.split(",")] if widths else list(WIDTHS)
    except ValueError:
        raise BadInput(f"--widths {widths}: expected numbers such as 4,64,512") from None
    require(out, "scaling")
    if not train:
        show(measure(sizes, None, None, console_progress()), out)
        return
    size = [f"h={heads}", f"d_k={d_k}", f"d_v={d_k}"]
    trial = texts.trial_of(out, source, preset, steps, [*size, *(set_ or [])], seed, device)
    given = (valid, valid_tsv, test, test_tsv, languages)
    data = texts.data_of(out, source, target, given, pairs, held)
    show(measure(sizes, trial, data, console_progress()), out)
