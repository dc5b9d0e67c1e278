"""Where the files of the project stand in the site, and links between them."""

import html
import posixpath
import re
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

ROOT = Path(__file__).parents[2]

# Files outside of docs/ that are pages: each has one source, and is not copied.
PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "notebooks/first-translator.ipynb": "notebook.md",
}
CODE = (".py", ".toml", ".yml", ".yaml", ".sh")
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[\w.-]+)?(?=\))")


def origin(page: str) -> str:
    """Return the file that a page of the site is made of, from the project's root."""
    for file, uri in PAGES.items():
        if uri == page:
            return file
    return f"docs/{page}"


def place(file: str) -> str | None:
    """Return the page or picture that a file of the project is in the site; None for none."""
    if file in PAGES:
        return PAGES[file]
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if file.endswith(CODE) and (ROOT / file).is_file():
        return f"source/{file}.md"
    return None


def target(link: str, file: str) -> str | None:
    """Return the file of the project that a link in a file leads to; None for the web."""
    if ":" in link or link.startswith("/"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), link))


def relinked(text: str, page: str) -> str:
    """Lead the links of a text to the places that its files have in the site."""
    file = origin(page)

    def lead(match: re.Match[str]) -> str:
        wanted = target(match[1], file)
        uri = wanted and place(wanted)
        if not uri:
            return match[0]
        return posixpath.relpath(uri, posixpath.dirname(page) or ".") + (match[2] or "")

    return LINK.sub(lead, text)


def linked_code(texts: dict[str, str]) -> set[str]:
    """Return the files of code that some texts, by their files, link to."""
    links = [(file, match[1]) for file, text in texts.items() for match in LINK.finditer(text)]
    found = {target(link, file) for file, link in links}
    return {file for file in found if file and (place(file) or "").startswith("source/")}


def highlighted(file: str) -> tuple[str, list[str]]:
    """Return a file of code as HTML, and the anchors of its lines: L1, L2 and so on."""
    code = (ROOT / file).read_text(encoding="utf-8")
    lexer = get_lexer_for_filename(file, stripnl=False)
    lines = highlight(code, lexer, HtmlFormatter(nowrap=True)).splitlines()
    anchors = [f"L{number}" for number in range(1, len(lines) + 1)]
    rows = (
        f'<span class="line" id="{anchor}"><a href="#{anchor}">{anchor[1:]}</a>{line}\n</span>'
        for anchor, line in zip(anchors, lines, strict=True)
    )
    label = html.escape(f"the code of {file}")
    body = "".join(rows)
    return f'<pre class="source highlight" tabindex="0" aria-label="{label}">{body}</pre>', anchors
