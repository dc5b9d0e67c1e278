"""The presets are the paper's Table 3, cell by cell, and so are their numbers of parameters."""

import functools

import pytest

from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadSetting
from transduce.model.architecture import count_parameters
from transduce.presets import (
    BASELINES,
    FAST,
    MODERN,
    PARSING,
    PRESETS,
    SMALL,
    TABLE_3,
    find_preset,
)

# Table 3 with its blanks filled in; the last column is its number of parameters in millions.
TABLE = """
row        N  d_model  d_ff   h  d_k  d_v  P_drop  eps_ls   steps  positions   params
base       6      512  2048   8   64   64     0.1     0.1  100000  sinusoidal      65
A-h1       6      512  2048   1  512  512     0.1     0.1  100000  sinusoidal       -
A-h4       6      512  2048   4  128  128     0.1     0.1  100000  sinusoidal       -
A-h16      6      512  2048  16   32   32     0.1     0.1  100000  sinusoidal       -
A-h32      6      512  2048  32   16   16     0.1     0.1  100000  sinusoidal       -
B-dk16     6      512  2048   8   16   64     0.1     0.1  100000  sinusoidal      58
B-dk32     6      512  2048   8   32   64     0.1     0.1  100000  sinusoidal      60
C-N2       2      512  2048   8   64   64     0.1     0.1  100000  sinusoidal      36
C-N4       4      512  2048   8   64   64     0.1     0.1  100000  sinusoidal      50
C-N8       8      512  2048   8   64   64     0.1     0.1  100000  sinusoidal      80
C-d256     6      256  2048   8   32   32     0.1     0.1  100000  sinusoidal      28
C-d1024    6     1024  2048   8  128  128     0.1     0.1  100000  sinusoidal     168
C-ff1024   6      512  1024   8   64   64     0.1     0.1  100000  sinusoidal      53
C-ff4096   6      512  4096   8   64   64     0.1     0.1  100000  sinusoidal      90
D-drop0    6      512  2048   8   64   64     0.0     0.1  100000  sinusoidal       -
D-drop0.2  6      512  2048   8   64   64     0.2     0.1  100000  sinusoidal       -
D-ls0      6      512  2048   8   64   64     0.1     0.0  100000  sinusoidal       -
D-ls0.2    6      512  2048   8   64   64     0.1     0.2  100000  sinusoidal       -
E-learned  6      512  2048   8   64   64     0.1     0.1  100000  learned          -
big        6     1024  4096  16   64   64     0.3     0.1  300000  sinusoidal     213
"""
COLUMNS, *LINES = (line.split() for line in TABLE.strip().splitlines())
ROWS = {line[0]: dict(zip(COLUMNS, line, strict=True)) for line in LINES}
MILLIONS = {name: int(row["params"]) for name, row in ROWS.items() if row["params"] != "-"}


@functools.cache
def parameters(model: ModelConfig) -> int:
    """Count the parameters of the model as it is built, without its numbers."""
    return count_parameters(model)


def by_the_paper(model: ModelConfig, vocabulary: int) -> int:
    """Count them as sections 3.1 to 3.5 of the paper have it."""
    d = model.d_model
    projections = [(d, model.d_k), (d, model.d_k), (d, model.d_v)]  # 3.2.2, of each head
    heads = model.h * sum(rows * columns for rows, columns in projections)
    attention = heads + model.h * model.d_v * d  # and W^O
    feed_forward = d * model.d_ff + model.d_ff + model.d_ff * d + d  # 3.3, Eq. 2
    norm = 2 * d
    encoder = attention + feed_forward + 2 * norm  # 3.1, a layer
    decoder = 2 * attention + feed_forward + 3 * norm
    positions = 2 * model.max_len * d if model.positions == "learned" else 0
    return vocabulary * d + model.N * (encoder + decoder) + positions  # 3.4: one matrix


def test_the_presets_are_complete() -> None:
    assert list(TABLE_3) == list(ROWS)
    kinds = (TABLE_3, SMALL, FAST, MODERN, BASELINES, PARSING)
    assert set(PRESETS) == {name for kind in kinds for name in kind}
    assert len(PRESETS) == sum(map(len, kinds))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_table_3_has_the_values_of_the_paper(name: str) -> None:
    row, chosen = ROWS[name], find_preset(name)
    for column in ("N", "d_model", "d_ff", "h", "d_k", "d_v"):
        assert getattr(chosen.model, column) == int(row[column]), column
    assert chosen.model.P_drop == float(row["P_drop"])
    assert chosen.model.positions == row["positions"]
    assert chosen.train.eps_ls == float(row["eps_ls"])
    assert chosen.train.steps == int(row["steps"])


@pytest.mark.parametrize("name", ROWS)
def test_a_row_changes_only_columns_of_table_3(name: str) -> None:
    chosen = find_preset(name)
    base = {column: getattr(ModelConfig(), column) for column in COLUMNS[1:8] if column != "eps_ls"}
    assert chosen.model.replace(**base, positions="sinusoidal") == ModelConfig()
    average = 20 if name == "big" else 5  # 6.1
    assert chosen.train.replace(eps_ls=0.1, steps=None) == TrainConfig(
        keep=average, average=average
    )


