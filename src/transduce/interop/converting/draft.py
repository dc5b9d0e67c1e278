"""A recipe in the making: what all toolkits have alike, under names of their own."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.config import ModelConfig
from transduce.errors import BadInput
from transduce.interop.converting.ledger import Ledger
from transduce.text.reading import read_lines

Pair = tuple[Path, Path]
LOOKED_AT = 1_000  # lines of a text
LONGEST_DICTIONARY = 1 << 26  # bytes
# As text is named that is not raw.
CUT = re.compile(r"tokeni[sz]ed|(^|[/._-])(bpe|spm|sp|tok)([/._-]|\d|$)")
PARTS = {"train": "the text to learn from", "valid": "the validation set", "test": "the test set"}
PRE_NORM = "its norms stand before each sub-layer, here after (3.1): keep an eye on the warm-up"
OTHERS = "the command line names other text"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu", "swish": "swish"}
ACTIVATIONS["silu"] = "swish"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hints:
    """What the user says beside the files."""

    folder: Path  # of the configuration
    gpus: int | None = None
    dictionaries: Sequence[Path] = ()


@dataclass(slots=True)
class Draft:
    """What a converter fills in."""

    ledger: Ledger
    hints: Hints
    languages: tuple[str, str] = ("src", "tgt")
    text: dict[str, Pair] = field(default_factory=dict)  # by train, valid, test
    evaluate: dict[str, Any] = field(default_factory=dict)
    to_do: list[str] = field(default_factory=list)  # what the user has to see to
    departures: Sequence[str] = ()  # of the toolkit from the paper, unasked

    def find(self, name: str) -> Path:
        """Return where a file of the configuration is: from here, else from its folder."""
        return Path(name) if Path(name).exists() else self.hints.folder / name

    def take_text(self, part: str, names: Sequence[str], files: Sequence[str]) -> None:
        """Take the text of a part (train, valid, test) over, if it is raw."""
        if part in self.text:
            reason = OTHERS
        else:
            source, target = (self.find(file) for file in files)
            reason = cut_by(source) or cut_by(target)
            if not reason:
                self.text[part] = (source, target)
        for name in names:
            if reason:
                self.ledger.left(name, reason)
            else:
                self.ledger.taken(name, PARTS[part])
        if reason and reason != OTHERS:
            self.to_do.append(f"give the raw text of {files[0]} and {files[1]}: {reason}")
        elif not reason and not (source.is_file() and target.is_file()):
            self.to_do.append(
                f"see to {source} and {target}, which are not here: raw text is wanted"
            )

    def take_vocabulary(self, stated: Mapping[str, int], found: Sequence[str]) -> None:
        """Take the size of the vocabulary over: of dictionaries, else as stated by keys."""
        counts = {str(path): count_words(path) for path in self.hints.dictionaries}
        if not counts:
            paths = [self.find(name) for name in found]
            counts = {str(path): count_words(path) for path in paths if path.is_file()}
        sizes = counts or {self.ledger.key(name): size for name, size in stated.items()}
        if sizes:
            size = max(sizes.values())
            self.ledger.set("vocabulary", size, ", ".join(sizes))
        else:
            self.to_do.append(
                "name the dictionary with --dictionary, or set vocabulary: how many subwords there "
                "were is not said here, and else follows from the size of your text"
            )
        for name in stated:
            if counts:
                self.ledger.left(name, "the dictionary itself was counted")
            elif stated[name] == size:
                self.ledger.taken(name, f"vocabulary = {size}: as many, learned anew")
            else:
                self.ledger.changed(name, f"vocabulary = {size}: one number for both sides")

    def take_stacks(
        self,
        names: Mapping[str, tuple[str, str]],
        usual: Mapping[str, int],
        origin: str = "",
    ) -> int:
        """Take N, d_model, d_ff and h over, each by its two keys; return d_model."""
        ledger = self.ledger
        found = {}
        for setting, (encoder, decoder) in names.items():
            found[setting] = value = ledger.whole(encoder, usual[setting])
            ledger.set(setting, value, ledger.key(encoder) or origin)
            ledger.taken(encoder, f"{setting} = {value}")
            other = ledger.whole(decoder, usual.get(f"{setting} of the decoder", value))
            if setting == "N":
                if other != value:
                    ledger.set("N_decoder", other, ledger.key(decoder) or origin)
                note = "N_decoder" if other != value else setting
                if decoder != encoder:
                    ledger.taken(decoder, f"{note} = {other}")
            elif decoder != encoder:
                alike = f"our two stacks are alike but for their depth: {setting} = {value}"
                ledger.leave_unless(decoder, value, alike)
        d_model, h = found["d_model"], found["h"]
        if h < 1 or d_model % h:
            raise BadInput(f"d_model = {d_model} and h = {h}: expected a multiple of the heads")
        for setting in ("d_k", "d_v"):
            ledger.set(setting, d_model // h, "d_model / h")
        return d_model

    def take_ties(self, *, both: str, output: str, joint: bool, joint_key: str) -> None:
        """Say which matrices are one (paper 3.4), by two keys: all three, or the decoder's two.

        `joint` says whether both languages share a vocabulary, and `joint_key` which key says so.
        """
        ledger = self.ledger
        tie = "none"
        if ledger.flag(output):
            tie = "decoder"
        if ledger.flag(both) and (ledger.flag(output) or output not in ledger.given):
            tie = "all"
        ledger.set("tie", tie, ledger.key(both, output))
        keys = (both, joint_key) if tie == "all" else (joint_key,)
        ledger.set("joint", joint or tie == "all", ledger.key(*keys))
        if ledger.flag(both) and tie != "all":
            ledger.changed(both, f"tie = {tie}: here the matrix before the softmax is one of them")
        else:
            ledger.taken(both, f"tie = {tie}")
        ledger.taken(output, f"tie = {tie}")

    def take_activation(self, name: str, default: str) -> None:
        """Take the function of the feed-forward layers over (paper Eq. 2)."""
        theirs = self.ledger.word(name, default)
        if theirs in ACTIVATIONS:
            if name in self.ledger.given:
                self.ledger.take(name, "activation", ACTIVATIONS[theirs])
        else:
            self.ledger.left(name, "here is relu (Eq. 2), gelu or swish")

    def take_length(self, *names: str) -> None:
        """Take the longest sentence over: one number for both sides, where it is stated."""
        ledger = self.ledger
        lengths = {name: ledger.whole(name, 0) for name in names if ledger.value(name) is not None}
        if lengths:
            most = max(lengths.values())
            longest = next(name for name, length in lengths.items() if length == most)
            ledger.set("max_len", most, ledger.key(longest))
        for name, length in lengths.items():
            if length == most:
                ledger.taken(name, f"max_len = {most}")
            else:
                ledger.changed(name, f"max_len = {most}: one number for both sides")

    def take_search(self, name: str, setting: str, value: float) -> None:
        """Take over how the test set is translated, where there is one."""
        if name not in self.ledger.given:
            return
        if "test" in self.text:
            self.evaluate[setting] = value
            self.ledger.taken(name, f"{setting} = {value}")
        else:
            self.ledger.left(name, f"there is no test set: translate with --{setting} {value}")

    def take_kept(self, name: str) -> None:
        """Take over how many checkpoints stay, of which a mean translates (paper 6.1)."""
        stated, least = self.ledger.whole(name, -1), 5
        if name not in self.ledger.given:
            return
        if stated >= least:
            self.ledger.take(name, "keep", stated)
        else:
            self.ledger.changed(name, f"keep = {least}: the mean of the last {least} translates")

    def take_positive(self, name: str, setting: str) -> None:
        """Take a whole number over, unless 0 or less stands for none."""
        if name in self.ledger.given:
            number = self.ledger.whole(name, 0)
            if number > 0:
                self.ledger.take(name, setting, number)
            else:
                self.ledger.taken(name, f"none, and the preset's {setting}")


def cut_by(path: Path) -> str:
    """Return why a text is not raw, or nothing where it is, or where it is not here to be seen."""
    if not path.is_file():
        named = CUT.search(path.as_posix())
        return "by its name it is tokenised text: raw text is wanted" if named else ""
    lines = list(itertools.islice(read_lines(path), LOOKED_AT))
    signs = {
        "cut by subword-nmt (@@)": r"@@( |$)",
        "cut by SentencePiece (▁)": r"(^| )▁",
        "cut by OpenNMT's tokenizer (￭)": r"￭",
        "tokenised": r"&(apos|quot|amp);| [.?!]$",
    }
    for what, sign in signs.items():
        if sum(bool(re.search(sign, line)) for line in lines) > len(lines) / 4:
            return f"it is {what}: raw text is wanted, for the subwords here are learned on that"
    return ""


def count_words(path: Path) -> int:
    """Count the words of a dictionary, a word on each line, but for those that fill it up."""
    if not path.is_file():
        raise BadInput(f"the dictionary {path} is {'no file' if path.exists() else 'missing'}")
    if path.stat().st_size > LONGEST_DICTIONARY:
        raise BadInput(
            f"{path} is larger than {LONGEST_DICTIONARY >> 20} MiB: expected a dictionary, "
            "a word and a count on each line"
        )
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip() and not line.startswith(b"madeupword"))


def usual_sizes(base: ModelConfig = ModelConfig()) -> dict[str, int]:  # noqa: B008 (it is frozen)
    """Return the sizes of the paper's base model."""
    return {"N": base.N, "d_model": base.d_model, "d_ff": base.d_ff, "h": base.h}
