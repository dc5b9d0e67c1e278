"""Subwords learned from the text itself (paper 5.1), by `tokenizers`.

Both kinds work on the bytes of UTF-8 in NFC, with all 256 of them in the vocabulary: every text
can be written, nothing is unknown, and decoding returns the text exactly, spaces included. Every
text gets one space in front, which decoding takes away, so that a word is the same piece at the
start of a sentence as in its middle.

`bpe` (the default, as for the paper's English-German) merges the most frequent neighbours.
`wordpiece` (as for its English-French) has pieces learned the same way but always takes the longest
that fits. The trainer that `tokenizers` has for it numbers the letters inside words in random order
and leaves out those it has not seen; it is given all of them here, so it is exact and complete too.
"""

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Self, cast

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from transduce.errors import BadSetting
from transduce.subwords.base import BOS, PAD, SPECIAL, UNK, Coder, encodings, readable

Kind = Literal["bpe", "wordpiece"]
KINDS: dict[str, Kind] = {"BPE": "bpe", "WordPiece": "wordpiece"}  # by the library's names

# Where a piece can never reach across: GPT-2's rule, but marks stay with the letter they belong to,
# or the words of Hindi, Thai and pointed Arabic would fall apart.
WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}[\p{L}\p{M}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
INSIDE = "‿"  # marks WordPiece's pieces inside a word; no symbol of a byte looks like it
LONGEST_WORD = 128  # bytes; WordPiece takes time with the square of a word's length
LEARNED_LINE = 1_000  # characters; the trainers take time with the square of a word's length too
# Words whose pieces are remembered. Of a text of our own, which is learned from and then prepared:
# a fifth faster than the library's 10,000. Strangers may send words that are long and never the
# same, which take 18 KB each.
CACHE, CACHE_OF_LOADED = 100_000, 10_000


def default_vocabulary_size(characters: int) -> int:
    """Choose the size of a vocabulary for a text of so many characters.

    The paper's 37,000 served 4.5 million pairs, some 1.2 billion characters of both languages. On
    less text most of so many pieces would be too rare to be learned: usual sizes are about 8,000
    for 30,000 short sentences and 16,000 to 32,000 for half a million long ones. The fourth root of
    the size passes through all three (Multi30k 8,840, 560,000 pairs of Europarl 23,176, the paper's
    37,000), and a multiple of 8 suits matrix units.
    """
    return min(37_000, max(1_024, 8 * round(25 * math.sqrt(math.sqrt(characters)))))


class Subwords:
    """The subwords of one language, or of both where the vocabulary is joint."""

    def __init__(self, tokenizer: Tokenizer, kind: Kind) -> None:
        # A special token's name in running text is text. The library does not store this switch.
        tokenizer.encode_special_tokens = True
        self.kind: Kind = kind
        self._tokenizer = tokenizer
        names = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        if tuple(name for name, _ in names[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(f"its first pieces are not {' '.join(SPECIAL)}")
        self.names = [name for name, _ in names]  # as the library writes them, by their ids
        symbols = _byte_of_symbol()
        self._bytes = [b""] * len(SPECIAL) + [
            bytes(symbols[symbol] for symbol in name.removeprefix(INSIDE))
            for name in self.names[len(SPECIAL) :]
        ]
        self._bytes[UNK] = "\N{REPLACEMENT CHARACTER}".encode()

    @classmethod
    def learn(cls, lines: Iterable[str], vocabulary: int, kind: Kind = "bpe") -> Self:
        """Learn at most `vocabulary` subwords; fewer where the text has no more that occur twice.

        The same lines give the same subwords.
        """
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        inside = [INSIDE + symbol for symbol in alphabet] if kind == "wordpiece" else []
        least = len(SPECIAL) + len(alphabet) + len(inside)
        if vocabulary < least:
            raise BadSetting(
                f"vocabulary = {vocabulary:,}: expected at least {least:,}, "
                f"which {kind} needs to write every byte"
            )
        trainer: trainers.Trainer
        if kind == "bpe":
            tokenizer = _tokenizer(kind, models.BPE())
            trainer = trainers.BpeTrainer(
                vocab_size=vocabulary,
                min_frequency=2,
                special_tokens=list(SPECIAL),
                initial_alphabet=alphabet,
                show_progress=False,
            )
        else:
            tokenizer = _tokenizer(kind, models.WordPiece())
            trainer = trainers.WordPieceTrainer(
                vocab_size=vocabulary,
                min_frequency=2,
                special_tokens=[*SPECIAL, *inside],  # see the head of this file
                initial_alphabet=alphabet,
                continuing_subword_prefix=INSIDE,
                show_progress=False,
            )
        tokenizer.train_from_iterator(slices(lines), trainer)
        learned = json.loads(tokenizer.to_str())["model"]
        tokenizer = _tokenizer(kind, _model(kind, learned, CACHE))
        tokenizer.add_special_tokens(list(SPECIAL))
        return cls(tokenizer, kind)

    def __len__(self) -> int:
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, with no special tokens added."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, on all cores."""
        found = encodings(self._tokenizer.encode_batch_fast, texts)
        return [encoding.ids for encoding in found]

    def encode_words(self, texts: list[str]) -> list[list[list[int]]]:
        """Return the ids of each word of many texts: no piece reaches across two of them."""
        found = encodings(self._tokenizer.encode_batch, texts)  # the fast one tells no words
        return [
            [
                [piece for piece, _ in word]
                for _, word in itertools.groupby(
                    zip(encoding.ids, encoding.word_ids, strict=True), key=lambda both: both[1]
                )
            ]
            for encoding in found
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; padding, begin and end are nothing."""
        whole = b"".join(self.piece_bytes(ids))
        return whole.decode("utf-8", errors="replace").removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        r"""Return each piece for people to read: its text, with its space if it begins a word.

        Bytes that are only part of a character are shown as <0xE2>, control characters as \n.
        """
        return [
            SPECIAL[piece] if piece < len(SPECIAL) else readable(self._bytes[piece])
            for piece in ids
        ]

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each piece; those of special tokens are none."""
        return [self._bytes[piece] for piece in ids]

    def starts_word(self, piece: int) -> bool:
        """Tell whether a piece begins a word, that is, begins with a space."""
        return self._bytes[piece].startswith(b" ")

    def forbidden_ids(self) -> list[int]:
        """Return the ids that may never come out of a search.

        These are pad, begin, unknown, and every piece that would end a line or that no text file
        may hold: one line in is one line out.
        """
        breaks = [
            piece
            for piece, text in enumerate(self._bytes)
            if b"\n" in text or b"\r" in text or b"\0" in text
        ]
        return [PAD, BOS, UNK, *breaks]

    def same_vocabulary(self, other: Coder) -> bool:
        """Tell whether one vocabulary is shared: both sides are then one object."""
        return other is self

    def to_json(self) -> dict[str, Any]:
        """Return what `tokenizers` itself stores and reads."""
        return cast("dict[str, Any]", json.loads(self._tokenizer.to_str()))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Make the subwords of what `to_json` returned; ValueError if it is something else."""
        try:
            kind = KINDS[value["model"]["type"]]
            _require_ids(value["model"]["vocab"])
            tokenizer = _tokenizer(kind, _model(kind, value["model"], CACHE_OF_LOADED))
            tokenizer.add_special_tokens(list(SPECIAL))
            found = cls(tokenizer, kind)
            if _steps(value) != _steps(json.loads(tokenizer.to_str())):
                raise ValueError("what it does to text before and after is not what we do")
            return found
        except Exception as error:  # `tokenizers` raises bare Exceptions
            raise ValueError(f"it holds no subwords of ours ({error})") from None

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[dict[str, Any]]]:
        # The library's own copies forget encode_special_tokens.
        return type(self).from_json, (self.to_json(),)


def _tokenizer(kind: Kind, model: models.Model) -> Tokenizer:
    """Put the steps around a model: what is done to text before it, and to pieces after it."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
    before: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    after: list[decoders.Decoder] = [decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]
    if kind == "wordpiece":
        before.append(pre_tokenizers.Split(Regex(f".{{1,{LONGEST_WORD}}}"), "isolated"))
        after.insert(0, decoders.Replace(INSIDE, ""))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(before)
    tokenizer.decoder = decoders.Sequence(after)
    return tokenizer


def _require_ids(vocabulary: dict[str, int]) -> None:
    """Refuse ids with gaps: `tokenizers` goes through all up to the highest, and notes each."""
    numbers = [number for number in vocabulary.values() if type(number) is int]
    if sorted(numbers) != list(range(len(vocabulary))):
        raise ValueError("its ids are not 0, 1, 2 and so on")


def _steps(value: dict[str, Any]) -> dict[str, Any]:
    """Return all but the model of what `tokenizers` stores, as it writes it today.

    A file may ask for any: a pattern that never ends, or lines padded to a million pieces.
    """
    empty = json.loads(Tokenizer(models.WordLevel({}, SPECIAL[UNK])).to_str())["model"]
    steps: dict[str, Any] = json.loads(
        Tokenizer.from_str(json.dumps(value | {"model": empty})).to_str()
    )
    return {name: step for name, step in steps.items() if name != "model"}


def slices(lines: Iterable[str]) -> Iterator[str]:
    """Cut long lines to learn from: one of them may be one endless word."""
    for line in lines:
        for begin in range(0, len(line), LEARNED_LINE):
            yield line[begin : begin + LEARNED_LINE]


def _model(kind: Kind, stored: dict[str, Any], cache: int) -> models.Model:
    """Make the model anew of what was learned, with settings that the library does not store."""
    if kind == "bpe":
        merges = [(left, right) for left, right in stored["merges"]]
        try:
            return models.BPE(vocab=stored["vocab"], merges=merges, cache_capacity=cache)
        except BaseException as error:  # so the library tells of hostile merges
            if type(error).__name__ != "PanicException":
                raise
            raise ValueError(f"its merges cannot be used ({error})") from None
    return models.WordPiece(
        vocab=stored["vocab"],
        unk_token=SPECIAL[UNK],
        continuing_subword_prefix=INSIDE,
        max_input_chars_per_word=LONGEST_WORD,
    )


@functools.cache
def _byte_of_symbol() -> dict[str, int]:
    """Return the byte that each symbol of byte-level pieces stands for (GPT-2's table).

    Printable bytes stand for themselves, the others for the letters from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + place): byte for place, byte in enumerate(others)}
