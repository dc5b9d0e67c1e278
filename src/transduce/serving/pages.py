"""The pages and what they are made of: files of this package, read once, served by fixed names."""

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
PAGES = {"index.html": "/", "runs.html": "/runs", "docs.html": "/docs"}  # others are no pages


@dataclass(frozen=True, slots=True)
class File:
    """What is answered for one path."""

    content: bytes
    kind: str
    tag: str

    async def __call__(self, request: Request) -> Response:
        """Answer with the file, or that it has not changed."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type=self.kind)


def files() -> Iterator[tuple[str, File]]:
    """Yield every path and its file."""
    for folder in FOLDERS:
        for path in sorted(folder.glob("*")):
            kind = TYPES.get(path.suffix)
            where = PAGES.get(path.name) if path.suffix == ".html" else f"/{path.name}"
            if kind and where:
                content = path.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
                yield where, File(content, kind, tag)
