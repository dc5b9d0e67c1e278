"""Every setting, with its one default: what the model is, how it is trained, how it is searched.

The defaults are the paper's. `transduce settings` lists the fields below.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from transduce.errors import BadSetting
from transduce.settings import base
from transduce.settings.aliases import ELSEWHERE
from transduce.settings.base import SettingInfo, Settings, Value, setting

T = TypeVar("T")

MIN_TEMPERATURE = 1e-6  # below it, logits / temperature may overflow float32
EXTRA_POSITIONS = 256  # positions beyond max_len: an output may be longer than the longest input
# Settings that architectures have no place for: they stay as they are.
_OF_LAYERS = ("neighbourhood", "attention_dropout", "relu_dropout", "activation")
_OF_ATTENTION = ("attention", "scaled", "attention_bias")
UNUSED: dict[str, tuple[str, ...]] = {
    "transformer": ("kernel",),
    "recurrent": (*_OF_LAYERS, "kernel"),
    "convs2s": _OF_LAYERS + _OF_ATTENTION,
    "bytenet": _OF_LAYERS + _OF_ATTENTION,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(Settings):
    """The architecture columns of Table 3; the defaults are its base row."""

    architecture: Literal["transformer", "recurrent", "convs2s", "bytenet"] = setting(
        "transformer", "the paper's model, or a model that the paper compares it with", "3, Table 2"
    )
    N: int = setting(6, "layers of the encoder, and of the decoder unless N_decoder is set", "3.1")
    N_decoder: int | None = setting(None, "layers of the decoder; none: as many as the encoder has")
    d_model: int = setting(512, "width of the embeddings and of every layer's output", "3.1")
    d_ff: int = setting(
        2048,
        "inner width of the feed-forward networks; LSTM cells or convolution channels elsewhere",
        "3.3",
    )
    h: int = setting(
        8,
        "attention heads, each with queries and keys of width d_k and values of width d_v",
        "3.2.2",
    )
    d_k: int = setting(
        64,  # not d_model // h: rows (B) of Table 3 vary it alone
        "width of a head's queries and keys; it does not follow from d_model and h",
        "3.2.2",
    )
    d_v: int = setting(64, "width of a head's values", "3.2.2")
    P_drop: float = setting(
        0.1,
        "dropout on every sub-layer's output and on the sums of embeddings and positions",
        "5.4",
    )
    attention_dropout: float = setting(0.0, "dropout on the attention weights")
    relu_dropout: float = setting(0.0, "dropout inside the feed-forward networks")
    attention_bias: bool = setting(False, "biases in the projections of attention")
    activation: Literal["relu", "swish", "gelu"] = setting(
        "relu",
        "activation of the feed-forward networks; the paper has ReLU, imported models have others",
        "3.3",
    )
    logits_bias: bool = setting(False, "a bias for each word before the softmax")
    positions: Literal["sinusoidal", "learned", "none"] = setting(
        "sinusoidal", "positional encodings; learned ones are row (E) of Table 3", "3.5"
    )
    attention: Literal["dot-product", "additive"] = setting(
        "dot-product", "how a query is compared with a key", "3.2.1"
    )
    scaled: bool = setting(True, "divide dot products by sqrt(d_k)", "3.2.1")
    neighbourhood: int | None = setting(
        None, "r, the tokens around its own that self-attention sees; none: all tokens", "4"
    )
    kernel: int = setting(3, "width of the convolutions of convs2s and bytenet")
    tie: Literal["all", "decoder", "none"] = setting(
        "all",
        "shared matrices: all of source embedding, target embedding and softmax; or the decoder's "
        "two",
        "3.4",
    )
    max_len: int = setting(
        256,
        "most subwords of a sentence; longer ones are left out of training and cut in translation",
    )
    source_vocabulary: int = setting(37_000, "subwords of the source; set by training", "5.1")
    target_vocabulary: int = setting(37_000, "subwords of the target; set by training", "5.1")

    def check(self) -> None:
        """Refuse what cannot be built."""
        for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "source_vocabulary"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(self.decoder_layers >= 1, "N_decoder", "at least 1")
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
                "tie = 'all' needs a joint vocabulary: expected 'decoder' or 'none' with separate "
                "vocabularies"
            )

    @property
    def first_departure(self) -> str:
        """The first setting, as name = value, by which this is another model than others have."""
        usual = ModelConfig()
        for name in ("architecture", "attention", "scaled", "neighbourhood"):
            if getattr(self, name) != getattr(usual, name):
                return f"{name} = {getattr(self, name)!r}"
        return ""

    @property
    def max_positions(self) -> int:
        """The number of positions that there are; of learned ones only those that are trained."""
        return self.max_len + (0 if self.positions == "learned" else EXTRA_POSITIONS)

    @property
    def decoder_layers(self) -> int:
        """The number of the decoder's layers."""
        return self.N if self.N_decoder is None else self.N_decoder


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Settings):
    """How to train (paper 5); the defaults are those of the base model."""

    # How long: the first of these to be reached ends the run.
    steps: int | None = setting(
        None, "updates to make; the first limit of steps, epochs and seconds ends the run", "5.2"
    )
    epochs: int | None = setting(None, "passes over the data to make")
    seconds: float | None = setting(None, "seconds to train for")
    timed: Literal["all", "steps"] = setting(
        "all", "time that `seconds` counts; steps: without validating and saving"
    )
    # What is learned from.
    vocabulary: int | None = setting(
        None, "subwords to learn; none: from the size of the corpus", "5.1"
    )
    joint: bool = setting(True, "one vocabulary for both languages", "5.1")
    subwords: Literal["bpe", "wordpiece", "sentencepiece"] = setting(
        "bpe", "kind of subwords; sentencepiece comes with imported models only", "5.1"
    )
    batch_tokens: int = setting(25_000, "tokens of an update on each side, over all GPUs", "5.1")
    accumulate: int | None = setting(
        1, "pieces in which a process computes an update; none: as few as fit into memory"
    )
    max_skew: float = setting(
        4.0, "leave out pairs where one side has more than this times the other's tokens, plus 10"
    )
    # How.
    eps_ls: float = setting(0.1, "label smoothing", "5.4")
    beta1: float = setting(0.9, "Adam's beta1", "5.3")
    beta2: float = setting(0.98, "Adam's beta2", "5.3")
    epsilon: float = setting(1e-9, "Adam's epsilon", "5.3")
    warmup: int = setting(4000, "updates in which the learning rate rises (Eq. 3)", "5.3")
    warmup_cap: float = setting(
        0.25, "largest part of a run in which the rate rises; 1: as warmup says"
    )
    ramp: int | None = setting(
        None, "updates in which the rate rises, if fewer than warmup; it then stays until warmup"
    )
    lr_scale: float = setting(1.0, "factor on the learning rate of Eq. 3", "5.3")
    cooldown: float = setting(0.0, "last part of the run in which the learning rate falls to 0")
    clip: float = setting(0.0, "largest norm of the gradient; 0: no clipping, as in the paper")
    # What is kept and reported.
    save_every: int = setting(1000, "updates between checkpoints")
    keep: int = setting(5, "newest checkpoints to keep")
    average: int = setting(5, "checkpoints whose mean translates", "6.1")
    select: Literal["auto", "average", "best"] = setting(
        "auto",
        "weights that translate; average: the mean of the last checkpoints; best: the lowest "
        "validation loss; auto: the mean if those checkpoints lie in the last tenth of the run, "
        "else the last checkpoint or a shorter mean, by validation loss",
        "6.1",
    )
    validate_every: int = setting(1000, "updates between validations")
    validate_bleu: int = setting(200, "sentences of the validation set to translate for BLEU")
    patience: int = setting(
        0, "validations without a better loss before training stops; 0: never stop"
    )
    log_every: int = setting(50, "updates between lines of the log")
    # On what.
    seed: int = setting(1, "seed of all random numbers")
    threads: int | None = setting(
        None, "CPU threads; none: the fastest number, measured; the bits depend on it"
    )
    precision: Literal["auto", "bf16", "float32"] = setting(
        "auto", "arithmetic of training; auto: bf16 on GPUs that have it"
    )
    kernels: bool = setting(True, "own Triton kernels on a GPU; false: PyTorch's, to compare")
    recompute: bool = setting(
        False, "compute layers again in the backward pass: less memory, a third more time"
    )
    deterministic: bool = setting(
        False, "the same bits each time (slower): on one GPU, and on a CPU by using all cores"
    )

    POSITIVE: ClassVar[tuple[str, ...]] = (
        *("batch_tokens", "warmup", "save_every", "keep", "average"),
        *("validate_every", "log_every"),
    )

    def check(self) -> None:
        """Refuse what cannot be run."""
        for name in self.POSITIVE:
            self._require(getattr(self, name) >= 1, name, "at least 1")
        for name in ("steps", "epochs", "seconds", "vocabulary", "ramp", "threads", "accumulate"):
            value = getattr(self, name)
            self._require(value is None or value > 0, name, "more than 0")
        for name in ("eps_ls", "beta1", "beta2"):
            self._require(0 <= getattr(self, name) < 1, name, "a number from 0 up to but not 1")
        self._require(self.epsilon > 0, "epsilon", "more than 0")
        self._require(self.lr_scale > 0, "lr_scale", "more than 0")
        self._require(0 <= self.cooldown <= 1, "cooldown", "a part of the run, 0 to 1")
        self._require(0 < self.warmup_cap <= 1, "warmup_cap", "a part of the run, above 0 up to 1")
        for name in ("clip", "validate_bleu", "patience"):
            self._require(getattr(self, name) >= 0, name, "0 or more")
        self._require(self.seed >= 0, "seed", "a whole number from 0 up to but not 2^63")
        self._require(self.max_skew >= 1, "max_skew", "1 or more")
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
        50, "most tokens by which the output exceeds the input, or the prefix if longer", "6.1"
    )
    nbest: int = setting(1, "translations of a sentence to return")
    sample: bool = setting(False, "draw translations at random instead of searching")
    temperature: float = setting(1.0, "temperature of sampling: below 1 sharper, above 1 flatter")
    top_k: int = setting(0, "sample from the k likeliest tokens; 0: all")
    top_p: float = setting(
        1.0, "nucleus sampling: the smallest set of tokens whose probabilities sum to p; 1: all"
    )
    draw: int = setting(1, "seed of sampling")

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
        self._require(
            self.temperature >= MIN_TEMPERATURE, "temperature", f"at least {MIN_TEMPERATURE:g}"
        )
        self._require(self.top_k >= 0, "top_k", "0 or more")
        self._require(0 < self.top_p <= 1, "top_p", "a number above 0, up to 1")
        self._require(self.draw >= 0, "draw", "0 or more")


