"""What a run will be: chosen from presets, settings, data and machine, or read from a run begun."""

import dataclasses
import functools
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from transduce import __version__
from transduce import config as configuration
from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.corpus.token_files import Corpus
from transduce.errors import BadSetting
from transduce.model.architecture import count_parameters
from transduce.presets import Preset, find_preset
from transduce.runs.folder import SUBWORDS, Origin, RunConfig, Task, weights_file
from transduce.settings.base import MAXIMUM, Value
from transduce.subwords import Codec, check_extensible
from transduce.system.files import checksum, sha256
from transduce.system.formatting import format_duration, pluralize
from transduce.system.processes import cores
from transduce.system.progress import Progress
from transduce.text.languages import guess_languages

GENTLY = 0.3  # of the learning rate, where a run begins with a trained model
# How long a run lasts: of these, whoever sets one sets the only one.
ENDS = frozenset({"steps", "epochs", "seconds"})
# What may change when a run goes on; anything else would make another model of it.
MAY_CHANGE = frozenset(
    {
        *ENDS,
        *("keep", "average", "select", "patience", "log_every"),
        *("threads", "accumulate", "precision", "kernels", "recompute", "deterministic"),
        *("warmup_cap", "ramp"),  # they act only at the beginning
        *("lr_scale", "clip"),  # lower ones let a run continue after non-finite gradients
    }
)
# What a run that begins with the weights of another may set of its model, and what it cannot set
# of its training where the subwords are another's too.
RATES = frozenset({"P_drop", "attention_dropout", "relu_dropout"})
OF_SUBWORDS = ("vocabulary", "joint", "subwords")


@dataclass(frozen=True)
class Start:
    """A trained run that another begins with: its subwords, and its model too if `weights`.

    To its subwords `more` are added, learned from the new text.
    It is read when it is asked for: a run that goes on has all of it in its own folder.
    """

    run: Path
    weights: bool = True
    more: int = 0

    @functools.cached_property
    def config(self) -> RunConfig:
        """Its settings."""
        config = RunConfig.load(self.run)
        config.require("translation", self.run)
        return config

    @functools.cached_property
    def codec(self) -> Codec:
        """Its subwords."""
        return Codec.load(self.config.verified(self.run, SUBWORDS))

    @property
    def path(self) -> Path:
        """The file of its weights."""
        return weights_file(self.run, self.config)[0]

    @functools.cached_property
    def origin(self) -> Origin:
        """What is remembered of it."""
        home = str(self.run.resolve())
        if not self.weights:
            return Origin(run=home, subwords=self.codec.sha256)
        path, words = weights_file(self.run, self.config)
        own = {"subwords": self.codec.sha256, "weights": words, "sha256": sha256(path)}
        return Origin(run=home, **own, more=self.more)

    def check(self) -> None:
        """Refuse a run without weights or subwords, or with some to which none can be added."""
        self.origin  # noqa: B018  (reading it is the check)
        if self.more:
            check_extensible(self.codec, str(self.run))

    def require(self, run: Path, origin: Origin | None) -> None:
        """Refuse to go on with a run that was begun with something else."""
        part = "weights" if self.weights else "subwords"
        if origin is None or bool(origin.weights) != self.weights:
            raise BadSetting(
                f"{run} was not begun with the {part} of another run, such as {self.run}: "
                "go on as it was begun, or choose another folder"
            )
        if str(self.run.resolve()) == origin.run:
            return  # it may have been trained further: what this run has of it is its own
        own = self.origin
        if (own.subwords, own.sha256) != (origin.subwords, origin.sha256):
            raise BadSetting(
                f"{run} was begun with the {part} of {origin.run}, not of {self.run}: "
                "go on with the same, or choose another folder"
            )


def settled(
    chosen: Preset, settings: Mapping[str, Value], start: Start | None
) -> tuple[ModelConfig, TrainConfig]:
    """Apply settings to a preset, or to the model of `start` and a preset's training."""
    if start is None:
        return configuration.apply_settings(settings, chosen.model, chosen.train)
    own = start.config
    kept = {name: getattr(own.train, name) for name in OF_SUBWORDS}
    before = own.model if start.weights else chosen.model
    model, recipe = configuration.apply_settings(settings, before, chosen.train.replace(**kept))
    values = {name: getattr(recipe, name) for name in OF_SUBWORDS}
    if start.weights:
        kept, values = kept | before.to_json(), values | model.to_json()
    for name, value in values.items():
        if value != kept[name] and name not in RATES:
            raise BadSetting(
                f"{name} = {value}: expected {kept[name]} as in {start.run}, which this run begins "
                f"with; {'the rates of dropout' if start.weights else 'the training'} may change"
            )
    return model, recipe


