"""Markers: sentinels and term markers after the learned subwords, and text around them."""

import pickle
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transduce.errors import BadRun, BadSetting
from transduce.subwords import (
    SENTINELS,
    TERM_MARKERS,
    Codec,
    Subwords,
    Symbols,
    check_extensible,
    mark,
)
from transduce.subwords.learned import Kind
from transduce.subwords.merging import Merges
from transduce.system.files import read_json, write_checksummed

LINES = ["<|1|> <|term|> term is end 1 0 00", "der Hund's x1 0 0", "die Katze, läuft. 00 x"] * 3
LINES += ["a \n b \n\tc"] * 3  # subwords of white space
KINDS: list[Kind] = ["bpe", "wordpiece"]
PLAIN = {kind: Subwords.learn(LINES, 620, kind) for kind in KINDS}
MARKED = {
    kind: plain.with_tags(["docs"]).with_markers(spans=True, terms=True)
    for kind, plain in PLAIN.items()
}
PIECES = st.one_of(
    st.text(st.sampled_from(" \t\n01٣½aZäß漢'`.,-‿\u0301\u0903\u200b\u00a0<|>\x1c"), max_size=8),
    st.sampled_from([" der Hund", "der Hund ", " ", "  ", "'s x", "0 0", " 0", "<|1|>", "<|is|>"]),
    st.text(max_size=5),
)


@pytest.mark.parametrize("kind", KINDS)
def test_markers_follow_subwords_and_tags_and_change_nothing_else(kind: Kind) -> None:
    plain, marked = PLAIN[kind], MARKED[kind]
    assert marked.names == [*plain.names, "<docs>", *SENTINELS, *TERM_MARKERS]
    size = len(plain)
    assert marked.tag_ids("docs") == [size]
    assert [*marked.sentinels] == [*range(size + 1, size + 17)]
    assert marked.term_markers == (size + 17, size + 18, size + 19)
    for line in [*LINES, *SENTINELS, *TERM_MARKERS, " <|16|>x"]:
        assert marked.encode(line) == plain.encode(line)
    ids = [marked.sentinels[2], *marked.encode("der Hund")]
    assert marked.decode(ids) == "der Hund"
    assert marked.pieces(ids)[0] == "<|3|>"
    assert marked.piece_bytes([*marked.sentinels, *marked.term_markers]) == [b""] * 19
    assert {*marked.forbidden_ids()} == {*plain.forbidden_ids(), size, *marked.term_markers}


@pytest.mark.parametrize(("spans", "terms"), [(True, False), (False, True), (False, False)])
def test_spans_and_terms_are_independent(*, spans: bool, terms: bool) -> None:
    plain = Codec(PLAIN["bpe"], PLAIN["bpe"])
    coder = plain.with_markers(spans=spans, terms=terms).source
    assert (len(coder.sentinels) == 16) is spans
    assert (coder.term_markers is not None) is terms
    assert coder.term_markers in (None, tuple(range(len(coder) - 3, len(coder))))
    if not (spans or terms):
        assert plain.with_markers(spans=False, terms=False) is plain
    for other in (Symbols(["a"]), PLAIN["wordpiece"]):
        assert not other.sentinels
        assert other.term_markers is None


@pytest.mark.parametrize("joint", [True, False])
def test_markers_are_stored_with_the_subwords(*, joint: bool, tmp_path: Path) -> None:
    source = Subwords.learn(LINES, 300)
    plain = Codec(source, source if joint else Subwords.learn(LINES, 290))
    marked = plain.with_tags(["docs"]).with_markers(spans=True, terms=True)
    assert marked.joint == joint
    assert len(marked.target) == len(plain.target) + (20 if joint else 16)
    assert len(marked.target.sentinels) == 16
    marked.save(tmp_path / "subwords.json")
    loaded = Codec.load(tmp_path / "subwords.json")
    assert loaded.sha256 == marked.sha256 != plain.sha256
    assert loaded.source.tags == ("docs",)
    assert loaded.source.term_markers == marked.source.term_markers
    again = pickle.loads(pickle.dumps(loaded.target))
    assert again.names == marked.target.names
    assert [*again.sentinels] == [*marked.target.sentinels]


