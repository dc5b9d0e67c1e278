"""Every setting, with its one default: what the model is, how it is trained, how it is searched.

The defaults are the paper's. A configuration is frozen, checked when made, and JSON on disk.
"""

import dataclasses
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from transduce.errors import BadSetting, did_you_mean

LONGER = 256  # positions beyond max_len: an output may be longer than the longest input
# Settings that architectures have no place for: they stay as they are.
_OF_LAYERS = ("neighbourhood", "attention_dropout", "relu_dropout", "activation")
_OF_ATTENTION = ("attention", "scaled", "attention_bias")
UNUSED: dict[str, tuple[str, ...]] = {
    "transformer": ("kernel",),
    "recurrent": (*_OF_LAYERS, "kernel"),
    "convs2s": _OF_LAYERS + _OF_ATTENTION,
    "bytenet": _OF_LAYERS + _OF_ATTENTION,
}


# Far beyond what can be trained or searched: more is a mistake, or meant to take all memory.
MOST = {
    **dict.fromkeys(("N", "N_decoder", "h", "kernel", "beam"), 1_000),
    **dict.fromkeys(("threads", "nbest"), 10_000),
    **dict.fromkeys(("d_model", "d_k", "d_v", "max_len"), 1 << 15),
    **dict.fromkeys(("d_ff", "extra"), 1 << 20),
    **dict.fromkeys(("vocabulary", "source_vocabulary", "target_vocabulary"), 1 << 24),
    **dict.fromkeys(("batch_tokens", "accumulate"), 1 << 31),
    **dict.fromkeys(("draw", "seed"), (1 << 63) - 1),
}


