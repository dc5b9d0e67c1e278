"""Translation memories."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree
from xml_documents import (
    OPTIONS,
    TMX,
    assert_refused,
    assert_survives_damage,
    mapped,
    shuffled,
    sources,
    translate,
)

from transduce.documents import DocumentOptions
from transduce.documents.tmx import read
from transduce.errors import BadInput

LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def variants(data: bytes, unit: str) -> dict[str, bytes]:
    """Return the text of each variant by language, without indentation."""
    found = etree.fromstring(data).find(f".//tu[@tuid='{unit}']")
    assert found is not None
    texts = {
        str(tuv.get(LANG)): etree.tostring(tuv[0], method="c14n", with_tail=False) for tuv in found
    }
    return {language: b" ".join(text[5:-6].split()) for language, text in texts.items()}


def test_units_without_a_translation_are_read_in_the_language_of_the_header() -> None:
    assert sources(read, TMX) == ["The <1>new <2>color</2></1> <3/>"]
    assert read(TMX, OPTIONS).left_alone == [
        "1 unit with a translation",
        "1 unit without text in en",
    ]


def test_a_file_without_new_targets_keeps_its_bytes() -> None:
    assert read(TMX, OPTIONS).to_bytes() == TMX


def test_a_variant_is_added() -> None:
    written = translate(read, TMX)
    found = variants(written, "a")
    assert found["de"] == variants(TMX, "a")["en-US"].replace(b"The", b"THE").replace(
        b"new ", b"NEW "
    ).replace(b"color", b"COLOR")
    assert b'creationid="MT"' in written
    assert b'<!DOCTYPE tmx SYSTEM "tmx14.dtd">' in written
    root: Any = etree.fromstring(written)
    added = root.find(".//tuv[@creationid='MT']")
    assert added is not None
    added.getparent().remove(added)
    canonical = [
        etree.tostring(
            etree.fromstring(etree.tostring(r), etree.XMLParser(remove_blank_text=True)),
            method="c14n",
        )
        for r in (root, etree.fromstring(TMX))
    ]
    assert canonical[0] == canonical[1]


def test_a_target_that_equals_its_source_has_the_same_content() -> None:
    found = variants(translate(read, TMX, lambda text: text), "a")
    assert found["de"] == found["en-US"]


def test_variants_are_only_replaced_on_request() -> None:
    assert variants(translate(read, TMX), "b")["de-DE"] == b"Ja"
    document = read(TMX, replace(OPTIONS, overwrite=True))
    for unit in document.units:
        unit.target = mapped(unit.source, lambda _: "Jawohl")
    assert variants(document.to_bytes(), "b") == {"EN": b"Yes", "de-DE": b"Jawohl"}


def test_an_empty_variant_is_filled() -> None:
    data = TMX.replace(b"<seg>Ja</seg>", b"")
    assert variants(translate(read, data), "b") == {"EN": b"Yes", "de-DE": b"YES"}


def test_each_tag_is_written_once_in_any_order() -> None:
    for seed in range(20):
        document = read(TMX, OPTIONS)
        (unit,) = document.units
        unit.target = shuffled(unit.source, random.Random(seed))
        root: Any = etree.fromstring(document.to_bytes())
        source, target = root.findall(".//tu[@tuid='a']/tuv/seg")[1:]
        tags = [
            Counter((child.tag, child.text) for child in seg.iter("bpt", "ept", "ph"))
            for seg in (source, target)
        ]
        assert tags[0] == tags[1]


def test_files_that_do_not_fit_are_refused() -> None:
    japanese = DocumentOptions(languages=("ja", "de"))
    with pytest.raises(BadInput, match=r"no unit of the TMX document has text in ja.*: de, en, fr"):
        read(TMX, japanese)
    assert_refused(read, b"<xliff/>", "the root element is <xliff>, expected <tmx>")
    assert_refused(read, b"<!DOCTYPE tmx [<!ENTITY a 'b'>]><tmx/>", "declares entities")


def test_damaged_files_are_read_or_refused() -> None:
    assert_survives_damage(read, TMX)
