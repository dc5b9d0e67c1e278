"""Presets: the rows of the paper's Table 3, small, fast and modern models, baselines and parsers.

A row of Table 3 gives only the settings in which it differs from the base model.
"""

from dataclasses import dataclass
from typing import Any

from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadSetting, did_you_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """A model configuration and its training configuration."""

    model: ModelConfig
    train: TrainConfig


def row(*, steps: int = 100_000, eps_ls: float = 0.1, average: int = 5, **model: Any) -> Preset:
    """Return the base model with some columns of Table 3 changed."""
    train = TrainConfig(steps=steps, eps_ls=eps_ls, average=average, keep=average)
    return Preset(model=ModelConfig(**model), train=train)


def small(
    model: ModelConfig, *, steps: int, warmup: int, batch_tokens: int, **train: Any
) -> Preset:
    """Return a preset for a CPU and a short run.

    Differs: the learning rate falls to 0 in the second half (`cooldown`), and the warm-up is
    shorter; docs/log.md reports the effect of both.
    """
    cooled = TrainConfig(
        steps=steps, warmup=warmup, batch_tokens=batch_tokens, cooldown=0.5, **train
    )
    return Preset(model=model, train=cooled)


def student(**model: Any) -> Preset:
    """Return a preset for distilling a `small` teacher into a student that decodes much faster.

    Differs: it has 3,000 subwords, because with more the softmax would take most of the time. The
    other settings are the best ones on Multi30k (docs/results.md).
    """
    return small(
        ModelConfig(N_decoder=1, P_drop=0.15, **model),
        steps=8_500,
        warmup=800,
        batch_tokens=8_000,
        vocabulary=3_000,
        lr_scale=1.5,
        save_every=100,
        keep=10,
        average=10,
        validate_every=500,
    )


def convolutional(
    architecture: str, reference: Preset, *, lr_scale: float = 2.0, **model: Any
) -> Preset:
    """Return a convolutional model about as large as a Transformer and trained in the same way.

    Differs: a different learning rate, and gradients clipped at 1. The authors of ConvS2S use a
    different optimizer, a rate of 0.25 and clipping at 0.1.
    """
    positions = "learned" if architecture == "convs2s" else "none"
    return Preset(
        model=reference.model.replace(architecture=architecture, positions=positions, **model),
        train=reference.train.replace(lr_scale=lr_scale, clip=1.0),
    )


def recurrent(reference: Preset, *, N: int, cells: int, **train: Any) -> Preset:
    """Return a recurrent model about as large as a Transformer and trained in the same way.

    Like GNMT (Wu et al. 2016), but with fewer and narrower layers, a single attention head as wide
    as a layer, and gradients clipped at 5.
    """
    model = reference.model.replace(
        architecture="recurrent",
        attention="additive",
        positions="none",
        N=N,
        d_ff=cells,
        h=1,
        d_k=cells,
        d_v=cells,
    )
    return Preset(model=model, train=reference.train.replace(clip=5.0, **train))


TABLE_3 = {
    "base": row(),
    "A-h1": row(h=1, d_k=512, d_v=512),
    "A-h4": row(h=4, d_k=128, d_v=128),
    "A-h16": row(h=16, d_k=32, d_v=32),
    "A-h32": row(h=32, d_k=16, d_v=16),
    "B-dk16": row(d_k=16),
    "B-dk32": row(d_k=32),
    "C-N2": row(N=2),
    "C-N4": row(N=4),
    "C-N8": row(N=8),
    "C-d256": row(d_model=256, d_k=32, d_v=32),
    "C-d1024": row(d_model=1024, d_k=128, d_v=128),
    "C-ff1024": row(d_ff=1024),
    "C-ff4096": row(d_ff=4096),
    "D-drop0": row(P_drop=0.0),
    "D-drop0.2": row(P_drop=0.2),
    "D-ls0": row(eps_ls=0.0),
    "D-ls0.2": row(eps_ls=0.2),
    "E-learned": row(positions="learned"),
    "big": row(d_model=1024, d_ff=4096, h=16, P_drop=0.3, steps=300_000, average=20),
}

SMALL = {
    "tiny": small(
        ModelConfig(N=2, d_model=128, d_ff=512, h=4, d_k=32, d_v=32),
        steps=5_000,
        warmup=400,
        batch_tokens=2_000,
        save_every=200,
        validate_every=500,
    ),
    "small": small(
        ModelConfig(N=3, d_model=256, d_ff=1024, h=4, d_k=64, d_v=64, P_drop=0.2),
        steps=12_000,
        warmup=800,
        batch_tokens=4_000,
        save_every=500,
        validate_every=500,
    ),
}

# The encoder runs once per sentence, over all its tokens in parallel; the decoder runs once per
# output token and hypothesis. So a deep encoder with one decoder layer decodes fastest, and when
# distilled it loses little quality (Kasai et al. 2021). A name consists of the size, the number of
# encoder layers and the number of decoder layers.
FAST = {
    "tiny-3-1": student(N=3, d_model=128, d_ff=512, h=4, d_k=32, d_v=32),
    "small-4-1": student(N=4, d_model=144, d_ff=768, h=4, d_k=36, d_v=36),
    "base-12-1": row(N=12, N_decoder=1),
}

