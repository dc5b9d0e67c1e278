"""The subwords of a Marian folder, and the row of its embeddings for each of our ids.

Marian numbers the special tokens differently (</s> 0, <unk> 1, <pad> last) and begins an output
with <pad>. Our special tokens come first; the other words keep their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import BadInput
from transduce.interop.importing.settings import MarianSettings
from transduce.subwords import BOS, EOS, PAD, SPECIAL, UNK, Coder, SentencePiece, Subwords
from transduce.system.files import read_json


@dataclass(frozen=True)
class Side:
    """The subwords of one side."""

    subwords: Coder
    rows: Sequence[int]  # for each of our ids, the row in their embeddings
    size: int  # the number of their rows

    @property
    def bos_row_is_shared(self) -> bool:
        """Whether <s> shares its row with another token."""
        return self.rows[BOS] in (*self.rows[:BOS], *self.rows[EOS:])


def read_sides(settings: MarianSettings) -> tuple[Side, Side]:
    """Read the subwords of both sides."""
    folder = settings.folder
    if (folder / "source.spm").exists():
        return _read_sentencepiece(settings)
    if (folder / "tokenizer.json").exists():
        return _read_learned(settings)
    raise BadInput(
        f"{folder} has no subwords: expected source.spm, target.spm and vocab.json, "
        "or the tokenizer.json that `transduce export` writes"
    )


def _read_sentencepiece(settings: MarianSettings) -> tuple[Side, Side]:
    folder, separate = settings.folder, settings.tokenizer.get("separate_vocabs", False)
    path = folder / ("target_vocab.json" if separate else "vocab.json")
    names, source_names = _read_names(path), _read_names(folder / "vocab.json")
    _require_same_ids(settings, path, names, {"pad_token_id": PAD, "eos_token_id": EOS})
    begin = settings.config.get("decoder_start_token_id")
    settings.config.require("decoder_start_token_id", begin in names.values(), f"a token of {path}")
    return (
        _side(folder / "source.spm", source_names, None if separate else begin),
        _side(folder / "target.spm", names, begin),
    )


def _read_learned(settings: MarianSettings) -> tuple[Side, Side]:
    paths = [settings.folder / "tokenizer.json", settings.folder / "target" / "tokenizer.json"]
    sides = []
    for path in (path for path in paths if path.exists()):
        try:
            subwords = Subwords.from_json(read_json(path) | {"post_processor": None})
        except ValueError as error:
            raise BadInput(f"{path} is not one that `transduce export` writes: {error}") from None
        sides.append(Side(subwords, range(len(subwords)), len(subwords)))
    names = {name: number for number, name in enumerate(SPECIAL)}
    expected = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    _require_same_ids(settings, paths[0], names, expected)
    return sides[0], sides[-1]


def _side(spm: Path, names: dict[str, int], begin: int | None) -> Side:
    """Read a SentencePiece model for a vocabulary; `begin` is the token that begins outputs."""
    pad, bos, eos, unk = (names.get(name, names[SPECIAL[PAD]]) for name in SPECIAL)
    rest = sorted(number for name, number in names.items() if name not in SPECIAL)
    by_number = {number: name for name, number in names.items()}
    ours = [*SPECIAL, *(by_number[number] for number in rest)]
    rows = [pad, bos if begin is None else begin, eos, unk, *rest]
    return Side(SentencePiece.read(spm, ours), rows, len(names))


def _read_names(path: Path) -> dict[str, int]:
    """Read a vocabulary: names to ids 0, 1, 2 and so on."""
    names = read_json(path)
    numbers = [number for number in names.values() if type(number) is int]
    if len(numbers) < len(names) or set(numbers) != set(range(len(names))):
        raise BadInput(f"{path} is not a vocabulary: its ids are not 0, 1, 2 and so on")
    for name in (SPECIAL[PAD], SPECIAL[EOS], SPECIAL[UNK]):
        if name not in names:
            raise BadInput(f"{path} has no {name}: expected the vocabulary of a MarianMTModel")
    return names


def _require_same_ids(
    settings: MarianSettings, path: Path, names: dict[str, int], special_tokens: dict[str, int]
) -> None:
    """Refuse a model whose settings and vocabulary disagree on the ids of special tokens."""
    for setting, special in special_tokens.items():
        number = names[SPECIAL[special]]
        expected = f"{number}, which is {SPECIAL[special]} in {path}"
        settings.config.require(setting, settings.config.get(setting) == number, expected)
