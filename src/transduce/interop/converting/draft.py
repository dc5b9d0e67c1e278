"""A recipe under construction, with the conversion steps that all toolkits share."""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadInput, BadSetting
from transduce.interop.converting.keys import Given, Keys
from transduce.interop.dictionary import require_dictionary
from transduce.text.reading import read_lines

Pair = tuple[Path, Path]
SAMPLE = 1_000  # lines of a text to inspect
PARTS = {"train": "the training text", "valid": "the validation set", "test": "the test set"}
BATCHES = "the size of an update is counted in tokens here: batch_tokens"
DEVICES = "devices are detected; to train on several GPUs, start with torchrun"
PRECISION = "precision = auto: bf16 on GPUs that have it, weights in float32"
PRE_NORM = "the norms precede each sub-layer in one stack only; here pre_norm is for both"
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu",
    "swish": "swish",
    "silu": "swish",
}
# File names of tokenised text.
TOKENISED = re.compile(r"tokeni[sz]ed|(^|[/._-])(bpe|spm|sp|tok)([/._-]|\d|$)")
# Patterns of tokenised text; a text matches if a quarter of its lines do.
TOKENISERS = {
    "segmented by subword-nmt (@@)": r"@@( |$)",
    "segmented by SentencePiece (▁)": r"(^| )▁",
    "segmented by OpenNMT's tokenizer (￭)": r"￭",
    "tokenised": r"&(apos|quot|amp);| [.?!]$",
}


