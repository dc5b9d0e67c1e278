"""The configurations: the paper's defaults, limits, types and JSON."""

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_settings import MODELS, SEARCHES, TRAININGS

from transduce.config import (
    ModelConfig,
    SearchConfig,
    TrainConfig,
    all_settings,
    apply_settings,
)
from transduce.config.model import TRANSFORMER_SETTINGS
from transduce.errors import BadSetting
from transduce.settings import base
from transduce.settings.base import MAXIMUM, Settings
from transduce.settings.types import alternatives

CONFIGURATIONS: list[type[Settings]] = [ModelConfig, TrainConfig, SearchConfig]


# The paper's base model, by section.
PAPER: dict[type[Settings], dict[str, Any]] = {
    ModelConfig: {
        "N": 6,  # 3.1
        "d_model": 512,
        "d_ff": 2048,  # 3.3
        "h": 8,  # 3.2.2
        "d_k": 64,
        "d_v": 64,
        "P_drop": 0.1,  # 5.4
        "positions": "sinusoidal",  # 3.5
        "tie": "all",  # 3.4
        "source_vocabulary": 37_000,  # 5.1
        "target_vocabulary": 37_000,
    },
    TrainConfig: {
        "joint": True,  # 5.1
        "subwords": "bpe",
        "batch_tokens": 25_000,
        "optimizer": "adam",  # 5.3
        "schedule": "inverse-sqrt",
        "beta1": 0.9,
        "beta2": 0.98,
        "epsilon": 1e-9,
        "warmup": 4000,
        "eps_ls": 0.1,  # 5.4
        "average": 5,  # 6.1
        "select": "auto",
    },
    SearchConfig: {"beam": 4, "alpha": 0.6, "penalty": "paper", "extra": 50},  # 6.1
}


