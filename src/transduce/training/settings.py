"""The settings of a run: from preset, options, data and machine, or from a run to resume."""

import dataclasses
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from transduce import __version__
from transduce.config import ModelConfig, SearchConfig, TrainConfig, apply_settings
from transduce.corpus.token_files import Corpus
from transduce.errors import BadSetting
from transduce.model.architecture import count_parameters
from transduce.presets import Preset, find_preset
from transduce.runs.folder import RunConfig, Task
from transduce.settings.base import Value
from transduce.system.files import checksum
from transduce.system.formatting import format_duration, pluralize
from transduce.system.processes import cores
from transduce.system.progress import Progress
from transduce.training.defaults import Row, choose_row
from transduce.training.optimizer import fit_residual_lr
from transduce.training.start import Start

START_LR_SCALE = 0.3  # factor on the learning rate if a run starts from a trained model
# Limits on a run's length. If one is set, it replaces the preset's limits.
ENDS = frozenset({"steps", "epochs", "seconds"})
# Settings that may change when a run is resumed; any other would give a different model.
MAY_CHANGE = frozenset(
    {
        *ENDS,
        *("keep", "average", "select", "patience", "log_every"),
        *("threads", "accumulate", "precision", "kernels", "recompute", "deterministic"),
        *("warmup_cap", "ramp"),  # used only at the start
        # Lower values let a run continue after non-finite gradients.
        *("lr_scale", "residual_lr", "clip"),
    }
)
# Settings that were added after runs had been written. At its default, such a setting is not part
# of a run's identity, so that older runs keep theirs.
ADDED = frozenset(
    {
        *("init", "pre_norm", "norm", "gated", "qk_norm", "optimizer", "schedule", "weight_decay"),
        *("ema", "rdrop", "simcut", "cutoff", "word_dropout", "bpe_dropout"),
        *("spans", "terms", "position_lr", "data_temperature"),
    }
)
# Model settings that may differ from those of the trained model to start from.
DROPOUT_RATES = frozenset({"P_drop", "attention_dropout", "relu_dropout"})
# Training settings that follow from the subwords.
OF_SUBWORDS = ("vocabulary", "joint", "subwords")


def configure(
    preset: Preset, settings: Mapping[str, Value], start: Start | None
) -> tuple[ModelConfig, TrainConfig]:
    """Apply settings to a preset; with `start`, to its model and the preset's training settings."""
    if start is None:
        return apply_settings(settings, preset.model, preset.train)
    fixed = {name: getattr(start.config.train, name) for name in OF_SUBWORDS}
    base = start.config.model if start.weights else preset.model
    model, train = apply_settings(settings, base, preset.train.replace(**fixed))
    values = {name: getattr(train, name) for name in OF_SUBWORDS}
    if start.weights:
        fixed, values = fixed | base.to_json(), values | model.to_json()
    for name, value in values.items():
        if value != fixed[name] and name not in DROPOUT_RATES:
            raise BadSetting(
                f"{name} = {value}: expected {fixed[name]} as in {start.run}, from which this run "
                f"starts; {'dropout rates' if start.weights else 'other settings'} may change"
            )
    return model, train


