"""Every setting has one default, the paper's; what does not fit is refused by name."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from transduce.settings import base as module
from transduce.settings.aliases import ALIASES, NO_EQUIVALENT
from transduce.settings.base import MAXIMUM, Settings, parse_value
from transduce.settings.types import alternatives

CONFIGURATIONS: list[type[Settings]] = [ModelConfig, TrainConfig, SearchConfig]

# What the paper says of its base model, by section.
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
        "beta1": 0.9,  # 5.3
        "beta2": 0.98,
        "epsilon": 1e-9,
        "warmup": 4000,
        "eps_ls": 0.1,  # 5.4
        "average": 5,  # 6.1
        "select": "auto",
    },
    SearchConfig: {"beam": 4, "alpha": 0.6, "penalty": "paper", "extra": 50},  # 6.1
}

# What the paper does not have.
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

# A value just outside of what is allowed, one just inside, and what the message must say.
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
    (TrainConfig, "clip", -0.001, 0.0, "0 or more"),
    *((TrainConfig, name, -1, 0, "0 or more") for name in ("validate_bleu", "patience")),
    (TrainConfig, "seed", -1, 0, "a whole number from 0"),
    (TrainConfig, "max_skew", 0.999, 1.0, "1 or more"),
    (SearchConfig, "beam", 0, 1, "at least 1"),
    (SearchConfig, "alpha", -0.001, 0.0, "0 or more"),
    (SearchConfig, "extra", 0, 1, "at least 1"),
    (SearchConfig, "nbest", 0, 1, "at least 1"),
    (SearchConfig, "nbest", 5, 4, "at most the beam, which is 4"),
    (SearchConfig, "temperature", 0.9e-6, 1e-6, "at least 1e-06"),
    (SearchConfig, "top_k", -1, 0, "0 or more"),
    (SearchConfig, "top_p", 0.0, 1e-12, "above 0, up to 1"),
    (SearchConfig, "top_p", 1.001, 1.0, "above 0, up to 1"),
    (SearchConfig, "draw", -1, 0, "0 or more"),
]

FIELDS = [
    pytest.param(kind, name, hint, id=f"{kind.__name__}.{name}")
    for kind in CONFIGURATIONS
    for name, hint in module.field_types(kind).items()
]


def test_no_setting_stands_in_two_configurations() -> None:
    names = [name for kind in CONFIGURATIONS for name in module.field_types(kind)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_defaults_are_the_papers_base_model(kind: type[Settings]) -> None:
    defaults = kind().to_json()
    assert {name: defaults[name] for name in PAPER[kind]} == PAPER[kind]


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_what_the_paper_does_not_have_is_off(kind: type[Settings]) -> None:
    defaults = kind().to_json()
    assert {name: defaults[name] for name in OFF[kind]} == OFF[kind]


@pytest.mark.parametrize(
    ("kind", "name", "bad", "good", "expected"),
    LIMITS,
    ids=[f"{kind.__name__}-{name}-{bad}" for kind, name, bad, _, _ in LIMITS],
)
def test_each_limit_refuses_what_lies_beyond_it_and_nothing_more(
    kind: type[Settings], name: str, bad: Any, good: Any, expected: str
) -> None:
    assert getattr(kind().replace(**{name: good}), name) == good
    with pytest.raises(BadSetting) as caught:
        kind().replace(**{name: bad})
    message = str(caught.value)
    assert message.startswith(f"{name} = {bad!r}: expected ")
    assert expected in message


def test_keep_must_be_as_many_as_are_averaged() -> None:
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


def test_into_how_many_pieces_an_update_is_cut_may_be_left_open() -> None:
    _, recipe = apply_settings({"accumulate": "none"}, ModelConfig(), TrainConfig())
    assert recipe.accumulate is None
    assert TrainConfig.from_json(recipe.to_json()) == recipe


def test_draws_may_be_more_than_the_beam_is_wide() -> None:
    assert SearchConfig(sample=True, nbest=9).nbest == 9


def test_the_decoder_is_as_deep_as_the_encoder_unless_told_otherwise() -> None:
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
def test_what_is_no_finite_number_is_refused(kind: type[Settings], name: str, value: float) -> None:
    with pytest.raises(BadSetting, match=f"^{name} = {value}: expected "):
        kind().replace(**{name: value})


def test_a_seed_that_torch_cannot_take_is_refused() -> None:
    assert TrainConfig(seed=2**63 - 1)
    with pytest.raises(BadSetting, match=r"^seed = "):
        TrainConfig(seed=2**64)


def test_a_whole_number_does_for_a_number() -> None:
    changed = TrainConfig(max_skew=3, seconds=90)
    assert (changed.max_skew, changed.seconds) == (3.0, 90)
    assert isinstance(changed.max_skew, float)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"^max_skew = "):
        TrainConfig(max_skew=10**400)


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().N = 7  # type: ignore[misc]


def test_changing_settings_leaves_the_original_and_checks_all() -> None:
    before = ModelConfig()
    assert before.replace(N=2, d_ff=64) == ModelConfig(N=2, d_ff=64)
    assert before == ModelConfig()
    with pytest.raises(BadSetting, match=r"^h = 0"):
        before.replace(N=2, h=0)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("d_modl", "d_model"),
        ("dmodel", "d_model"),
        ("p_drop", "P_drop"),
        ("batch_token", "batch_tokens"),
    ],
)
def test_a_misspelt_setting_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
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
def test_a_name_of_another_toolkit_sets_the_same_thing(alias: str, name: str, value: Any) -> None:
    own, other = ({one: value} for one in (name, alias))
    before = ModelConfig(), TrainConfig()
    assert apply_settings(other, *before) == apply_settings(own, *before) != before
    assert apply_settings({alias: str(value)}, *before) == apply_settings(own, *before)
    (note,) = alias_notes(other)
    assert note == f"{alias} is called {name} here: {all_settings()[name].meaning}"
    assert alias_notes(own) == []
    assert find_setting(alias) == find_setting(name)


def test_the_search_takes_the_names_of_other_toolkits() -> None:
    assert SearchConfig().replace(beam_size=8, length_penalty=1) == SearchConfig(beam=8, alpha=1)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("lr", "set lr_scale"),
        ("learning-rate", "set lr_scale"),
        ("batch_size", "set batch_tokens"),
        ("update_freq", "set batch_tokens to the product"),
        ("fp16", "precision=bf16"),
        ("beam_size", "beam is a setting of the search"),
        ("source_vocabulary", "set vocabulary"),
    ],
)
def test_a_name_that_means_something_else_here_is_refused_with_advice(
    name: str, advice: str
) -> None:
    with pytest.raises(BadSetting, match=advice):
        apply_settings({name: "1"}, ModelConfig(), TrainConfig())


@pytest.mark.parametrize("names", [("dropout", "P_drop"), ("P_drop", "dropout"), ("h", "heads")])
def test_a_setting_and_its_alias_cannot_both_be_set(names: tuple[str, str]) -> None:
    with pytest.raises(BadSetting, match=f"^(P_drop|h) is set twice, once as {names[1]}"):
        canonical_settings(dict.fromkeys(names, 1))


def test_a_misspelt_alias_is_answered_with_its_setting() -> None:
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


def test_every_setting_says_what_it_means_and_where_the_paper_has_it() -> None:
    every = all_settings()
    assert [name for name, one in every.items() if not one.meaning] == []
    assert {one.group for one in every.values()} == {"model", "training", "search"}
    stated = {name for names in PAPER.values() for name in names}
    assert [name for name in stated if not every[name].paper] == []
    for kind, names in OFF.items():
        assert [name for name in names if every[name].paper and name != "lr_scale"] == [], kind


@pytest.mark.parametrize(
    ("settings", "said"),
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
def test_a_python_value_of_the_wrong_type_is_refused(settings: Any, said: str) -> None:
    with pytest.raises(BadSetting, match=f"^{said}"):
        apply_settings(settings, ModelConfig(), TrainConfig())


def test_python_values_are_taken_as_they_are() -> None:
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
        ("learned", module.field_types(ModelConfig)["positions"], "learned"),
    ],
)
def test_a_typed_value_is_read_as_the_settings_type(text: str, hint: Any, value: Any) -> None:
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
            module.field_types(ModelConfig)["positions"],
            "'sinusoidal' or 'learned' or 'rotary' or 'none'",
        ),
    ],
)
def test_a_typed_value_that_does_not_fit_is_refused(text: str, hint: Any, expected: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_value(text, hint, "setting")
    assert str(caught.value) == f"setting = {text!r}: expected {expected}"


def test_settings_reach_the_configuration_that_has_them() -> None:
    model, train = apply_settings({"d_ff": "64", "warmup": "7"}, ModelConfig(), TrainConfig())
    assert (model, train) == (ModelConfig(d_ff=64), TrainConfig(warmup=7))


@pytest.mark.parametrize("names", [("keep", "average"), ("average", "keep")])
def test_settings_that_fit_together_may_come_in_any_order(names: tuple[str, str]) -> None:
    _, train = apply_settings(dict.fromkeys(names, "10"), ModelConfig(), TrainConfig())
    assert (train.keep, train.average) == (10, 10)


@pytest.mark.parametrize("value", [None, [], "x", 3, [["N", 2]]])
def test_only_an_object_holds_settings(value: Any) -> None:
    with pytest.raises(BadSetting, match=r"^expected an object of settings, found "):
        ModelConfig.from_json(value)


def test_a_stored_value_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(BadSetting, match=r"^N = '6': expected a whole number"):
        ModelConfig.from_json(ModelConfig().to_json() | {"N": "6"})


def positive(most: int = 10**6) -> st.SearchStrategy[int]:
    return st.integers(1, most)


PARTS = st.floats(0, 1, exclude_max=True)
MODELS = st.builds(
    lambda vocabulary, **rest: ModelConfig(
        source_vocabulary=vocabulary, target_vocabulary=vocabulary, **rest
    ),
    vocabulary=positive(),
    N=positive(MAXIMUM["N"]),
    N_decoder=st.none() | positive(MAXIMUM["N"]),
    d_model=positive(MAXIMUM["d_model"] // 2).map(lambda half: 2 * half),
    d_ff=positive(),
    h=positive(MAXIMUM["h"]),
    d_k=positive(MAXIMUM["d_k"]),
    d_v=positive(MAXIMUM["d_v"]),
    P_drop=PARTS,
    attention_bias=st.booleans(),
    positions=st.sampled_from(["sinusoidal", "learned"]),
    tie=st.sampled_from(["all", "decoder", "none"]),
    max_len=st.integers(2, MAXIMUM["max_len"]),
)
TRAININGS = st.builds(
    TrainConfig,
    steps=st.none() | positive(),
    epochs=st.none() | positive(),
    seconds=st.none() | st.floats(1e-300, 1e300) | positive(),
    vocabulary=st.none() | positive(),
    joint=st.booleans(),
    subwords=st.sampled_from(["bpe", "wordpiece"]),
    batch_tokens=positive(),
    max_skew=st.floats(1, 1e300),
    beta2=PARTS,
    epsilon=st.floats(1e-300, 1e300),
    cooldown=st.floats(0, 1),
    keep=st.integers(5, 10**6),
    average=st.integers(1, 5),
    select=st.sampled_from(["auto", "average", "best"]),
    threads=st.none() | positive(MAXIMUM["threads"]),
    seed=st.integers(0, 2**63 - 1),
)
SEARCHES = st.builds(
    SearchConfig,
    beam=positive(MAXIMUM["beam"]),
    alpha=st.floats(0, MAXIMUM["alpha"]),
    penalty=st.sampled_from(["paper", "power"]),
    extra=positive(),
    nbest=st.just(1),
    sample=st.booleans(),
    top_p=st.floats(0, 1, exclude_min=True),
    draw=st.integers(0, 2**63 - 1),
)


@pytest.mark.parametrize("name", MAXIMUM)
def test_a_number_that_would_take_all_memory_is_refused(name: str) -> None:
    kinds: list[type[Settings]] = [ModelConfig, TrainConfig, SearchConfig]
    (kind,) = [one for one in kinds if name in one().to_json()]
    with pytest.raises(BadSetting, match=rf"{name} = .*expected at most"):
        kind().replace(**{name: MAXIMUM[name] + 1})


@given(st.one_of(MODELS, TRAININGS, SEARCHES))
def test_settings_survive_json(settings: Settings) -> None:
    text = json.dumps(settings.to_json(), allow_nan=False)
    assert type(settings).from_json(json.loads(text)) == settings


@given(st.one_of(MODELS, TRAININGS, SEARCHES))
def test_every_value_can_be_typed(settings: Settings) -> None:
    for name, hint in module.field_types(type(settings)).items():
        value = getattr(settings, name)
        assert parse_value(str(value), hint, name) == value


def test_subwords_that_come_with_a_model_cannot_be_learned() -> None:
    with pytest.raises(BadSetting, match="'sentencepiece': expected 'bpe' or 'wordpiece'"):
        apply_settings({"subwords": "sentencepiece"}, ModelConfig(), TrainConfig())
