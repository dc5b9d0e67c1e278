"""Settings from the command line and Python: names, aliases and values."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_settings import MODELS, SEARCHES, TRAININGS

from transduce.config import (
    ModelConfig,
    SearchConfig,
    TrainConfig,
    alias_notes,
    all_settings,
    apply_settings,
    canonical_settings,
    find_setting,
)
from transduce.errors import BadSetting
from transduce.settings import base
from transduce.settings.aliases import ALIASES, NO_EQUIVALENT
from transduce.settings.base import Settings, parse_value


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("d_modl", "d_model"),
        ("dmodel", "d_model"),
        ("p_drop", "P_drop"),
        ("batch_token", "batch_tokens"),
    ],
)
def test_a_similar_name_is_suggested_for_a_misspelt_setting(wrong: str, meant: str) -> None:
    with pytest.raises(BadSetting, match=f"^there is no setting {wrong}. Did you mean {meant}\\?"):
        apply_settings({wrong: "1"}, ModelConfig(), TrainConfig())
    kind = ModelConfig if hasattr(ModelConfig(), meant) else TrainConfig
    with pytest.raises(BadSetting, match=f"^there is no setting {wrong}. Did you mean {meant}\\?"):
        kind().replace(**{wrong: 1})
    with pytest.raises(BadSetting, match=f"^there is no setting {wrong}. Did you mean {meant}\\?"):
        kind.from_json({wrong: 1})


def test_an_unknown_setting_points_to_the_list_of_settings() -> None:
    with pytest.raises(BadSetting) as caught:
        apply_settings({"zzz": "1"}, ModelConfig(), TrainConfig())
    assert str(caught.value) == "there is no setting zzz. `transduce settings` lists all of them"


@pytest.mark.parametrize(
    ("alias", "name", "value"),
    [
        ("dropout", "P_drop", 0.3),
        ("heads", "h", 2),
        ("layers", "N", 2),
        ("encoder_layers", "N", 2),
        ("decoder_layers", "N_decoder", 3),
        ("hidden_size", "d_model", 64),
        ("embed_dim", "d_model", 64),
        ("ffn_dim", "d_ff", 128),
        ("label_smoothing", "eps_ls", 0.2),
        ("label-smoothing", "eps_ls", 0.2),
        ("warmup_steps", "warmup", 10),
        ("max_steps", "steps", 10),
        ("vocab_size", "vocabulary", 500),
        ("max_tokens", "batch_tokens", 4000),
    ],
)
def test_an_alias_sets_the_same_value(alias: str, name: str, value: Any) -> None:
    by_name, by_alias = {name: value}, {alias: value}
    before = ModelConfig(), TrainConfig()
    assert apply_settings(by_alias, *before) == apply_settings(by_name, *before) != before
    assert apply_settings({alias: str(value)}, *before) == apply_settings(by_name, *before)
    (note,) = alias_notes(by_alias)
    assert note == f"{alias} is called {name} here: {all_settings()[name].meaning}"
    assert alias_notes(by_name) == []
    assert find_setting(alias) == find_setting(name)


def test_the_search_accepts_aliases() -> None:
    assert SearchConfig().replace(beam_size=8, length_penalty=1) == SearchConfig(beam=8, alpha=1)


ADVICE = {
    "lr": "set lr_scale",
    "learning-rate": "set lr_scale",
    "batch_size": "set batch_tokens",
    "update_freq": "set batch_tokens to the product",
    "fp16": "precision=bf16",
    "beam_size": "beam is a setting of the search",
    "source_vocabulary": "set vocabulary",
}


@pytest.mark.parametrize(("name", "advice"), ADVICE.items())
def test_names_without_an_equivalent_are_refused_with_advice(name: str, advice: str) -> None:
    with pytest.raises(BadSetting, match=advice):
        apply_settings({name: "1"}, ModelConfig(), TrainConfig())


@pytest.mark.parametrize("names", [("dropout", "P_drop"), ("P_drop", "dropout"), ("h", "heads")])
def test_a_setting_and_its_alias_cannot_both_be_set(names: tuple[str, str]) -> None:
    with pytest.raises(BadSetting, match=f"^(P_drop|h) is set twice, once as {names[1]}"):
        canonical_settings(dict.fromkeys(names, 1))


def test_a_similar_alias_is_suggested_with_its_setting() -> None:
    with pytest.raises(BadSetting, match=r"Did you mean dropout, which is P_drop\?"):
        apply_settings({"dropuot": 1}, ModelConfig(), TrainConfig())


def test_no_alias_has_two_meanings() -> None:
    assert ALIASES.keys() <= all_settings().keys()
    names = [
        *all_settings(),
        *NO_EQUIVALENT,
        *(alias for own in ALIASES.values() for alias in own.split()),
    ]
    assert sorted(names) == sorted(set(names))
    assert all(name == name.lower() for own in ALIASES.values() for name in own.split())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"N": 2.5}, "N = 2.5: expected a whole number"),
        ({"N": True}, "N = True: expected a whole number"),
        ({"N": None}, "N = None: expected a whole number"),
        ({"P_drop": [0.1]}, r"P_drop = \[0.1\]: expected a number"),
        ({"P_drop": float("nan")}, "P_drop = nan: expected a number"),
        ({"joint": 1}, "joint = 1: expected true or false"),
        ({"tie": 3}, "tie = 3: expected 'all'"),
        ({1: 2}, "there is no setting 1"),
    ],
)
def test_a_python_value_of_the_wrong_type_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(BadSetting, match=f"^{message}"):
        apply_settings(settings, ModelConfig(), TrainConfig())


def test_python_values_are_used_unchanged() -> None:
    settings = {"N": 2, "P_drop": 0.3, "joint": False, "steps": None, "clip": 1, "tie": "none"}
    model, train = apply_settings(settings, ModelConfig(), TrainConfig(steps=7))
    assert model == ModelConfig(N=2, P_drop=0.3, tie="none")
    assert train == TrainConfig(joint=False, clip=1.0)
    numpy: dict[str, Any] = {"N": np.int64(2), "P_drop": np.float64(0.3)}
    model, _ = apply_settings(numpy, ModelConfig(), TrainConfig())
    assert model == ModelConfig(N=2, P_drop=0.3)
    assert [type(model.N), type(model.P_drop)] == [int, float]


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("7", int, 7),
        ("-7", int, -7),
        ("25_000", int, 25_000),
        ("0.5", float, 0.5),
        ("1e-9", float, 1e-9),
        ("3", float, 3.0),
        ("1_000.5", float, 1000.5),
        ("true", bool, True),
        ("Yes", bool, True),
        ("FALSE", bool, False),
        ("no", bool, False),
        ("none", int | None, None),
        ("None", float | None, None),
        ("12", int | None, 12),
        ("1.5", float | None, 1.5),
        ("learned", base.field_types(ModelConfig)["positions"], "learned"),
    ],
)
def test_text_is_parsed_as_the_type_of_the_setting(text: str, hint: Any, value: Any) -> None:
    found = parse_value(text, hint, "setting")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "hint", "expected"),
    [
        ("many", int, "a whole number"),
        ("1.5", int, "a whole number"),
        ("1e3", int, "a whole number"),
        ("true", int, "a whole number"),
        ("none", int, "a whole number"),
        ("", int, "a whole number"),
        ("_", int, "a whole number"),
        ("9" * 5000, int, "a whole number"),
        ("half", float, "a number"),
        ("", float, "a number"),
        ("maybe", bool, "true or false"),
        ("1", bool, "true or false"),
        ("some", int | None, "a whole number or none"),
        (
            "Learned",
            base.field_types(ModelConfig)["positions"],
            "'sinusoidal' or 'learned' or 'rotary' or 'none'",
        ),
    ],
)
def test_text_that_does_not_fit_the_type_is_refused(text: str, hint: Any, expected: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_value(text, hint, "setting")
    assert str(caught.value) == f"setting = {text!r}: expected {expected}"


def test_settings_are_applied_to_their_configuration() -> None:
    model, train = apply_settings({"d_ff": "64", "warmup": "7"}, ModelConfig(), TrainConfig())
    assert (model, train) == (ModelConfig(d_ff=64), TrainConfig(warmup=7))


@pytest.mark.parametrize("names", [("keep", "average"), ("average", "keep")])
def test_settings_that_are_valid_together_may_be_in_any_order(names: tuple[str, str]) -> None:
    _, train = apply_settings(dict.fromkeys(names, "10"), ModelConfig(), TrainConfig())
    assert (train.keep, train.average) == (10, 10)


@pytest.mark.parametrize("value", [None, [], "x", 3, [["N", 2]]])
def test_settings_that_are_not_an_object_are_refused(value: Any) -> None:
    with pytest.raises(BadSetting, match=r"^expected an object of settings, found "):
        ModelConfig.from_json(value)


def test_a_stored_value_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(BadSetting, match=r"^N = '6': expected a whole number"):
        ModelConfig.from_json(ModelConfig().to_json() | {"N": "6"})


@given(st.one_of(MODELS, TRAININGS, SEARCHES))
def test_every_value_can_be_written_as_text(settings: Settings) -> None:
    for name, hint in base.field_types(type(settings)).items():
        value = getattr(settings, name)
        assert parse_value(str(value), hint, name) == value


def test_sentencepiece_subwords_cannot_be_learned() -> None:
    with pytest.raises(BadSetting, match="'sentencepiece': expected 'bpe' or 'wordpiece'"):
        apply_settings({"subwords": "sentencepiece"}, ModelConfig(), TrainConfig())
