"""The subwords of an imported model: a SentencePiece file (.spm) and a vocabulary.

The steps are those of Hugging Face's MarianTokenizer. The file's rules normalize a text; then it is
split into the pieces with the highest sum of log-probabilities. The vocabulary, which two files may
share, maps pieces to ids; pieces that it lacks become <unk>. A leading >>fra<< is one piece that
selects the target language of a multilingual model.

`tokenizers` splits the text. Normalization is done here, because the normalizer of `tokenizers`
works on whole graphemes and misses rules that SentencePiece applies.

Differs: SentencePiece adds log-probabilities in 32 bits, `tokenizers` in 64. If two ways to split a
text are equally likely ("oo o" and "o oo"), they may choose different ones.
"""

import base64
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer, models

from transduce.errors import BadInput, BadRun, MissingExtra
from transduce.subwords.base import SPECIAL, UNK, AnyKind, Coder, encodings, readable
from transduce.system.files import MAX_JSON_BYTES, read_regular

SPACE = "▁"  # SentencePiece's notation for a space
UNKNOWN = " "  # the name of the unknown piece: normalized text has no spaces
NORMAL, UNKNOWN_TYPE, CONTROL, UNUSED = 1, 2, 3, 5  # types of pieces in SentencePiece files
MAX_RESULT_BYTES = 1_024  # maximum result of one rule; the longest in NFKC has 33
LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)

Piece = tuple[str, float, int]  # text, log-probability, type


