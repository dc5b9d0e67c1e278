"""Translated documents, kept in memory until they are downloaded or expire."""

import asyncio
import contextlib
import secrets
from typing import NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from transduce.serving.limits import Limits
from transduce.serving.problems import Problem

DOWNLOADS = "/download_file/"  # LibreTranslate's path
# A document that a client has sent must not run as a page of the service.
POLICY = "sandbox; default-src 'none'"


class Download(NamedTuple):
    """A file to download."""

    name: str
    media_type: str
    content: bytes

    def response(self) -> Response:
        """Return the file as an attachment, named as RFC 6266 says."""
        plain = "".join(c if c.isascii() and c not in '"\\%' else "_" for c in self.name)
        headers = {
            "Content-Disposition": f'attachment; filename="{plain}"; '
            f"filename*=UTF-8''{quote(self.name, safe='')}",
            "Content-Security-Policy": POLICY,
            "Content-Type": self.media_type,  # without a charset: the file has its own encoding
        }
        return Response(self.content, headers=headers)


class Downloads:
    """The files, by secret ids. If they take too much memory, the oldest are deleted."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._files: dict[str, Download] = {}  # the oldest first
        self._bytes = 0

    def add(self, file: Download) -> str:
        """Keep a file, and return its path."""
        identifier = secrets.token_urlsafe(32)
        self._files[identifier] = file
        self._bytes += len(file.content)
        while self._bytes > self.limits.downloads and len(self._files) > 1:
            self._delete(next(iter(self._files)))
        asyncio.get_running_loop().call_later(self.limits.keeping, self._delete, identifier)
        return DOWNLOADS + identifier

    def find(self, identifier: str) -> Download:
        """Return a file."""
        with contextlib.suppress(KeyError):
            return self._files[identifier]
        minutes = self.limits.keeping / 60
        raise Problem(
            404,
            f"there is no such file: files are kept for {minutes:g} minutes; translate it again",
        )

    def _delete(self, identifier: str) -> None:
        file = self._files.pop(identifier, None)
        if file is not None:
            self._bytes -= len(file.content)
