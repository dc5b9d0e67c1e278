"""How training goes (paper 5.3, 5.4, 6.1): Eq. 3, warm-up, dropout, checkpoints averaged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.bench import hardware
from transduce.corpus.token_files import Corpus, open_corpus
from transduce.errors import BadSetting
from transduce.experiments.checkpoint_means import compare_checkpoints
from transduce.experiments.claims import Trial, train_variants
from transduce.experiments.comparison import (
    CORPUS,
    SEARCH,
    decode_pairs,
    delete_checkpoints,
    free_memory,
)
from transduce.experiments.drawing import add_pictures
from transduce.experiments.findings import Finding
from transduce.experiments.rows import Data, Text
from transduce.experiments.teacher_forcing import perplexity, score_tokens
from transduce.experiments.training_pictures import (
    Groups,
    draw_losses,
    draw_means,
    draw_rates,
    draw_validations,
)
from transduce.experiments.training_rates import (
    PAPER,
    Recorded,
    departures,
    describe_agreement,
    rates_of,
)
from transduce.experiments.training_tables import Fit, Trained, make_tables, verdicts
from transduce.inspection.style import COLOURS
from transduce.presets import find_preset
from transduce.runs.folder import MODEL
from transduce.system.devices import choose_device
from transduce.system.formatting import pluralize
from transduce.system.processes import cores
from transduce.system.progress import Progress
from transduce.text.reading import read_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pairs = Sequence[tuple[str, str]]

PRESET, NO_COOLDOWN = "preset", "no-cooldown"
AVERAGED = (PRESET, NO_COOLDOWN)  # the runs whose checkpoints are compared
VALIDATIONS, SAVES, KEPT, RECORDS = 10, 50, 10, 200  # per training run
TRANSLATED = 200  # validation sentences, greedily, at each validation
SAMPLE = 300  # pairs of each text on which the fit to it is measured
SAID = (
    "The learning rate rises for 4,000 steps and then falls with the square root of the step "
    "(5.3, Eq. 3). Dropout with P_drop = 0.1 is on every sub-layer and on the embeddings (5.4); "
    "without it perplexity is 5.77 instead of 4.92 and BLEU 24.6 instead of 25.8 (Table 3 (D)). "
    "The weights are the mean of the last 5 checkpoints, written every 10 minutes (6.1)."
)
ABOUT_LOSSES = "Training loss is measured with dropout, so it may exceed the validation loss."
ABOUT_GAP = (
    f"The gap is measured without dropout, on {SAMPLE} pairs of each text at most: the difference "
    "of the log-perplexities, which dropout narrows."
)


def training(
    trial: Trial,
    data: Data,
    warmups: Sequence[float],
    dropouts: Sequence[float],
    most: int,
    progress: Progress,
) -> Finding:
    """Train a preset as it is, with other warm-ups, other dropout, and without cooldown.

    `warmups` are factors on the warm-up. BLEU of single checkpoints and of means is measured on at
    most `most` validation sentences, for the preset as it is and without cooldown.
    """
    given = trial.settings
    trial = replace(trial, settings=_defaults(trial.steps) | dict(given))
    variants = save_rarely(variants_of(trial, warmups, dropouts), trial.steps, given)
    kept = [name for name in AVERAGED if name in variants]
    comparison, results = train_variants(
        "training", trial, data, variants, progress, keep_checkpoints=kept
    )
    resampled, corpus = comparison.resample(results), comparison.corpus()
    valid = _evenly_spaced(comparison.valid_pairs(), most)
    trained = []
    for name in variants:
        folder, averaged = comparison.folder / name, None
        run = Recorded.read(folder, _label(name))
        if name in kept:
            texts = trial.out / "averaged" / name
            averaged = compare_checkpoints(folder, valid, texts, trial.device, progress)
            delete_checkpoints(folder)
        trained.append(
            Trained(
                name=name,
                run=run,
                rates=rates_of(run),
                fit=_fit(folder, corpus, trial.device, progress),
                bleu=resampled.estimate(name),
                difference=resampled.difference(name, PRESET) if name != PRESET else None,
                averaged=averaged,
            )
        )
    notes = [f"{trial.describe_scale()}; one seed.", _describe_intervals(trained[0].run)]
    return _finding(trained, notes, results[PRESET].machine, results[PRESET].signature)


def training_of(
    folder: Path, valid: Text | None, most: int, out: Path, device: str, progress: Progress
) -> Finding:
    """Describe an existing run; nothing is trained.

    BLEU of its checkpoints is measured on `valid`, by default on its own validation text.
    """
    run, notes = Recorded.read(folder, folder.resolve().name), []
    corpus = open_corpus(folder / CORPUS) if (folder / CORPUS).exists() else None
    pairs: Pairs = []
    if valid is not None:
        pairs = list(read_pairs(*valid))
    elif corpus is not None:
        pairs = decode_pairs(corpus, corpus.valid)
    averaged = None
    if pairs:
        texts = out / "averaged" / run.name
        averaged = compare_checkpoints(folder, _evenly_spaced(pairs, most), texts, device, progress)
    if averaged is None:
        missing = (
            "the run has fewer than two checkpoints"
            if pairs
            else "the run has no corpus folder: give a validation text, --valid"
        )
        notes.append(f"The means of checkpoints are left out: {missing}.")
    fit = None
    if corpus is not None and (folder / MODEL).exists():
        fit = _fit(folder, corpus, device, progress)
    else:
        notes.append(
            "Perplexity without dropout is left out: the run has no model.safetensors or no "
            "corpus folder."
        )
    if run.config.selection is None:
        notes.append(f"The run has not ended; its last recorded step is {run.last_step:,}.")
    trained = Trained(name=PRESET, run=run, rates=rates_of(run), fit=fit, averaged=averaged)
    model, batch = run.config.model, run.train.batch_tokens
    notes.append(
        f"Size: {run.last_step:,} steps of {batch:,} tokens per side (the paper: 100,000 of "
        f"25,000); preset {run.config.preset}, N = {model.N} and d_model = {model.d_model} (the "
        "paper: base, 6 and 512)."
    )
    machine = hardware.describe(choose_device(device).type, cores(), ["torch"])
    return _finding([trained], [*notes, _describe_intervals(run)], machine)


def _defaults(steps: int) -> dict[str, str]:
    """Return settings with which the logs and the checkpoints show what happened."""
    return {
        "validate_every": str(max(1, steps // VALIDATIONS)),
        "validate_bleu": str(TRANSLATED),
        "log_every": str(max(1, steps // RECORDS)),
        "save_every": str(max(1, steps // SAVES)),
        "keep": str(KEPT),
        "warmup_cap": "1",  # a longer warm-up is one of the variants
    }


def variants_of(
    trial: Trial, warmups: Sequence[float], dropouts: Sequence[float]
) -> dict[str, dict[str, str]]:
    """Return the settings of each variant, by name; those equal to the preset's are left out.

    The factor `lr_scale` is the same for all, so Eq. 3 sets the peak: a quarter of the warm-up
    doubles it.
    """
    shared, preset = trial.shared(), find_preset(trial.preset)
    warmup = int(shared.get("warmup", preset.train.warmup))
    P_drop = float(shared.get("P_drop", preset.model.P_drop))
    cooldown = float(shared.get("cooldown", preset.train.cooldown))
    variants: dict[str, dict[str, str]] = {PRESET: {}}
    for factor in warmups:
        if not 0 < factor <= 1000:
            raise BadSetting(f"--warmups {factor:g}: expected factors from above 0 to 1,000")
        steps = max(1, round(factor * warmup))
        if steps != warmup:
            variants[f"warmup-{steps}"] = {"warmup": str(steps)}
    for probability in dropouts:
        if not 0 <= probability < 1:
            raise BadSetting(
                f"--dropouts {probability:g}: expected probabilities from 0 to below 1"
            )
        if probability != P_drop:
            variants[f"P_drop-{probability:g}"] = {"P_drop": f"{probability:g}"}
    if cooldown:
        variants[NO_COOLDOWN] = {"cooldown": "0"}
    if len(variants) > len(COLOURS):
        raise BadSetting(f"{len(variants)} runs: expected at most {len(COLOURS)}, to draw them")
    return variants


def save_rarely(
    variants: Mapping[str, Mapping[str, str]], steps: int, given: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    """Return variants that save only at their end if their checkpoints are not compared."""
    if {"save_every", "keep"} & given.keys():
        return dict(variants)
    rarely = {"save_every": str(steps), "keep": "1"}
    return {
        name: settings if name in AVERAGED else {**settings, **rarely}
        for name, settings in variants.items()
    }


def _label(name: str) -> str:
    """Return the name of a variant in tables and pictures."""
    kind, _, value = name.partition("-")
    return {"warmup": f"warm-up {value}", NO_COOLDOWN: "no cooldown"}.get(
        kind if kind == "warmup" else name, name.replace("-", " ")
    )


def _evenly_spaced(pairs: Pairs, most: int) -> Pairs:
    count = min(most, len(pairs))
    return [pairs[number * len(pairs) // count] for number in range(count)]


def _fit(run: Path, corpus: Corpus, device: str, progress: Progress) -> Fit:
    """Measure perplexity on text that the model was trained on, and on validation text."""
    training_text, validation_text = (
        perplexity(score_tokens(run, decode_pairs(corpus, split, SAMPLE), device, progress))
        for split in (corpus.train, corpus.valid)
    )
    free_memory()
    return Fit(training_text, validation_text)


def _describe_intervals(run: Recorded) -> str:
    train = run.train
    return (
        f"Warm-up {pluralize(train.warmup, 'step')} of {run.last_step:,} (the paper: 4,000 of "
        f"100,000); a checkpoint every {pluralize(train.save_every, 'step')} (the paper: every 10 "
        f"minutes, about 1,500 steps), of which the last {train.keep} are kept."
    )


def _describe_departures(trained: Sequence[Trained]) -> str:
    """Name how the rates of the first run depart from Eq. 3, and the others where they differ."""
    first = departures(trained[0].run.train)
    sentence = "; ".join(first) if first else "nothing"
    others = [
        f"{each.run.name}: {'; '.join(different) or 'nothing'}"
        for each in trained[1:]
        if (different := departures(each.run.train)) != first
    ]
    listed = f" In {', '.join(others)}." if others else ""
    return f"What departs from Eq. 3 in the rate: {sentence}.{listed}"


def _finding(
    trained: Sequence[Trained],
    notes: Sequence[str],
    machine: Mapping[str, object],
    signature: str = "",
) -> Finding:
    agreement = describe_agreement({each.run.name: list(each.rates) for each in trained})
    scored = f"; BLEU by sacreBLEU ({signature})" if signature else ""
    searched = (
        f"Beam {SEARCH.beam}, alpha {SEARCH.alpha:g}{scored}; BLEU greedy is of the validation "
        "set, during training."
    )
    gap = [ABOUT_GAP] if any(each.fit for each in trained) else []
    finding = Finding(
        name="training",
        title="How training goes: learning rate, dropout, checkpoints averaged",
        said=SAID,
        tables=make_tables(trained),
        notes=(
            *(agreement, _describe_departures(trained)),
            *verdicts(trained),
            *(ABOUT_LOSSES, *gap, searched, *notes),
        ),
        data={
            "results": {each.name: each.to_json() for each in trained},
            "machine": machine,
        },
    )
    return add_pictures(finding, _drawings(trained))


def _drawings(trained: Sequence[Trained]) -> "dict[str, Callable[[], Figure]]":
    """Return the pictures by caption."""
    schedules: dict[object, Trained] = {}
    for each in trained:
        schedules.setdefault(_schedule(each), each)
    groups = _groups(trained)
    drawings: dict[str, Callable[[], Figure]] = {
        (
            f"Learning rates: the paper's over 100,000 steps, with its peak at step "
            f"{PAPER.warmup:,}; and those of the runs, as recorded and as computed, beside Eq. 3."
        ): lambda: draw_rates([(each.run, each.rates) for each in schedules.values()]),
        "Training loss and validation loss over steps.": lambda: draw_losses(groups),
    }
    if any(each.final("valid_bleu") is not None for each in trained):
        drawings["BLEU (greedy) of the validation set over steps."] = lambda: draw_validations(
            groups, "valid_bleu", "BLEU"
        )
    else:
        drawings["Perplexity of the validation set over steps."] = lambda: draw_validations(
            groups, "valid_perplexity", "perplexity"
        )
    if averaged := {each.run.name: each.averaged for each in trained if each.averaged}:
        drawings[
            "BLEU of single checkpoints, and what the mean of the last n gains; whiskers are 95% "
            "intervals, on the right of paired samples."
        ] = lambda: draw_means(averaged)
    return drawings


def _schedule(trained: Trained) -> object:
    """Return what the rates of a run depend on."""
    train = trained.run.train
    return (train.warmup, train.ramp, train.lr_scale, train.cooldown, train.schedule, train.steps)


def _groups(trained: Sequence[Trained]) -> Groups:
    """Return the runs that share a panel, by the panel's title."""
    first, *others = trained
    if not others:
        return {"The run": [first.run]}
    dropped = [each for each in others if each.dropout != first.dropout]
    rates = [each for each in others if each not in dropped]
    titles = {"Warm-up and cooldown": rates, "Dropout": dropped}
    return {
        title: [first.run, *(each.run for each in group)]
        for title, group in titles.items()
        if group
    }
