"""`transduce paper training`."""

import dataclasses
from pathlib import Path

from transduce.cli.declaring import option
from transduce.cli.paper import options
from transduce.errors import BadInput

EXAMPLES = """
transduce paper training
transduce paper training train.en train.de --valid dev.en dev.de --preset small --steps 12000 \
--out runs/training
transduce paper training --run runs/base --valid dev.en dev.de --out runs/base-training
"""
WARMUPS, DROPOUTS = "0.25,4", "0,0.3"
WITH_RUN = ("valid", "valid_tsv", "device")  # options that go with --run


def training(
    *,
    out: options.Out = Path("runs/training"),
    run: Path | None = option("Describe this run, of any size, instead of training."),
    warmups: str | None = option(
        f"Other warm-ups to train with, as factors on the preset's. Default: {WARMUPS}.",
        metavar="0.25,4,…",
    ),
    dropouts: str | None = option(
        f"Other values of P_drop to train with. Default: {DROPOUTS}.", metavar="0,0.3,…"
    ),
    most: int = option(
        "The most validation sentences to translate with each checkpoint.", default=500, min=20
    ),
    claim: options.Claim,
    seed: options.Seed = None,
) -> None:
    """Draw learning rate, losses and BLEU of training beside Eq. 3, and average checkpoints (5).

    Trains a preset as it is, with other warm-ups, other dropout and without cooldown; or reads an
    existing run. Run the same command again to continue.
    """
    from transduce.cli.paper.printing import require_folder, show
    from transduce.experiments.training import training as measure
    from transduce.experiments.training import training_of
    from transduce.presets import find_preset
    from transduce.system.progress import console_progress

    factors = options.numbers(float, "--warmups", warmups or WARMUPS, WARMUPS)
    probabilities = options.numbers(float, "--dropouts", dropouts or DROPOUTS, DROPOUTS)
    require_folder(out, "training")
    if run is not None:
        _require_alone(claim, {"seed": seed, "warmups": warmups, "dropouts": dropouts})
        valid = claim.with_train("", None).valid
        show(training_of(run, valid, most, out, claim.device, console_progress()), out)
        return
    # The built-in corpus has no dropout by default, but here it is varied.
    own = {"P_drop": str(find_preset(claim.preset).model.P_drop)} | claim.settings(seed)
    trial, data = claim.prepare(out, own)
    show(measure(trial, data, factors, probabilities, most, console_progress()), out)


def _require_alone(claim: options.Claim, others: dict[str, object]) -> None:
    """Refuse options that change a training together with --run, which trains nothing."""
    given = [
        field.name
        for field in dataclasses.fields(claim)
        if field.name not in WITH_RUN and getattr(claim, field.name) != field.default
    ]
    given += [name for name, value in others.items() if value is not None]
    if given:
        name = given[0].rstrip("_")
        what = "a training text" if name in ("source", "target") else f"--{name.replace('_', '-')}"
        raise BadInput(f"--run describes a run without training: leave out {what}")
