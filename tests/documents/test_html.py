"""HTML documents, checked with html5lib."""

import random
import re
import time
from pathlib import Path
from xml.dom.minidom import Document, Element, Node, Text

import html5lib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xml_documents import (
    HTML,
    OPTIONS,
    assert_refused,
    assert_survives_damage,
    mapped,
    shown,
    shuffled,
    sources,
    translate,
)

from transduce.documents import DocumentOptions
from transduce.documents.html import read
from transduce.markup import Tag, inline_text

LIBREOFFICE = (Path(__file__).parent / "files" / "libreoffice.html").read_bytes()
SEEN = ("alt", "title", "placeholder", "aria-label")
KEPT = ("code", "pre", "script", "style")


def dom(data: bytes) -> Document:
    parsed = html5lib.parse(data.decode(), treebuilder="dom", namespaceHTMLElements=False)
    assert isinstance(parsed, Document)
    return parsed


def xml(data: bytes, *, upper: bool = False) -> str:
    """Return the tree that html5lib builds, with upper-case text where text is translated."""
    document = dom(data)
    for child in document.childNodes:
        _normalise(child, upper=upper)
    return str(document.toxml())


def _normalise(node: Node, *, upper: bool) -> None:
    if isinstance(node, Text):
        node.data = " ".join(re.split(r"[ \t\n\r\f]+", node.data))
        node.data = node.data.upper() if upper else node.data
    if not isinstance(node, Element):
        return
    upper &= node.tagName not in KEPT and node.getAttribute("translate") != "no"
    upper &= node.getAttribute("class") != "notranslate"
    names = [*SEEN]
    names += ["value"] if node.getAttribute("type") == "submit" else []
    names += ["content"] if node.getAttribute("name") == "description" else []
    for name in names:
        if upper and node.hasAttribute(name):
            node.setAttribute(name, node.getAttribute(name).upper())
    if node.tagName in ("html", "body") and node.getAttribute("lang"):
        node.setAttribute("lang", "de")
    for child in node.childNodes:
        _normalise(child, upper=upper)


def test_units_are_the_texts_and_attributes_that_readers_see() -> None:
    assert sources(read, HTML) == [
        "Prices & terms",
        "What it costs",
        "Prices for <1>all</1> plans",
        "Pay <1>10\xa0euros <2>a month</2></1> with <3/>,<4/> or <5>contact us</5>.",
        "Write to us",
        "One user",
        "Ten <1/> users",
        "A < B",
        "C",
        "<1>Name <2/></1><3/>",
        "Your name",
        "Send",
        "A graph",
    ]


@pytest.mark.parametrize("data", [HTML, LIBREOFFICE], ids=["page", "libreoffice"])
def test_targets_that_equal_their_sources_change_no_byte(data: bytes) -> None:
    assert read(data, OPTIONS).to_bytes() == data
    assert translate(read, data, lambda text: text) == data


@pytest.mark.parametrize("data", [HTML, LIBREOFFICE], ids=["page", "libreoffice"])
def test_only_the_text_of_the_tree_changes(data: bytes) -> None:
    assert xml(translate(read, data)) == xml(data, upper=True)


@pytest.mark.parametrize(
    ("source", "target", "language"),
    [("en", "de", b"de"), ("src", "de", b"de"), ("nl", "de", b"en-US"), ("src", "tgt", b"en-US")],
)
def test_text_without_a_target_keeps_its_bytes(source: str, target: str, language: bytes) -> None:
    """The page states the new language, also if the source is any that the model knows."""
    document = read(HTML, DocumentOptions(languages=(source, target)))
    document.units[5].target = ("Ein Nutzer",)
    expected = HTML.replace(b"One user", b"Ein Nutzer").replace(b'"en-US"', b'"' + language + b'"')
    assert document.to_bytes() == expected


@pytest.mark.parametrize(
    ("source", "units"),
    [
        ("<p>a <b>b <p>c</b> d", ["a <1/>b", "c<1/> d"]),
        ("<p>a <b>b <i>c</b> d</i> e</p>", ["a <1>b <2/>c</1> d<3/> e"]),
        ("<a href=x><div>a</div></a> b", ["a", "<1/> b"]),
        ("a < b & c &amp &copy; <", ["a < b & c & © <"]),
        ("<p>a <code>b", ["a <1/>"]),
        ("<p>a <code>b <p>c", ["a <1/>", "c"]),
        ("<p>a <b title='x", ["a <1/>"]),
        ("<p>a<!-- b --> c<!-- d", ["a<1/> c"]),
        ("<li>a<li translate=no>b<li>c", ["a", "c"]),
        ("<div translate=no>a<p translate=yes>b</p>c</div>d", ["b", "d"]),
        ("<div translate=no><i translate=yes>a</i> b <i translate=yes>c</i>", ["a", "c"]),
        ("<title>a <b>&lt;</title>", ["a <b><"]),
        ("<p>a <svg><text>b</text></svg> c", ["a <1/> c"]),
        ("<p>a <script>b</script> c<script>d</script>", ["a <1/> c"]),
        ("<p>a <svg><title>b</title><path/></svg> c<p>d", ["a <1/> c", "d"]),
        ("<![if x]><p>a<![endif]>", ["a"]),
        ("</p></b>a", ["<1/>a"]),
        ("&nbsp; a &#160;", ["a"]),
        ("<script>'</p>'</scripty></script>a", ["a"]),
    ],
)
def test_broken_html_loses_nothing(source: str, units: list[str]) -> None:
    document = read(source.encode(), OPTIONS)
    assert [shown(unit.source) for unit in document.units] == units
    for unit in document.units:
        unit.target = ("[", *unit.source, "]")
    written = document.to_bytes().decode()
    for unit in document.units:
        tags = [source[slice(*tag.data)] for tag in unit.source if isinstance(tag, Tag)]
        assert all(tag in written for tag in tags)
    letters = [re.sub(r"[^a-z]|amp|nbsp|lt|gt|copy", "", text) for text in (source, written)]
    assert letters[0] == letters[1]


