"""All settings and their defaults: the model, its training and the search.

The defaults are the paper's. `transduce settings` lists the fields below.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeVar

from transduce.errors import BadSetting
from transduce.settings import base
from transduce.settings.aliases import NO_EQUIVALENT
from transduce.settings.base import (
    FRACTION,
    POSITIVE,
    Rule,
    SettingInfo,
    Settings,
    Value,
    at_least,
    setting,
)

T = TypeVar("T")

# The settings that may have any value without making the model something other than the paper's
# Transformer. Exports represent them or check their values.
TRANSFORMER_SETTINGS = frozenset(
    {
        *("N", "N_decoder", "d_model", "d_ff", "h", "d_k", "d_v", "activation", "tie"),
        *("P_drop", "attention_dropout", "relu_dropout", "attention_bias", "logits_bias"),
        *("positions", "max_len", "source_vocabulary", "target_vocabulary"),
    }
)

MIN_TEMPERATURE = 1e-6  # smaller values could overflow float32 in logits / temperature
EXTRA_POSITIONS = 256  # beyond max_len, because an output may be longer than the longest input


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """The settings of one architecture, in addition to those that all architectures share."""

    uses: frozenset[str]  # the other optional settings must keep their defaults
    requires: Mapping[str, Rule] = field(default_factory=dict)


_ATTENTION = frozenset({"attention", "scaled", "attention_bias"})
# A new architecture needs a row here, its name in `ModelConfig.architecture`, and its class in
# model/architecture.py.
ARCHITECTURES = {
    "transformer": Architecture(
        uses=_ATTENTION | {"neighbourhood", "attention_dropout", "relu_dropout", "activation"}
    ),
    "recurrent": Architecture(
        uses=_ATTENTION,
        requires={
            "positions": (
                lambda positions: positions == "none",
                "'none': a recurrent model needs no positions",
            )
        },
    ),
    "convs2s": Architecture(uses=frozenset({"kernel"})),
    "bytenet": Architecture(
        uses=frozenset({"kernel"}),
        requires={
            "kernel": (
                lambda width: width >= 2,
                "at least 2: with 1, positions could not exchange information",
            )
        },
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Settings):
    """The architecture columns of Table 3; the defaults are its base row."""

    architecture: Literal["transformer", "recurrent", "convs2s", "bytenet"] = setting(
        "transformer", "the paper's model, or a baseline it is compared with", "3, Table 2"
    )
    N: int = setting(
        6, "number of encoder layers, and of decoder layers unless N_decoder is set", "3.1"
    )
    N_decoder: int | None = setting(None, "number of decoder layers; none: same as N")
    d_model: int = setting(512, "width of the embeddings and of every layer's output", "3.1")
    d_ff: int = setting(
        2048,
        "inner width of the feed-forward networks; in baselines: LSTM cells or channels",
        "3.3",
    )
    h: int = setting(8, "number of attention heads", "3.2.2")
    d_k: int = setting(
        64,  # not d_model // h: rows (B) of Table 3 vary it alone
        "width of each head's queries and keys; independent of d_model and h",
        "3.2.2",
    )
    d_v: int = setting(64, "width of each head's values", "3.2.2")
    P_drop: float = setting(
        0.1, "dropout on each sub-layer's output and on the embeddings plus positions", "5.4"
    )
    attention_dropout: float = setting(0.0, "dropout on the attention weights")
    relu_dropout: float = setting(0.0, "dropout inside the feed-forward networks")
    attention_bias: bool = setting(False, "add biases to the attention projections")
    activation: Literal["relu", "swish", "gelu"] = setting(
        "relu",
        "activation in the feed-forward networks; the paper uses relu; imported models may differ",
        "3.3",
    )
    logits_bias: bool = setting(False, "add a bias to the logits")
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = setting(
        "sinusoidal",
        "positional encoding; learned is row (E) of Table 3; rotary is not in the paper: "
        "self-attention rotates queries and keys by their position (Su et al. 2021)",
        "3.5",
    )
    attention: Literal["dot-product", "additive"] = setting(
        "dot-product", "how queries are compared with keys", "3.2.1"
    )
    scaled: bool = setting(True, "divide the dot products by sqrt(d_k)", "3.2.1")
    neighbourhood: int | None = setting(
        None, "window r of restricted self-attention, in tokens; none: all tokens", "4"
    )
    kernel: int = setting(3, "kernel width of the convolutions in convs2s and bytenet")
    tie: Literal["all", "decoder", "none"] = setting(
        "all",
        "share weights between source embedding, target embedding and output layer (all), or "
        "between the last two (decoder)",
        "3.4",
    )
    max_len: int = setting(
        256, "longest sentence in subwords; training drops longer ones, translation splits them"
    )
    source_vocabulary: int = setting(37_000, "source vocabulary size; set by training", "5.1")
    target_vocabulary: int = setting(37_000, "target vocabulary size; set by training", "5.1")

    def check(self) -> None:
        """Refuse models that cannot be built."""
        self._check_each("N N_decoder d_model d_ff h d_k d_v kernel neighbourhood", at_least(1))
        self._check_each("source_vocabulary target_vocabulary", at_least(1))
        self._check_each("max_len", at_least(2))
        self._check_each("P_drop attention_dropout relu_dropout", FRACTION)
        even = "an even number: positions are pairs of sine and cosine"
        self._require(self.d_model % 2 == 0, "d_model", even)
        if self.attention == "additive":
            self._require(self.scaled, "scaled", "true: additive attention has no dot products")
            no_window = "none: additive attention has no window"
            self._require(self.neighbourhood is None, "neighbourhood", no_window)
        if self.positions == "rotary":
            rotates = self.architecture == "transformer" and self.uses_dot_products
            expected = "'sinusoidal', 'learned' or 'none': only dot-product self-attention rotates"
            self._require(rotates, "positions", expected)
            self._require(self.d_k % 2 == 0, "d_k", "an even number: rotary positions rotate pairs")
        self._check_architecture()
        if self.tie == "all" and self.source_vocabulary != self.target_vocabulary:
            raise BadSetting(
                "tie = 'all' needs a joint vocabulary: expected 'decoder' or 'none' with separate "
                "vocabularies"
            )

    def _check_architecture(self) -> None:
        """Refuse settings that the architecture does not use, and values it does not support."""
        architecture = ARCHITECTURES[self.architecture]
        optional = frozenset[str]().union(*(each.uses for each in ARCHITECTURES.values()))
        for name in sorted(optional - architecture.uses):
            default = type(self).__dataclass_fields__[name].default
            expected = "none" if default is None else repr(default)
            self._require(
                getattr(self, name) == default,
                name,
                f"{expected}: it has no effect with architecture = {self.architecture!r}",
            )
        for name, (valid, expected) in architecture.requires.items():
            self._require(valid(getattr(self, name)), name, expected)

    @property
    def first_departure(self) -> str:
        """The first non-default setting outside TRANSFORMER_SETTINGS, as `name = value`, or ""."""
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if field_.name not in TRANSFORMER_SETTINGS and value != field_.default:
                return f"{field_.name} = {value!r}"
        return ""

    @property
    def uses_dot_products(self) -> bool:
        """Whether attention uses dot products: our Triton kernels support no other kind."""
        return self.attention == "dot-product"

    @property
    def max_positions(self) -> int:
        """The number of positions; with learned positions, it is max_len."""
        return self.max_len + (0 if self.positions == "learned" else EXTRA_POSITIONS)

    @property
    def decoder_layers(self) -> int:
        """The number of decoder layers."""
        return self.N if self.N_decoder is None else self.N_decoder


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Settings):
    """How to train (paper 5); the defaults are the base model's."""

    # Limits: the first one reached ends the run.
    steps: int | None = setting(
        None,
        "training steps; whichever of steps, epochs and seconds is reached first ends the run",
        "5.2",
    )
    epochs: int | None = setting(None, "passes over the data")
    seconds: float | None = setting(None, "training time in seconds")
    timed: Literal["all", "steps"] = setting(
        "all", "time that `seconds` limits; steps: without validation and saving"
    )
    # Data.
    vocabulary: int | None = setting(
        None, "vocabulary size; none: chosen by the size of the corpus", "5.1"
    )
    joint: bool = setting(True, "one vocabulary for both languages", "5.1")
    subwords: Literal["bpe", "wordpiece", "sentencepiece"] = setting(
        "bpe", "kind of subwords; sentencepiece is for imported models only", "5.1"
    )
    batch_tokens: int = setting(25_000, "tokens per update on each side, over all GPUs", "5.1")
    accumulate: int | None = setting(
        1, "micro-batches per update in each process; none: as few as fit into memory"
    )
    max_skew: float = setting(
        4.0, "drop pairs in which one side is longer than max_skew times the other, plus 10 tokens"
    )
    # Loss, optimizer and learning rate.
    eps_ls: float = setting(0.1, "label smoothing", "5.4")
    beta1: float = setting(0.9, "Adam's beta1", "5.3")
    beta2: float = setting(0.98, "Adam's beta2", "5.3")
    epsilon: float = setting(1e-9, "Adam's epsilon", "5.3")
    warmup: int = setting(4000, "steps of rising learning rate (Eq. 3)", "5.3")
    warmup_cap: float = setting(0.25, "largest fraction of the run used for warmup; 1: no limit")
    ramp: int | None = setting(
        None, "steps of rising learning rate, if fewer than warmup; then constant until warmup"
    )
    lr_scale: float = setting(1.0, "factor on the learning rate of Eq. 3", "5.3")
    cooldown: float = setting(
        0.0, "fraction of the run, at its end, in which the learning rate falls to 0"
    )
    clip: float = setting(0.0, "clip the gradient to this norm; 0: no clipping, as in the paper")
    # Checkpoints, validation and the log.
    save_every: int = setting(1000, "steps between checkpoints")
    keep: int = setting(5, "number of newest checkpoints to keep")
    average: int = setting(5, "number of checkpoints to average", "6.1")
    select: Literal["auto", "average", "best"] = setting(
        "auto",
        "final weights; average: mean of the last checkpoints; best: lowest validation loss; "
        "auto: the mean if those checkpoints are in the last tenth of the run, else the last "
        "checkpoint or a shorter mean, by validation loss",
        "6.1",
    )
    validate_every: int = setting(1000, "steps between validations")
    validate_bleu: int = setting(200, "validation sentences to translate for BLEU")
    patience: int = setting(0, "stop after this many validations without improvement; 0: never")
    log_every: int = setting(50, "steps between log lines")
    # Machine.
    seed: int = setting(1, "random seed")
    threads: int | None = setting(
        None, "CPU threads; none: the fastest, by measurement; changes the last bits of results"
    )
    precision: Literal["auto", "bf16", "float32"] = setting(
        "auto", "precision of training; auto: bf16 on GPUs that support it"
    )
    kernels: bool = setting(True, "use our Triton kernels on a GPU; false: PyTorch's")
    recompute: bool = setting(
        False, "recompute layers in the backward pass: less memory, a third more time"
    )
    deterministic: bool = setting(False, "same bits in every run (slower), on one GPU or on a CPU")

    def check(self) -> None:
        """Refuse training runs that are impossible."""
        self._check_each("batch_tokens warmup save_every keep average", at_least(1))
        self._check_each("validate_every log_every max_skew", at_least(1))
        self._check_each("steps epochs seconds vocabulary ramp threads accumulate", POSITIVE)
        self._check_each("epsilon lr_scale", POSITIVE)
        self._check_each("eps_ls beta1 beta2", FRACTION)
        self._check_each("clip validate_bleu patience", at_least(0))
        self._require(0 <= self.cooldown <= 1, "cooldown", "a fraction from 0 to 1")
        self._require(0 < self.warmup_cap <= 1, "warmup_cap", "a fraction above 0, up to 1")
        self._require(self.seed >= 0, "seed", "a whole number from 0 to 2^63 - 1")
        self._require(self.average <= self.keep, "average", f"at most keep, which is {self.keep}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig(Settings):
    """How to translate (paper 6.1)."""

    beam: int = setting(4, "beam size", "6.1")
    alpha: float = setting(0.6, "exponent of the length penalty ((5 + length) / 6)^alpha", "6.1")
    penalty: Literal["paper", "power"] = setting(
        "paper", "form of the length penalty; power: length^alpha, for imported models", "6.1"
    )
    extra: int = setting(
        50, "most tokens by which an output may exceed its input, or its prefix if longer", "6.1"
    )
    nbest: int = setting(1, "translations to return per sentence")
    sample: bool = setting(False, "sample translations instead of searching")
    temperature: float = setting(1.0, "sampling temperature: below 1 sharper, above 1 flatter")
    top_k: int = setting(0, "sample from the k most likely tokens; 0: all")
    top_p: float = setting(
        1.0,
        "nucleus sampling: keep the smallest set of tokens whose probabilities sum to p; 1: all",
    )
    draw: int = setting(1, "sampling seed")

    def check(self) -> None:
        """Refuse searches that are impossible."""
        self._check_each("beam extra nbest", at_least(1))
        self._check_each("alpha top_k draw", at_least(0))
        self._check_each("temperature", at_least(MIN_TEMPERATURE))
        self._require(0 < self.top_p <= 1, "top_p", "a number above 0, up to 1")
        if not self.sample:
            at_most = f"at most the beam, which is {self.beam}"
            self._require(self.nbest <= self.beam, "nbest", at_most)


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
        {_refuse_foreign(name): value for name, value in settings.items()}, all_settings()
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
    return (
        model.replace(**{name: value for name, value in values.items() if name in model_types}),
        train.replace(**{name: value for name, value in values.items() if name in train_types}),
    )


def _refuse_foreign(name: str) -> str:
    """Refuse names from other toolkits that have no equivalent here."""
    if why := NO_EQUIVALENT.get(str(name).replace("-", "_").lower()):
        raise BadSetting(f"{name} {why}")
    return name
