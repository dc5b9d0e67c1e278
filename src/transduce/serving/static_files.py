"""The files of the pages: read once, served under fixed names."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from transduce import pages

FOLDERS = (pages.FOLDER, pages.FOLDER / "explorer", Path(__file__).parent / "page")
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
PAGES = {"index.html": "/", "runs.html": "/runs", "docs.html": "/docs"}  # other HTML is not served


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
            media_type = TYPES.get(file.suffix)
            path = PAGES.get(file.name) if file.suffix == ".html" else f"/{file.name}"
            if media_type and path:
                content = file.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
                yield path, File(content, media_type, tag)
