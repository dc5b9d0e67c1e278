"""XLIFF 1.2 and 2.x."""

import contextlib
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree
from xml_documents import (
    OPTIONS,
    XLIFF_1,
    XLIFF_2,
    assert_refused,
    assert_survives_damage,
    mapped,
    shuffled,
    sources,
    translate,
)

from transduce.documents import DocumentOptions
from transduce.documents.tmx import read as read_tmx
from transduce.documents.xliff import read
from transduce.errors import BadInput, MissingExtra

NS_1 = "{urn:oasis:names:tc:xliff:document:1.2}"
BOTH = pytest.mark.parametrize("data", [XLIFF_1, XLIFF_2], ids=["1.2", "2.1"])


def target_of(data: bytes, unit: str) -> Any:
    root: Any = etree.fromstring(data)
    found = root.find(f".//{{*}}*[@id='{unit}']//{{*}}target")
    assert found is not None
    return found


def inner(element: Any) -> bytes:
    """Return the canonical content of an element, without its own tag."""
    text = etree.tostring(element, method="c14n", with_tail=False)
    return text[text.index(b">") + 1 : text.rindex(b"<")]


def unindented(element: Any) -> bytes:
    return b" ".join(inner(element).split())


def without_targets(data: bytes) -> bytes:
    """Return the canonical form of a file, without what a translation may change."""
    root: Any = etree.fromstring(data, etree.XMLParser(remove_blank_text=True))
    for target in list(root.iter("{*}target")):
        target.getparent().remove(target)
    for element in root.iter():
        if str(element.tag).endswith("source"):
            element.tail = None
        for name in ("target-language", "trgLang", "state", "subState"):
            element.attrib.pop(name, None)
    return etree.tostring(root.getroottree(), method="c14n")


def test_units_of_1_2_are_trans_units_and_segments() -> None:
    document = read(XLIFF_1, OPTIONS)
    assert sources(read, XLIFF_1) == [
        "Press <1>the <2/> key</1> <3>now</3>.",
        "One.",
        "Two.",
        "Copied",
        "A <b> tag",
    ]
    assert document.units[2].where == "trans-unit 2, segment b"
    assert document.left_alone == [
        '1 trans-unit with translate="no"',
        "3 trans-units with a translation",
    ]


def test_units_of_2_are_segments() -> None:
    document = read(XLIFF_2, OPTIONS)
    assert sources(read, XLIFF_2) == [
        "Click <1>the <2/> button</1> <3>now</3><4/>",
        "The <1/> <2>press</2>.",
    ]
    assert document.left_alone == [
        '1 segment with translate="no"',
        "2 segments with a translation",
    ]


def test_indentation_inside_a_text_is_one_space_unless_it_is_preserved() -> None:
    data = XLIFF_1.replace(b">Copied<", b">Two\n   lines<")
    assert "Two lines" in [unit.source[0] for unit in read(data, OPTIONS).units]
    data = data.replace(b"<body>", b'<body xml:space="preserve">')
    assert "Two\n   lines" in [unit.source[0] for unit in read(data, OPTIONS).units]


@BOTH
def test_a_file_without_new_targets_keeps_its_bytes(data: bytes) -> None:
    assert read(data, OPTIONS).to_bytes() == data


@BOTH
def test_targets_that_equal_their_sources_have_the_same_content(data: bytes) -> None:
    written = translate(read, data, lambda text: text)
    assert without_targets(written) == without_targets(data)
    root: Any = etree.fromstring(written)
    same = [
        unindented(target) == unindented(target.getparent().find("{*}source"))
        for target in root.iter("{*}target")
        if target.get("state-qualifier") or target.getparent().get("subState")
    ]
    assert same.count(True) >= 2
    assert same.count(False) == (1 if data == XLIFF_1 else 0)  # the trans-unit with segments


@BOTH
def test_everything_but_targets_stays(data: bytes) -> None:
    written = translate(read, data)
    assert without_targets(written) == without_targets(data)
    assert written.partition(b"<xliff")[0] == data.partition(b"<xliff")[0]
    for kept in (b"CDATA", b"<?tool keep?>", b"<!-- made by a tool -->", b"&lt;br/", b'x:note="n"'):
        assert (kept in written) == (kept in data)