def new_config(
    corpus: Corpus,
    preset: str | None,
    settings: Mapping[str, Value],
    device: torch.device,
    progress: Progress,
    start: Start | None = None,
) -> RunConfig:
    """Choose settings that are not given, based on the data and the machine, and report them."""
    pairs = len(corpus.train)
    trained = start if start and start.weights else None
    fixed = trained.config.model.to_json() if trained else {}
    row = Row(pairs, preset, {}) if preset else choose_row(pairs, device.type)
    row = row.adapted_to({**fixed, **settings})
    preset_settings = row.to_preset()
    model, train = configure(preset_settings, settings, start)
    if not (trained or corpus.codec.joint or "tie" in settings):
        model = model.replace(tie="decoder")
    if not trained or trained.more:
        model = model.replace(
            source_vocabulary=len(corpus.codec.source),
            target_vocabulary=len(corpus.codec.target),
        )
    train = _fit_to_rate(model, train, preset_settings.train, settings)
    train = _limited_as_set(train, settings)
    if "warmup" in settings and "warmup_cap" not in settings:
        train = train.replace(warmup_cap=1.0)
    if device.type != "cpu":
        train = train.replace(threads=train.threads or cores())
    if trained and "lr_scale" not in settings:
        train = train.replace(lr_scale=train.lr_scale * START_LR_SCALE)
        progress.say(
            f"lr_scale {train.lr_scale:g}, {START_LR_SCALE:g} times the preset's, to keep what the "
            "model has learned: a higher one learns the new text faster, and forgets faster"
        )
    chosen = "" if preset else f", for {pairs:,} pairs on {device.type}"
    loaded = f", with the model of {trained.run}" if trained else ""
    progress.say(f"{row}{chosen}{loaded}: {_describe_model(model)}")
    progress.say(_describe_training(train))
    return RunConfig(
        model=model,
        train=train,
        languages=corpus.languages,
        pairs=_all_pairs(corpus, trained),
        preset=row.preset,
        device=device.type,
        versions={
            "transduce": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        search=trained.config.search if trained else SearchConfig(),
        origin=start.origin if start else None,
    )


def _all_pairs(corpus: Corpus, trained: Start | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of languages, if there are several; those of the model to start from too."""
    before = trained.config.pairs if trained else ()
    pairs = dict.fromkeys((*(corpus.pairs or (corpus.languages,)), *before))
    return tuple(pairs) if len(pairs) > 1 else ()


def _fit_to_rate(
    model: ModelConfig, train: TrainConfig, before: TrainConfig, settings: Mapping[str, Value]
) -> TrainConfig:
    """Return settings with `residual_lr` for a new `lr_scale`, unless it is given."""
    if train.lr_scale == before.lr_scale or "residual_lr" in settings:
        return train
    return fit_residual_lr(train, model)


def _describe_model(model: ModelConfig) -> str:
    depth = f"{model.N}" if model.N_decoder is None else f"{model.N}+{model.N_decoder}"
    d_k = "" if model.h * model.d_k == model.d_model else f"d_k {model.d_k}, "  # only if unusual
    sizes = dict.fromkeys((model.source_vocabulary, model.target_vocabulary))
    vocabulary = " and ".join(f"{size:,}" for size in sizes)
    return (
        f"N {depth}, d_model {model.d_model}, d_ff {model.d_ff}, h {model.h}, {d_k}"
        f"{count_parameters(model) / 1e6:.1f}M parameters, vocabulary {vocabulary}"
    )


def _describe_training(train: TrainConfig) -> str:
    limits = [
        pluralize(train.steps, "step") if train.steps else "",
        pluralize(train.epochs, "epoch") if train.epochs else "",
        format_duration(train.seconds) if train.seconds else "",
    ]
    length = " or ".join(limit for limit in limits if limit) or "no end set"
    return (
        f"batches of {train.batch_tokens:,} tokens per side, {length}, "
        f"warm-up {pluralize(train.warmup, 'step')}"
        + (", then a constant learning rate" if train.schedule == "constant" else "")
        + (f", cool-down over the last {train.cooldown:.0%}" if train.cooldown else "")
        + (", Muon" if train.optimizer == "muon" else "")
        + (f", residual_lr {train.residual_lr:g}" if train.residual_lr != 1 else "")
        + f", seed {train.seed}"
        + (f", {pluralize(train.threads, 'thread')}" if train.threads else "")
    )


def with_identity(config: RunConfig, corpus: Corpus) -> RunConfig:
    """Set a run's identity: a hash of its corpus and of the settings that may not change."""
    settings = config.model.to_json() | config.train.to_json()
    defaults = ModelConfig().to_json() | TrainConfig().to_json()
    fixed = {
        name: value
        for name, value in settings.items()
        if name not in MAY_CHANGE and not (name in ADDED and value == defaults[name])
    }
    content: dict[str, Any] = {"settings": fixed, "corpus": corpus.manifest.files}
    if config.corpus_weights:
        content["weights"] = list(config.corpus_weights)
    identity = checksum(content)
    return dataclasses.replace(config, identity=identity)


def resumed_config(
    run: Path,
    preset: str | None,
    settings: Mapping[str, Value],
    device: torch.device,
    progress: Progress,
    start: Start | None = None,
    task: Task = "translation",
) -> RunConfig:
    """Return the configuration of a run to resume, after applying settings that may change."""
    config = RunConfig.load(run)
    if config.task != task:
        raise BadSetting(f"{run} was started for {config.task}, not {task}: choose another folder")
    if start:
        start.require_same(run, config.origin)
    if config.preset == "imported":
        raise BadSetting(
            f"{run} holds an imported model, which was not trained here: "
            "choose another folder for a new run"
        )
    if preset and preset != config.preset:
        find_preset(preset)
        raise BadSetting(
            f"{run} was started with the preset {config.preset}, not {preset}: "
            "continue with the same settings, or choose another folder"
        )
    model, train = apply_settings(settings, config.model, config.train)
    before = config.model.to_json() | config.train.to_json()
    for name, value in (model.to_json() | train.to_json()).items():
        if value != before[name] and name not in MAY_CHANGE:
            raise BadSetting(
                f"{run} was started with {name} = {before[name]}, not {value}: "
                "continue with the same settings, or choose another folder"
            )
    train = _fit_to_rate(model, train, config.train, settings)
    train = _limited_as_set(train, settings)
    not_exact = "the run continues, but its results will not be bit-identical"
    if device.type != config.device:
        progress.say(f"{device.type} instead of {config.device}: {not_exact}")
    if config.train.threads and train.threads != config.train.threads:
        threads = pluralize(train.threads or 1, "thread")
        progress.say(f"{threads} instead of {config.train.threads}: {not_exact}")
    return dataclasses.replace(config, train=train)


def _limited_as_set(train: TrainConfig, settings: Mapping[str, Value]) -> TrainConfig:
    """Drop a preset's limits if another limit is set: --time replaces its number of steps."""
    if not ENDS & settings.keys():
        return train
    return train.replace(**dict.fromkeys(ENDS - settings.keys()))
