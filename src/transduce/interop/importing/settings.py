"""The settings of a Marian folder, converted to ours."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, cast

from transduce.config import ModelConfig, SearchConfig
from transduce.errors import BadInput, BadSetting
from transduce.interop.marian import PAIRS
from transduce.runs.arrays import KEY
from transduce.settings.base import MAXIMUM
from transduce.system.files import read_json
from transduce.text.languages import Pair

# Setting: Marian's default, and the value that our model requires.
EXPECTED = {
    "model_type": (None, "marian"),
    "scale_embedding": (False, True),
    "normalize_before": (False, False),
    "normalize_embedding": (False, False),
    "add_final_layer_norm": (False, False),
    "static_position_embeddings": (True, True),
}
DEFAULT_ACTIVATIONS = {"activation_function": "gelu", "activation_fn": "relu"}
ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}


@dataclass(frozen=True)
class SettingsFile:
    """A JSON file of another toolkit's settings."""

    path: Path
    values: dict[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting."""
        return self.values.get(name, default)

    def require(self, name: str, condition: bool, expected: str) -> None:
        """Refuse a setting, naming it, unless the condition holds."""
        if not condition:
            raise BadInput(f"{self.path} has {name} = {self.get(name)!r:.60}: expected {expected}")

    def number(self, name: str) -> int:
        """Return a whole number above 0."""
        value = self.get(name)
        self.require(name, type(value) is int and value > 0, "a whole number above 0")
        return cast("int", value)


def model_config(
    settings: SettingsFile, width: str, feed_forward: str, activation: str, others: dict[str, Any]
) -> ModelConfig:
    """Return a ModelConfig from the settings that Marian and fairseq have in common, and others.

    `width`, `feed_forward` (without encoder_) and `activation` are the names of d_model, d_ff and
    the activation, which differ between the two.
    """
    for name in ("attention_heads", feed_forward):
        encoder = settings.number(f"encoder_{name}")
        same = f"{encoder}, the encoder's value: only depths may differ"
        settings.require(f"decoder_{name}", settings.get(f"decoder_{name}") == encoder, same)
    d_model, h = settings.number(width), settings.number("encoder_attention_heads")
    settings.require(width, d_model % h == 0, f"a multiple of {h}, the number of heads")
    function = settings.get(activation, DEFAULT_ACTIVATIONS[activation])
    settings.require(activation, function in [*ACTIVATIONS], " or ".join(ACTIVATIONS))
    N, N_decoder = settings.number("encoder_layers"), settings.number("decoder_layers")
    try:
        return ModelConfig(
            N=N,
            N_decoder=None if N_decoder == N else N_decoder,
            d_model=d_model,
            d_ff=settings.number(f"encoder_{feed_forward}"),
            h=h,
            d_k=d_model // h,
            d_v=d_model // h,
            P_drop=settings.get("dropout", 0.1),
            attention_dropout=settings.get("attention_dropout", 0.0),
            relu_dropout=settings.get("activation_dropout", 0.0),
            activation=cast("Any", ACTIVATIONS[function]),
            **others,
        )
    except (BadSetting, TypeError) as error:
        raise BadInput(f"{settings.path.parent} cannot be imported: {error}") from None


@dataclass(frozen=True)
class MarianSettings:
    """The settings of a Marian folder."""

    folder: Path
    config: SettingsFile
    tokenizer: dict[str, Any]
    generation: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the settings, and refuse those that our model cannot represent."""
        if not folder.is_dir():
            raise BadInput(f"there is no folder {folder}: expected a downloaded MarianMTModel")
        if (folder / "subwords.json").exists():
            raise BadInput(f"{folder} is a run folder already: there is nothing to import")
        if (folder / "model.bin").exists():
            raise BadInput(
                f"{folder} is a CTranslate2 model, whose files do not describe it fully: "
                "import the MarianMT folder that it was converted from"
            )
        path = folder / "config.json"
        config = SettingsFile(path, read_json(path))
        paths = [folder / f"{name}.json" for name in ("tokenizer_config", "generation_config")]
        others = [read_json(path) if path.exists() else {} for path in paths]
        for name, (default, expected) in EXPECTED.items():
            config.require(name, config.get(name, default) == expected, repr(expected))
        return cls(folder, config, *others)

    def model(self, source: int, target: int, *, joint: bool) -> ModelConfig:
        """Return our model settings, without the biases, for vocabularies of these sizes."""
        longest, most = self.config.number("max_position_embeddings"), MAXIMUM["max_len"]
        self.config.require("max_position_embeddings", longest <= most, f"at most {most:,}")
        others = {
            "tie": self._tie(joint=joint),
            "max_len": min(longest, self.tokenizer.get("model_max_length", longest)),
            "source_vocabulary": source,
            "target_vocabulary": target,
        }
        return model_config(self.config, "d_model", "ffn_dim", "activation_function", others)

    def require_sizes(self, source: int, target: int) -> None:
        """Refuse vocabularies that are larger than their files."""
        for name, words in (("vocab_size", source), ("decoder_vocab_size", target)):
            given = self.config.get(name)
            fits = given is None or (type(given) is int and given <= words)
            self.config.require(name, fits, f"at most {words}, the number of words")

    def _tie(self, *, joint: bool) -> Literal["all", "decoder", "none"]:
        if not self.config.get("tie_word_embeddings", True):
            return "none"
        shared = joint and self.config.get("share_encoder_decoder_embeddings", True)
        return "all" if shared else "decoder"

    def search(self) -> SearchConfig:
        """Return the search settings."""
        stated = self.config.values | self.generation
        words = stated.get("bad_words_ids") or []
        pad = [self.config.get("pad_token_id")]
        if not isinstance(words, list) or any(word != pad for word in words):
            raise BadInput(
                f"{self.folder} has bad_words_ids = {words!r:.60}: expected none but <pad>: the "
                "forbidden tokens follow from the subwords here"
            )
        try:
            if KEY in self.generation:  # an export of ours
                return SearchConfig.from_json(self.generation[KEY])
            return SearchConfig(
                beam=stated.get("num_beams", SearchConfig().beam),
                alpha=stated.get("length_penalty", 1.0),
                penalty="power",
            )
        except BadSetting as error:
            raise BadInput(
                f"num_beams or length_penalty of {self.folder} cannot be used: {error}"
            ) from None

    def languages(self) -> tuple[str, str]:
        """Return the languages stated in the folder, else src and tgt."""
        source, target = (self.tokenizer.get(f"{side}_lang") for side in ("source", "target"))
        if isinstance(source, str) and isinstance(target, str):
            return source, target
        return "src", "tgt"

    def pairs(self) -> tuple[Pair, ...]:
        """Return all pairs of languages, if our export states several."""
        stated: Any = self.tokenizer.get(PAIRS, [])
        pairs: list[Pair] = []
        for pair in stated if isinstance(stated, list) else [stated]:
            match pair:
                case [str(source), str(target)]:
                    pairs.append((source, target))
                case _:
                    raise BadInput(
                        f"{self.folder} has {PAIRS} = {stated!r:.60}: expected pairs of languages"
                    )
        return tuple(pairs)