class Settings:
    """What the three configurations share: checks, JSON, and changes by name."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Refuse values of the wrong type, then values that make no sense."""
        hints = _hints(type(self))
        for name, hint in hints.items():
            value = getattr(self, name)
            if not _fits(value, hint):
                raise BadSetting(f"{name} = {value!r}: expected {_words(hint)}")
            if hint is float:
                object.__setattr__(self, name, float(value))
            if value is not None and value > MOST.get(name, value):
                raise BadSetting(f"{name} = {value!r}: expected at most {MOST[name]:,}")
        self.check()

    def check(self) -> None:
        """Refuse values that make no sense together."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some settings changed, all of them checked."""
        known = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        for name in changes:
            if name not in known:
                raise BadSetting(f"there is no setting {name}.{did_you_mean(name, known)}")
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make the settings of a JSON object."""
        if not isinstance(value, dict):
            raise BadSetting(f"expected an object of settings, found {type(value).__name__}")
        known = list(_hints(cls))
        for name in value:
            if name not in known:
                raise BadSetting(f"there is no setting {name}.{did_you_mean(name, known)}")
        return cls(**value)

    def _require(self, condition: bool, name: str, expected: str) -> None:
        if not condition:
            raise BadSetting(f"{name} = {getattr(self, name)!r}: expected {expected}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Settings):
    """The architecture columns of Table 3; the defaults are its base row."""

    # The paper's model, or one of those that it was compared with.
    architecture: Literal["transformer", "recurrent", "convs2s", "bytenet"] = "transformer"
    N: int = 6  # layers of the encoder, and of the decoder unless N_decoder says otherwise
    N_decoder: int | None = None  # layers of the decoder; None: as many as of the encoder
    d_model: int = 512  # width of every layer's output (3.1)
    d_ff: int = 2048  # inside the feed-forward layers; cells of an LSTM, channels of a convolution
    h: int = 8  # attention heads (3.2.2)
    d_k: int = 64  # not d_model // h: rows (B) vary it alone
    d_v: int = 64  # width of a head's values
    P_drop: float = 0.1  # on every sub-layer's output and on the embedding sums (5.4)
    attention_dropout: float = 0.0  # on attention weights; not in the paper
    relu_dropout: float = 0.0  # inside the feed-forward layers; not in the paper
    attention_bias: bool = False  # biases of the projections; not in the paper's equations
    activation: Literal["relu", "swish", "gelu"] = "relu"  # Eq. 2 has ReLU; imported models others
    logits_bias: bool = False  # one for each word, before the softmax; not in the paper
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"  # learned: row (E)
    attention: Literal["dot-product", "additive"] = "dot-product"  # how a key answers (3.2.1)
    scaled: bool = True  # dot products, by 1 / sqrt(d_k) (3.2.1)
    neighbourhood: int | None = None  # r: tokens that self-attention sees around its own (4)
    kernel: int = 3  # width of the convolutions of convs2s and bytenet
    tie: Literal["all", "decoder", "none"] = "all"  # which of the three matrices are one (3.4)
    max_len: int = 256  # subwords of a sentence; more are dropped in training, cut in translation
    source_vocabulary: int = 37_000  # set from the subwords when a model is trained
    target_vocabulary: int = 37_000  # likewise

    def check(self) -> None:
        """Refuse what cannot be built."""
        for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "source_vocabulary"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(self.depth_of_decoder >= 1, "N_decoder", "at least 1")
        self._require(self.target_vocabulary >= 1, "target_vocabulary", "at least 1")
        self._require(
            self.d_model % 2 == 0,
            "d_model",
            "an even number, for positions are sine and cosine pairs",
        )
        for name in ("P_drop", "attention_dropout", "relu_dropout"):
            self._require(0 <= getattr(self, name) < 1, name, "a number from 0 up to but not 1")
        self._require(self.max_len >= 2, "max_len", "at least 2")
        r = self.neighbourhood
        self._require(r is None or r >= 1, "neighbourhood", "at least 1 token, its own")
        self._require(self.kernel >= 1, "kernel", "at least 1")
        if self.attention == "additive":
            self._require(self.scaled, "scaled", "true, for additive attention has no dot products")
            self._require(r is None, "neighbourhood", "none, for additive attention sees all")
        for name in UNUSED.get(self.architecture, ()):
            usual = type(self).__dataclass_fields__[name].default
            expected = "none" if usual is None else repr(usual)
            self._require(
                getattr(self, name) == usual,
                name,
                f"{expected}, as it means nothing where architecture = {self.architecture!r}",
            )
        if self.architecture == "recurrent":
            expected = "'none', for a recurrent model knows where it is"
            self._require(self.positions == "none", "positions", expected)
        if self.architecture == "bytenet":
            self._require(self.kernel >= 2, "kernel", "at least 2, or no word would meet another")
        if self.tie == "all" and self.source_vocabulary != self.target_vocabulary:
            raise BadSetting(
                "tie = 'all' needs a joint vocabulary: with separate ones tie 'decoder' or 'none'"
            )

    @property
    def unlike_the_paper(self) -> str:
        """The first setting, as name = value, by which this is another model than others have."""
        usual = ModelConfig()
        for name in ("architecture", "attention", "scaled", "neighbourhood"):
            if getattr(self, name) != getattr(usual, name):
                return f"{name} = {getattr(self, name)!r}"
        return ""

    @property
    def longest_output(self) -> int:
        """The number of positions that there are; of learned ones only those that are trained."""
        return self.max_len + (0 if self.positions == "learned" else LONGER)

    @property
    def depth_of_decoder(self) -> int:
        """The number of the decoder's layers."""
        return self.N if self.N_decoder is None else self.N_decoder


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Settings):
    """How to train (paper 5); the defaults are those of the base model."""

    # How long: whichever of these comes first ends the run.
    steps: int | None = None  # updates to make
    epochs: int | None = None  # passes over the data to make
    seconds: float | None = None  # to train for
    timed: Literal["all", "steps"] = "all"  # what they count; steps: not validating, not saving
    # What is learned from.
    vocabulary: int | None = None  # None: from the size of the corpus
    joint: bool = True  # one vocabulary for both languages (5.1)
    subwords: Literal["bpe", "wordpiece", "sentencepiece"] = "bpe"  # the last: imported only
    batch_tokens: int = 25_000  # of an update, on each side (5.1)
    accumulate: int | None = 1  # pieces that a process computes it in; None: as few as fit
    max_skew: float = 4.0  # drop pairs where one side is this many times longer, and 10 more
    # How.
    eps_ls: float = 0.1  # label smoothing (5.4)
    beta1: float = 0.9  # of Adam (5.3)
    beta2: float = 0.98  # of Adam (5.3)
    epsilon: float = 1e-9  # of Adam (5.3)
    warmup: int = 4000  # updates in which the rate rises (Eq. 3)
    lr_scale: float = 1.0  # a factor on Eq. 3; 1 in the paper
    cooldown: float = 0.0  # the last part of the run in which the rate falls to 0; not in the paper
    clip: float = 0.0  # the largest norm of the gradient; 0: none, as in the paper
    # What is kept and said.
    save_every: int = 1000  # updates between checkpoints
    keep: int = 5  # checkpoints that are kept, the newest
    average: int = 5  # checkpoints in the mean that translates (6.1)
    select: Literal["average", "best"] = "average"  # which weights translate
    validate_every: int = 1000  # updates between validations
    validate_bleu: int = 200  # sentences of the validation set to translate for BLEU
    patience: int = 0  # validations without a better loss before stopping; 0: never
    log_every: int = 50  # updates between lines of the log
    # On what.
    seed: int = 1  # of everything random
    threads: int | None = None  # of a machine; None: all cores; another number gives other bits
    precision: Literal["auto", "bf16", "float32"] = "auto"  # auto: bf16 on GPUs that have it
    kernels: bool = True  # our own on a GPU; false: torch's, to compare with
    recompute: bool = False  # layers in the backward pass, for less memory and a third more time
    deterministic: bool = False  # the same bits each time on one GPU; a CPU gives them anyway

    POSITIVE: ClassVar[tuple[str, ...]] = (
        *("batch_tokens", "warmup", "save_every", "keep", "average"),
        *("validate_every", "log_every"),
    )

    def check(self) -> None:
        """Refuse what cannot be run."""
        for name in self.POSITIVE:
            self._require(getattr(self, name) >= 1, name, "at least 1")
        for name in ("steps", "epochs", "seconds", "vocabulary", "threads", "accumulate"):
            value = getattr(self, name)
            self._require(value is None or value > 0, name, "more than 0")
        for name in ("eps_ls", "beta1", "beta2"):
            self._require(0 <= getattr(self, name) < 1, name, "a number from 0 up to but not 1")
        self._require(self.epsilon > 0, "epsilon", "more than 0")
        self._require(self.lr_scale > 0, "lr_scale", "more than 0")
        self._require(0 <= self.cooldown <= 1, "cooldown", "a part of the run, 0 to 1")
        for name in ("clip", "validate_bleu", "patience"):
            self._require(getattr(self, name) >= 0, name, "0 or more")
        self._require(self.seed >= 0, "seed", "a whole number from 0 up to but not 2^63")
        self._require(self.max_skew >= 1, "max_skew", "1 or more")
        self._require(self.average <= self.keep, "average", f"at most keep, which is {self.keep}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig(Settings):
    """How to translate (paper 6.1)."""

    beam: int = 4  # hypotheses that are followed at each step (6.1)
    alpha: float = 0.6  # of the length penalty (6.1)
    penalty: Literal["paper", "power"] = "paper"  # power: |Y|^alpha, for imported models
    extra: int = 50  # tokens by which the output may exceed the source, or the prefix if longer
    nbest: int = 1  # translations of a text to return
    sample: bool = False  # draw from the model instead of searching
    temperature: float = 1.0  # of what is drawn: below 1 surer, above 1 bolder
    top_k: int = 0  # 0: all words
    top_p: float = 1.0  # draw from the likeliest words that together reach this; 1: all
    draw: int = 1  # the seed of what is sampled

    def check(self) -> None:
        """Refuse what cannot be searched."""
        self._require(self.beam >= 1, "beam", "at least 1")
        self._require(self.alpha >= 0, "alpha", "0 or more")
        self._require(self.extra >= 1, "extra", "at least 1")
        self._require(self.nbest >= 1, "nbest", "at least 1")
        if not self.sample:
            self._require(
                self.nbest <= self.beam, "nbest", f"at most the beam, which is {self.beam}"
            )
        self._require(self.temperature > 0, "temperature", "more than 0")
        self._require(self.top_k >= 0, "top_k", "0 or more")
        self._require(0 < self.top_p <= 1, "top_p", "a number above 0, up to 1")
        self._require(self.draw >= 0, "draw", "0 or more")


def parse(text: str, hint: Any, name: str) -> Any:
    """Read a setting's value as typed on the command line."""
    wanted = _alternatives(hint)
    if types.NoneType in wanted and text.lower() == "none":
        return None
    for kind in wanted:
        try:
            if kind is bool:
                return {"true": True, "yes": True, "false": False, "no": False}[text.lower()]
            if kind in (int, float):
                return kind(text.replace("_", ""))
        except (KeyError, ValueError):
            continue
        if isinstance(kind, str) and text == kind:
            return text
    raise BadSetting(f"{name} = {text!r}: expected {_words(hint)}")


def apply(
    pairs: Mapping[str, str], model: ModelConfig, train: TrainConfig
) -> tuple[ModelConfig, TrainConfig]:
    """Apply `--set name=value` to whichever configuration has that name."""
    of_model, of_train = _hints(ModelConfig), _hints(TrainConfig)
    hints = of_model | of_train
    for name in pairs:
        if name not in hints:
            raise BadSetting(
                f"there is no setting {name}.{did_you_mean(name, hints)} "
                f"The settings are: {', '.join(hints)}"
            )
        if name in ("source_vocabulary", "target_vocabulary"):
            raise BadSetting(f"{name} follows from the subwords that are learned: set vocabulary")
    if pairs.get("subwords") == "sentencepiece":
        raise BadSetting("subwords = 'sentencepiece': expected 'bpe' or 'wordpiece', to be learned")
    values = {name: parse(text, hints[name], name) for name, text in pairs.items()}
    # All at once: some settings fit only together.
    return (
        model.replace(**{name: value for name, value in values.items() if name in of_model}),
        train.replace(**{name: value for name, value in values.items() if name in of_train}),
    )


def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union, Literal):
        return typing.get_args(hint)
    return (hint,)


def _fits(value: Any, hint: Any) -> bool:
    if typing.get_origin(hint) is Literal:
        return value in typing.get_args(hint)
    kinds = _alternatives(hint)
    if isinstance(value, bool):  # a bool is an int to Python, not to us
        return bool in kinds
    if float in kinds and isinstance(value, int | float):
        return abs(value) <= sys.float_info.max  # neither NaN nor infinite
    return isinstance(value, kinds)


def _words(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return " or ".join(words.get(kind, "none") for kind in _alternatives(hint))