# The paper's baselines, with about as many parameters as `base`, `small` and `tiny`. d_ff is the
# number of inner channels, d_model the width of the embeddings.
BASELINES = {
    "recurrent": recurrent(TABLE_3["base"], N=4, cells=704, lr_scale=4.0),
    "recurrent-small": recurrent(SMALL["small"], N=3, cells=280, lr_scale=2.0),
    "recurrent-tiny": recurrent(SMALL["tiny"], N=2, cells=128, lr_scale=2.0),
    # Gehring et al. 2017: 512 units and kernel width 3 as there, but 12 layers instead of 15 or 20.
    "convs2s": convolutional("convs2s", TABLE_3["base"], N=12, d_ff=512),
    "convs2s-small": convolutional("convs2s", SMALL["small"], N=6, d_ff=256),
    "convs2s-tiny": convolutional("convs2s", SMALL["tiny"], N=4, d_ff=120),
    # Kalchbrenner et al. 2016: 30 blocks as there, 6 sets of 5, each block half as wide inside.
    "bytenet": convolutional("bytenet", TABLE_3["base"], lr_scale=4.0, N=30, d_model=608, d_ff=304),
    "bytenet-small": convolutional(
        "bytenet", SMALL["small"], lr_scale=4.0, N=15, d_model=320, d_ff=160
    ),
    "bytenet-tiny": convolutional("bytenet", SMALL["tiny"], N=10, d_model=160, d_ff=80),
    # Kaiser and Bengio 2016: images of one column, and a kernel of width 3. The weights are applied
    # to every row in every step, so a token costs about n times as much as in other models.
    "neural-gpu": convolutional("neural-gpu", TABLE_3["base"], N=6, d_ff=512),
    "neural-gpu-small": convolutional("neural-gpu", SMALL["small"], N=3, d_ff=256),
    "neural-gpu-tiny": convolutional("neural-gpu", SMALL["tiny"], N=2, d_ff=128),
}

# Parsers (6.3): 4 layers, d_model 1024, a vocabulary of 16,000; otherwise the base model. The paper
# does not give the dropout and the learning rate; these values are from its authors' code.
PARSING = {
    "parse": Preset(
        model=ModelConfig(
            N=4, d_model=1024, d_k=128, d_v=128, P_drop=0.2, attention_dropout=0.2, max_len=512
        ),
        train=TrainConfig(
            steps=100_000, vocabulary=16_000, warmup=16_000, max_skew=100, validate_bleu=0
        ),
    ),
    "parse-small": small(
        ModelConfig(N=4, d_model=256, d_ff=1024, h=4, d_k=64, d_v=64, P_drop=0.3, max_len=512),
        steps=10_000,
        warmup=1_500,
        batch_tokens=8_000,
        vocabulary=4_000,
        max_skew=100,
        save_every=200,
        keep=8,
        average=8,
        validate_every=1_000,
        validate_bleu=0,
    ),
    # `parse-small` with layers and a regularisation that came after the paper.
    "parse-modern": small(
        ModelConfig(
            N=4,
            d_model=256,
            d_ff=1024,
            h=4,
            d_k=64,
            d_v=64,
            P_drop=0.3,
            max_len=512,
            pre_norm=True,
            norm="rms",
            positions="rotary",
        ),
        steps=10_000,
        warmup=1_500,
        batch_tokens=8_000,
        vocabulary=4_000,
        max_skew=100,
        rdrop=3.0,
        save_every=200,
        keep=8,
        average=8,
        validate_every=1_000,
        validate_bleu=0,
    ),
    # For a CPU and a few minutes.
    "parse-tiny": small(
        ModelConfig(N=2, d_model=128, d_ff=512, h=4, d_k=32, d_v=32, max_len=512),
        steps=8_000,
        warmup=400,
        batch_tokens=1_000,
        vocabulary=2_000,
        lr_scale=0.7,
        max_skew=100,
        save_every=200,
        keep=4,
        average=4,
        validate_every=500,
        validate_bleu=0,
    ),
}

# Not the paper's model: what improved on `base` at the same size since 2017, each a setting of its
# own (docs/log.md has the ablation). d_ff is two thirds of base's, rounded, because a gated network
# has three matrices instead of two.
MODERN = {
    "modern": Preset(
        model=ModelConfig(
            pre_norm=True,
            norm="rms",
            positions="rotary",
            gated=True,
            activation="swish",
            qk_norm=True,
            init="depth-scaled",
            d_ff=1408,
        ),
        train=TrainConfig(
            steps=50_000,
            optimizer="muon",
            weight_decay=0.05,
            schedule="constant",
            warmup=1_000,
            cooldown=0.7,
        ),
    ),
}

PRESETS = SMALL | FAST | TABLE_3 | MODERN | BASELINES | PARSING


def find_preset(name: str) -> Preset:
    """Return the preset with this name."""
    try:
        return PRESETS[name]
    except KeyError:
        raise BadSetting(
            f"there is no preset {name}.{did_you_mean(name, PRESETS)} "
            f"The presets are: {', '.join(PRESETS)}"
        ) from None