GROUPS: dict[str, type[Settings]] = {
    "model": ModelConfig,
    "training": TrainConfig,
    "search": SearchConfig,
}


@functools.cache
def all_settings() -> dict[str, SettingInfo]:
    """Return every setting by its name, in the order of the three configurations."""
    found: dict[str, SettingInfo] = {}
    for group, kind in GROUPS.items():
        found |= base.describe_fields(kind, group)
    return found


def find_setting(name: str) -> SettingInfo:
    """Return the setting with this name or alias."""
    (own,) = base.canonical_names({_known_here(name): None}, all_settings())
    return all_settings()[own]


def canonical_settings(settings: Mapping[str, T]) -> dict[str, T]:
    """Return settings of a model and its training by their own names instead of aliases.

    Refuses names that do not exist and names that cannot be set for a training.
    """
    found = base.canonical_names(
        {_known_here(name): value for name, value in settings.items()}, all_settings()
    )
    for name in found:
        if all_settings()[name].group == "search":
            raise BadSetting(
                f"{name} belongs to the search, not to the training: give it when translating"
            )
        if name in ("source_vocabulary", "target_vocabulary"):
            raise BadSetting(f"{name} follows from the subwords that are learned: set vocabulary")
    return found


def alias_notes(settings: Mapping[str, Value]) -> list[str]:
    """Return one line for each alias among settings, saying which setting it is."""
    return base.alias_notes(settings, all_settings())


def apply_settings(
    settings: Mapping[str, Value], model: ModelConfig, train: TrainConfig
) -> tuple[ModelConfig, TrainConfig]:
    """Apply `--set name=value` to the configuration that has the name."""
    of_model, of_train = base.field_types(ModelConfig), base.field_types(TrainConfig)
    hints = {**of_model, **of_train}
    values = {
        name: base.read_value(value, hints[name], name)
        for name, value in canonical_settings(settings).items()
    }
    if values.get("subwords") == "sentencepiece":
        raise BadSetting("subwords = 'sentencepiece': expected 'bpe' or 'wordpiece', to be learned")
    # All at once: some settings fit only together.
    return (
        model.replace(**{name: value for name, value in values.items() if name in of_model}),
        train.replace(**{name: value for name, value in values.items() if name in of_train}),
    )


def _known_here(name: str) -> str:
    """Refuse names of other toolkits that mean something else here."""
    if why := ELSEWHERE.get(str(name).replace("-", "_").lower()):
        raise BadSetting(f"{name} {why}")
    return name
