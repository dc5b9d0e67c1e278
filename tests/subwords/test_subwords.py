"""Subwords are lossless, nothing is unknown, and damaged files are refused."""

import copy
import json
import os
import pickle
import random
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import BadInput, BadRun, BadSetting
from transduce.subwords import (
    BOS,
    EOS,
    PAD,
    SPECIAL,
    UNK,
    Codec,
    Kind,
    Subwords,
    default_vocabulary_size,
)

TEXT = [
    "The paper is the default everywhere.",
    "Das Papier ist überall die Vorgabe.",
    "Attention is all you need, said the paper.",
    "Zwei Hunde laufen über die Straße.",
    "हिन्दी में लिखा हुआ वाक्य",
    "line\n\nbreaks\r\n\n",
] * 5
KINDS: tuple[Kind, ...] = get_args(Kind)
LEARNED = {kind: Subwords.learn(TEXT, 700, kind) for kind in KINDS}

# Characters of this Python's Unicode; a newer table in `tokenizers` may know how to compose others.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"]))
STRANGE = [
    "",
    " ",
    "   ",
    " leading",
    "  two leading",
    "trailing ",
    "double  spaces   inside",
    "tab\tand\u00a0no-break\u3000wide",
    "emoji 👨‍👩‍👧‍👦 ❤️ 🇩🇪",
    "한국어 문장",
    "中文句子。",
    "العَرَبِيَّة",
    "</s> <s> <pad> <unk> <s></s>",
    "▁ Ġ ‿ ## ##ing a‿b @@",
    "a\nb\r\nc\0d",
    "x" * 1000,
    "nfc: e\u0301 \u1112\u1161\u11ab",
]


@pytest.fixture(params=KINDS)
def subwords(request: pytest.FixtureRequest) -> Subwords:
    return LEARNED[request.param]


@pytest.mark.parametrize("kind", KINDS)
@given(text=ANY_TEXT)
def test_decoding_returns_every_text(kind: Kind, text: str) -> None:
    subwords = LEARNED[kind]
    ids = subwords.encode(text)
    assert subwords.decode(ids) == unicodedata.normalize("NFC", text)
    assert not {PAD, BOS, EOS, UNK} & {*ids}


@pytest.mark.parametrize("text", STRANGE)
def test_decoding_returns_strange_texts(subwords: Subwords, text: str) -> None:
    ids = subwords.encode(text)
    assert subwords.decode(ids) == unicodedata.normalize("NFC", text)
    assert not {PAD, BOS, EOS, UNK} & {*ids}


@pytest.mark.parametrize("text", STRANGE)
def test_decoding_against_the_library(subwords: Subwords, text: str) -> None:
    """Exports use the library's own decoder."""
    ids = subwords.encode(text)
    assert subwords._tokenizer.decode(ids, skip_special_tokens=False) == subwords.decode(ids)


def test_all_256_bytes_can_be_encoded(subwords: Subwords) -> None:
    single = [piece for piece in subwords._bytes[len(SPECIAL) :] if len(piece) == 1]
    assert {*single} == {bytes([byte]) for byte in range(256)}


def test_a_batch_is_encoded_like_single_texts(subwords: Subwords) -> None:
    assert subwords.encode_batch(STRANGE) == [subwords.encode(text) for text in STRANGE]
    assert subwords.encode_batch([]) == []


def test_a_lone_surrogate_is_refused(subwords: Subwords) -> None:
    with pytest.raises(BadInput, match="text 2 of 2 has a lone surrogate"):
        subwords.encode_batch(["fine", "not \ud800"])


def test_special_tokens_have_fixed_ids() -> None:
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    for subwords in LEARNED.values():
        assert subwords.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]


def test_special_tokens_are_skipped_in_decoding(subwords: Subwords) -> None:
    ids = subwords.encode("the paper")
    assert subwords.decode([BOS, *ids, EOS, PAD, PAD]) == "the paper"
    assert subwords.decode([PAD, BOS, EOS]) == ""
    assert subwords.decode([UNK]) == "\N{REPLACEMENT CHARACTER}"


def test_a_word_is_the_same_piece_at_the_start_as_inside(subwords: Subwords) -> None:
    (first,), (_, inside) = subwords.encode("paper"), subwords.encode("the paper")
    assert first == inside


def test_invalid_bytes_decode_to_replacement_characters(subwords: Subwords) -> None:
    ids = subwords.encode("漢")
    assert len(ids) > 2
    assert subwords.decode(ids[:-1]).strip() == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_readable_pieces_join_to_the_text(kind: Kind, text: str) -> None:
    subwords = LEARNED[kind]
    assert "".join(subwords.pieces(subwords.encode(text))).removeprefix(" ") == text