def test_targets_of_1_2_are_marked_as_machine_translation() -> None:
    written = translate(read, XLIFF_1)
    target = target_of(written, "1")
    assert dict(target.attrib) == {
        "state": "needs-review-translation",
        "state-qualifier": "mt-suggestion",
    }
    assert " ".join("".join(target.itertext()).split()) == "PRESS THE KEY <b>NOW</b>."
    assert inner(target).startswith(b" PRESS <g ")
    assert [child.tag.removeprefix(NS_1) for child in target] == ["g", "bpt", "ept"]
    assert inner(target).endswith(b". ")
    assert b'target-language="de"' in written
    names = [etree.QName(child).localname for child in target.getparent()]
    assert names == ["source", "target"]


def test_segments_are_filled_one_by_one() -> None:
    document = read(XLIFF_1, OPTIONS)
    document.units[2].target = ("Zwei.",)
    target = target_of(document.to_bytes(), "2")
    assert [child.text for child in target] == [None, "Zwei."]
    assert [child.get("mid") for child in target] == ["a", "b"]
    again = read(document.to_bytes(), OPTIONS)
    assert "One." in [unit.source[0] for unit in again.units]
    assert "Two." not in [unit.source[0] for unit in again.units]
    again.units[1].target = ("Eins.",)
    assert "".join(target_of(again.to_bytes(), "2").itertext()).split() == ["Eins.", "Zwei."]


def test_targets_of_2_stay_initial() -> None:
    written = translate(read, XLIFF_2)
    segment = target_of(written, "u1").getparent()
    assert (segment.get("state"), segment.get("subState")) == ("initial", "transduce:mt")
    assert etree.fromstring(written).get("trgLang") == "de"
    assert b'<mrk id="m1" translate="no">Acme</mrk>' in written
    assert b'<mrk id="m2" type="term">PRESS' in written


@BOTH
def test_translations_are_only_replaced_on_request(data: bytes) -> None:
    fixed = [b"Fertig", b'approved="yes"', b">Ende<", b">Offen<", b'state="final"']
    kept = [part for part in fixed if part in data]
    written = translate(read, data)
    assert all(part in written for part in kept)
    again = read(written, OPTIONS)
    assert not again.units, "our own targets are translations, too"
    document = read(data, replace(OPTIONS, overwrite=True))
    for unit in document.units:
        unit.target = mapped(unit.source, str.upper)
    assert not any(part in document.to_bytes() for part in kept)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            b'"en-US"',
            b'"fr"',
            r"source-language in line 4 is 'fr', but the model translates from en",
        ),
        (b'datatype="html"', b'target-language="nl"', "is 'nl', but the model translates from en"),
    ],
)
def test_other_languages_than_the_model_s_are_refused(old: bytes, new: bytes, message: str) -> None:
    assert_refused(read, XLIFF_1.replace(old, new), message)
    unknown = DocumentOptions(languages=("src", "tgt"))
    assert read(XLIFF_1.replace(old, new), unknown).units


def test_an_unknown_source_is_not_named() -> None:
    data = XLIFF_1.replace(b'datatype="html"', b'target-language="nl"')
    with pytest.raises(BadInput, match="but the model translates to de: use a model for nl"):
        read(data, DocumentOptions(languages=("src", "de")))


def test_languages_of_2_are_compared_without_their_region() -> None:
    assert_refused(read, XLIFF_2.replace(b'srcLang="en"', b'srcLang="ja"'), "srcLang is 'ja'")
    data = XLIFF_2.replace(b'srcLang="en"', b'srcLang="EN-gb" trgLang="de-AT"')
    assert b'trgLang="de-AT"' in translate(read, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not well-formed XML"),
        (b"<xliff>\n<a></b></xliff>", "not well-formed XML in line 2"),
        (b"<html/>", "the root element is <html>, expected <xliff>"),
        (b"<xliff version='9'/>", "XLIFF version '9': expected 1.2, 2.0 or 2.1"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]><xliff version='1.2'>&a;</xliff>", "declares entities"),
        (b"<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><xliff>&a;</xliff>", "entities"),
        (b"<a>" * 100_000, "not well-formed XML"),
        (b"<xliff version='1.2'>&a;</xliff>", "Entity 'a' not defined"),
    ],
)
def test_what_is_not_xliff_is_refused(data: bytes, message: str) -> None:
    assert_refused(read, data, message)