def test_incomplete_markers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "subwords.json"
    Codec(MARKED["bpe"], MARKED["bpe"]).save(path)
    content = read_json(path)
    content.pop("sha256")
    content["source"]["added_tokens"].pop()
    write_checksummed(path, content)
    with pytest.raises(BadRun, match="its markers are"):
        Codec.load(path)


def test_a_vocabulary_with_markers_cannot_be_extended() -> None:
    """New subwords would get the ids after the markers, or the markers other ids."""
    marked = PLAIN["bpe"].with_markers(spans=False, terms=True)
    with pytest.raises(BadSetting, match=r"followed by markers \(<\|term\|>, .*cannot be extended"):
        check_extensible(Codec(marked, marked), "run")


@pytest.mark.parametrize("kind", KINDS)
@given(parts=st.lists(PIECES | st.integers(0, 19), max_size=7))
@example(parts=["a ", 1, " b", 2, "c", 3, " ", 4, "  d", 5, "\te", 6])
@example(parts=[1, "0 0", 2, " 0", 3, "'s", 4, "\u0301x", 5, " \n"])
@example(parts=[0, "a", 1, "a"])
def test_text_between_ids_is_exact(kind: Kind, parts: list[str | int]) -> None:
    coder = MARKED[kind]
    first = coder.tag_ids("docs")[0]
    parts = [part if isinstance(part, str) else first + part for part in parts]
    expected: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and expected and isinstance(expected[-1], str):
            expected[-1] += part
        elif part != "":
            expected.append(part)
    nfc = [unicodedata.normalize("NFC", p) if isinstance(p, str) else p for p in expected]
    ids = coder.encode_parts([parts])[0]
    assert coder.decode_parts(ids) == nfc
    if len(expected) == 1 and isinstance(expected[0], str):
        assert ids == coder.encode(expected[0])


def test_words_after_a_marker_have_their_usual_pieces() -> None:
    coder = MARKED["bpe"]
    one, two = coder.sentinels[:2]
    (ids,) = coder.encode_parts([["der Hund", one, " Katze", two, ", läuft"]])
    usual = [coder.encode(text) for text in ("der Hund", "Katze", "läuft")]
    comma = coder.encode("a,")[-1]
    assert ids == [*usual[0], one, *usual[1], two, comma, *usual[2]]


def test_texts_without_ids_are_encoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    coder = PLAIN["bpe"]
    encode, calls = coder.encode_batch, list[int]()

    def encode_batch(texts: list[str]) -> list[list[int]]:
        calls.append(len(texts))
        return encode(texts)

    expected = [coder.encode("der Hund")] * 5
    monkeypatch.setattr(coder, "encode_batch", encode_batch)
    assert coder.encode_parts([["der Hund"]] * 5) == expected
    assert calls == [5]
    marked = MARKED["bpe"]
    one = marked.sentinels[0]
    assert marked.encode_parts([["a"], [], [one], ["", one]]) == [
        marked.encode("a"),
        [],
        [one],
        [one],
    ]


def test_other_kinds_have_parts_without_ids() -> None:
    symbols = Symbols(["a", "b"])
    assert symbols.encode_parts([["a b"], ["a ", "a"]]) == [[4, 5], [4, 4]]
    assert symbols.decode_parts([4, 5]) == ["a b"]
    assert symbols.decode_parts([]) == []


def test_a_text_is_marked_with_sentinels_and_terms() -> None:
    coder = MARKED["bpe"]
    term, shown, end = coder.term_markers or (0, 0, 0)
    text = "open the log file in {0}."
    marked = mark(text, [(21, 24, 3)], [(9, 17, "Protokoll")], coder=coder)
    three = coder.sentinels[2]
    parts = ["open the", term, " log file", shown, " Protokoll", end, " in ", three, "."]
    assert marked == parts
    assert coder.decode_parts(coder.encode_parts([marked])[0]) == parts


def test_merges_keep_markers_whole() -> None:
    coder = MARKED["bpe"]
    merges = Merges(coder)
    for piece in (*coder.sentinels, *(coder.term_markers or ())):
        assert [*merges.symbols.take(np.array([piece])).flat] == [piece]