# Features that are not in the paper.
OFF: dict[type[Settings], dict[str, Any]] = {
    ModelConfig: {
        "N_decoder": None,
        "attention_dropout": 0.0,
        "relu_dropout": 0.0,
        "attention_bias": False,
    },
    TrainConfig: {"accumulate": 1, "lr_scale": 1.0, "cooldown": 0.0, "clip": 0.0, "patience": 0},
    SearchConfig: {"sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "nbest": 1},
}


# A value just outside the limit, one just inside, and a part of the message.
LIMITS: list[tuple[type[Settings], str, Any, Any, str]] = [
    *(
        (ModelConfig, name, 0, 1, "at least 1")
        for name in ("N", "N_decoder", "d_ff", "h", "d_k", "d_v")
    ),
    (ModelConfig, "d_model", 0, 2, "at least 1"),
    (ModelConfig, "d_model", -2, 2, "at least 1"),
    (ModelConfig, "d_model", 511, 510, "an even number"),
    *(
        (ModelConfig, name, bad, good, "from 0 up to, but not including, 1")
        for name in ("P_drop", "attention_dropout", "relu_dropout")
        for bad, good in ((1.0, 0.999), (-0.001, 0.0))
    ),
    (ModelConfig, "max_len", 1, 2, "at least 2"),
    *((TrainConfig, name, 0, 1, "at least 1") for name in ("batch_tokens", "warmup", "save_every")),
    *((TrainConfig, name, 0, 1, "at least 1") for name in ("validate_every", "log_every")),
    (TrainConfig, "average", 0, 1, "at least 1"),
    (TrainConfig, "average", 6, 5, "at most keep, which is 5"),
    *(
        (TrainConfig, name, 0, 1, "more than 0")
        for name in ("steps", "epochs", "vocabulary", "threads", "accumulate")
    ),
    *((TrainConfig, name, 0.0, 1e-12, "more than 0") for name in ("seconds", "epsilon")),
    (TrainConfig, "lr_scale", 0.0, 1e-12, "more than 0"),
    *(
        (TrainConfig, name, bad, good, "from 0 up to, but not including, 1")
        for name in ("eps_ls", "beta1", "beta2")
        for bad, good in ((1.0, 0.999), (-0.001, 0.0))
    ),
    (TrainConfig, "cooldown", -0.001, 0.0, "0 to 1"),
    (TrainConfig, "cooldown", 1.001, 1.0, "0 to 1"),
    (TrainConfig, "clip", -0.001, 0.0, "at least 0"),
    *((TrainConfig, name, -1, 0, "at least 0") for name in ("validate_bleu", "patience")),
    (TrainConfig, "seed", -1, 0, "a whole number from 0"),
    (TrainConfig, "max_skew", 0.999, 1.0, "at least 1"),
    (SearchConfig, "beam", 0, 1, "at least 1"),
    (SearchConfig, "alpha", -0.001, 0.0, "at least 0"),
    (SearchConfig, "extra", 0, 1, "at least 1"),
    (SearchConfig, "nbest", 0, 1, "at least 1"),
    (SearchConfig, "nbest", 5, 4, "at most the beam, which is 4"),
    (SearchConfig, "temperature", 0.9e-6, 1e-6, "at least 1e-06"),
    (SearchConfig, "top_k", -1, 0, "at least 0"),
    (SearchConfig, "top_p", 0.0, 1e-12, "above 0, up to 1"),
    (SearchConfig, "top_p", 1.001, 1.0, "above 0, up to 1"),
    (SearchConfig, "draw", -1, 0, "at least 0"),
]


FIELDS = [
    pytest.param(kind, name, hint, id=f"{kind.__name__}.{name}")
    for kind in CONFIGURATIONS
    for name, hint in base.field_types(kind).items()
]


def test_no_setting_is_in_two_configurations() -> None:
    names = [name for kind in CONFIGURATIONS for name in base.field_types(kind)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_defaults_are_the_papers_base_model(kind: type[Settings]) -> None:
    defaults = kind().to_json()
    assert {name: defaults[name] for name in PAPER[kind]} == PAPER[kind]


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_features_that_are_not_in_the_paper_are_off(kind: type[Settings]) -> None:
    defaults = kind().to_json()
    assert {name: defaults[name] for name in OFF[kind]} == OFF[kind]


@pytest.mark.parametrize(
    ("kind", "name", "bad", "good", "expected"),
    LIMITS,
    ids=[f"{kind.__name__}-{name}-{bad}" for kind, name, bad, _, _ in LIMITS],
)
def test_each_limit_refuses_exactly_the_values_beyond_it(
    kind: type[Settings], name: str, bad: Any, good: Any, expected: str
) -> None:
    assert getattr(kind().replace(**{name: good}), name) == good
    with pytest.raises(BadSetting) as caught:
        kind().replace(**{name: bad})
    message = str(caught.value)
    assert message.startswith(f"{name} = {bad!r}: expected ")
    assert expected in message


def test_keep_is_at_least_average() -> None:
    assert TrainConfig(keep=20, average=20).average == 20
    with pytest.raises(BadSetting, match="average = 5: expected at most keep, which is 4"):
        TrainConfig(keep=4)
    with pytest.raises(BadSetting, match="keep = 0: expected at least 1"):
        TrainConfig(keep=0, average=1)


@pytest.mark.parametrize("name", ["source_vocabulary", "target_vocabulary"])
def test_a_vocabulary_has_at_least_one_word(name: str) -> None:
    untied = ModelConfig(tie="none")
    assert untied.replace(**{name: 1})
    with pytest.raises(BadSetting, match=f"{name} = 0: expected at least 1"):
        untied.replace(**{name: 0})


def test_only_a_joint_vocabulary_can_be_tied_on_both_sides() -> None:
    with pytest.raises(BadSetting, match="tie = 'all' needs a joint vocabulary"):
        ModelConfig(source_vocabulary=100, target_vocabulary=200)
    assert ModelConfig(source_vocabulary=100, target_vocabulary=200, tie="decoder")
    assert ModelConfig(source_vocabulary=100, target_vocabulary=200, tie="none")


def test_the_number_of_micro_batches_may_be_automatic() -> None:
    _, train = apply_settings({"accumulate": "none"}, ModelConfig(), TrainConfig())
    assert train.accumulate is None
    assert TrainConfig.from_json(train.to_json()) == train


def test_more_samples_than_the_beam_may_be_drawn() -> None:
    assert SearchConfig(sample=True, nbest=9).nbest == 9


def test_n_decoder_defaults_to_n() -> None:
    assert ModelConfig(N=4).decoder_layers == 4
    assert ModelConfig(N=4, N_decoder=2).decoder_layers == 2


@pytest.mark.parametrize(("kind", "name", "hint"), FIELDS)
def test_a_value_of_another_type_is_refused(kind: type[Settings], name: str, hint: Any) -> None:
    kinds = alternatives(hint)
    others: list[Any] = ["", "x", [], {}, object()]
    others += [] if type(None) in kinds else [None]
    others += [] if bool in kinds else [True, False]
    others += [] if float in kinds else [0.5, 2.0]
    others += [] if float in kinds or int in kinds else [1]
    for other in others:
        with pytest.raises(BadSetting, match=f"^{name} = .*: expected "):
            kind().replace(**{name: other})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize(
    ("kind", "name"),
    [param.values[:2] for param in FIELDS if float in alternatives(param.values[2])],
)
def test_non_finite_numbers_are_refused(kind: type[Settings], name: str, value: float) -> None:
    with pytest.raises(BadSetting, match=f"^{name} = {value}: expected "):
        kind().replace(**{name: value})


def test_a_seed_beyond_int64_is_refused() -> None:
    assert TrainConfig(seed=2**63 - 1)
    with pytest.raises(BadSetting, match=r"^seed = "):
        TrainConfig(seed=2**64)


def test_a_whole_number_is_accepted_for_a_float() -> None:
    changed = TrainConfig(max_skew=3, seconds=90)
    assert (changed.max_skew, changed.seconds) == (3.0, 90)
    assert isinstance(changed.max_skew, float)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"^max_skew = "):
        TrainConfig(max_skew=10**400)


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().N = 7  # type: ignore[misc]


def test_replace_returns_a_checked_copy() -> None:
    before = ModelConfig()
    assert before.replace(N=2, d_ff=64) == ModelConfig(N=2, d_ff=64)
    assert before == ModelConfig()
    with pytest.raises(BadSetting, match=r"^h = 0"):
        before.replace(N=2, h=0)


@pytest.mark.parametrize("name", MAXIMUM)
def test_values_that_would_exhaust_the_memory_are_refused(name: str) -> None:
    kinds: list[type[Settings]] = [ModelConfig, TrainConfig, SearchConfig]
    (kind,) = [config for config in kinds if name in config().to_json()]
    with pytest.raises(BadSetting, match=rf"{name} = .*expected at most"):
        kind().replace(**{name: MAXIMUM[name] + 1})


@given(st.one_of(MODELS, TRAININGS, SEARCHES))
def test_settings_are_restored_from_json(settings: Settings) -> None:
    text = json.dumps(settings.to_json(), allow_nan=False)
    assert type(settings).from_json(json.loads(text)) == settings


def test_every_setting_has_a_meaning_and_a_section_or_none() -> None:
    every = all_settings()
    assert [name for name, setting in every.items() if not setting.meaning] == []
    assert {setting.group for setting in every.values()} == {"model", "training", "search"}
    stated = {name for names in PAPER.values() for name in names}
    assert [name for name in stated if not every[name].paper] == []
    for kind, names in OFF.items():
        assert [name for name in names if every[name].paper and name != "lr_scale"] == [], kind


@pytest.mark.parametrize("name", sorted(base.field_types(ModelConfig)))
def test_each_model_setting_is_exportable_or_must_have_its_default(name: str) -> None:
    config = ModelConfig()
    object.__setattr__(config, name, "another")  # past the checks
    departs = config.first_departure == f"{name} = 'another'"
    assert departs != (name in TRANSFORMER_SETTINGS)


def test_a_new_model_setting_is_not_exportable() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Newer(ModelConfig):
        newer: bool = base.setting(False, "a setting that no export knows")

    assert Newer().first_departure == ""
    assert Newer(newer=True).first_departure == "newer = True"


def test_every_setting_of_an_exportable_model_exists() -> None:
    assert base.field_types(ModelConfig).keys() >= TRANSFORMER_SETTINGS
