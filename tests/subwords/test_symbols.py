"""Vocabularies of symbols, alone and with subwords in one file."""

from pathlib import Path
from typing import Any

import pytest

from transduce.errors import BadRun
from transduce.subwords import EOS, SPECIAL, UNK, Codec, Subwords, Symbols
from transduce.system.files import write_checksummed

LINES = ["(S (NP NN ) (VP VBZ ) )", "(NP NN )"]


def test_symbols_are_decoded_as_they_were() -> None:
    symbols = Symbols.learn(LINES)
    assert symbols.names == [*SPECIAL, "(NP", "(S", "(VP", ")", "NN", "VBZ"]
    for line in LINES:
        assert symbols.decode([*symbols.encode(line), EOS]) == line
    assert symbols.encode_batch(LINES) == [symbols.encode(line) for line in LINES]


def test_an_unseen_symbol_is_unknown_and_forbidden() -> None:
    symbols = Symbols.learn(LINES)
    assert symbols.encode("(XX NN )") == [UNK, *symbols.encode("NN )")]
    assert UNK in symbols.forbidden_ids()


def test_a_special_token_in_the_lines_is_not_a_symbol() -> None:
    assert Symbols.learn(["</s> NN"]).names == [*SPECIAL, "NN"]


def test_every_symbol_is_a_word() -> None:
    symbols = Symbols.learn(LINES)
    ids = [*symbols.encode("(NP NN )"), EOS]
    assert symbols.pieces(ids) == [" (NP", " NN", " )", "</s>"]
    assert b"".join(symbols.piece_bytes(ids)) == b" (NP NN )"
    assert [symbols.starts_word(number) for number in ids] == [True, True, True, False]


@pytest.mark.parametrize("symbols", [["NN", "NN"], ["a b"], [""], [3]])
def test_invalid_symbols_are_refused(symbols: list[Any]) -> None:
    with pytest.raises(ValueError, match="symbol"):
        Symbols(symbols)


def test_a_codec_may_have_subwords_and_symbols(tmp_path: Path) -> None:
    codec = Codec(Subwords.learn(["the dog sees the dog"] * 3, 300), Symbols.learn(LINES))
    codec.save(tmp_path / "subwords.json")
    again = Codec.load(tmp_path / "subwords.json")
    assert isinstance(again.target, Symbols)
    assert again.target.names == codec.target.names
    assert again.source.encode("the dog") == codec.source.encode("the dog")
    assert again.sha256 == codec.sha256
    assert not again.joint
    assert again.kind == "bpe"


def test_a_file_with_damaged_symbols_is_refused(tmp_path: Path) -> None:
    codec = Codec(Subwords.learn(["the dog"] * 3, 300), Symbols.learn(LINES))
    content = {
        "format": 1,
        "kind": "bpe",
        "target_kind": "symbols",
        "source": codec.source.to_json(),
        "target": {"symbols": ["NN", "NN"]},
    }
    write_checksummed(tmp_path / "subwords.json", content)
    with pytest.raises(BadRun, match="twice"):
        Codec.load(tmp_path / "subwords.json")