class SentencePiece(Coder):
    """The subwords of one language; two may share a vocabulary."""

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
        """Make the subwords from the names of all ids and the content of a SentencePiece file.

        `charsmap` has the normalization rules, `prefix` adds a space before a text, `squeeze`
        reduces several spaces to one.
        """
        if tuple(names[: len(SPECIAL)]) != SPECIAL:
            raise ValueError(f"its first pieces are not {' '.join(SPECIAL)}")
        self.names, self._pieces = list(names), list(pieces)
        self._charsmap, self._prefix, self._squeeze = charsmap, prefix, squeeze
        self._rules = NormalizationRules(charsmap)
        scores = {piece: score for piece, score, kind in pieces if kind == NORMAL}
        if not scores:
            raise ValueError("it has no pieces")
        vocabulary = [(UNKNOWN, min(scores.values())), *scores.items()]
        self._tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=False))
        self._ids = {name: n for n, name in enumerate(names) if n >= len(SPECIAL)}
        hidden = {piece for piece, _, kind in pieces if kind == CONTROL}
        self._texts = [
            "" if number < len(SPECIAL) or name in hidden else name.replace(SPACE, " ")
            for number, name in enumerate(names)
        ]

    @classmethod
    def read(cls, path: Path, names: Sequence[str]) -> Self:
        """Read a SentencePiece file for a vocabulary; refuse types that are not supported."""
        proto = _proto()
        try:
            proto.ParseFromString(read_regular(path, MAX_JSON_BYTES))
        except FileNotFoundError:
            raise BadInput(f"{path} is missing") from None
        except BadRun as error:
            raise BadInput(str(error)) from None
        except Exception:  # protobuf's error classes may not be importable
            raise BadInput(f"{path} is not a SentencePiece model: it cannot be read") from None
        trained, normalizer = proto.trainer_spec, proto.normalizer_spec
        kinds = {piece.type for piece in proto.pieces}
        unsupported = {
            "no pieces": NORMAL not in kinds,
            f"model_type {trained.ModelType.Name(trained.model_type)}": trained.model_type
            != trained.UNIGRAM,
            "byte_fallback": trained.byte_fallback,
            "user-defined symbols": bool(kinds - {NORMAL, UNKNOWN_TYPE, CONTROL, UNUSED}),
            "treat_whitespace_as_suffix": trained.treat_whitespace_as_suffix,
            "escape_whitespaces = false": not normalizer.escape_whitespaces,
            "a denormalizer": bool(proto.denormalizer_spec.precompiled_charsmap),
        }
        for feature, present in unsupported.items():
            if present:
                raise BadInput(
                    f"{path} has {feature}: expected a SentencePiece model of the type unigram, "
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
            raise BadInput(f"{path} is not a usable SentencePiece model: {error}") from None

    def write(self, path: Path) -> None:
        """Write an equivalent SentencePiece file."""
        proto = _proto()
        for piece, score, kind in self._pieces:
            proto.pieces.add(piece=piece, score=score, type=kind)
        proto.trainer_spec.model_type = proto.trainer_spec.UNIGRAM
        proto.trainer_spec.vocab_size = len(self._pieces)
        proto.normalizer_spec.precompiled_charsmap = self._charsmap
        proto.normalizer_spec.add_dummy_prefix = self._prefix
        proto.normalizer_spec.remove_extra_whitespaces = self._squeeze
        path.write_bytes(proto.SerializeToString())

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, on all cores."""
        codes = [LANGUAGE.match(text) for text in texts]
        rests = [
            self._normalize(text[code.end() :] if code else text)
            for text, code in zip(texts, codes, strict=True)
        ]
        # Not encode_batch_fast, which does not return tokens.
        encoded = encodings(self._tokenizer.encode_batch, rests)
        return [
            [self._ids.get(name, UNK) for name in ([code[0]] if code else []) + encoding.tokens]
            for code, encoding in zip(codes, encoded, strict=True)
        ]

    def _normalize(self, text: str) -> str:
        if not text:
            return ""
        text = self._rules.apply(text)
        if self._squeeze:
            text = re.sub(" {2,}", " ", text.strip(" "))
        text = (" " * self._prefix + text).replace(" ", SPACE)
        return text.rstrip(SPACE) if self._squeeze else text

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special tokens are skipped."""
        return "".join([self._texts[piece] for piece in ids]).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        r"""Return the text of each piece in readable form, with a space if it begins a word.

        Control characters are shown as \n.
        """
        return [
            SPECIAL[piece]
            if piece < len(SPECIAL)
            else readable(self.names[piece].replace(SPACE, " ").encode())
            for piece in ids
        ]

    def piece_bytes(self, ids: Iterable[int]) -> list[bytes]:
        """Return the bytes of each piece; special tokens have none."""
        return [self._texts[piece].encode() for piece in ids]

    def same_vocabulary(self, other: Coder) -> bool:
        """Return whether both have the same ids, even if their pieces differ."""
        return isinstance(other, SentencePiece) and other.names == self.names

    def to_json(self) -> dict[str, Any]:
        """Return the content to store."""
        return {
            "names": self.names,
            "pieces": [list(piece) for piece in self._pieces],
            "charsmap": base64.b64encode(self._charsmap).decode(),
            "prefix": self._prefix,
            "squeeze": self._squeeze,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Make the subwords from the result of `to_json`."""
        return cls(
            value["names"],
            [(text, score, kind) for text, score, kind in value["pieces"]],
            charsmap=base64.b64decode(value["charsmap"], validate=True),
            prefix=bool(value["prefix"]),
            squeeze=bool(value["squeeze"]),
        )

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[dict[str, Any]]]:
        return type(self).from_json, (self.to_json(),)


class NormalizationRules:
    """SentencePiece's normalization rules: at each position, the longest match is replaced.

    They are stored as a trie (a Darts-clone double array), followed by the replacement texts.
    In a unit of the trie, the low 8 bits and the highest are the label, bit 8 marks the end of a
    rule, and bits 9 to 31 give the position of the children.
    """

    def __init__(self, charsmap: bytes) -> None:
        self._units: Sequence[int] = ()
        self._texts = b""
        if charsmap:
            try:
                (size,) = struct.unpack_from("<I", charsmap)
                self._units = struct.unpack_from(f"<{size // 4}I", charsmap, 4)
            except struct.error:
                raise ValueError("its rules are truncated") from None
            self._texts = charsmap[4 + size :]
        single = {code: self._longest(bytes([code])) for code in range(128)}
        self._ascii = {code: text.decode() for code, (length, text) in single.items() if length}
        # Without rules for two ASCII characters, ASCII text needs no trie.
        self._ascii_alone = not any(
            self._longest(bytes([first, second]))[0] == 2
            for first in range(128)
            for second in range(128)
        )

    def apply(self, text: str) -> str:
        """Return the text with every rule applied."""
        if not self._units:
            return text
        if self._ascii_alone and text.isascii():
            return text.translate(self._ascii)
        data = text.encode("utf-8", errors="surrogatepass")
        parts, begin = [], 0
        while begin < len(data):
            length, replacement = self._longest(data, begin)
            if not length:  # keep the character
                length = 1
                while begin + length < len(data) and data[begin + length] & 0xC0 == 0x80:
                    length += 1
                replacement = data[begin : begin + length]
            parts.append(replacement)
            begin += length
        try:
            return b"".join(parts).decode("utf-8", errors="surrogatepass")
        except UnicodeDecodeError:
            raise BadInput("the normalization rules of the subwords are damaged") from None

    def _longest(self, data: bytes, begin: int = 0) -> tuple[int, bytes]:
        """Return the length of the longest match at `begin` (0: none) and its replacement."""
        units, longest = self._units, (0, b"")
        if not units:
            return longest
        node = _children(units[0])
        for index in range(begin, len(data)):
            node ^= data[index]
            if node >= len(units) or units[node] & 0x800000FF != data[index]:
                break
            unit = units[node]
            node ^= _children(unit)
            if unit >> 8 & 1:
                longest = index + 1 - begin, self._result(node)
        return longest

    def _result(self, node: int) -> bytes:
        """Return the replacement text that a unit of the trie points to."""
        begin = self._units[node] & 0x7FFFFFFF if node < len(self._units) else len(self._texts)
        end = self._texts.find(b"\0", begin, begin + MAX_RESULT_BYTES)
        if end < 0:
            raise BadInput("the normalization rules of the subwords are damaged")
        return self._texts[begin:end]


def _children(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def _proto() -> Any:
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        raise MissingExtra("a SentencePiece model", "sentencepiece", "huggingface") from None
    return sentencepiece_model_pb2.ModelProto()
