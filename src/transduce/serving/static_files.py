"""The files of the pages: read once, served under fixed names."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

from starlette.requests import Request
from starlette.responses import Response

from transduce import pages

FOLDER = Path(__file__).parent / "page"
FOLDERS = (pages.FOLDER, pages.FOLDER / "explorer", FOLDER)
IMPORT = re.compile(r'^import [^"]+ from "\.?/([^"]+)";', re.MULTILINE)
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML file of `page`: its body. The head is `head.html`, and NAME.css and NAME.js."""

    path: str
    name: str
    title: str
    description: str


PAGES = {  # other HTML files are not served
    "index.html": Page(
        "/", "translate", "Translate", "Translate as you type, and see the attention of the model."
    ),
    "runs.html": Page(
        "/runs", "runs", "Runs", "Training runs: loss, BLEU, speed, and sample translations."
    ),
    "docs.html": Page("/docs", "docs", "API", "The HTTP API of this service."),
}


@dataclass(frozen=True, slots=True)
class File:
    """The content of one path."""

    content: bytes
    media_type: str
    tag: str

    async def __call__(self, request: Request) -> Response:
        """Answer with the file, or 304 if it has not changed."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type=self.media_type)


def files() -> dict[str, File]:
    """Return the file of every path."""
    found: dict[str, File] = {}
    for path, file in _read_files():
        if path in found:
            raise ValueError(f"two files of the pages are served as {path}: rename one of them")
        found[path] = file
    return found


def _read_files() -> Iterator[tuple[str, File]]:
    for folder in FOLDERS:
        for file in sorted(folder.glob("*")):
            if page := PAGES.get(file.name):
                text = render_head(page) + pages.read(file)
                yield page.path, _file(text.encode(), TYPES[".html"])
            elif file.suffix in TYPES and file.suffix != ".html":
                yield f"/{file.name}", _file(file.read_bytes(), TYPES[file.suffix])


def _file(content: bytes, media_type: str) -> File:
    return File(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')


def render_head(page: Page) -> str:
    """Return the head of a page, which preloads all modules that its script imports."""
    modules = sorted(imported_modules(f"{page.name}.js"))
    return Template(pages.read(FOLDER / "head.html")).substitute(
        title=page.title,
        description=page.description,
        name=page.name,
        preloads="\n".join(f'<link rel="modulepreload" href="/{name}">' for name in modules),
    )


def imported_modules(name: str) -> set[str]:
    """Return the names of the modules that a module imports, and of those that these import."""
    file = next(path for folder in FOLDERS if (path := folder / name).exists())
    direct = set(IMPORT.findall(pages.read(file)))
    return direct.union(*map(imported_modules, direct))