def test_incomplete_characters_are_shown_readably(subwords: Subwords) -> None:
    pieces = subwords.pieces(subwords.encode("a漢\t\n"))
    assert "".join(pieces) == " a<0xE6><0xBC><0xA2>\\t\\n"
    assert len(pieces) == len(subwords.encode("a漢\t\n"))
    assert " Straße" in subwords.pieces(subwords.encode("die Straße"))


def test_pieces_that_start_words_are_recognised(subwords: Subwords) -> None:
    ids = subwords.encode("the everywhereness")
    assert [piece for piece in ids if subwords.starts_word(piece)] == [ids[0], ids[1]]
    assert subwords.pieces(ids[1:2])[0].startswith(" e")
    assert not any(map(subwords.starts_word, range(len(SPECIAL))))


def test_combining_marks_stay_with_their_word() -> None:
    """The vowels of Devanagari are marks: cut at each, its words could never be one piece."""
    subwords = Subwords.learn(["हिन्दी में लिखा हुआ"] * 9, 1000)
    assert len(subwords.encode("हिन्दी हुआ")) == 2


def test_pieces_with_line_breaks_are_forbidden(subwords: Subwords) -> None:
    breaking = {
        piece for piece in range(len(subwords)) if re.search(r"[\n\r\0]", subwords.decode([piece]))
    }
    assert any(len(subwords.decode([piece])) > 1 for piece in breaking), "nothing is tested"
    assert {*subwords.forbidden_ids()} == breaking | {PAD, BOS, UNK}
    assert EOS not in subwords.forbidden_ids()


@pytest.mark.parametrize(("kind", "least"), [("bpe", 260), ("wordpiece", 516)])
def test_the_smallest_vocabulary_has_every_byte(kind: Kind, least: int) -> None:
    with pytest.raises(BadSetting, match=f"vocabulary = {least - 1}: expected at least {least}"):
        Subwords.learn(TEXT, least - 1, kind)
    subwords = Subwords.learn(TEXT, least, kind)
    assert len(subwords) == least
    assert subwords.decode(subwords.encode("Ünïcödé 🎉")) == "Ünïcödé 🎉"


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_has_the_requested_size_if_the_text_allows(kind: Kind) -> None:
    least = {"bpe": 260, "wordpiece": 516}[kind]
    assert len(Subwords.learn(TEXT, least + 99, kind)) == least + 99
    assert len(Subwords.learn(["once", "twice"], 5000, kind)) < least + 9
    assert len(Subwords.learn([], 5000, kind)) == least


@pytest.mark.parametrize("kind", KINDS)
def test_an_endless_word_is_learned_in_parts(kind: Kind) -> None:
    """Training time grows with the square of a word's length; unsplit, it would take minutes."""
    subwords = Subwords.learn(["x" * 500_000], 2000, kind)
    assert max(map(len, subwords._bytes)) <= 1001


