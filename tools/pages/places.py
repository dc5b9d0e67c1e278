"""Paths of the project's files in the site, and links between them."""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Files outside docs/ that are pages of the site.
PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "notebooks/first-translator.ipynb": "notebook.md",
}
# Suffixes and languages of code files, which get a page if another page links to them.
CODE = {
    ".py": "python",
    ".toml": "toml",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".sh": "bash",
    ".conf": "nginx",
    ".service": "ini",
}
NOT_SEARCHED = "---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n"
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[\w.-]+)?(?=\))")


def origin(page: str) -> str:
    """Return the file that a page is generated from, relative to the project's root."""
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
    if Path(file).suffix in CODE and (ROOT / file).is_file():
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
        linked_file = target(match[1], file)
        uri = linked_file and place(linked_file)
        if not uri:
            return match[0]
        return posixpath.relpath(uri, posixpath.dirname(page) or ".") + (match[2] or "")

    return LINK.sub(rewrite, text)


def linked_code(texts: dict[str, str]) -> set[str]:
    """Return the code files that the texts link to; `texts` maps a file to its text."""
    links = [(file, match[1]) for file, text in texts.items() for match in LINK.finditer(text)]
    targets = {target(link, file) for file, link in links}
    return {file for file in targets if file and (place(file) or "").startswith("source/")}


def code_page(file: str) -> str:
    """Return the page for a code file; its fence is longer than any in the code."""
    code = (ROOT / file).read_text(encoding="utf-8")
    fence = "~" * 10
    language = CODE[Path(file).suffix]
    return f'{NOT_SEARCHED}# {file}\n\n{fence} {{.{language} linenums="1"}}\n{code}{fence}\n'
