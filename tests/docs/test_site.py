"""The documentation site: built strictly, self-contained, without broken links."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from browsing import DESKTOP, opened
from pages import api, commands, formulas, notebooks, places, settings
from transduce.config import all_settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("material", reason="mkdocs-material is not installed")
pytest.importorskip("docutils")

ROOT = Path(__file__).parents[2]
PHONE = (390, 844)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MkDocs and its parts
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
LOADS_NOTHING = {"canonical", "next", "prev", "edit"}


class PageParser(HTMLParser):
    """Collects the title, anchors, links and loaded files of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.title = ""
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in LOADS_NOTHING:
            self.loads.append(values[LOADED[tag]])
        self._in_title = tag == "title" or (self._in_title and tag != "body")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
            self._in_title = False


class Quiet(SimpleHTTPRequestHandler):
    """A file server that logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


@dataclass
class Site:
    """A built site."""

    folder: Path
    pages: dict[Path, PageParser] = field(default_factory=dict)

    def inside(self, page: Path, link: str) -> Path | None:
        """Return the file that a link of a page points to; None for another site."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        return (page.parent / unquote(parts.path)).resolve() if parts.path else page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The site, built as `make docs` builds it."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        patch.chdir(ROOT)
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    built = Site(folder)
    for page in folder.rglob("*.html"):
        built.pages[page] = PageParser()
        built.pages[page].feed(page.read_text(encoding="utf-8"))
    return built


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    """The address of the site on a plain file server."""
    handler = partial(Quiet, directory=str(site.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_every_page_has_a_title(site: Site) -> None:
    assert [page for page, parsed in site.pages.items() if not parsed.title.strip()] == []
    assert len(site.pages) > 60


def test_no_link_or_anchor_of_the_site_is_broken(site: Site) -> None:
    broken = []
    for page, parsed in site.pages.items():
        if page.name == "404.html":  # its links begin at the root of the server
            continue
        for link in (*parsed.links, *parsed.loads):
            file = site.inside(page, link)
            anchor = unquote(urldefrag(link).fragment)
            if file is None or (file.suffix != ".html" and file.is_file()):
                continue
            exists = file in site.pages and (not anchor or anchor in site.pages[file].anchors)
            if not exists:
                broken.append(f"{page.relative_to(site.folder)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_another_host(site: Site) -> None:
    for page, parsed in site.pages.items():
        for link in parsed.loads:
            assert link.startswith("data:") or not urlsplit(link).netloc, f"{page.name}: {link}"
    for style in site.folder.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import\s)['\"]?(?:https?:)?//", style.read_text()), style


def test_links_to_code_stay_within_the_site(site: Site) -> None:
    page = site.folder / "paper.html"
    assert len([link for link in site.pages[page].links if link.endswith(".py.html")]) > 50
    assert not [link for link in site.pages[page].links if link.endswith(".py")]


def test_formulas_are_rendered_without_scripts(site: Site) -> None:
    text = (site.folder / "paper.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    assert "arithmatex" not in text
    shown = re.sub(r"<(pre|script|style).*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"\\(frac|mathrm|sqrt)", shown)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_pages_fit_the_screen_and_request_nothing_from_other_hosts(
    browser: "Browser", address: str, size: tuple[int, int]
) -> None:
    requested: list[str] = []
    with opened(browser, size=size, dark=True) as page:
        page.on("request", lambda request: requested.append(request.url))
        for name in ("index", "commands/train", "settings", "paper", "notebook", "results"):
            page.goto(f"{address}/{name}.html", wait_until="networkidle")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    assert [url for url in requested if not url.startswith((address, "data:", "blob:"))] == []


def test_every_command_has_a_page_with_all_its_options() -> None:
    pages = commands.pages()
    for words, command in commands.walk():
        _, text = pages[f"commands/{'-'.join(words)}.md"]
        assert text.startswith(f"# transduce {' '.join(words)}\n")
        for parameter in command.params:
            shown = parameter.opts[0] if parameter.param_type_name == "option" else ""
            assert f"`{shown}" in text
        assert not re.search(r"\[/?(bold|italic|dim|cyan|green)\]", text), words


def test_help_is_converted_to_markdown() -> None:
    assert commands.prose("[bold]one[/bold]: with --set a_b\n[bold]two[/bold]: <s>") == (
        "- **one**: with `--set` `a_b`\n- **two**: &lt;s>"
    )


def test_every_public_name_is_in_the_reference() -> None:
    import transduce

    text = "".join(text for _, text in api.pages().values())
    for name in transduce.__all__:
        assert re.search(rf"^## {name}$", text, re.MULTILINE), name


def test_every_setting_has_its_default_and_its_meaning() -> None:
    row = r"^\| `(\w+)` \| `([^`]+)` \| (.*) \| (.*) \| (.+) \| (.*) \|$"
    rows = {name: rest for name, *rest in re.findall(row, settings.page(), re.MULTILINE)}
    assert rows.keys() == all_settings().keys()
    assert rows["d_model"][:3] == ["512", "a whole number", "3.1"]
    assert rows["tie"][1] == "`all` or `decoder` or `none`"
    assert "`dropout`" in rows["P_drop"][4]


def test_the_page_of_the_settings_is_in_the_navigation(site: Site) -> None:
    page = site.folder / "settings.html"
    assert {"model", "training", "search"} <= site.pages[page].anchors
    home = site.pages[site.folder / "index.html"]
    assert "settings.html" in home.links


def test_a_link_between_files_becomes_a_link_between_pages() -> None:
    text = (
        "[a](../src/transduce/model/transformer.py) [b](results.md) [c](../SECURITY.md#who) "
        "[d](https://e.org)"
    )
    assert places.rewrite_links(text, "paper.md") == (
        "[a](source/src/transduce/model/transformer.py.md) [b](results.md) [c](security.md#who) "
        "[d](https://e.org)"
    )
    assert (
        places.rewrite_links("![p](docs/pictures/page.png)", "readme.md")
        == "![p](pictures/page.png)"
    )


def test_a_page_of_code_has_all_its_lines_highlighted_and_numbered(site: Site) -> None:
    file = "src/transduce/model/attention.py"
    page = (site.folder / "source" / f"{file}.html").read_text(encoding="utf-8")
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    assert page.count('<span class="normal">') == len(lines)
    assert "softmax" in page
    assert '<span class="k">def</span>' in page


def test_a_formula_becomes_mathml() -> None:
    math = formulas.to_mathml(r'<span class="arithmatex">\(\frac{a}{\sqrt{b}} \dots\)</span>')
    assert math.startswith("<math")
    assert "<mfrac>" in math
    assert "…" in math


def test_a_notebook_is_shown_with_its_saved_outputs(tmp_path: Path) -> None:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stderr", "text": ["working"]},
        {"output_type": "stream", "name": "stdout", "text": ["found\n"]},
        {"output_type": "execute_result", "data": {"text/html": ["<b>\n\n", "x</b>"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["f()"], "outputs": outputs},
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert notebooks.page(path) == (
        "# Title\n\n```python\nf()\n```\n\n```{.text .output}\nfound\n```\n\n"
        '<div class="output"><b> x</b></div>\n'
    )


def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("NOTEBOOK_STEPS", "20")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    notebook = nbformat.read(ROOT / "notebooks" / "first-translator.ipynb", as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=100).execute(cwd=str(tmp_path))
    shown = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    ]
    assert sum("<svg" in output for output in shown) == 2
    assert sum("<table" in output for output in shown) == 2
