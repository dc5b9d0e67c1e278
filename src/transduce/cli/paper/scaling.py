"""`transduce paper scaling`."""

from pathlib import Path

from transduce.cli.declaring import option
from transduce.cli.paper import options

EXAMPLES = """
transduce paper scaling
transduce paper scaling --no-train --widths 4,64,512,4096
transduce paper scaling train.en train.de --valid dev.en dev.de --preset base --d-k 512 \
--steps 5000 --out runs/scaling
"""


def scaling(
    *,
    out: options.Out = Path("runs/scaling"),
    widths: str | None = option(
        "The values of d_k at which to measure the softmax.", metavar="4,16,…"
    ),
    train: bool = option("Also train at a large d_k.", "--train/--no-train", default=True),
    heads: int = option("Heads (h) of the trained models.", default=1, min=1),
    d_k: int = option("d_k and d_v of the trained models.", default=256, min=1),
    claim: options.Claim,
    seed: options.Seed = None,
) -> None:
    """Measure the effect of 1 / sqrt(d_k) on random dot products and on trained models.

    Run the same command again to continue.
    """
    from transduce.cli.paper.printing import require_folder, show
    from transduce.experiments.scaling import WIDTHS
    from transduce.experiments.scaling import scaling as measure
    from transduce.system.progress import console_progress

    sizes = options.numbers(int, "--widths", widths, "4,64,512") if widths else list(WIDTHS)
    require_folder(out, "scaling")
    if not train:
        show(measure(sizes, None, None, console_progress()), out)
        return
    settings = {"h": str(heads), "d_k": str(d_k), "d_v": str(d_k)} | claim.settings(seed)
    trial, data = claim.prepare(out, settings)
    show(measure(sizes, trial, data, console_progress()), out)
