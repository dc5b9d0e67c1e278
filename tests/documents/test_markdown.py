"""Markdown: the texts of blocks change; code, links, marks and white space stay."""

from collections.abc import Callable, Iterator

import pytest
from markdown_it import MarkdownIt
from text_documents import assert_unchanged, read, spoil_and_read, texts, translated, with_texts

from transduce.documents.markdown_inline import Image
from transduce.markup import Tag

TEXT = """\
---
title: Hello
---
# Hello *big* world #

Setext heading
==============

A paragraph with **bold and *nested* text**, `code`, a [link](http://x.y "t"),
a [ref], [full][ref], <b>html</b>, an ![alt text](a.png) image\\*
and <http://auto.link> end.  
Hard break\\
second &amp; third[^1].

> quoted text
> over lines  
> hard

- [ ] task one
- item with
  lazy

  ```
  code
  ```
1. one

| a | b \\| c |
|---|---|
| x |  |
|  | y `c` |

<div>block</div>

    indented code

[^1]: The footnote text here.

[ref]: http://ref "title"
"""  # noqa: W291
UNITS = [
    "Hello <1>big</1> world",
    "Setext heading",
    (
        "A paragraph with <1>bold and <2>nested</2> text</1>, <3/>, a <4>link</4>, a <5>ref</5>, "
        "<6>full</6>, <7>html</7>, an <8/> image* and <9/> end.<10/>Hard break<11/>second & third"
        "<12/>."
    ),
    *("alt text", "quoted text over lines<1/>hard", "task one", "item with lazy", "one"),
    *("a", "b | c", "x", "y", "The footnote text here."),
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_nothing_changes_without_translations(end: str, mark: str) -> None:
    assert_unchanged("markdown", (mark + TEXT).replace("\n", end))
    assert_unchanged("markdown", TEXT.rstrip("\n"))


def test_each_block_is_a_unit() -> None:
    document = read("markdown", TEXT)
    assert texts(document) == UNITS
    assert document.left_alone == ["the front matter", "1 HTML block"]


EXPECTED = """\
---
title: Hello
---
# HELLO *BIG* WORLD #

SETEXT HEADING
==============

A PARAGRAPH WITH **BOLD AND *NESTED* TEXT**, `code`, A [LINK](http://x.y "t"), \
A [REF][ref], [FULL][ref], <b>HTML</b>, AN ![ALT TEXT](a.png) IMAGE* \
AND <http://auto.link> END.  
HARD BREAK\\
SECOND & THIRD[^1].

> QUOTED TEXT OVER LINES  
> HARD

- [ ] TASK ONE
- ITEM WITH LAZY

  ```
  code
  ```
1. ONE

| A | B \\| C |
|---|---|
| X |  |
|  | Y `c` |

<div>block</div>

    indented code

[^1]: THE FOOTNOTE TEXT HERE.

[ref]: http://ref "title"
"""  # noqa: W291


def test_texts_change_in_their_places() -> None:
    assert translated("markdown", TEXT) == EXPECTED
    assert translated("markdown", TEXT.replace("\n", "\r\n")) == EXPECTED.replace("\n", "\r\n")


def outline(text: str) -> list[str]:
    """Return the types of all elements, and where links go, with an unmodified markdown-it."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])

    def inner() -> Iterator[str]:
        for block in parser.parse(text):
            yield block.type
            for token in block.children or []:
                if token.type not in ("text", "softbreak"):
                    yield f"{token.type} {token.attrs.get('href', token.attrs.get('src', ''))}"
                if token.type in ("code_inline", "html_inline"):
                    yield token.content

    return list(inner())


HARD = [
    *(
        "1. Mai ist ein Tag",
        "# kein Titel",
        "- Strich",
        "> Zitat",
        "*",
        "a * b * c",
        "_x_ und __y__",
    ),
    *("[ref]", "a_b_c", "`code`", "<b>", "&amp;", "```", "===", "---", "[ref]: x", "a | b", "2) b"),
    *("ein Satz #", "![x](y)", "<!-- x -->", "http://x.y", "~~x~~", "\\", "+ x", "    x", "\\*"),
]


@pytest.mark.parametrize("new", HARD)
def test_a_translation_is_text_and_never_markup(new: str) -> None:
    """Whatever a translation contains, the elements and the text of the blocks are the same."""
    source = "# Title\n\nParagraph\n\nHeading\n===\n\n- item\n\n> quote\n\n| cell |\n|---|\n\n"
    source += "[ref]: http://ref\n"
    result = translated("markdown", source, lambda _: new)
    assert outline(result) == outline(source)
    blocks = MarkdownIt("commonmark").enable("table").parse(result)
    shown = [
        "".join(token.content for token in block.children or [])
        for block in blocks
        if block.type == "inline"
    ]
    assert shown == [new.strip()] * 6


@pytest.mark.parametrize(
    ("source", "change", "expected"),
    [
        ("A *b* c.\n", lambda text: text.replace("b", " b "), "A  *b*  c.\n"),
        ("A _b_ c.\n", lambda text: text.strip(), "A*b*c.\n"),
        ("**All bold**\n", str.upper, "**ALL BOLD**\n"),
        ("***a** b*\n", str.upper, "***A** B*\n"),
        ("a ~~b~~ c\n", str.upper, "A ~~B~~ C\n"),
        ("2 * 3 and snake_case\n", str.title, "2 * 3 And Snake_Case\n"),
        ("> [!NOTE]\n> text\n", str.upper, "> [!NOTE]\n> TEXT\n"),
        ("\\# no heading\n", str.upper, "\\# NO HEADING\n"),
        ("a<br>b <img src='x'/> c\n", str.upper, "A<br>B <img src='x'/> C\n"),
        ("[![logo text](i.png)](http://x)\n", str.upper, "[![LOGO TEXT](i.png)](http://x)\n"),
        ("[a](<x y> 'multi\nline') b\n", str.upper, "[A](<x y> 'multi\nline') B\n"),
    ],
)
def test_inline_elements_stay(source: str, change: Callable[[str], str], expected: str) -> None:
    assert_unchanged("markdown", source)
    assert translated("markdown", source, change) == expected


def test_tags_may_change_places() -> None:
    document = read("markdown", "A [b](x) and `c`.\n")
    (unit,) = document.units
    a, opened, b, closed, conjunction, code, end = unit.source
    unit.target = (code, conjunction, opened, b, closed, end)
    assert document.to_bytes().decode() == "`c` and [b](x).\n"
    assert a == "A "


def test_line_breaks_may_change_places() -> None:
    """At the end a break would be text; two spaces and a line end twice would end the block."""
    document = read("markdown", "A  \nb\\\nc.\n")
    (unit,) = document.units
    a, first, b, second, c = unit.source
    unit.target = (a, first, " ", second, b, c)
    assert document.to_bytes().decode() == "A  \n\\\nbc.\n"
    unit.target = (second, a, b, c, first)
    assert document.to_bytes().decode() == "\\\nAbc.\n"


def test_emphasis_of_nothing_is_dropped() -> None:
    """**** is a line across the page, and a line end before *** makes one of it."""
    document = read("markdown", "**a *b*** c\\\nd\n")
    (unit,) = document.units
    opened, a, inner, b, inner_end, closed, c, line_end, d = unit.source
    unit.target = (c, opened, inner, inner_end, closed, line_end, d, a, b)
    assert document.to_bytes().decode() == "c\\\nda b\n"
    unit.target = (c, opened, a, inner, b, line_end, inner_end, closed, d)
    assert document.to_bytes().decode() == "c**a *b***\\\nd\n"
    unit.target = (c, inner, ",", inner_end, d)  # a mark next to a word does not open emphasis
    assert document.to_bytes().decode() == "c,d\n"
    unit.target = (c, inner, ",", b, inner_end, d)
    assert document.to_bytes().decode() == "c,bd\n"


def test_an_image_keeps_its_place_in_a_translated_text() -> None:
    document = read("markdown", "See ![the cat](c.png) now.\n")
    text, image = document.units
    text.target = with_texts(text.source, str.upper)
    assert document.to_bytes().decode() == "SEE ![the cat](c.png) NOW.\n"
    image.target = ("[a] cat",)
    assert document.to_bytes().decode() == "SEE ![\\[a\\] cat](c.png) NOW.\n"
    assert isinstance(next(part for part in text.source if isinstance(part, Tag)).data, Image)


def test_very_long_blocks_are_left_alone() -> None:
    document = read("markdown", "[^a" * 20_000 + "\n\ntext\n")
    assert texts(document) == ["text"]
    assert document.left_alone == ["1 block of more than 20,000 characters"]


def test_deep_nesting_is_no_error() -> None:
    for text in ("> " * 3000 + "a\n", "[" * 3000 + "a\n", "*a " * 3000, "- " * 2000 + "a\n"):
        assert_unchanged("markdown", text)


def test_spoiled_files_are_refused_or_read() -> None:
    spoil_and_read("markdown", TEXT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::: note\nOne\ntwo\n:::\n", "::: note\nONE TWO\n:::\n"),
        ("> ::: tip\n> One\n> :::\n", "> ::: tip\n> ONE\n> :::\n"),
        ('!!! note "Title"\n    One\n    two\n', '!!! note "Title"\n    ONE TWO\n'),
        ("Term\n: one\ntwo\n:   three\n", "TERM\n: ONE TWO\n:   THREE\n"),
        ("One\n$$\nE=mc^2\n$$\ntwo\n", "ONE\n$$\nE=mc^2\n$$\nTWO\n"),
        ("$$a=b$$\none\n", "$$a=b$$\nONE\n"),
        ("{% if a %}\nOne\n{% endif %}\n\n[TOC]\n", "{% if a %}\nONE\n{% endif %}\n\n[TOC]\n"),
        (
            "{{< tab >}}\nOne\n{{% note %}}\n{: .lead}\n",
            "{{< tab >}}\nONE\n{{% note %}}\n{: .lead}\n",
        ),
        ("# One {#one .a}\n\nTwo {.b}\n===\n", "# ONE {#one .a}\n\nTWO {.b}\n===\n"),
        ("## One {two} ##\n\n{% a %} two\n", "## ONE {TWO} ##\n\n{% A %} TWO\n"),
        ("It costs $$5 and\n:smile: :: two\n", "IT COSTS $$5 AND :SMILE: :: TWO\n"),
    ],
)
def test_lines_of_extensions_stay_lines(text: str, expected: str) -> None:
    """For CommonMark they are lines of a paragraph, which become one line."""
    assert translated("markdown", text) == expected
    assert translated("markdown", text.replace("\n", "\r\n")) == expected.replace("\n", "\r\n")