def test_entities_are_never_expanded() -> None:
    lines = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE x [<!ENTITY a0 "ha">{lines}]><xliff version="1.2" a="&a11;">&a11;</xliff>'
    start = time.perf_counter()
    assert_refused(read, bomb.encode(), "entities|not well-formed")
    assert_refused(read, bomb.replace(' a="&a11;"', "").encode(), "entit")
    assert time.perf_counter() - start < 2


def test_deep_nesting_is_read_or_refused() -> None:
    for depth in (100, 1_000, 10_000):
        nested = b"<g id='1'>" * depth + b"word" + b"</g>" * depth
        data = XLIFF_1.replace(b"Copied<", nested + b"<", 1)
        with contextlib.suppress(BadInput):
            assert b"<source>" in translate(read, data)


@BOTH
def test_each_tag_is_written_once_in_any_order(data: bytes) -> None:
    for seed in range(20):
        document = read(data, OPTIONS)
        for unit in document.units:
            unit.target = shuffled(unit.source, random.Random(seed))
        root: Any = etree.fromstring(document.to_bytes())
        for target in root.iter("{*}target"):
            if target.get("state-qualifier") or target.getparent().get("subState"):
                source = target.getparent().find("{*}seg-source")
                source = target.getparent().find("{*}source") if source is None else source
                names = [
                    Counter(child.tag for child in e.iterdescendants()) for e in (source, target)
                ]
                assert names[0] == names[1]
                words = [sorted("".join(e.itertext()).split()) for e in (source, target)]
                assert sorted("".join(words[0])) == sorted("".join(words[1]))


def test_line_ends_and_encoding_are_kept() -> None:
    windows = XLIFF_1.replace(b"\n", b"\r\n")
    written = translate(read, windows)
    assert written.count(b"\n") == written.count(b"\r\n")
    wide = b"\xff\xfe" + XLIFF_1.decode().replace("UTF-8", "UTF-16").encode("utf-16-le")
    assert "Press".encode("utf-16-le") in translate(read, wide, lambda text: text + "é")
    assert "é" in translate(read, wide, lambda text: text + "é").decode("utf-16")
    latin = XLIFF_1.replace(b"UTF-8", b"iso-8859-1")
    assert "é&#8364;".encode("latin-1") in translate(read, latin, lambda text: text + "é€")


def test_characters_that_xml_forbids_are_left_out() -> None:
    assert b">ONE.x<" in translate(read, XLIFF_1, lambda text: text.upper() + "\0\x1b\ud800x")


@BOTH
def test_damaged_files_are_read_or_refused(data: bytes) -> None:
    assert_survives_damage(read, data)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(MissingExtra, match=r"translating XLIFF documents needs lxml.*documents"):
        read(XLIFF_1, OPTIONS)
    with pytest.raises(MissingExtra, match="translating TMX documents needs lxml"):
        read_tmx(XLIFF_1, OPTIONS)


def test_codes_form_pairs_only_inside_the_same_element() -> None:
    text = (
        b'<g id="1"><bpt id="2"/>a</g><ept id="2"/> <g id="3">b <bpt id="4"/>c<ept id="4"/></g> d'
    )
    data = XLIFF_1.replace(b"Copied</source>", text + b"</source>", 1).replace(b">Copied<", b"><")
    assert "<1><2/>a</1><3/> <4>b <5>c</5></4> d" in sources(read, data)


def test_tags_of_angular_form_pairs() -> None:
    source = (
        '<x id="START_LINK"/>One<x id="CLOSE_LINK"/> and <x id="START_LINK_1"/>two'
        '<x id="START_TAG_B"/>!<x id="CLOSE_TAG_B"/><x id="CLOSE_LINK"/> <x id="INTERPOLATION"/>'
        '<x id="LINE_BREAK"/><x id="CLOSE_TAG_I"/> end'
    )
    data = f'<xliff version="1.2"><file><trans-unit id="1"><source>{source}</source></trans-unit>'
    data += "</file></xliff>"
    assert sources(read, data.encode()) == [
        "<1>One</1> and <2>two<3>!</3></2> <4/><5/><6/> end",
    ]
    target = inner(target_of(translate(read, data.encode()), "1")).decode()
    assert target.lower() == source.replace("/>", "></x>").lower()
