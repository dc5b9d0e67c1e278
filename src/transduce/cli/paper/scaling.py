"""`transduce paper scaling`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.paper import options

EXAMPLES = """
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
    claim: options.Claim,
    seed: options.Seed = None,
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
    settings = {"h": str(heads), "d_k": str(d_k), "d_v": str(d_k)} | claim.settings(seed)
    trial, data = claim.prepare(source, target, out, settings)
    show(measure(sizes, trial, data, console_progress()), out)
