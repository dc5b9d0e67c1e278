"""Tags: tokens after the learned subwords, which text can never produce."""

import pickle
from pathlib import Path

import pytest

from transduce.errors import BadInput, BadRun, BadSetting
from transduce.subwords import Codec, Subwords, Symbols, check_extensible
from transduce.subwords.learned import Kind
from transduce.system.files import read_json, write_checksummed

LINES = ["<docs> <news> docs news", "<docs> der Hund <docs>", "die Katze <docs> läuft"] * 3
KINDS: list[Kind] = ["bpe", "wordpiece"]


@pytest.mark.parametrize("kind", KINDS)
def test_tags_follow_the_subwords_and_change_nothing_else(kind: Kind) -> None:
    plain = Subwords.learn(LINES, 600, kind)
    tagged = plain.with_tags(["docs", "news"])
    assert tagged.names == [*plain.names, "<docs>", "<news>"]
    assert tagged.tag_ids("news") == [len(plain) + 1]
    assert tagged.tag_ids(None) == []
    for line in [*LINES, "<docs>", "<news>", " <docs>x"]:
        assert tagged.encode(line) == plain.encode(line)
        assert tagged.decode(tagged.encode(line)) == line.removeprefix(" ") or line[0] == " "
    ids = [*tagged.tag_ids("docs"), *tagged.encode("der Hund")]
    assert tagged.decode(ids) == "der Hund"
    assert tagged.pieces(ids)[0] == "<docs>"
    assert {*tagged.forbidden_ids()} == {*plain.forbidden_ids(), len(plain), len(plain) + 1}


@pytest.mark.parametrize("joint", [True, False])
def test_tags_are_stored_with_the_subwords(*, joint: bool, tmp_path: Path) -> None:
    source = Subwords.learn(LINES, 300)
    plain = Codec(source, source if joint else Subwords.learn(LINES, 290))
    tagged = plain.with_tags(["docs"])
    assert tagged.joint == joint
    assert len(tagged.target) == len(plain.target) + joint
    assert plain.with_tags([]).sha256 == plain.sha256 != tagged.sha256
    tagged.save(tmp_path / "subwords.json")
    loaded = Codec.load(tmp_path / "subwords.json")
    assert loaded.source.tags == ("docs",)
    assert loaded.sha256 == tagged.sha256
    again = pickle.loads(pickle.dumps(loaded.source))
    assert again.names == tagged.source.names


def test_damaged_tags_are_refused(tmp_path: Path) -> None:
    source = Subwords.learn(LINES, 300)
    path = tmp_path / "subwords.json"
    Codec(source, source).with_tags(["docs"]).save(path)
    content = read_json(path)
    content.pop("sha256")
    content["source"]["added_tokens"][-1]["content"] = "a"  # a subword
    write_checksummed(path, content)
    with pytest.raises(BadRun, match="not a file of subwords"):
        Codec.load(path)


def test_an_unknown_tag_is_refused_with_the_known_ones() -> None:
    tagged = Subwords.learn(LINES, 300).with_tags(["docs", "news"])
    with pytest.raises(BadInput, match="no tag 'doc': the model knows docs, news"):
        tagged.tag_ids("doc")
    with pytest.raises(BadInput, match="no tag 'docs': the model was trained without tags"):
        Symbols(["a"]).tag_ids("docs")


def test_a_vocabulary_with_tags_cannot_be_extended() -> None:
    """New subwords would get the ids after the tags, or the tags other ids."""
    tagged = Subwords.learn(LINES, 300).with_tags(["docs"])
    with pytest.raises(BadSetting, match=r"followed by tags \(docs\), so they cannot be extended"):
        check_extensible(Codec(tagged, tagged), "run")
