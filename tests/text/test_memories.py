"""TMX and XLIFF are read as pairs, in bounded memory, and only what is text."""

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CommandLine
from hypothesis import given
from hypothesis import strategies as st
from xml_documents import XLIFF_1, XLIFF_2

from transduce.errors import BadInput
from transduce.text import memories
from transduce.text.memories import TmxParser, XliffParser
from transduce.text.reading import find_languages, read_pairs

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">'


def unit(*variants: tuple[str, str], attributes: str = "") -> str:
    segments = "".join(
        f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in variants
    )
    return f"<tu {attributes}>{segments}</tu>"


def tmx(*units: str, language: str = "en-US") -> str:
    return f'{HEAD}<header srclang="{language}"/><body>{"".join(units)}</body></tmx>'


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def parse(text: str, languages: tuple[str, str] | None = None) -> list[tuple[str, str]]:
    return list(TmxParser("m.tmx", languages).pairs([text.encode()]))


def test_a_unit_gives_the_texts_of_both_languages() -> None:
    both = unit(("de-DE", "Zwei\n    Hunde"), ("EN_us", "Two dogs"))
    other = unit(("en", "One"), ("de", ""))
    assert parse(tmx(both, other)) == [("Two dogs", "Zwei Hunde")]
    assert parse(tmx(both, other, language="*all*")) == [("Zwei Hunde", "Two dogs")]
    assert parse(tmx(both, other), ("de", "en")) == [("Zwei Hunde", "Two dogs")]


def test_a_region_is_preferred_where_it_is_asked_for() -> None:
    text = tmx(unit(("en-US", "color"), ("en-GB", "colour"), ("de", "Farbe")))
    assert parse(text, ("en-GB", "de")) == [("colour", "Farbe")]
    assert parse(text, ("en", "de")) == [("color", "Farbe")]


def test_inline_codes_are_removed() -> None:
    inside = (
        'Press <bpt i="1">&lt;b></bpt>the <hi>key</hi><ept i="1">&lt;/b></ept><ph type="lb"/>'
        '<ph>&lt;img alt="<sub>text</sub>"></ph>now &amp; then<it pos="begin">{</it>'
    )
    text = tmx(unit(("en", inside), ("de", "Taste")))
    assert parse(text) == [("Press the key now & then", "Taste")]


def test_several_languages_need_a_choice(tmp_path: Path) -> None:
    text = tmx(unit(("en", "One"), ("de", "Eins")), unit(("en", "Two"), ("fr", "Deux")))
    with pytest.raises(BadInput, match="has text in de, en, fr: expected two languages; say which"):
        parse(text)
    assert parse(text, ("en", "fr")) == [("Two", "Deux")]
    path = write(tmp_path / "memory.en-fr.tmx", text)
    assert list(read_pairs(path, None)) == [("Two", "Deux")]
    with pytest.raises(BadInput, match="no unit with text in en and it; its languages are: de, en"):
        list(read_pairs(path, None, languages=("en", "it")))
    with pytest.raises(BadInput, match=r"text in de, en, fr: which .* source\? .* --from en$"):
        list(read_pairs(path, None, languages=("src", "de")))
    with pytest.raises(BadInput, match=r"no unit with text in it; its languages are: de, en, fr$"):
        list(read_pairs(path, None, languages=("src", "it")))


def test_all_units_of_a_memory_have_one_direction() -> None:
    """Also in a memory of both directions, whose units state their own source."""
    backwards = unit(("de", "Zwei"), ("en", "Two"), attributes='srclang="de"')
    units = unit(("en", "One"), ("de", "Eins")), backwards, unit(("de", "Drei"), ("en", "Three"))
    expected = [("One", "Eins"), ("Two", "Zwei"), ("Three", "Drei")]
    for language in ("en-US", "*all*"):
        assert parse(tmx(*units, language=language)) == expected
    assert parse(tmx(*units[1:], language="*all*")) == [("Zwei", "Two"), ("Drei", "Three")]
    assert parse(tmx(*units[1:])) == expected[1:]