@dataclass(kw_only=True, slots=True)
class Draft:
    """The content of a recipe, filled in by a toolkit's converter."""

    keys: Keys
    folder: Path  # of the configuration
    gpus: int | None = None  # from the command line
    dictionaries: Sequence[Path] = ()  # from the command line
    languages: tuple[str, str] = ("src", "tgt")
    text: dict[str, Pair] = field(default_factory=dict)  # by train, valid, test
    evaluate: dict[str, Any] = field(default_factory=dict)
    to_do: list[str] = field(default_factory=list)  # for the user
    names_text: bool = False  # a to-do already says how to get the training text

    def find(self, name: str) -> Path:
        """Return the path of a file, relative to the current folder or the configuration's."""
        return Path(name) if Path(name).exists() else self.folder / name

    def take_text(self, part: str, names: Sequence[str], files: Sequence[str]) -> None:
        """Take over the text of a part (train, valid, test), if it is raw."""
        source, target = (self.find(file) for file in files)
        given = part in self.text
        reason = "the command line names another text" if given else _why_tokenised(source, target)
        for name in names:
            if reason:
                self.keys.dropped(name, reason)
            else:
                self.keys.taken(name, PARTS[part])
        if given:
            return
        if reason:
            self.to_do.append(f"give the raw text of {files[0]} and {files[1]}: {reason}")
            self.names_text = True
            return
        self.text[part] = (source, target)
        if not (source.is_file() and target.is_file()):
            self.to_do.append(f"provide {source} and {target} as raw text: they are not here")

    def take_vocabulary(self, stated: Mapping[str, int], files: Sequence[str]) -> None:
        """Take over the size of the vocabulary, counted in dictionaries or stated by keys."""
        paths = list(self.dictionaries)
        if not paths:
            paths = [path for path in map(self.find, files) if path.is_file()]
        counts = {str(path): count_words(path) for path in paths}
        sizes = counts or {self.keys.written(name): size for name, size in stated.items()}
        size = max(sizes.values(), default=0)
        if sizes:
            self.keys.set("vocabulary", size, ", ".join(sizes))
        else:
            self.to_do.append(
                "name the dictionary with --dictionary, or set vocabulary: the number of subwords "
                "is not stated, and by default follows from the size of your text"
            )
        for name, stated_size in stated.items():
            if counts:
                self.keys.dropped(name, "the dictionary itself was counted")
            elif stated_size == size:
                self.keys.taken(name, f"vocabulary = {size}: as many, learned from your text")
            else:
                self.keys.changed(name, f"vocabulary = {size}: one number for both sides")

    def take_sizes(
        self, names: Mapping[str, tuple[str, str]], defaults: Mapping[str, int], origin: str = ""
    ) -> int:
        """Take over N, d_model, d_ff and h, each from its two keys; return d_model."""
        keys = self.keys
        sizes = {}
        for setting, (encoder, decoder) in names.items():
            sizes[setting] = value = keys.integer(encoder, defaults[setting])
            keys.take(encoder, setting, value, origin)
            if decoder == encoder:
                continue
            decoder_value = keys.integer(decoder, defaults.get(f"{setting} of the decoder", value))
            if setting != "N":
                keys.drop_unless(decoder, value, f"only depths may differ: {setting} = {value}")
            elif decoder_value == value:
                keys.taken(decoder, f"N = {value}")
            else:
                keys.take(decoder, "N_decoder", decoder_value, origin)
        d_model, h = sizes["d_model"], sizes["h"]
        if h < 1 or d_model % h:
            raise BadInput(f"d_model = {d_model} and h = {h}: expected a multiple of the heads")
        for setting in ("d_k", "d_v"):
            keys.set(setting, d_model // h, "d_model / h")
        return d_model

    def take_ties(self, *, both: str, output: str, joint: bool, joint_key: str) -> None:
        """Take over which embedding matrices are shared (paper 3.4): all three, or the decoder's.

        `both` and `output` are the keys of these two; `joint` says whether both languages share a
        vocabulary, according to the key `joint_key`.
        """
        keys = self.keys
        tie = "decoder" if keys.flag(output) else "none"
        if keys.flag(both) and (keys.flag(output) or output not in keys.given):
            tie = "all"
        keys.set("tie", tie, keys.written(both, output))
        origins = (both, joint_key) if tie == "all" else (joint_key,)
        keys.set("joint", joint or tie == "all", keys.written(*origins))
        if keys.flag(both) and tie != "all":
            keys.changed(both, f"tie = {tie}: here the output matrix would be shared too")
        else:
            keys.taken(both, f"tie = {tie}")
        keys.taken(output, f"tie = {tie}")

    def take_activation(self, name: str) -> None:
        """Take over the activation of the feed-forward layers (paper Eq. 2)."""
        activation = self.keys.word(name, "relu")
        if activation not in ACTIVATIONS:
            self.keys.dropped(name, "relu (Eq. 2), gelu and swish exist here")
        elif name in self.keys.given:
            self.keys.take(name, "activation", ACTIVATIONS[activation])

    def take_pre_norm(self, stacks: Mapping[str, bool], origin: str = "") -> bool:
        """Take over whether norms precede sub-layers, for each stack by its key.

        Return whether they do in both.
        """
        keys, both = self.keys, all(stacks.values())
        if both:
            keys.set("pre_norm", value=True, origin=keys.written(*stacks) or origin)
        elif any(stacks.values()):
            self.to_do.append(f"choose pre_norm: {PRE_NORM}")
        for name, before in stacks.items():
            if before and not both:
                keys.dropped(name, PRE_NORM)
            else:
                keys.taken(name, f"pre_norm = {both}")
        return both

    def take_length(self, *names: str) -> None:
        """Take over the maximum sentence length, if stated: one number for both sides."""
        keys = self.keys
        lengths = {name: keys.integer(name, 0) for name in names if keys.value(name) is not None}
        if not lengths:
            return
        longest = max(lengths, key=lambda name: lengths[name])
        keys.set("max_len", lengths[longest], keys.written(longest))
        for name, length in lengths.items():
            if length == lengths[longest]:
                keys.taken(name, f"max_len = {length}")
            else:
                keys.changed(name, f"max_len = {lengths[longest]}: one number for both sides")

    def take_peak_rate(self, name: str, peak: float, d_model: int, warmup: int) -> None:
        """Write the factor of Eq. 3 (paper 5.3) that gives this rate at the end of the warm-up."""
        scale = peak * math.sqrt(d_model * warmup)
        origin = f"{self.keys.written(name) or 'the rate'} * sqrt(d_model * warmup)"
        self.keys.set("lr_scale", scale, origin)
        self.keys.changed(name, f"lr_scale = {scale}: Eq. 3 peaks at {peak} in step {warmup}")

    def keep_one_rate(self) -> None:
        """Give all matrices the same rate, as other toolkits do.

        Training would lower that of some matrices if a recipe set only an `lr_scale` above 1.
        """
        if self.keys.settings.get("lr_scale", (0.0, ""))[0] > 1:
            origin = f"all matrices have the same rate in {self.keys.toolkit}"
            self.keys.set("residual_lr", 1.0, origin)

    def drop_schedule(self, schedule: str, names: Sequence[str]) -> None:
        """Drop a learning-rate schedule that is not Eq. 3."""
        reason = f"the schedule is Eq. 3 (5.3), not {schedule}; the preset's factor is used"
        for name in names:
            self.keys.dropped(name, reason)
        self.to_do.append(f"choose lr_scale and warmup: {reason}")

    def take_optimizer(self, name: str, optimizer: str) -> None:
        """Take over Adam; every other optimizer becomes Adam too."""
        if "adam" in optimizer:
            self.keys.taken(name, "Adam (5.3)")
        else:
            self.keys.changed(name, "Adam (5.3)")

    def take_betas(self, name: str) -> None:
        """Take over Adam's betas, from a list or a string such as (0.9, 0.98)."""
        keys = self.keys
        value = keys.value(name, [0.9, 0.999])
        parts = value.strip("()[] ").split(",") if isinstance(value, str) else value
        try:
            beta1, beta2 = map(float, parts)
        except (TypeError, ValueError):
            raise BadInput(
                f"{keys.written(name)} = {value!r:.60}: expected two numbers, such as 0.9, 0.98"
            ) from None
        keys.set("beta1", beta1, keys.written(name))
        keys.set("beta2", beta2, keys.written(name))
        keys.taken(name, f"beta1 = {beta1}, beta2 = {beta2}")

    def take_batch(
        self,
        factors: Mapping[str, int],
        *,
        tokens: bool,
        gpus: int = 1,
        gpus_origin: str = "",
        others: str = "",
    ) -> None:
        """Take over the size of an update, a product of keys and GPUs. `others`: related keys."""
        keys = self.keys
        size = math.prod(factors.values()) * gpus
        names = [*factors, *others.split()]
        if not tokens:
            for name in names:
                keys.dropped(name, BATCHES)
            self.to_do.append(f"an update has {size} sentences there: choose batch_tokens")
            return
        origins = [*map(keys.written, factors), gpus_origin]
        keys.set("batch_tokens", size, " * ".join(filter(None, origins)))
        product = " * ".join([*map(str, factors.values()), f"{gpus} GPU{'s' * (gpus > 1)}"])
        for name in names:
            keys.changed(name, f"batch_tokens = {size} = {product}; padding counts there, not here")

    def take_search(self, name: str, setting: str, value: float) -> None:
        """Take over a search setting if there is a test set to translate."""
        if name not in self.keys.given:
            return
        if "test" in self.text:
            self.evaluate[setting] = value
            self.keys.taken(name, f"{setting} = {value}")
        else:
            self.keys.dropped(name, f"there is no test set: translate with --{setting} {value}")

    def take_kept_checkpoints(self, name: str) -> None:
        """Take over how many checkpoints are kept: at least the five to average (paper 6.1)."""
        stated, minimum = self.keys.integer(name, -1), 5
        if name not in self.keys.given:
            return
        if stated >= minimum:
            self.keys.take(name, "keep", stated)
        else:
            self.keys.changed(name, f"keep = {minimum}: the mean of the last {minimum} translates")

    def check(self) -> None:
        """Refuse settings that are not valid here."""
        values = {name: value for name, (value, _) in self.keys.settings.items()}
        model = {name: values[name] for name in values if name in ModelConfig.__dataclass_fields__}
        try:
            ModelConfig(**model)
            TrainConfig(**{k: v for k, v in values.items() if k not in model and v != "none"})
        except BadSetting as error:
            toolkit = self.keys.toolkit
            raise BadInput(
                f"this configuration of {toolkit} is not possible here: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A toolkit whose configurations can be converted."""

    name: str
    notes: str  # the name of its TOML file, without the suffix
    keys_of_yaml: Callable[[dict[str, Any]], dict[str, Given]]  # empty: another toolkit's
    convert: Callable[[Draft], None]


def _why_tokenised(*paths: Path) -> str:
    """Return why texts are not raw, or "" if they are raw or cannot be read here."""
    for path in paths:
        if not path.is_file():
            if TOKENISED.search(path.as_posix()):
                return "by its name it is tokenised text: raw text is needed"
            continue
        lines = list(itertools.islice(read_lines(path), SAMPLE))
        for how, pattern in TOKENISERS.items():
            if sum(bool(re.search(pattern, line)) for line in lines) > len(lines) / 4:
                return f"it is {how}: raw text is needed, because subwords are learned from it"
    return ""


def count_words(path: Path) -> int:
    """Count the words of a dictionary, without the fillers that fairseq adds."""
    require_dictionary(path)
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip() and not line.startswith(b"madeupword"))
