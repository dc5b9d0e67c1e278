"""Subwords: text to ids and back. Learned from text, or read from an imported model.

base            special tokens, and the interface of all kinds of subwords
learned         BPE and WordPiece (paper 5.1)
sentencepiece   SentencePiece subwords of imported models
symbols         a closed set of symbols, for parse trees
marking         sentinels instead of spans, and terms with their translations
codec           the subwords of source and target, in one file
extending       new subwords for new text; existing ones are unchanged
merging         BPE with dropout for many words at once
"""

from transduce.subwords.base import (
    BOS,
    EOS,
    PAD,
    SENTINELS,
    SPECIAL,
    TERM_MARKERS,
    TO,
    UNK,
    AnyKind,
    Coder,
)
from transduce.subwords.codec import FORMAT, Codec
from transduce.subwords.extending import check_extensible, decompose_new_pieces, extend_subwords
from transduce.subwords.learned import Kind, Subwords, default_vocabulary_size
from transduce.subwords.marking import mark
from transduce.subwords.sentencepiece import SentencePiece
from transduce.subwords.symbols import Symbols

__all__ = [
    "BOS",
    "EOS",
    "FORMAT",
    "PAD",
    "SENTINELS",
    "SPECIAL",
    "TERM_MARKERS",
    "TO",
    "UNK",
    "AnyKind",
    "Codec",
    "Coder",
    "Kind",
    "SentencePiece",
    "Subwords",
    "Symbols",
    "check_extensible",
    "decompose_new_pieces",
    "default_vocabulary_size",
    "extend_subwords",
    "mark",
]
