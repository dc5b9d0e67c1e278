"""Subwords of an imported model: a SentencePiece file (.spm) and a vocabulary beside it.

The steps are those of Hugging Face's MarianTokenizer. The file's rules normalise a text and its
pieces cut it, so that their log-probabilities sum to the most; the vocabulary, which may serve two
such files, numbers the pieces; what it lacks is <unk>. A leading >>fra<< is one piece: it tells a
model of several languages which to write.

The cutting is done by `tokenizers`, the normalising here: what `tokenizers` has for that takes
letters with their marks together, and then knows less of the rules than SentencePiece does.

Differs: SentencePiece adds log-probabilities up in 32 bits, `tokenizers` in 64. Where two ways to
cut a text are equally likely ("oo o" and "o oo"), they may choose differently.
"""

import base64
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer, models

from transduce.errors import BadInput, BadRun, MissingExtra
from transduce.subwords.base import BOS, PAD, SPECIAL, UNK, AnyKind, Coder, encodings, readable
from transduce.system.files import MAX_JSON_BYTES, read_regular

SPACE = "▁"  # how SentencePiece writes a space
UNKNOWN = " "  # the cutter's name for what is no piece: after normalising no text has a space
NORMAL, OF_UNKNOWN, CONTROL, UNUSED = 1, 2, 3, 5  # SentencePiece's numbers for types of pieces
LONGEST_RESULT = 1_024  # bytes of what a rule makes of a few; the longest of NFKC has 33
LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)

Piece = tuple[str, float, int]  # its text, its log-probability, its type


