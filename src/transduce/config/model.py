"""The settings of a model; the defaults are the paper's."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from transduce.errors import BadSetting
from transduce.settings.base import FRACTION, Rule, Settings, at_least, setting

# The settings that may have any value without making the model something other than the paper's
# Transformer. Exports represent them or check their values.
TRANSFORMER_SETTINGS = frozenset(
    {
        *("N", "N_decoder", "d_model", "d_ff", "h", "d_k", "d_v", "activation", "tie"),
        *("P_drop", "attention_dropout", "relu_dropout", "attention_bias", "logits_bias"),
        *("positions", "init", "max_len", "source_vocabulary", "target_vocabulary"),
    }
)

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
        uses=_ATTENTION
        | {"neighbourhood", "attention_dropout", "relu_dropout", "activation", "init"}
        | {"pre_norm", "norm", "gated", "qk_norm"}
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
    "neural-gpu": Architecture(
        uses=frozenset({"kernel"}),
        requires={
            "kernel": (
                lambda width: width >= 3 and width % 2 == 1,
                "an odd number from 3 on: a row and as many neighbours on both sides",
            )
        },
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Settings):
    """The architecture columns of Table 3; the defaults are its base row."""

    architecture: Literal["transformer", "recurrent", "convs2s", "bytenet", "neural-gpu"] = setting(
        "transformer", "the paper's model, or a baseline it is compared with", "3, Table 2"
    )
    N: int = setting(
        6, "number of encoder layers, and of decoder layers unless N_decoder is set", "3.1"
    )
    N_decoder: int | None = setting(None, "number of decoder layers; none: same as N")
    d_model: int = setting(512, "width of the embeddings and of every layer's output", "3.1")
    d_ff: int = setting(
        2048,
        "inner width of the feed-forward networks; in baselines: LSTM cells or channels; in "
        "neural-gpu: d_model channels for each column of the image",
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
    pre_norm: bool = setting(
        False,
        "normalise the input of each sub-layer, and each stack's output, instead of the residual "
        "sums",
    )
    norm: Literal["layer", "rms"] = setting(
        "layer", "LayerNorm, or RMSNorm (Zhang and Sennrich 2019): no mean, no bias", "3.1"
    )
    gated: bool = setting(
        False,
        "gated feed-forward networks without biases (Shazeer 2020): (act(x W_1) * x W_3) W_2",
    )
    qk_norm: bool = setting(False, "RMSNorm on each head's queries and keys (Henry et al. 2020)")
    kernel: int = setting(3, "kernel width of the convolutions in convs2s, bytenet and neural-gpu")
    tie: Literal["all", "decoder", "none"] = setting(
        "all",
        "share weights between source embedding, target embedding and output layer (all), or "
        "between the last two (decoder)",
        "3.4",
    )
    init: Literal["centred", "depth-scaled", "small", "admin", "deepnet", "xavier"] = setting(
        "centred",
        "initial weights; depth-scaled: Xavier, with smaller outputs of the sub-layers; centred: "
        "and inputs with mean 0, so that deep models learn at high rates; small: depth-scaled, and "
        "smaller attention matrices; admin, deepnet: scaled as in these papers",
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
            no_products = "false: additive attention has no dot products"
            self._require(not self.qk_norm, "qk_norm", no_products)
        if self.positions == "rotary":
            rotates = self.architecture == "transformer" and self.uses_dot_products
            expected = "'sinusoidal', 'learned' or 'none': only dot-product self-attention rotates"
            self._require(rotates, "positions", expected)
            self._require(self.d_k % 2 == 0, "d_k", "an even number: rotary positions rotate pairs")
        if self.pre_norm:
            expected = "another: 'admin' and 'deepnet' are for post-norm"
            self._require(self.init not in ("admin", "deepnet"), "init", expected)
        if self.architecture == "neural-gpu":
            expected = f"a multiple of d_model = {self.d_model}: columns of d_model channels"
            self._require(self.d_ff % self.d_model == 0, "d_ff", expected)
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
        return self.first_departure_from(TRANSFORMER_SETTINGS)

    def first_departure_from(self, known: frozenset[str]) -> str:
        """Return the first non-default setting that is not known, as `name = value`, or ""."""
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if field_.name not in known and value != field_.default:
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
