"""The report: all findings on one self-contained page."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import CommandLine

from transduce.errors import BadInput
from transduce.experiments.findings import Finding, Picture, Table
from transduce.experiments.report import papers_columns, render_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"><path d="M0 0"/></svg>'


def finding(name: str, **changes: object) -> Finding:
    """Return a small finding."""
    table = Table(
        "Rows <here>",
        ("row", "what differs", "BLEU", "paper: BLEU", "PPL in the paper"),
        (("base", "", "25.00", "25.8", "4.92"), ("C-N2", "N 2", "23.10", "23.7", "6.11")),
    )
    values = {
        "title": f"Title of {name}",
        "said": "The paper says so & so.",
        "tables": (table,),
        "pictures": (Picture("A caption", SVG),),
        "notes": ("It held.", "Scaled down: 20 steps."),
        "data": {
            "command": f"transduce paper {name} a.tsv",
            "date": "2026-11-15 10:00",
            "machine": {"gpu": "Some GPU", "cores": 4, "versions": {"torch": "2.11"}},
        },
    }
    return Finding(name=name, **(values | changes))  # type: ignore[arg-type]


class Read(HTMLParser):
    """A parser that notes the tags, ids, links and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the ids and links of a tag."""
        values = dict(attrs)
        if tag not in ("meta", "img", "link"):
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"] or "")
        if tag == "a":
            self.targets.append(values.get("href") or "")
        elif "src" in values or "href" in values:
            self.loaded.append(values.get("src") or values.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        """Check that tags are closed in the reverse order."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.words.append(data)


def test_the_page_loads_nothing_from_anywhere() -> None:
    text = render_page([finding("table1"), finding("table3")])
    read = Read(text)
    assert not read.open
    assert read.loaded
    assert all(url.startswith("data:image/svg+xml;base64,") for url in read.loaded)
    assert "http://" not in text
    assert "https://" not in text
    assert not re.search(r"url\(|@import", text)


def test_the_index_links_to_every_finding() -> None:
    read = Read(render_page([finding("table1"), finding("table3")]))
    assert {"table1", "table3"} <= set(read.ids)
    assert {target[1:] for target in read.targets} <= set(read.ids)
    assert [target for target in read.targets if target == "#table3"] == ["#table3"] * 2


def test_the_page_has_tables_and_notes_as_text() -> None:
    words = "".join(Read(render_page([finding("table3")], ["Table 4: no trees."])).words)
    for expected in (
        *("Rows <here>", "so & so", "23.10", "6.11", "It held.", "Scaled down: 20 steps."),
        *("transduce paper table3 a.tsv", "Some GPU", "torch 2.11", "Table 4: no trees."),
    ):
        assert expected in words


def test_notes_follow_the_first_table_and_commands_are_code() -> None:
    table3 = finding("table3", notes=("`transduce parse a<b` parses.",))
    (first,) = table3.tables
    more = Table("Details", first.columns, first.rows)
    text = render_page([dataclasses.replace(table3, tables=(first, more))])
    places = [text.index(part) for part in ("Rows &lt;here", "<b>Results", "Details")]
    assert places == sorted(places)
    assert "<code>transduce parse a&lt;b</code> parses." in text


def test_the_papers_columns_are_marked_and_words_are_left_aligned() -> None:
    assert papers_columns(("row", "BLEU", "paper: BLEU", "time", "the paper's")) == {2, 4}
    assert papers_columns(("row", "BLEU")) == set()
    text = render_page([finding("table3")])
    assert '<td class="papers">23.7</td>' in text
    assert '<td class="words">N 2</td>' in text
    assert "<td>23.10</td>" in text


def test_findings_of_several_folders_are_on_one_page(cli: CommandLine, tmp_path: Path) -> None:
    finding("table3").save(tmp_path / "one" / "table3")
    finding("table1").save(tmp_path / "two")
    (tmp_path / "two" / "other.json").write_text("{}", encoding="utf-8")
    done = cli("paper", "report", tmp_path / "one", tmp_path / "two")
    assert done.status == 0, done.stderr
    read = Read((tmp_path / "one" / "report.html").read_text(encoding="utf-8"))
    assert [name for name in read.ids if name.startswith("table")] == ["table1", "table3"]


def test_a_folder_without_findings_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    assert "no findings in" in cli("paper", "report", tmp_path).error
    (tmp_path / "table3.json").write_text('{"format": 1}', encoding="utf-8")
    assert "is not a finding of `transduce paper`" in cli("paper", "report", tmp_path).error
    assert "is not a folder" in cli("paper", "report", tmp_path / "none").error


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_opens_in_a_browser_and_fits(
    width: int, browser: "Browser", tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    wide = Table("Wide", tuple(f"column {n}" for n in range(30)), (("1.0",) * 30,))
    path.write_text(render_page([finding("table3", tables=(wide,))]), encoding="utf-8")
    requests: list[str] = []
    errors: list[str] = []
    opened = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark")
    opened.on("request", lambda request: requests.append(request.url.partition(",")[0]))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(path.as_uri())
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.evaluate("document.documentElement.dataset.theme") == "dark"
    opened.click("#theme")
    assert opened.evaluate("document.documentElement.dataset.theme") == "light"
    assert opened.evaluate("document.querySelector('img').naturalWidth") == 200
    assert not errors
    assert {url for url in requests if not url.startswith("data:")} == {path.as_uri()}
    opened.close()


def test_a_changed_finding_and_one_without_a_checksum_are_refused(tmp_path: Path) -> None:
    (path, *_) = finding("table1").save(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | {"title": "Another"}), encoding="utf-8")
    with pytest.raises(BadInput, match="does not match its checksum"):
        Finding.load(path)
    del content["sha256"]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BadInput, match="it has no 'sha256'"):
        Finding.load(path)
