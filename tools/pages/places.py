"""Paths of the project's files in the site, and links between them."""

import html
import posixpath
import re
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

ROOT = Path(__file__).parents[2]

# Files outside docs/ that are pages of the site.
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
    """Return the file that a page is made from, relative to the project's root."""
    for file, uri in PAGES.items():
        if uri == page:
            return file
    return f"docs/{page}"


def place(file: str) -> str | None:
    """Return the path of a file in the site, or None if it is not part of it."""
    if file in PAGES:
        return PAGES[file]
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if file.endswith(CODE) and (ROOT / file).is_file():
        return f"source/{file}.md"
    return None


def target(link: str, file: str) -> str | None:
    """Return the file of the project that a link in a file points to; None for a web address."""
    if ":" in link or link.startswith("/"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), link))


def rewrite_links(text: str, page: str) -> str:
    """Change links between files of the project into links between pages of the site."""
    file = origin(page)

    def rewrite(match: re.Match[str]) -> str:
        wanted = target(match[1], file)
        uri = wanted and place(wanted)
        if not uri:
            return match[0]
        return posixpath.relpath(uri, posixpath.dirname(page) or ".") + (match[2] or "")

    return LINK.sub(rewrite, text)


def linked_code(texts: dict[str, str]) -> set[str]:
    """Return the code files that texts link to; `texts` has them by their file."""
    links = [(file, match[1]) for file, text in texts.items() for match in LINK.finditer(text)]
    targets = {target(link, file) for file, link in links}
    return {file for file in targets if file and (place(file) or "").startswith("source/")}


def highlight_code(file: str) -> tuple[str, list[str]]:
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
