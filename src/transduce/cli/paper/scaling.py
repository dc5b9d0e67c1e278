"""`transduce paper scaling`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.cli.paper import options

EXAMPLES = """
[bold]Examples[/bold]

transduce paper scaling

transduce paper scaling --no-train --widths 4,64,512,4096

transduce paper scaling train.en train.de --valid dev.en dev.de --preset base --d-k 512 \
--steps 5000 --out runs/scaling
"""


def scaling(
    source: options.SourceOrPocket = None,
    target: options.Target = None,
    *,
    out: options.Out = Path("runs/scaling"),
    widths: Annotated[
        str | None, typer.Option(metavar="4,16,…", help="The d_k at which to measure the softmax.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Also train at a large d_k.")
    ] = True,
    heads: Annotated[int, typer.Option(min=1, help="Heads (h) of the trained models.")] = 1,
    d_k: Annotated[int, typer.Option(min=1, help="d_k and d_v of the trained models.")] = 256,
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
    """Measure what 1 / sqrt(d_k) is for: the softmax of random dot products, and trained models.

    Run the same command again to continue.
    """
    from transduce.cli.paper.printing import require_folder, show
    from transduce.experiments.scaling import WIDTHS
    from transduce.experiments.scaling import scaling as measure
    from transduce.system.progress import console_progress

    sizes = options.whole_numbers("--widths", widths, "4,64,512") if widths else list(WIDTHS)
    require_folder(out, "scaling")
    if not train:
        show(measure(sizes, None, None, console_progress()), out)
        return
    size = [f"h={heads}", f"d_k={d_k}", f"d_v={d_k}"]
    trial = options.trial_of(out, source, preset, steps, [*size, *(set_ or [])], seed, device)
    held_out = (valid, valid_tsv, test, test_tsv, languages)
    data = options.data_or_pocket(out, source, target, held_out, pairs, held)
    show(measure(sizes, trial, data, console_progress()), out)