def test_learning_is_deterministic_across_processes() -> None:
    code = (
        "import random; from transduce.subwords import Codec, Subwords\n"
        "r = random.Random(1)\n"
        "words = [''.join(r.choices('abcdäöü漢', k=4)) for _ in range(999)]\n"
        "text = [' '.join(r.choices(words, k=9)) for _ in range(99)]\n"
        "for kind in ('bpe', 'wordpiece'):\n"
        "    subwords = Subwords.learn(text, 900, kind); print(Codec(subwords, subwords).sha256)\n"
    )
    seen = set()
    for seed, threads in (("1", "1"), ("2", "3"), ("3", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(run.stdout)
    assert len(seen) == 1


def test_an_error_while_reading_lines_is_raised() -> None:
    def lines() -> "list[str]":
        raise BadInput("line 7 is not UTF-8")

    with pytest.raises(BadInput, match="line 7"):
        Subwords.learn((line for _ in range(2) for line in lines()), 300)


def test_a_pickled_copy_encodes_special_names_as_text(subwords: Subwords) -> None:
    text = "a </s> b"
    for other in (
        copy.deepcopy(subwords),
        pickle.loads(pickle.dumps(subwords)),
        Subwords.from_json(json.loads(json.dumps(subwords.to_json()))),
    ):
        assert other.encode(text) == subwords.encode(text)
        assert EOS not in other.encode(text)


def test_a_codec_is_restored_from_its_file(tmp_path: Path) -> None:
    for kind in KINDS:
        one, other = LEARNED[kind], Subwords.learn(TEXT, 540, kind)
        for codec in (Codec(one, one), Codec(one, other)):
            codec.save(tmp_path / "subwords.json")
            back = Codec.load(tmp_path / "subwords.json")
            assert back.joint == codec.joint == (back.source is back.target)
            assert back.kind == kind
            assert back.sha256 == codec.sha256
            assert (len(back.source), len(back.target)) == (len(codec.source), len(codec.target))
            for text in STRANGE:
                assert back.source.encode(text) == codec.source.encode(text)
                assert back.target.encode(text) == codec.target.encode(text)


def test_different_codecs_have_different_hashes() -> None:
    bpe, wordpiece = LEARNED["bpe"], LEARNED["wordpiece"]
    smaller = Subwords.learn(TEXT, 300)
    codecs = [
        Codec(bpe, bpe),
        Codec(wordpiece, wordpiece),
        Codec(bpe, smaller),
        Codec(smaller, bpe),
    ]
    assert len({codec.sha256 for codec in codecs}) == len(codecs)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "subwords.json"
    codec = Codec(LEARNED["bpe"], LEARNED["bpe"])
    codec.save(path)
    data = path.read_bytes()
    chance = random.Random(0)
    found = 0
    for _ in range(200):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            assert Codec.load(path).sha256 == codec.sha256  # one kind of blank for another
        except BadRun as error:
            found += 1
            assert "subwords.json" in str(error)  # noqa: PT017
    assert found > 100


def test_a_truncated_file_of_subwords_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "subwords.json"
    Codec(LEARNED["bpe"], LEARNED["bpe"]).save(path)
    data = path.read_bytes()
    for cut in (0, 1, 100, len(data) // 2, len(data) - 3):
        path.write_bytes(data[:cut])
        with pytest.raises(BadRun, match=r"subwords\.json is damaged"):
            Codec.load(path)


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "subwords.json"
    with pytest.raises(BadRun, match=r"subwords\.json is missing"):
        Codec.load(path)
    for foreign in ({}, {"version": "1.0", "model": {}}, LEARNED["bpe"].to_json()):
        path.write_text(json.dumps(foreign), encoding="utf-8")
        with pytest.raises(BadRun, match=r"subwords\.json is not a file of subwords"):
            Codec.load(path)


@pytest.mark.parametrize(
    "content",
    [
        {"format": 1, "kind": "bpe"},
        {"format": 1, "kind": "bpe", "source": {}},
        {"format": 1, "kind": "bpe", "source": {**LEARNED["bpe"].to_json(), "model": {}}},
    ],
)
def test_a_checksummed_file_with_other_content_is_refused(
    tmp_path: Path, content: dict[str, object]
) -> None:
    from transduce.system.files import write_checksummed

    write_checksummed(tmp_path / "subwords.json", content)
    with pytest.raises(BadRun, match=r"subwords\.json is (not a file of subwords|damaged): "):
        Codec.load(tmp_path / "subwords.json")


def test_subwords_without_special_tokens_are_refused() -> None:
    stored = LEARNED["bpe"].to_json()
    stored["added_tokens"] = []
    vocabulary = stored["model"]["vocab"]
    vocabulary["<x>"] = vocabulary.pop("<pad>")
    with pytest.raises(ValueError, match="first pieces are not <pad> <s> </s> <unk>"):
        Subwords.from_json(stored)
    vocabulary["<pad>"], vocabulary["<x>"] = 0, 100_000
    with pytest.raises(ValueError, match="ids are not 0, 1, 2"):
        Subwords.from_json(stored)


def test_the_steps_in_a_file_are_ignored() -> None:
    """A file cannot choose a pattern that never ends, or padding to a million pieces."""
    stored = LEARNED["bpe"].to_json()
    split = {"type": "Split", "pattern": {"Regex": "(a*)*b"}, "behavior": "Isolated"}
    stored["pre_tokenizer"] = split | {"invert": False}
    stored["normalizer"] = None
    loaded = Subwords.from_json(stored)
    assert loaded.encode("a" * 60) == LEARNED["bpe"].encode("a" * 60)
    assert loaded.to_json() == LEARNED["bpe"].to_json()


def test_vocabularies_grow_with_the_text() -> None:
    sizes = [default_vocabulary_size(10**exponent) for exponent in range(12)]
    assert sizes == sorted(sizes)
    assert 8_000 <= default_vocabulary_size(3_700_000) <= 9_000  # Multi30k
    assert 16_000 <= default_vocabulary_size(180_000_000) <= 32_000  # 560,000 pairs of Europarl
    assert default_vocabulary_size(1_200_000_000) == 37_000  # the paper's WMT 2014
    assert all(size % 8 == 0 for size in sizes)
    assert default_vocabulary_size(0) >= 516
