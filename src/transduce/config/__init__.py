"""All settings and their defaults: the model, its training and the search.

The defaults are the paper's. `transduce settings` lists the fields of the three classes.

model      ModelConfig: the architecture
training   TrainConfig: how it is trained
search     SearchConfig: how it translates
"""

import functools
from collections.abc import Mapping
from typing import TypeVar

from transduce.config.model import ModelConfig
from transduce.config.search import SearchConfig
from transduce.config.training import TrainConfig
from transduce.errors import BadSetting
from transduce.settings import base
from transduce.settings.aliases import NO_EQUIVALENT
from transduce.settings.base import SettingInfo, Settings, Value

__all__ = [
    "GROUPS",
    "ModelConfig",
    "SearchConfig",
    "TrainConfig",
    "alias_notes",
    "all_settings",
    "apply_settings",
    "canonical_settings",
    "find_setting",
]

T = TypeVar("T")

GROUPS: dict[str, type[Settings]] = {
    "model": ModelConfig,
    "training": TrainConfig,
    "search": SearchConfig,
}


@functools.cache
def all_settings() -> dict[str, SettingInfo]:
    """Return the descriptions of all settings by name, in the order of this file."""
    return {
        name: info
        for group, kind in GROUPS.items()
        for name, info in base.describe_fields(kind, group).items()
    }


def find_setting(name: str) -> SettingInfo:
    """Return the setting with this name or alias."""
    (canonical,) = base.canonical_names({_refuse_foreign(name): None}, all_settings())
    return all_settings()[canonical]


def canonical_settings(settings: Mapping[str, T]) -> dict[str, T]:
    """Replace aliases in the settings of a training run with the canonical names.

    Refuses unknown settings and those that cannot be set for training.
    """
    canonical = base.canonical_names(
        {_for_training(_refuse_foreign(name)): value for name, value in settings.items()},
        all_settings(),
    )
    for name in canonical:
        if all_settings()[name].group == "search":
            raise BadSetting(
                f"{name} is a setting of the search, not of the training: set it when translating"
            )
        if name in ("source_vocabulary", "target_vocabulary"):
            raise BadSetting(f"{name} is set by training: set vocabulary instead")
    return canonical


def alias_notes(settings: Mapping[str, Value]) -> list[str]:
    """Return one line for each alias in `settings`, saying which setting it stands for."""
    return base.alias_notes(settings, all_settings())


def apply_settings(
    settings: Mapping[str, Value], model: ModelConfig, train: TrainConfig
) -> tuple[ModelConfig, TrainConfig]:
    """Apply each setting to the configuration it belongs to.

    A value is either a Python value or text as typed after --set.
    """
    model_types, train_types = base.field_types(ModelConfig), base.field_types(TrainConfig)
    hints = {**model_types, **train_types}
    values = {
        name: base.read_value(value, hints[name], name)
        for name, value in canonical_settings(settings).items()
    }
    if values.get("subwords") == "sentencepiece":
        raise BadSetting(
            "subwords = 'sentencepiece': expected 'bpe' or 'wordpiece', which can be learned"
        )
    # All at once, because some values are only valid together.
    model = model.replace(**{n: value for n, value in values.items() if n in model_types})
    train = train.replace(**{n: value for n, value in values.items() if n in train_types})
    rates = model.P_drop, model.attention_dropout, model.relu_dropout, train.word_dropout
    if (train.rdrop or (train.simcut and not train.cutoff)) and not any(rates):
        name = "rdrop" if train.rdrop else "simcut"
        raise BadSetting(
            f"{name} = {getattr(train, name):g}: expected 0 without dropout: "
            "its two passes would be equal"
        )
    if train.residual_lr != 1 and model.architecture != "transformer":
        raise BadSetting(
            f"residual_lr = {train.residual_lr:g}: expected 1 with architecture = "
            f"{model.architecture!r}, which has no such matrices"
        )
    return model, train


def _for_training(name: str) -> str:
    """Return data_temperature for temperature, which is a setting of the search too."""
    return "data_temperature" if name == "temperature" else name


def _refuse_foreign(name: str) -> str:
    """Refuse names from other toolkits that have no equivalent here."""
    if why := NO_EQUIVALENT.get(str(name).replace("-", "_").lower()):
        raise BadSetting(f"{name} {why}")
    return name
