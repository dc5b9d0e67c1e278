"""The subwords of a Hugging Face folder, and which of its rows each of our ids has.

Marian numbers the special tokens otherwise (</s> 0, <unk> 1, <pad> last) and begins an output with
<pad>. Ours come first, the other words keep their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import BadInput
from transduce.interop.importing.settings import Theirs
from transduce.subwords import BOS, EOS, PAD, SPECIAL, UNK, Coder, SentencePiece, Subwords
from transduce.system.files import read_json


@dataclass(frozen=True)
class Side:
    """The subwords of one side."""

    subwords: Coder
    rows: Sequence[int]  # for each of our ids, which of their rows
    size: int  # how many rows they have

    @property
    def begins_with_copy(self) -> bool:
        """Whether <s> has a row that another token has too."""
        return self.rows[BOS] in (*self.rows[:BOS], *self.rows[EOS:])


def read_sides(theirs: Theirs) -> tuple[Side, Side]:
    """Read the subwords of both sides."""
    folder = theirs.folder
    if (folder / "source.spm").exists():
        return _read_sentencepiece(theirs)
    if (folder / "tokenizer.json").exists():
        return _read_learned(theirs)
    raise BadInput(
        f"{folder} has no subwords: expected source.spm, target.spm and vocab.json, "
        "or the tokenizer.json that `transduce export` writes"
    )


def _read_sentencepiece(theirs: Theirs) -> tuple[Side, Side]:
    folder, separate = theirs.folder, theirs.tokenizer.get("separate_vocabs", False)
    path = folder / ("target_vocab.json" if separate else "vocab.json")
    names, of_source = _names(path), _names(folder / "vocab.json")
    _require_same(theirs, path, names, {"pad_token_id": PAD, "eos_token_id": EOS})
    begin = theirs.config.get("decoder_start_token_id")
    theirs.require("decoder_start_token_id", begin in names.values(), f"a token of {path}")
    return (
        _side(folder / "source.spm", of_source, None if separate else begin),
        _side(folder / "target.spm", names, begin),
    )


def _read_learned(theirs: Theirs) -> tuple[Side, Side]:
    paths = [theirs.folder / "tokenizer.json", theirs.folder / "target" / "tokenizer.json"]
    sides = []
    for path in (path for path in paths if path.exists()):
        try:
            subwords = Subwords.from_json(read_json(path) | {"post_processor": None})
        except ValueError as error:
            raise BadInput(f"{path} is not one that `transduce export` writes: {error}") from None
        sides.append(Side(subwords, range(len(subwords)), len(subwords)))
    names = {name: number for number, name in enumerate(SPECIAL)}
    same = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    _require_same(theirs, paths[0], names, same)
    return sides[0], sides[-1]


def _side(spm: Path, names: dict[str, int], begin: int | None) -> Side:
    """Read a SentencePiece file for a vocabulary, where this token begins outputs."""
    pad, bos, eos, unk = (names.get(name, names[SPECIAL[PAD]]) for name in SPECIAL)
    rest = sorted(number for name, number in names.items() if name not in SPECIAL)
    by_number = {number: name for name, number in names.items()}
    ours = [*SPECIAL, *(by_number[number] for number in rest)]
    rows = [pad, bos if begin is None else begin, eos, unk, *rest]
    return Side(SentencePiece.read(spm, ours), rows, len(names))


def _names(path: Path) -> dict[str, int]:
    """Read a vocabulary: a name to each number from 0 on."""
    names = read_json(path)
    numbers = [number for number in names.values() if type(number) is int]
    if len(numbers) < len(names) or set(numbers) != set(range(len(names))):
        raise BadInput(f"{path} is no vocabulary: its ids are not 0, 1, 2 and so on")
    for name in (SPECIAL[PAD], SPECIAL[EOS], SPECIAL[UNK]):
        if name not in names:
            raise BadInput(f"{path} has no {name}: expected the vocabulary of a MarianMTModel")
    return names


def _require_same(
    theirs: Theirs, path: Path, names: dict[str, int], settings: dict[str, int]
) -> None:
    """Refuse a model that holds other tokens for special than its vocabulary does."""
    for setting, special in settings.items():
        number = names[SPECIAL[special]]
        expected = f"{number}, which is {SPECIAL[special]} in {path}"
        theirs.require(setting, theirs.config.get(setting) == number, expected)