@pytest.mark.parametrize("name", ROWS)
def test_the_number_of_parameters_follows_from_the_paper(name: str) -> None:
    model = find_preset(name).model
    assert parameters(model) == by_the_paper(model, vocabulary=37_000)


@pytest.mark.parametrize("name", MILLIONS)
def test_differences_in_parameters_between_rows_are_those_of_the_paper(name: str) -> None:
    others = [other for other in MILLIONS if ROWS[other]["d_model"] == ROWS[name]["d_model"]]
    for other in [other for other in others if "big" not in (name, other)]:  # another vocabulary
        ours = parameters(find_preset(name).model) - parameters(find_preset(other).model)
        assert ours / 1e6 == pytest.approx(MILLIONS[name] - MILLIONS[other], abs=1.0)


@pytest.mark.parametrize("name", MILLIONS)
def test_one_vocabulary_explains_the_papers_totals(name: str) -> None:
    model = find_preset(name).model
    without = parameters(model) - 37_000 * model.d_model
    vocabulary = (MILLIONS[name] * 1e6 - without) / model.d_model
    rounding = 0.5e6 / model.d_model
    assert vocabulary == pytest.approx(36_000 if name == "big" else 41_000, abs=rounding + 1000)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_limit_and_can_be_built(name: str) -> None:
    chosen = find_preset(name)
    assert chosen.train.steps
    assert parameters(chosen.model) > 0


def test_the_small_presets_cool_down_and_grow() -> None:
    assert all(chosen.train.cooldown > 0 for chosen in SMALL.values())
    sizes = [parameters(find_preset(name).model) for name in ("tiny", "small", "base", "big")]
    assert sizes == sorted(set(sizes))


def test_the_parser_differs_from_base_only_as_section_6_3_says() -> None:
    model, base = find_preset("parse").model, find_preset("base").model
    assert (model.N, model.d_model) == (4, 1024)
    assert (model.d_ff, model.h, model.h * model.d_k) == (base.d_ff, base.h, model.d_model)
    assert find_preset("parse").train.vocabulary == 16_000
    assert all(chosen.train.validate_bleu == 0 for chosen in PARSING.values())  # trees have none


def test_the_modern_parser_is_the_small_one_with_later_layers_and_regularisation() -> None:
    modern, small = find_preset("parse-modern"), find_preset("parse-small")
    later = {"pre_norm": True, "norm": "rms", "positions": "rotary"}
    assert modern.model == small.model.replace(**later)
    assert modern.train == small.train.replace(rdrop=3.0)
    assert modern.model.first_departure


def a_sentence(model: ModelConfig, tokens: float, beam: int = 4) -> float:
    """Count the multiplications of translating a sentence; attention itself is left out."""
    d, heads = model.d_model, model.h * (model.d_k + model.d_v)
    feed_forward = 2 * d * model.d_ff
    encoder = model.N * (2 * d * heads + feed_forward)
    of_source = model.decoder_layers * d * heads  # the keys and values of cross-attention
    of_target = model.decoder_layers * (3 * d * heads + feed_forward)
    softmax = d * model.target_vocabulary
    return tokens * (encoder + of_source + beam * (of_target + softmax))


@pytest.mark.parametrize(("name", "times"), [("tiny-3-1", 6), ("small-4-1", 4)])
def test_a_student_needs_a_fraction_of_the_multiplications_of_small(name: str, times: int) -> None:
    """On Multi30k: 8,840 subwords by default, 15.2 a sentence; 18.1 with 3,000 subwords."""
    vocabulary = find_preset(name).train.vocabulary
    assert vocabulary == 3_000
    teacher = find_preset("small").model.replace(source_vocabulary=8840, target_vocabulary=8840)
    student = find_preset(name).model.replace(
        source_vocabulary=vocabulary, target_vocabulary=vocabulary
    )
    assert times * a_sentence(student, 18.1) < a_sentence(teacher, 15.2)


@pytest.mark.parametrize("name", FAST)
def test_a_fast_preset_has_the_layers_of_its_name_and_is_smaller_than_its_teacher(
    name: str,
) -> None:
    chosen = find_preset(name)
    size, encoder, decoder = name.split("-")
    assert (chosen.model.N, chosen.model.decoder_layers) == (int(encoder), int(decoder))
    teacher = find_preset("base" if size == "base" else "small").model
    assert chosen.model.d_model <= teacher.d_model
    assert decoder == "1"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("bse", "base"), ("Big", "big"), ("tinny", "tiny"), ("E-learnt", "E-learned")],
)
def test_a_similar_name_is_suggested_for_a_misspelt_preset(wrong: str, meant: str) -> None:
    with pytest.raises(BadSetting) as caught:
        find_preset(wrong)
    message = str(caught.value)
    assert message.startswith(f"there is no preset {wrong}. Did you mean {meant}? ")
    assert message.partition("The presets are: ")[2].split(", ") == list(PRESETS)
    assert "\n" not in message


def test_modern_is_as_large_as_base_and_says_that_it_is_not_the_paper() -> None:
    modern, base = find_preset("modern").model, find_preset("base").model
    assert abs(parameters(modern) / parameters(base) - 1) < 0.02
    assert modern.first_departure
    assert not base.first_departure
