"""`transduce train`."""

from pathlib import Path

import typer

from transduce.cli import training as options
from transduce.cli.options import Device, Set, command, parse_settings, parse_time
from transduce.errors import BadInput, printable
from transduce.presets import find_preset
from transduce.recipes.data import check_data, require_texts
from transduce.recipes.recipe import Overrides, find, settings_of

EXAMPLES = """
[bold]Examples[/bold]

transduce train train.en train.de --out runs/en-de

transduce train pairs.tsv --out run --valid dev.en dev.de --time 30m

transduce train train.en train.de --out run --preset small --set d_ff=2048 --set P_drop=0.2

transduce train law.en law.de --out runs/law --from runs/en-de --extend-vocabulary 500

transduce train --recipe multi30k-en-de --out runs/multi30k

torchrun --nproc-per-node 4 -m transduce train train.en train.de --out run

The same command again resumes where it stopped.
"""


def train(
    source: options.Source = None,
    target: options.Target = None,
    *,
    out: options.Out,
    recipe: options.RecipeName = None,
    data: options.Data = None,
    from_: options.From = None,
    extend_vocabulary: options.ExtendVocabulary = 0,
    valid: options.Valid = None,
    valid_tsv: options.ValidTsv = None,
    preset: options.PresetName = None,
    set_: Set = None,
    batch: options.Batch = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    time: options.Time = None,
    seed: options.Seed = None,
    languages: options.Languages = None,
    device: Device = "auto",
    deterministic: options.Deterministic = False,
    tensorboard: options.Tensorboard = False,
) -> None:
    """Train a translator from two text files, line by line, or by a recipe.

    Subwords, model, schedule, averaging and search are the paper's. Whatever is not set is chosen
    from the size of the data and the machine, and reported. Ctrl-C saves and stops.
    """
    settings = parse_settings(set_ or [])
    seconds = None if time is None else parse_time(time)
    settings |= settings_of(steps=steps, epochs=epochs, seed=seed, seconds=seconds, batch=batch)
    settings |= {"deterministic": "true"} if deterministic else {}
    if valid and valid_tsv:
        raise BadInput("--valid and --valid-tsv name two validation sets: give one")
    overrides = Overrides(
        start=from_,
        extend_vocabulary=extend_vocabulary,
        valid=(valid_tsv, None) if valid_tsv else valid,
        languages=languages,
        preset=preset,
        settings=settings,
    )
    if recipe is not None:
        if source is not None:
            raise BadInput(f"{source} and --recipe {recipe} name two texts: give one of them")
        by_recipe(recipe, out, data, overrides, device, tensorboard=tensorboard)
    elif source is None:
        raise typer.BadParameter("expected two texts to learn from, or --recipe NAME")
    elif data is not None:
        raise BadInput("--data is the folder of a recipe's data: give --recipe too")
    else:
        from_texts((source, target), out, overrides, device, tensorboard=tensorboard)


def from_texts(
    texts: tuple[str, str | None],
    out: Path,
    overrides: Overrides,
    device: str,
    *,
    tensorboard: bool,
) -> None:
    """Train on text files."""
    require_texts(texts, overrides.valid)  # mistyped names are refused before torch is imported
    find_preset(overrides.preset or "base")
    from transduce.system.progress import console_progress
    from transduce.training import train as training

    progress = console_progress()
    run = training.train(
        *texts,
        out=out,
        start=overrides.start,
        extend_vocabulary=overrides.extend_vocabulary,
        valid=overrides.valid,
        languages=overrides.languages,
        preset=overrides.preset,
        settings=overrides.settings,
        device=device,
        tensorboard=tensorboard,
        progress=progress,
    )
    progress.say(f"translate with: {command('translate', run, 'FILE')}")


def by_recipe(
    name: str,
    out: Path,
    data: Path | None,
    overrides: Overrides,
    device: str,
    *,
    tensorboard: bool,
) -> None:
    """Follow a recipe, and write the scores to stdout."""
    recipe = find(name)
    check_data(recipe.data, data, overrides.valid)
    from transduce.system.formatting import pluralize
    from transduce.system.progress import console_progress
    from transduce.workflows.evaluation import EVALUATION, TRANSLATIONS
    from transduce.workflows.following import follow

    progress = console_progress()
    evaluation = follow(
        recipe, out, overrides, data=data, device=device, tensorboard=tensorboard, progress=progress
    )
    if evaluation:
        for line in evaluation.lines():
            typer.echo(printable(line))
        progress.say(
            f"on {pluralize(evaluation.sentences, 'sentence')} of {' and '.join(evaluation.test)}: "
            f"{out / EVALUATION}, translations in {out / TRANSLATIONS}"
        )
    progress.say(f"translate with: {command('translate', out, 'FILE')}")
