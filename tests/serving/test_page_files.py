"""The files of the pages need nothing from outside, keep to the policy, and are in the wheel."""

import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest

import transduce

PACKAGE = Path(transduce.__file__).parent
PAGE, EXPLORER = PACKAGE / "serving" / "page", PACKAGE / "pages" / "explorer"
FETCHED = {".js", ".css", ".svg", ".png", ".ico"}  # other references are links
FILES = sorted(
    path
    for folder in (PAGE, PACKAGE / "pages")
    for path in folder.glob("**/*")
    if path.suffix in {".html", *FETCHED}
)
ROOT = PACKAGE.parents[1]

# XML namespaces, which are never fetched.
NAMESPACE = re.compile(r"http://www\.w3\.org/(2000/svg|1999/xlink|1999/xhtml|1998/Math/MathML)")
ADDRESS = re.compile(r"""\b(?:https?|wss?|ftp)://[^\s"'`)]*|(?<=["'`(=])\s*//[\w.-]+\.[^\s"'`)]*""")
IMPORT = re.compile(r"""(?:\bfrom\s+|\bimport\s*\(?)\s*["']([^"']+)["']""")


def outside(text: str) -> list[str]:
    """Return the addresses on other machines in a text."""
    result = [item.strip() for item in ADDRESS.findall(text)]
    return [address for address in result if not NAMESPACE.fullmatch(address)]


class Inline(HTMLParser):
    """Forbidden elements and references of an HTML file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forbidden: list[str] = []
        self.references: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"style", "base"}:
            self.forbidden.append(f"<{tag}>")
        for name, value in attrs:
            if name == "style" or name.startswith("on") or (value or "").startswith("javascript:"):
                self.forbidden.append(f"{name}={value!r} of <{tag}>")
            if name in {"href", "src"} and value:
                self.references.append(value)
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and data.strip():
            self.forbidden.append(f"<script> with {data.strip()[:40]!r}")


def references(path: Path) -> Iterator[str]:
    """Yield the files that a browser fetches for a file."""
    text = path.read_text(encoding="utf-8")
    result = Inline(text).references if path.suffix == ".html" else IMPORT.findall(text)
    for item in result:
        target = urljoin(f"/{path.name}", item)
        if target.startswith("/") and Path(target).suffix in FETCHED:
            yield target.removeprefix("/")


def test_no_file_refers_to_anything_outside() -> None:
    assert FILES
    result = {path.name: outside(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name: addresses for name, addresses in result.items() if addresses} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('import x from "https://cdn.org/x.js";', ["https://cdn.org/x.js"]),
        ('<script src="//cdn.org/x.js">', ["//cdn.org/x.js"]),
        ("@import url(//fonts.org/a.css);", ["//fonts.org/a.css"]),
        ("fetch(`http://192.168.0.1/`)", ["http://192.168.0.1/"]),
        ('new WebSocket("wss://x.org")', ["wss://x.org"]),
        ('const SVG = "http://www.w3.org/2000/svg";', []),
        ('"http://www.w3.org/2000/svg.evil.org"', ["http://www.w3.org/2000/svg.evil.org"]),
        ("f(); // as https does, e.g. x.org", []),
        ('"/api//models"', []),
    ],
)
def test_outside_addresses_are_detected(text: str, expected: list[str]) -> None:
    assert outside(text) == expected


def test_pages_hold_no_script_or_style_of_their_own() -> None:
    """The content security policy allows only files of the service."""
    static_files = pytest.importorskip("transduce.serving.static_files")
    for path, file in static_files.files().items():
        if file.media_type == "text/html":
            assert Inline(file.content.decode()).forbidden == [], path


@pytest.mark.parametrize(
    "text",
    [
        "<script>let a = 1;</script>",
        '<script type="module">\nimport "/a.js";</script>',
        "<style>p { color: red }</style>",
        '<p style="color: red">',
        '<button onclick="go()">',
        '<a href="javascript:go()">',
        '<base href="/x/">',
    ],
)
def test_inline_scripts_and_styles_are_detected(text: str) -> None:
    assert len(Inline(f"<!doctype html><html>{text}</html>").forbidden) == 1
    assert Inline('<script src="/a.js"></script><p class="style">on</p>').forbidden == []


def test_every_file_that_a_page_requests_exists() -> None:
    target = {path.name for path in FILES}
    for path in FILES:
        if path.suffix in {".html", ".js"} and path.parent == PAGE and path.name != "head.html":
            assert set(references(path)) <= target, path.name


def test_a_page_preloads_what_its_script_imports_and_requests_only_served_files() -> None:
    static_files = pytest.importorskip("transduce.serving.static_files")
    served = static_files.files()
    for page in static_files.PAGES.values():
        requested = Inline(served[page.path].content.decode()).references
        scripts = {name for name in requested if name.endswith(".js")}
        imported = {f"/{name}" for name in static_files.imported_modules(f"{page.name}.js")}
        assert scripts == {"/theme.js", f"/{page.name}.js", *imported}
        assert {name for name in requested if name.startswith("/")} <= {*served, "/openapi.json"}


def test_the_wheel_holds_the_files_of_the_pages() -> None:
    """Hatch includes all files of a package that git does not ignore."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["hatch"]["build"] == {
        "targets": {"wheel": {"packages": ["src/transduce"]}}
    }
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    for path in FILES:
        for part in path.relative_to(ROOT).parts:
            assert not any(Path(part).match(item.strip("/")) for item in ignored), path


def test_two_files_of_one_path_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    static_files = pytest.importorskip("transduce.serving.static_files")
    (tmp_path / "base.css").write_text("", encoding="utf-8")
    monkeypatch.setattr(static_files, "FOLDERS", (*static_files.FOLDERS, tmp_path))
    with pytest.raises(ValueError, match=r"/base\.css"):
        static_files.files()
