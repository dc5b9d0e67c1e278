"""BPE and WordPiece subwords learned from text (paper 5.1), with `tokenizers`.

Both work on the bytes of UTF-8 text in NFC. All 256 bytes are in the vocabulary, so nothing is
unknown, and decoding returns the exact text, spaces included. Encoding adds a space before the text
and decoding removes it, so that a word is the same piece at the start of a sentence as inside it.

`bpe` (the default; the paper's English-German) merges the most frequent neighbours. `wordpiece`
(the paper's English-French) learns its pieces in the same way, but encodes by the longest match.
Its trainer in `tokenizers` numbers the bytes inside words in random order and omits unseen ones, so
all of them are passed as special tokens.
"""

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Self, cast

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from transduce.errors import BadSetting
from transduce.subwords.base import SENTINELS, SPECIAL, TERM_MARKERS, UNK, Coder, encodings

Kind = Literal["bpe", "wordpiece"]
MARKERS = SENTINELS + TERM_MARKERS
KINDS: dict[str, Kind] = {"BPE": "bpe", "WordPiece": "wordpiece"}  # by their names in `tokenizers`

# No piece crosses the boundary of a word: GPT-2's rule, except that marks stay with their letter.
# Otherwise words of Hindi, Thai and vocalized Arabic would be split.
WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}[\p{L}\p{M}]*| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
INSIDE = "‿"  # marks WordPiece's pieces inside a word; no byte's symbol looks like it
MAX_WORD_BYTES = 128  # WordPiece takes quadratic time in the length of a word
MAX_LINE_CHARACTERS = 1_000  # so do the trainers
# Words in the cache. Learning and preparing are a fifth faster with 100,000 than with the library's
# default, 10,000. A loaded model has a small cache, because a service may get long words that never
# repeat, at 18 KB each.
CACHE, LOADED_CACHE = 100_000, 10_000


def default_vocabulary_size(characters: int) -> int:
    """Return a vocabulary size for a text of this many characters.

    The paper has 37,000 subwords for 4.5 million pairs, about 1.2 billion characters. In less text
    most of them would be too rare. Usual sizes are 8,000 for 30,000 short sentences and 16,000 to
    32,000 for half a million long ones. The fourth root fits all three (Multi30k 8,840, 560,000
    pairs of Europarl 23,176, WMT 2014 37,000); multiples of 8 suit matrix units.
    """
    return min(37_000, max(1_024, 8 * round(25 * math.sqrt(math.sqrt(characters)))))


