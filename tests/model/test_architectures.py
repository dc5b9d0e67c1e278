"""Every architecture has its settings and its model; others are refused."""

from typing import get_args, get_type_hints

import pytest

from transduce.config import ModelConfig
from transduce.config.model import ARCHITECTURES
from transduce.errors import BadSetting
from transduce.model.architecture import MODELS
from transduce.model.baselines.recurrent import Recurrent
from transduce.model.transformer import Transformer


def test_every_architecture_has_a_row_of_settings_and_a_model() -> None:
    names = get_args(get_type_hints(ModelConfig)["architecture"])
    assert {*names} == {*ARCHITECTURES} == {*MODELS}


@pytest.mark.parametrize(
    ("architecture", "setting", "value", "message"),
    [
        ("transformer", "kernel", 5, "kernel = 5: expected 3: it has no effect with architecture"),
        ("recurrent", "activation", "gelu", "activation = 'gelu': expected 'relu': it has no"),
        ("convs2s", "neighbourhood", 9, "neighbourhood = 9: expected none: it has no effect"),
        ("bytenet", "scaled", False, "scaled = False: expected True: it has no effect"),
        ("bytenet", "kernel", 1, "kernel = 1: expected at least 2"),
        ("neural-gpu", "kernel", 4, "kernel = 4: expected an odd number from 3 on"),
        ("neural-gpu", "d_ff", 768, "d_ff = 768: expected a multiple of d_model = 512"),
        ("neural-gpu", "norm", "rms", "norm = 'rms': expected 'layer': it has no effect"),
        ("recurrent", "positions", "learned", "positions = 'learned': expected 'none'"),
    ],
)
def test_a_setting_without_effect_is_refused(
    architecture: str, setting: str, value: object, message: str
) -> None:
    positions = "none" if architecture == "recurrent" else "sinusoidal"
    valid = ModelConfig().replace(architecture=architecture, positions=positions)
    with pytest.raises(BadSetting) as caught:
        valid.replace(**{setting: value})
    assert str(caught.value).startswith(message)


def test_a_model_refuses_the_configuration_of_another_architecture() -> None:
    with pytest.raises(BadSetting) as caught:
        Transformer(ModelConfig(architecture="convs2s"))
    assert str(caught.value) == (
        "architecture = 'convs2s': Transformer is the model of architecture = 'transformer'; "
        "transduce.model.architecture.build(config) builds the model of any configuration"
    )
    with pytest.raises(BadSetting, match="Recurrent is the model of architecture = 'recurrent'"):
        Recurrent(ModelConfig())
