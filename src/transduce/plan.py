"""What a run will be: chosen from presets, settings, data and machine, or read from a run begun."""

import dataclasses
import platform
from collections.abc import Mapping
from pathlib import Path

import torch

from transduce import __version__
from transduce import config as configuration
from transduce.checkpoint import RunConfig
from transduce.config import TrainConfig
from transduce.corpus import Corpus
from transduce.errors import BadSetting
from transduce.machine import cores
from transduce.model import count_parameters
from transduce.presets import preset as find_preset
from transduce.progress import Progress, duration

# What may change when a run goes on; anything else would make another model of it.
MAY_CHANGE = frozenset(
    {
        *("steps", "epochs", "seconds", "keep", "average", "select", "patience", "log_every"),
        *("threads", "accumulate", "precision", "kernels", "recompute"),
    }
)


def begun(
    corpus: Corpus,
    preset: str | None,
    settings: Mapping[str, str],
    device: torch.device,
    progress: Progress,
) -> RunConfig:
    """Choose what was not set from the data and the machine, and say what was chosen."""
    name = preset or choose_preset(len(corpus.train), device)
    chosen = find_preset(name)
    model, recipe = configuration.apply(settings, chosen.model, chosen.train)
    tie = model.tie if corpus.codec.joint or "tie" in settings else "decoder"
    model = model.replace(
        tie=tie,
        source_vocabulary=len(corpus.codec.source),
        target_vocabulary=len(corpus.codec.target),
    )
    recipe = _ended_as_set(recipe, settings).replace(threads=recipe.threads or cores())
    progress.say(
        f"preset {name}{'' if preset else f', for {len(corpus.train):,} pairs on {device.type}'}: "
        f"N {model.N}, d_model {model.d_model}, d_ff {model.d_ff}, h {model.h}, "
        f"{count_parameters(model) / 1e6:.1f}M parameters, vocabulary {model.target_vocabulary:,}"
    )
    progress.say(
        f"batches of {recipe.batch_tokens:,} tokens a side, {_length(recipe)}, "
        f"warm-up {recipe.warmup:,} steps"
        + (f", cool-down over the last {recipe.cooldown:.0%}" if recipe.cooldown else "")
        + f", seed {recipe.seed}, {recipe.threads} threads"
    )
    return RunConfig(
        model=model,
        train=recipe,
        languages=corpus.languages,
        preset=name,
        device=device.type,
        versions={
            "transduce": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    )


def continued(
    run: Path,
    preset: str | None,
    settings: Mapping[str, str],
    device: torch.device,
    progress: Progress,
) -> RunConfig:
    """Return the settings of a run that goes on, with the changes that it can bear."""
    config = RunConfig.load(run)
    if config.preset == "imported":
        raise BadSetting(
            f"{run} holds an imported model, which no training here has begun: "
            "choose another folder for a new run"
        )
    if preset and preset != config.preset:
        find_preset(preset)
        raise BadSetting(
            f"{run} was begun with the preset {config.preset}, not {preset}: "
            "go on with the same settings, or choose another folder"
        )
    model, recipe = configuration.apply(settings, config.model, config.train)
    before = config.model.to_json() | config.train.to_json()
    for name, value in (model.to_json() | recipe.to_json()).items():
        if value != before[name] and name not in MAY_CHANGE:
            raise BadSetting(
                f"{run} was begun with {name} = {before[name]}, not {value}: "
                "go on with the same settings, or choose another folder"
            )
    recipe = _ended_as_set(recipe, settings).replace(threads=recipe.threads or cores())
    if device.type != config.device:
        progress.say(
            f"{device.type} instead of {config.device}: "
            "the run goes on, but not bit for bit as it would have"
        )
    if recipe.threads != config.train.threads:
        progress.say(
            f"{recipe.threads} threads instead of {config.train.threads}: "
            "the run goes on, but not bit for bit as it would have"
        )
    return dataclasses.replace(config, train=recipe)


def choose_preset(pairs: int, device: torch.device) -> str:
    """Choose a model that so much text can teach and this machine can train."""
    if device.type == "cuda":
        return "base" if pairs >= 200_000 else "small"
    return "small" if pairs >= 200_000 else "tiny"


def _ended_as_set(recipe: TrainConfig, settings: Mapping[str, str]) -> TrainConfig:
    """Let the end that was set be the only one: --time replaces a preset's number of steps."""
    ends = {"steps", "epochs", "seconds"}
    if not ends & settings.keys():
        return recipe
    return recipe.replace(**dict.fromkeys(ends - settings.keys()))


def _length(recipe: TrainConfig) -> str:
    ends = [
        f"{recipe.steps:,} steps" if recipe.steps else "",
        f"{recipe.epochs:,} epochs" if recipe.epochs else "",
        duration(recipe.seconds) if recipe.seconds else "",
    ]
    return " or ".join(end for end in ends if end) or "no end set"