def begun(
    corpus: Corpus,
    preset: str | None,
    settings: Mapping[str, Value],
    device: torch.device,
    progress: Progress,
    start: Start | None = None,
) -> RunConfig:
    """Choose what was not set from the data and the machine, and say what was chosen."""
    name = preset or choose_preset(len(corpus.train), device)
    model, recipe = settled(find_preset(name), settings, start)
    taken = start is not None and start.weights
    if not (taken or corpus.codec.joint or "tie" in settings):
        model = model.replace(tie="decoder")
    if not taken or (start and start.more):
        model = model.replace(
            source_vocabulary=len(corpus.codec.source),
            target_vocabulary=len(corpus.codec.target),
        )
    recipe = _ended_as_set(recipe, settings)
    if "warmup" in settings and "warmup_cap" not in settings:
        recipe = recipe.replace(warmup_cap=1.0)
    if device.type != "cpu":
        recipe = recipe.replace(threads=recipe.threads or cores())
    if start and start.weights and "lr_scale" not in settings:
        recipe = recipe.replace(lr_scale=recipe.lr_scale * GENTLY)
        progress.say(
            f"lr_scale {recipe.lr_scale:g}, {GENTLY:g} times the preset's, so that what is known "
            "stays: more learns the new text faster, and forgets faster"
        )
    depth = f"{model.N}" if model.N_decoder is None else f"{model.N}+{model.N_decoder}"
    progress.say(
        f"preset {name}{'' if preset else f', for {len(corpus.train):,} pairs on {device.type}'}"
        f"{f', with the model of {start.run}' if start and start.weights else ''}: "
        f"N {depth}, d_model {model.d_model}, d_ff {model.d_ff}, h {model.h}, "
        # Else what is usual: the heads share d_model among themselves.
        f"{'' if model.h * model.d_k == model.d_model else f'd_k {model.d_k}, '}"
        f"{count_parameters(model) / 1e6:.1f}M parameters, vocabulary {_vocabulary(model)}"
    )
    progress.say(
        f"batches of {recipe.batch_tokens:,} tokens a side, {_length(recipe)}, "
        f"warm-up {pluralize(recipe.warmup, 'step')}"
        + (f", cool-down over the last {recipe.cooldown:.0%}" if recipe.cooldown else "")
        + f", seed {recipe.seed}"
        + (f", {pluralize(recipe.threads, 'thread')}" if recipe.threads else "")
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
        search=start.config.search if start and start.weights else SearchConfig(),
        origin=start.origin if start else None,
    )


def _vocabulary(model: ModelConfig) -> str:
    """Say how many subwords there are, of both sides where they differ."""
    sizes = dict.fromkeys((model.source_vocabulary, model.target_vocabulary))
    return " and ".join(f"{size:,}" for size in sizes)


def identified(config: RunConfig, corpus: Corpus) -> RunConfig:
    """Tell a run that begins from others: by its corpus, and by what may not change of it."""
    settings = config.model.to_json() | config.train.to_json()
    kept = {name: value for name, value in settings.items() if name not in MAY_CHANGE}
    identity = checksum({"settings": kept, "corpus": corpus.manifest.files})
    return dataclasses.replace(config, identity=identity)


def continued(
    run: Path,
    preset: str | None,
    settings: Mapping[str, Value],
    device: torch.device,
    progress: Progress,
    start: Start | None = None,
    task: Task = "translation",
) -> RunConfig:
    """Return the settings of a run that goes on, with the changes that it can bear."""
    config = RunConfig.load(run)
    if config.task != task:
        raise BadSetting(f"{run} was begun for {config.task}, not {task}: choose another folder")
    if start:
        start.require(run, config.origin)
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
    model, recipe = configuration.apply_settings(settings, config.model, config.train)
    before = config.model.to_json() | config.train.to_json()
    for name, value in (model.to_json() | recipe.to_json()).items():
        if value != before[name] and name not in MAY_CHANGE:
            raise BadSetting(
                f"{run} was begun with {name} = {before[name]}, not {value}: "
                "go on with the same settings, or choose another folder"
            )
    recipe = _ended_as_set(recipe, settings)
    if device.type != config.device:
        progress.say(
            f"{device.type} instead of {config.device}: "
            "the run goes on, but not bit for bit as it would have"
        )
    if config.train.threads and recipe.threads != config.train.threads:
        progress.say(
            f"{pluralize(recipe.threads or 1, 'thread')} instead of {config.train.threads}: "
            "the run goes on, but not bit for bit as it would have"
        )
    return dataclasses.replace(config, train=recipe)


def languages_of(
    source: str | Path,
    target: str | Path | None,
    given: str | None,
    known: tuple[str, str] | None,
    progress: Progress,
) -> tuple[str, str]:
    """Tell the languages; those `known` of the model that a run begins with, unless given."""
    told = guess_languages(source, target, given)
    if known is None or given is not None:
        return told
    if told not in (known, ("src", "tgt")):
        progress.say(
            f"the files' endings say {'-'.join(told)}, but the model translates "
            f"{'-'.join(known)}: is this the right text, in this order? (--languages settles it)"
        )
    return known


def basis_of(
    start: str | Path | None, subwords_of: str | Path | None, more: int = 0
) -> Start | None:
    """Return the trained run that another begins with, if there is one."""
    if not 0 <= more <= (most := MAXIMUM["vocabulary"]):
        raise BadSetting(f"extend_vocabulary = {f'{more:,}':.60}: expected 0 to {most:,}")
    if more and start is None:
        raise BadSetting(
            f"extend_vocabulary = {more:,} adds subwords to those of a trained run: name it "
            "(--from RUN), or set vocabulary for subwords of your own"
        )
    if start is not None and subwords_of is not None:
        raise BadSetting(f"start has the subwords of {start}: leave subwords_of away")
    given = start if start is not None else subwords_of
    return None if given is None else Start(Path(given), start is not None, more)


def choose_preset(pairs: int, device: torch.device) -> str:
    """Choose a model that so much text can teach and this machine can train."""
    if device.type == "cuda":
        return "base" if pairs >= 200_000 else "small"
    return "small" if pairs >= 200_000 else "tiny"


def _ended_as_set(recipe: TrainConfig, settings: Mapping[str, Value]) -> TrainConfig:
    """Let the end that was set be the only one: --time replaces a preset's number of steps."""
    if not ENDS & settings.keys():
        return recipe
    return recipe.replace(**dict.fromkeys(ENDS - settings.keys()))


def _length(recipe: TrainConfig) -> str:
    ends = [
        pluralize(recipe.steps, "step") if recipe.steps else "",
        pluralize(recipe.epochs, "epoch") if recipe.epochs else "",
        format_duration(recipe.seconds) if recipe.seconds else "",
    ]
    return " or ".join(end for end in ends if end) or "no end set"