def test_the_languages_of_a_memory_are_found(tmp_path: Path) -> None:
    path = write(tmp_path / "memory", tmx(unit(("de", "Eins"), ("en", "One"))))
    assert find_languages(path, None) == ("en", "de")
    assert find_languages(path, None, "en-fr") == ("en", "fr")
    path.write_bytes(XLIFF_1)  # it names no target language
    assert find_languages(path, None) == ("src", "tgt")
    assert find_languages(write(path, "One\tEins\n"), None) == ("src", "tgt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_compressed_memories_in_any_encoding_are_read(encoding: str, tmp_path: Path) -> None:
    text = tmx(unit(("en", "Bakery"), ("de", "Bäckerei")))
    text = text.replace('version="1.0"', f'version="1.0" encoding="{encoding}"')
    path = tmp_path / "memory.tmx.gz"
    path.write_bytes(gzip.compress(text.encode(encoding)))
    assert list(read_pairs(path, None)) == [("Bakery", "Bäckerei")]


def test_xliff_gives_finished_targets() -> None:
    pairs = list(XliffParser("m.xliff", ("en", "de")).pairs([XLIFF_1]))
    assert pairs == [("Done", "Fertig")]


def test_xliff_gives_segments_one_by_one() -> None:
    text = """<x:xliff version="1.2" xmlns:x="urn:x"><x:file source-language="en-US"
    target-language="de-DE"><x:trans-unit><x:source>One. Two.</x:source><x:seg-source>
    <x:mrk mtype="seg" mid="1">One<x:ph id="1">&lt;br></x:ph>.</x:mrk> <x:mrk mtype="seg" mid="2">
    Two.</x:mrk></x:seg-source><x:target><x:mrk mtype="seg" mid="1">Eins.</x:mrk>
    <x:mrk mtype="seg" mid="2"><x:g id="2">Zwei.</x:g></x:mrk></x:target>
    <x:alt-trans><x:source>A</x:source><x:target>B</x:target></x:alt-trans></x:trans-unit>
    <x:trans-unit><x:source>Press <x:g id="1">now</x:g></x:source><x:target>Jetzt</x:target>
    </x:trans-unit></x:file></x:xliff>"""
    expected = [("One.", "Eins."), ("Two.", "Zwei."), ("Press now", "Jetzt")]
    assert list(XliffParser("m", None).pairs([text.encode()])) == expected
    swapped = [(target, source) for source, target in expected]
    assert list(XliffParser("m", ("de", "en")).pairs([text.encode()])) == swapped
    with pytest.raises(BadInput, match="in fr and de; its languages are: de, en"):
        list(XliffParser("m", ("fr", "de")).pairs([text.encode()]))


def test_xliff_2_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.xlf"
    path.write_bytes(XLIFF_2)
    for source, target in read_pairs(path, None):
        assert source
        assert target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<tmx><body><tu>", r"m.tmx is not well-formed XML in line 1 \(no element found\)"),
        ("no XML", r"is not well-formed XML in line 1 \(syntax error\): expected TMX"),
        ("<html><p/></html>", "has the root element <html>: expected TMX"),
        ("<tmx>" + "<a>" * 500, "has more than 200 nested elements"),
        ('<!DOCTYPE tmx [<!ENTITY a "b">]><tmx>&a;</tmx>', "declares entities, which are not"),
        ("<tmx><body></body></tmx>", "no unit with text in both languages; its languages are: no"),
    ],
)
def test_damaged_and_hostile_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse(text)


def test_endless_texts_and_tags_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MAX_BYTES", 1 << 18)
    beginning = f'{HEAD}<body><tu><tuv xml:lang="en"><seg>'.encode()
    for rest, message in ((b"x" * 4096, "a text of more"), (b"\n<!" + b"-" * 4093, "more than")):

        def blocks(rest: bytes = rest) -> Iterator[bytes]:
            yield beginning
            for _ in range(1000):
                yield rest if b"<" not in rest else b'<a b="' + b"x" * 4096

        with pytest.raises(BadInput, match=f"{message}|not well-formed"):
            list(TmxParser("m.tmx", None).pairs(blocks()))


def test_memory_does_not_grow_with_the_file() -> None:
    text = unit(("en", "Two dogs run." * 20), ("de", "Zwei Hunde rennen." * 20)) * 50

    def blocks() -> Iterator[bytes]:
        yield f"{HEAD}<body>".encode()
        for _ in range(300):
            yield text.encode()
        yield b"</body></tmx>"

    tracemalloc.start()
    assert sum(1 for _ in TmxParser("m.tmx", ("en", "de")).pairs(blocks())) == 15_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20  # the file has 10 MB


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])), st.integers(1, 7))
def test_texts_do_not_depend_on_the_size_of_blocks(text: str, size: int) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = escaped.replace("\ufffe", "").replace("\uffff", "")
    data = tmx(unit(("en", f"a{escaped}z"), ("de", "b"))).encode()
    blocks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    pairs = list(TmxParser("m.tmx", None).pairs(blocks))
    assert pairs == list(TmxParser("m.tmx", None).pairs([data]))
    assert pairs[0][0] == f"a{text}z".replace("\ufffe", "").replace("\uffff", "")


def test_a_memory_can_be_trained_on(
    cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = [path.read_text(encoding="utf-8").splitlines()[:200] for path in tiny_files]
    units = [unit(("de", target), ("en", source)) for source, target in zip(*lines, strict=True)]
    memory = write(tmp_path / "memory.tmx", tmx(*units))
    small = ["--set", "vocabulary=300", "--set", "N=1", "--set", "d_model=16", "--set", "h=2"]
    out = tmp_path / "run"
    done = cli("train", memory, "--out", out, "--steps", "1", "--device", "cpu", *small)
    assert done.status == 0, done.stderr
    assert "en to de" in cli("info", out).stdout
    terms = tmp_path / "terms.tsv"
    assert cli("data", "terms", memory, "--out", terms, "--min-count", "2").status == 0