class Subwords(Coder):
    """The subwords of one language, or a joint vocabulary."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        kind: Kind,
        tags: Sequence[str] = (),
        markers: Sequence[str] = (),
    ) -> None:
        # The names of tags and markers have a letter or digit between other characters, so no piece
        # of a word has such a name.
        last = [*(f"<{tag}>" for tag in tags), *markers]
        tokenizer.add_special_tokens([*SPECIAL, *last])
        # A special token's name in a text is ordinary text. `tokenizers` does not store this flag.
        tokenizer.encode_special_tokens = True
        self._kind: Kind = kind
        self._tokenizer = tokenizer
        names = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        if tuple(name for name, _ in names[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(f"its first pieces are not {' '.join(SPECIAL)}")
        self.names = [name for name, _ in names]  # by id, in the notation of `tokenizers`
        self.tags, self.markers = tuple(tags), tuple(markers)
        if self.names[len(self.names) - len(last) :] != last:
            raise ValueError(f"its last pieces are not {' '.join(last)}")
        symbols = _byte_of_symbol()
        self._bytes = [b""] * len(SPECIAL) + [
            bytes(symbols[symbol] for symbol in name.removeprefix(INSIDE))
            for name in self.names[len(SPECIAL) : self.first_tag]
        ]
        self._bytes += [b""] * len(last)
        self._bytes[UNK] = "\N{REPLACEMENT CHARACTER}".encode()

    @classmethod
    def learn(cls, lines: Iterable[str], vocabulary: int, kind: Kind = "bpe") -> Self:
        """Learn at most `vocabulary` subwords; fewer if too few candidates occur twice.

        The result is deterministic.
        """
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        inside = [INSIDE + symbol for symbol in alphabet] if kind == "wordpiece" else []
        minimum = len(SPECIAL) + len(alphabet) + len(inside)
        if vocabulary < minimum:
            raise BadSetting(
                f"vocabulary = {vocabulary:,}: expected at least {minimum:,}, "
                f"which {kind} needs to encode every byte"
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
                special_tokens=[*SPECIAL, *inside],  # see the docstring of this module
                initial_alphabet=alphabet,
                continuing_subword_prefix=INSIDE,
                show_progress=False,
            )
        tokenizer.train_from_iterator(slices(lines), trainer)
        learned = json.loads(tokenizer.to_str())["model"]
        return cls(_tokenizer(kind, _model(kind, learned, CACHE)), kind)

    @property
    def kind(self) -> Kind:
        """The kind of the subwords."""
        return self._kind

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, on all cores."""
        return [encoding.ids for encoding in encodings(self._tokenizer.encode_batch_fast, texts)]

    def encode_words(self, texts: list[str]) -> list[list[list[int]]]:
        """Return the ids of each word of many texts."""
        return [
            [
                [piece for piece, _ in word]
                for _, word in itertools.groupby(
                    zip(encoding.ids, encoding.word_ids, strict=True), key=lambda both: both[1]
                )
            ]
            # Not encode_batch_fast, which does not return word_ids.
            for encoding in encodings(self._tokenizer.encode_batch, texts)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; `<pad>`, `<s>` and `</s>` are skipped."""
        data = b"".join(self.piece_bytes(ids))
        return data.decode("utf-8", errors="replace").removeprefix(" ")

    def encode_parts(self, texts: Sequence[Sequence[str | int]]) -> list[list[int]]:
        """Return the ids of texts with tags and markers inside, which are given as ids.

        `decode_parts` returns the same text (in NFC) between the same ids, spaces included. A text
        begins with a space, as in `encode_batch`, unless a marker comes first.
        """
        if all(len(text) == 1 and isinstance(text[0], str) for text in texts):
            return self.encode_batch([str(text[0]) for text in texts])
        merged = [_merge_strings(text) for text in texts]
        inputs, dropped = [], []
        for text in merged:
            begins = True
            for part in text:
                if isinstance(part, str):
                    given, drop = (part, 0) if begins else self._inside(part)
                    inputs.append(given)
                    dropped.append(drop)
                begins = begins and not isinstance(part, str) and part < self._first_marker
        encoded = zip(self.encode_batch(inputs), dropped, strict=True)
        results: list[list[int]] = []
        for text in merged:
            ids: list[int] = []
            for part in text:
                if isinstance(part, str):
                    pieces, drop = next(encoded)
                    ids += pieces[drop:]
                else:
                    ids.append(part)
            results.append(ids)
        return results

    def decode_parts(self, ids: Iterable[int]) -> list[str | int]:
        """Return the text of ids between tags and markers, and these as ids."""
        parts: list[str | int] = []
        begins = True
        for special, group in itertools.groupby(ids, self.first_tag.__le__):
            if special:
                parts += (markers := list(group))
                begins = begins and max(markers) < self._first_marker
            else:
                data = b"".join(self.piece_bytes(group)).decode("utf-8", errors="replace")
                text = data.removeprefix(" ") if begins else data
                parts += [text] if text else []
                begins = False
        return parts

    def _inside(self, part: str) -> tuple[str, int]:
        """Return a text to encode for one that follows a marker, and how many pieces to drop.

        Encoding adds a space, which replaces the first one of the text. Otherwise the text follows
        another character, with which it cannot form a word: a line feed, or before white space a
        digit.
        """
        if part[0] == " " and len(part) > 1:
            return part[1:], 0
        return ("0" + part, self._pieces_of_digit) if part[0].isspace() else ("\n" + part, 2)

    @functools.cached_property
    def _pieces_of_digit(self) -> int:
        return len(self.encode("0"))

    @property
    def _first_marker(self) -> int:
        return self.first_tag + len(self.tags)

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each piece; special tokens have none."""
        return [self._bytes[piece] for piece in ids]

    def to_json(self) -> dict[str, Any]:
        """Return the format of `tokenizers`."""
        return cast("dict[str, Any]", json.loads(self._tokenizer.to_str()))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Make the subwords from the result of `to_json`; raise ValueError for anything else.

        Only the model, the tags and the markers are read. Normalization and the other steps are
        always set here.
        """
        try:
            kind = KINDS[value["model"]["type"]]
            _check_ids(value["model"]["vocab"])
            tokenizer = _tokenizer(kind, _model(kind, value["model"], LOADED_CACHE))
            added = [token["content"] for token in value.get("added_tokens", [])]
            markers = [name for name in added if name in MARKERS]
            if tuple(markers) not in ((), SENTINELS, TERM_MARKERS, MARKERS):
                raise ValueError(f"its markers are {', '.join(markers):.60}")
            tags = [name for name in added if name not in (*SPECIAL, *markers)]
            if any(name != f"<{name[1:-1]}>" for name in tags):
                raise ValueError(f"its tags are {', '.join(tags):.60}")
            return cls(tokenizer, kind, [name[1:-1] for name in tags], markers)
        except Exception as error:  # `tokenizers` raises bare Exceptions
            raise ValueError(f"it has no subwords of transduce ({error})") from None

    def with_tags(self, tags: Sequence[str]) -> Self:
        """Return the same subwords, followed by tags."""
        assert not self.markers  # their ids would change
        return self._followed_by(tags, ())

    def with_markers(self, *, spans: bool, terms: bool) -> Self:
        """Return the same subwords and tags, followed by sentinels, term markers or both."""
        assert not self.markers
        return self._followed_by(self.tags, SENTINELS * spans + TERM_MARKERS * terms)

    def _followed_by(self, tags: Sequence[str], markers: Sequence[str]) -> Self:
        model = json.loads(self._tokenizer.to_str())["model"]
        tokenizer = _tokenizer(self.kind, _model(self.kind, model, CACHE))
        return type(self)(tokenizer, self.kind, tags, markers)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[dict[str, Any]]]:
        # Pickling the tokenizer itself would lose encode_special_tokens.
        return type(self).from_json, (self.to_json(),)


def _merge_strings(parts: Sequence[str | int]) -> list[str | int]:
    """Join neighbouring strings, and leave out empty ones."""
    merged: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return merged


def _tokenizer(kind: Kind, model: models.Model) -> Tokenizer:
    """Add normalization, splitting into words and decoding to a model."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
    before: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    after: list[decoders.Decoder] = [decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]
    if kind == "wordpiece":
        before.append(pre_tokenizers.Split(Regex(f".{{1,{MAX_WORD_BYTES}}}"), "isolated"))
        after.insert(0, decoders.Replace(INSIDE, ""))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(before)
    tokenizer.decoder = decoders.Sequence(after)
    return tokenizer


def _check_ids(vocabulary: dict[str, int]) -> None:
    """Refuse ids with gaps: `tokenizers` takes memory for all ids up to the highest."""
    numbers = [number for number in vocabulary.values() if type(number) is int]
    if sorted(numbers) != list(range(len(vocabulary))):
        raise ValueError("its ids are not 0, 1, 2 and so on")


def slices(lines: Iterable[str]) -> Iterator[str]:
    """Split long lines: the trainers take quadratic time in the length of a word."""
    for line in lines:
        for begin in range(0, len(line), MAX_LINE_CHARACTERS):
            yield line[begin : begin + MAX_LINE_CHARACTERS]


def _model(kind: Kind, stored: dict[str, Any], cache: int) -> models.Model:
    """Make the model of learned subwords, with settings that `tokenizers` does not store."""
    if kind == "bpe":
        merges = [(left, right) for left, right in stored["merges"]]
        try:
            return models.BPE(vocab=stored["vocab"], merges=merges, cache_capacity=cache)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # bad merges; not a subclass of Exception
                raise
            raise ValueError(f"its merges cannot be used ({error})") from None
    return models.WordPiece(
        vocab=stored["vocab"],
        unk_token=SPECIAL[UNK],
        continuing_subword_prefix=INSIDE,
        max_input_chars_per_word=MAX_WORD_BYTES,
    )


@functools.cache
def _byte_of_symbol() -> dict[str, int]:
    """Return the byte of each symbol of byte-level pieces (GPT-2's table).

    Printable bytes are their own symbols, the others are the characters from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}
