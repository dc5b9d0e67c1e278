"""Hypothesis strategies for valid configurations."""

from hypothesis import strategies as st

from transduce.config import (
    ModelConfig,
    SearchConfig,
    TrainConfig,
)
from transduce.settings.base import MAXIMUM


def positive(maximum: int = 10**6) -> st.SearchStrategy[int]:
    return st.integers(1, maximum)


FRACTIONS = st.floats(0, 1, exclude_max=True)


MODELS = st.builds(
    lambda vocabulary, pre_norm, init, **rest: ModelConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        pre_norm=pre_norm and init not in ("admin", "deepnet"),
        init=init,
        **rest,
    ),
    vocabulary=positive(),
    N=positive(MAXIMUM["N"]),
    N_decoder=st.none() | positive(MAXIMUM["N"]),
    d_model=positive(MAXIMUM["d_model"] // 2).map(lambda half: 2 * half),
    d_ff=positive(),
    h=positive(MAXIMUM["h"]),
    d_k=positive(MAXIMUM["d_k"]),
    d_v=positive(MAXIMUM["d_v"]),
    P_drop=FRACTIONS,
    attention_bias=st.booleans(),
    positions=st.sampled_from(["sinusoidal", "learned"]),
    pre_norm=st.booleans(),
    norm=st.sampled_from(["layer", "rms"]),
    gated=st.booleans(),
    qk_norm=st.booleans(),
    tie=st.sampled_from(["all", "decoder", "none"]),
    init=st.sampled_from(["centred", "depth-scaled", "small", "admin", "deepnet", "xavier"]),
    max_len=st.integers(2, MAXIMUM["max_len"]),
)


TRAININGS = st.builds(
    lambda subwords, bpe_dropout, **rest: TrainConfig(
        subwords=subwords, bpe_dropout=bpe_dropout if subwords == "bpe" else 0.0, **rest
    ),
    steps=st.none() | positive(),
    epochs=st.none() | positive(),
    seconds=st.none() | st.floats(1e-300, 1e299) | positive(),
    vocabulary=st.none() | positive(),
    joint=st.booleans(),
    subwords=st.sampled_from(["bpe", "wordpiece"]),
    batch_tokens=positive(),
    max_skew=st.floats(1, 1e299),
    bpe_dropout=FRACTIONS,
    optimizer=st.sampled_from(["adam", "muon"]),
    schedule=st.sampled_from(["inverse-sqrt", "constant"]),
    beta2=FRACTIONS,
    epsilon=st.floats(1e-300, 1e299),
    cooldown=st.floats(0, 1),
    rdrop=st.floats(0, 1e299),
    word_dropout=FRACTIONS,
    weight_decay=st.floats(0, 1e299),
    ema=FRACTIONS,
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
