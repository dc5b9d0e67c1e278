"""JSON files with a checksum: what is written is read, and damage is found."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import BadRun
from transduce.system.files import (
    checksum,
    read_checksummed,
    read_json,
    sha256,
    write_checksummed,
    write_json,
)

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)


CONTENTS = st.dictionaries(NAMES.filter(lambda name: name != "sha256"), VALUES, max_size=4)


@given(CONTENTS)
def test_json_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "value.json"
    write_json(path, content)
    assert read_json(path) == content
    content = {"format": 3, **content} | {"format": 3}
    write_checksummed(path, content)
    assert read_checksummed(path, 3, "things") == content


@given(CONTENTS, st.data())
def test_a_flipped_byte_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "sealed.json"
    content = content | {"format": 1}
    write_checksummed(path, content)
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    found, complaint = content, str(path)
    try:
        found = read_checksummed(path, 1, "things")
    except BadRun as error:
        complaint = str(error)
    assert found == content
    assert str(path) in complaint
    assert "\n" not in complaint


def test_every_byte_but_white_space_matters(tmp_path: Path) -> None:
    path = tmp_path / "sealed.json"
    content = {"format": 1, "weights": "mean", "train": {"steps": 20, "P_drop": 0.1}}
    write_checksummed(path, content)
    whole = path.read_bytes()
    harmless = 0
    for place in range(len(whole)):
        for bit in (0, 5, 7):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            try:
                assert read_checksummed(path, 1, "things") == content
                harmless += 1
                assert chr(whole[place]).isspace()
            except BadRun:
                pass
    assert harmless < len(whole) / 10


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -3])
def test_a_truncated_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "sealed.json"
    write_checksummed(path, {"format": 1, "value": "x" * 100})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BadRun, match=f"^{path} is damaged"):
        read_checksummed(path, 1, "things")


def test_the_checksum_does_not_depend_on_the_order_of_keys() -> None:
    assert checksum({"a": 1, "b": [2, 3]}) == checksum({"b": [2, 3], "a": 1})
    assert checksum({"a": 1, "b": [2, 3]}) != checksum({"a": 1, "b": [3, 2]})
    assert checksum({"a": 1}) != checksum({"a": "1"})
    assert checksum({"a": "ä"}) != checksum({"a": "a"})


def test_the_format_of_another_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_checksummed(path, {"format": 2, "value": 1})
    with pytest.raises(
        BadRun, match=r"has format 2: expected 1; it was written by another version"
    ):
        read_checksummed(path, 1, "things")


@pytest.mark.parametrize("content", [{}, {"format": 1}, {"sha256": "0"}, {"model_type": "bert"}])
def test_json_without_format_or_checksum_is_refused(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    path = tmp_path / "file.json"
    write_json(path, content)
    with pytest.raises(BadRun, match=f"^{path} is not a file of things"):
        read_checksummed(path, 1, "things")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"{}{}", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"[1]", "expected a JSON object, found list"),
        (b"null", "expected a JSON object, found NoneType"),
    ],
    ids=["empty", "cut", "utf-16", "twice", "deep", "long", "list", "null"],
)
def test_files_that_are_not_a_json_object_are_refused(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(BadRun) as caught:
        read_json(path)
    assert str(caught.value).startswith(f"{path} is damaged: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match=f"^{tmp_path / 'file.json'} is missing$"):
        read_json(tmp_path / "file.json")


def test_a_file_name_that_is_not_utf8_can_be_stored(tmp_path: Path) -> None:
    content = {"format": 1, "path": os.fsdecode(b"/data/\xff.en")}
    write_checksummed(tmp_path / "file.json", content)
    assert read_checksummed(tmp_path / "file.json", 1, "things") == content


def test_json_is_indented_and_not_escaped(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"Wörter": ["größer"]})
    assert '"größer"' in (tmp_path / "file.json").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "file.json").read_bytes()) == {"Wörter": ["größer"]}


def test_sha256_is_the_hash_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1000)
    assert sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()