def test_a_tag_inside_xhtml_can_be_empty() -> None:
    assert sources(read, b'<?xml version="1.0"?><div>a <script src="x"/> b <b/> c</div>') == [
        "a <1/> b <2/> c"
    ]


def test_code_of_templates_stays_as_it_is() -> None:
    page = b"<p><% if a < b %>Hi <%= name %>, <?php echo 1 ?> end<% end %></p><p>5 <% 6</p>"
    document = read(page, OPTIONS)
    for unit in document.units:
        unit.target = mapped(unit.source, str.upper)
    expected = b"<p><% if a < b %>HI <%= name %>, <?php echo 1 ?> END<% end %></p><p>5 <% 6</p>"
    assert document.to_bytes() == expected


def test_text_is_escaped_as_the_file_needs_it() -> None:
    data = b"<p title=\"x\" lang=a>a&nbsp;b</p><hr alt=x><hr title='x'>"
    text = b"&lt;&amp;\"'&nbsp;&gt;"
    double, single = text.replace(b'"', b"&quot;"), text.replace(b"'", b"&#39;")
    assert translate(read, data, lambda _: "<&\"'\xa0>") == (
        b'<p title="%b" lang=a>%b</p><hr alt="%b"><hr title=\'%b\'>'
        % (double, text, double, single)
    )


def test_attributes_of_a_moved_tag_are_translated() -> None:
    document = read(b'<p>See <img alt="a cat"> here</p>', OPTIONS)
    text, alt = document.units
    image = text.source[1]
    text.target, alt.target = ("Hier ", image, " sehen"), ("eine Katze",)
    assert document.to_bytes() == b'<p>Hier <img alt="eine Katze"> sehen</p>'
    text.target = None
    assert document.to_bytes() == b'<p>See <img alt="eine Katze"> here</p>'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("\ufeff<p>é".encode(), "\ufeff<p>É €".encode()),
        (b"<meta charset=iso-8859-1><p>\xe9", b"<meta charset=iso-8859-1><p>\xc9 \x80"),
        (b"<meta charset='koi8-r'><p>\xc1", b"<meta charset='koi8-r'><p>\xe1 &#8364;"),
        ("\ufeff<p>é".encode("utf-16-le"), "\ufeff<p>É €".encode("utf-16-le")),
    ],
)
def test_the_encoding_is_kept(data: bytes, expected: bytes) -> None:
    assert translate(read, data, lambda text: text.upper() + " €") == expected


def test_text_in_another_encoding_is_refused() -> None:
    assert_refused(read, b"<p>\n<p>\xe9", "line 2 of the HTML document is not utf-8")
    assert_refused(read, "<p>é".encode("utf-16-le"), "NUL bytes: save it as UTF-8; UTF-16 needs")
    for name in (b"klingon", b"base64", b"unicode_escape", b"undefined"):
        assert_refused(read, b"<meta charset=" + name + b"><p>a", "which is unknown")


WORDS = st.sampled_from(
    ["a", "<b>", "</b>", "<i>", "</i>", "<br>", "<p>", "</p>", "&lt;", " x ", "<code>"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, max_size=25), st.randoms(use_true_random=False))
def test_each_tag_is_written_once_in_any_order(words: list[str], rng: random.Random) -> None:
    data = "".join(words).encode()
    document = read(data, OPTIONS)
    assert translate(read, data, lambda text: text) == data
    for unit in document.units:
        unit.target = shuffled(unit.source, rng)
    written = document.to_bytes()
    for name in (b"<b>", b"</b>", b"<i>", b"</i>", b"<br>", b"<p>", b"</p>", b"<code>", b"&lt;"):
        assert written.count(name) == data.count(name)


def test_shuffled_targets_keep_the_elements_of_the_page() -> None:
    document = read(HTML, OPTIONS)
    for unit in document.units:
        unit.target = shuffled(unit.source, random.Random(3))
        assert sorted(inline_text(unit.target).split()) == sorted(
            word for part in unit.source if isinstance(part, str) for word in part.split()
        )
    names = [
        sorted(element.tagName for element in dom(data).getElementsByTagName("*"))
        for data in (HTML, document.to_bytes())
    ]
    assert names[0] == names[1]


def test_damaged_pages_are_read_or_refused() -> None:
    assert_survives_damage(read, HTML)


@pytest.mark.parametrize(
    "data",
    [
        *("<b>" * 9_000, "<p>a</i>" * 5_000, "<div>" * 9_000 + "</b>" * 9_000, "<a " * 50_000),
        *(
            "<!-- -->x" * 10_000,
            "<!--" * 50_000,
            "<%" * 50_000,
            "<p><button>" + "<x>" * 5_000 + "<div>" * 5_000,
        ),
        *("<p>" + "<img alt=x>&nbsp;" * 5_000, "<p title='" + "&nbsp; " * 30_000 + "'>"),
    ],
    ids=range(10),
)
def test_hostile_pages_take_linear_time(data: str) -> None:
    start = time.process_time()
    document = read(data.encode(), OPTIONS)
    for unit in document.units:
        unit.target = mapped(unit.source, lambda text: text + "!")
    document.to_bytes()
    assert time.process_time() - start < 4