class SentencePiece:
    """The subwords of one language; two of them may share a vocabulary."""

    kind: AnyKind = "sentencepiece"

    def __init__(
        self,
        names: Sequence[str],
        pieces: Sequence[Piece],
        *,
        charsmap: bytes,
        prefix: bool,
        squeeze: bool,
    ) -> None:
        """Take the names of all ids, and of the file its pieces and how it normalises.

        `charsmap` holds the rules, `prefix` tells whether a space goes in front of a text,
        `squeeze` whether of several spaces one is left.
        """
        if tuple(names[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(f"its first pieces are not {' '.join(SPECIAL)}")
        self.names, self._pieces = list(names), list(pieces)
        self._charsmap, self._prefix, self._squeeze = charsmap, prefix, squeeze
        self._rules = Rules(charsmap)
        own = {piece: score for piece, score, kind in pieces if kind == NORMAL}
        if not own:
            raise ValueError("it has no pieces")
        vocabulary = [(UNKNOWN, min(own.values())), *own.items()]
        self._tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=False))
        self._ids = {name: n for n, name in enumerate(names) if n >= len(SPECIAL)}
        hidden = {piece for piece, _, kind in pieces if kind == CONTROL}
        self._texts = [
            "" if number < len(SPECIAL) or name in hidden else name.replace(SPACE, " ")
            for number, name in enumerate(names)
        ]

    @classmethod
    def read(cls, path: Path, names: Sequence[str]) -> Self:
        """Read a SentencePiece file, for a vocabulary of these names; refuse what is not ours."""
        proto = _proto()
        try:
            proto.ParseFromString(read_regular(path, MAX_JSON_BYTES))
        except FileNotFoundError:
            raise BadInput(f"{path} is missing") from None
        except BadRun as error:
            raise BadInput(str(error)) from None
        except Exception:  # protobuf's errors are of no class that could be named without it
            raise BadInput(f"{path} is no SentencePiece model: it cannot be read") from None
        trained, normalizer = proto.trainer_spec, proto.normalizer_spec
        kinds = {piece.type for piece in proto.pieces}
        refused = {
            "no pieces": NORMAL not in kinds,
            f"model_type {trained.ModelType.Name(trained.model_type)}": trained.model_type
            != trained.UNIGRAM,
            "byte_fallback": trained.byte_fallback,
            "user-defined symbols": bool(kinds - {NORMAL, OF_UNKNOWN, CONTROL, UNUSED}),
            "treat_whitespace_as_suffix": trained.treat_whitespace_as_suffix,
            "escape_whitespaces = false": not normalizer.escape_whitespaces,
            "a denormalizer": bool(proto.denormalizer_spec.precompiled_charsmap),
        }
        for what, found in refused.items():
            if found:
                raise BadInput(
                    f"{path} has {what}: expected a SentencePiece model of the type unigram, "
                    "without byte fallback, user-defined symbols, whitespace as a suffix, "
                    "unescaped whitespace or a denormalizer"
                )
        try:
            return cls(
                names,
                [(piece.piece, piece.score, piece.type) for piece in proto.pieces],
                charsmap=normalizer.precompiled_charsmap,
                prefix=normalizer.add_dummy_prefix,
                squeeze=normalizer.remove_extra_whitespaces,
            )
        except (TypeError, ValueError) as error:
            raise BadInput(f"{path} is no SentencePiece model that can be used: {error}") from None

    def write(self, path: Path) -> None:
        """Write a SentencePiece file that reads as this one does."""
        proto = _proto()
        for piece, score, kind in self._pieces:
            proto.pieces.add(piece=piece, score=score, type=kind)
        proto.trainer_spec.model_type = proto.trainer_spec.UNIGRAM
        proto.trainer_spec.vocab_size = len(self._pieces)
        proto.normalizer_spec.precompiled_charsmap = self._charsmap
        proto.normalizer_spec.add_dummy_prefix = self._prefix
        proto.normalizer_spec.remove_extra_whitespaces = self._squeeze
        path.write_bytes(proto.SerializeToString())

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, with no special tokens added."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, on all cores."""
        codes = [LANGUAGE.match(text) for text in texts]
        rests = [
            self._normalised(text[code.end() :] if code else text)
            for text, code in zip(texts, codes, strict=True)
        ]
        found = encodings(self._tokenizer.encode_batch, rests)  # the fast one keeps no tokens
        return [
            [self._ids.get(name, UNK) for name in ([code[0]] if code else []) + encoding.tokens]
            for code, encoding in zip(codes, found, strict=True)
        ]

    def _normalised(self, text: str) -> str:
        if not text:
            return ""
        text = self._rules.apply(text)
        if self._squeeze:
            text = re.sub(" {2,}", " ", text.strip(" "))
        text = (" " * self._prefix + text).replace(" ", SPACE)
        return text.rstrip(SPACE) if self._squeeze else text

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special tokens are nothing."""
        return "".join([self._texts[piece] for piece in ids]).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        r"""Return each piece for people to read: its text, with its space if it begins a word.

        Control characters are shown as \n.
        """
        return [
            SPECIAL[piece]
            if piece < len(SPECIAL)
            else readable(self.names[piece].replace(SPACE, " ").encode())
            for piece in ids
        ]

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each piece; those of special tokens are none."""
        return [self._texts[piece].encode() for piece in ids]

    def starts_word(self, piece: int) -> bool:
        """Tell whether a piece begins a word, that is, begins with a space."""
        return self.names[piece].startswith(SPACE)

    def forbidden_ids(self) -> list[int]:
        """Return the ids that may never come out of a search: see `Coder`."""
        breaks = [
            piece for piece, text in enumerate(self._texts) if {"\n", "\r", "\0"}.intersection(text)
        ]
        return [PAD, BOS, UNK, *breaks]

    def same_vocabulary(self, other: Coder) -> bool:
        """Tell whether one vocabulary is shared, though each side has pieces of its own."""
        return isinstance(other, SentencePiece) and other.names == self.names

    def to_json(self) -> dict[str, Any]:
        """Return all there is to store."""
        return {
            "names": self.names,
            "pieces": [list(piece) for piece in self._pieces],
            "charsmap": base64.b64encode(self._charsmap).decode(),
            "prefix": self._prefix,
            "squeeze": self._squeeze,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Make the subwords of what `to_json` returned; ValueError if it is something else."""
        try:
            if not all(type(value[name]) is bool for name in ("prefix", "squeeze")):
                raise TypeError("prefix or squeeze is neither true nor false")
            return cls(
                value["names"],
                [(text, score, kind) for text, score, kind in value["pieces"]],
                charsmap=base64.b64decode(value["charsmap"], validate=True),
                prefix=value["prefix"],
                squeeze=value["squeeze"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"it holds no pieces of SentencePiece ({error})") from None

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[dict[str, Any]]]:
        return type(self).from_json, (self.to_json(),)


class Rules:
    """SentencePiece's rules of normalisation: everywhere the longest that fits is applied.

    They are stored as the bytes of a trie, a double array as Darts-clone makes it, and of the texts
    that it points to. Of a unit of the trie, the low 8 bits and the highest are its label, bit 8
    tells whether a rule ends here, and bits 9 to 31 say where its children are.
    """

    def __init__(self, charsmap: bytes) -> None:
        self._units: Sequence[int] = ()
        self._texts = b""
        if charsmap:
            try:
                (size,) = struct.unpack_from("<I", charsmap)
                self._units = struct.unpack_from(f"<{size // 4}I", charsmap, 4)
            except struct.error:
                raise ValueError("its rules are cut short") from None
            self._texts = charsmap[4 + size :]
        single = {code: self._longest(bytes([code])) for code in range(128)}
        self._of_ascii = {code: text.decode() for code, (length, text) in single.items() if length}
        # Then text in ASCII needs no trie.
        self._alone = not any(
            self._longest(bytes([first, second]))[0] == 2
            for first in range(128)
            for second in range(128)
        )

    def apply(self, text: str) -> str:
        """Return the text with every rule applied."""
        if not self._units:
            return text
        if self._alone and text.isascii():
            return text.translate(self._of_ascii)
        data = text.encode("utf-8", errors="surrogatepass")
        parts, at = [], 0
        while at < len(data):
            length, replacement = self._longest(data, at)
            if not length:
                length = 1
                while at + length < len(data) and data[at + length] & 0xC0 == 0x80:
                    length += 1
                replacement = data[at : at + length]
            parts.append(replacement)
            at += length
        try:
            return b"".join(parts).decode("utf-8", errors="surrogatepass")
        except UnicodeDecodeError:
            raise BadInput("the rules by which the subwords normalise text are damaged") from None

    def _longest(self, data: bytes, at: int = 0) -> tuple[int, bytes]:
        """Return the length of the longest rule that begins here (0: none), and its result."""
        units, found = self._units, (0, b"")
        if not units:
            return found
        node = _children(units[0])
        for place in range(at, len(data)):
            node ^= data[place]
            if node >= len(units) or units[node] & 0x800000FF != data[place]:
                break
            unit = units[node]
            node ^= _children(unit)
            if unit >> 8 & 1:
                found = place + 1 - at, self._result(node)
        return found

    def _result(self, node: int) -> bytes:
        """Return the text that a unit of the trie points to."""
        begin = self._units[node] & 0x7FFFFFFF if node < len(self._units) else len(self._texts)
        end = self._texts.find(b"\0", begin, begin + LONGEST_RESULT)
        if end < 0:
            raise BadInput("the rules by which the subwords normalise text are damaged")
        return self._texts[begin:end]


def _children(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def _proto() -> Any:
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        raise MissingExtra("a SentencePiece model", "sentencepiece", "huggingface") from None
    return sentencepiece_model_pb2.ModelProto()
