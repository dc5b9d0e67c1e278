"""Resumable downloads, checked before they are renamed to their final name.

A download is written to FILE.part; FILE.part.json contains the server's validator (ETag or
date). It is resumed only if the server still has that version, or if the file's hash is known.
"""

import contextlib
import email.utils
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

from transduce import __version__
from transduce.datasets.archives import find_mismatch
from transduce.datasets.catalogue import Archive
from transduce.errors import BadData
from transduce.system.files import created_folder, read_json, sync, write_json
from transduce.system.formatting import format_bytes, format_duration
from transduce.system.progress import Progress

BLOCK = 1 << 18  # bytes
MAX_BYTES = 1 << 36  # limit for a file of unknown size
MAX_REDIRECTS = 10
RETRY_STATUS = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of tries, waiting times and stall limit for downloads."""

    tries: int = 5  # per address
    wait: float = 2.0  # seconds before the second try, doubled before each later one
    max_wait: float = 120.0  # seconds, even if a server asks for more
    stall: float = 60.0  # seconds in which at least `min_bytes` must arrive
    min_bytes: int = 1024


class DownloadFailed(Exception):
    """A download failed; it may succeed later if `may_retry`."""

    def __init__(
        self,
        reason: str,
        *,
        may_retry: bool = True,
        retry_after: float | None = None,
        reached: bool = True,
    ) -> None:
        super().__init__(reason)
        self.may_retry, self.retry_after = may_retry, retry_after
        self.reached = reached  # whether the server answered


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https only, and never from https to http."""

    max_redirections = MAX_REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (req.type == "https" and scheme != "https"):
            raise DownloadFailed(f"it redirects to {newurl}, which is not allowed", may_retry=False)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(
    archive: Archive,
    folder: Path,
    *,
    progress: Progress,
    mirrors: Sequence[str] = (),
    retry: RetryPolicy | None = None,
) -> Path:
    """Download and check a file from the first address that has it, mirrors first."""
    retry = retry or RetryPolicy()
    urls = [*(f"{mirror.rstrip('/')}/{quote(archive.file)}" for mirror in mirrors), *archive.urls]
    reasons = []
    with created_folder(folder):
        for url in urls:
            try:
                return _fetch_from(url, archive, folder, progress, retry)
            except DownloadFailed as failed:
                reasons.append(f"{url}: {failed}")
                if len(reasons) < len(urls):
                    progress.say(f"{reasons[-1]}; trying the next address")
        raise BadData(f"{archive.file} could not be downloaded ({'; '.join(reasons)})")


def _fetch_from(
    url: str, archive: Archive, folder: Path, progress: Progress, retry: RetryPolicy
) -> Path:
    """Download a file from one address, with retries."""
    if not is_web_address(url):
        raise DownloadFailed("it is not an http or https address", may_retry=False)
    restarted = False  # after a resumed download failed its check
    for number in range(1, retry.tries + 1):
        part = _PartialFile(folder / f"{archive.file}.part")
        try:
            in_one_piece = _request(url, archive, part, progress, retry)
            if mismatch := find_mismatch(part.path, archive):
                part.delete()
                # Retrying helps only if the download was resumed: one of its parts may be wrong.
                may_retry, restarted = not (in_one_piece or restarted), True
                raise DownloadFailed(mismatch, may_retry=may_retry)
        except DownloadFailed as failed:
            # If the server is unreachable, the first failure is final unless the download began.
            is_final = not failed.may_retry or not (failed.reached or part.length())
            if is_final or number == retry.tries:
                raise
            backoff = retry.wait * 2 ** (number - 1)
            wait = backoff if failed.retry_after is None else failed.retry_after
            wait = min(wait, retry.max_wait)
            bytes_kept = part.length()
            progress.say(
                f"{archive.file}: {failed}; trying again in {format_duration(wait)}"
                + (f", from byte {bytes_kept:,}" if bytes_kept else "")
            )
            time.sleep(wait)
        else:
            return part.finish(folder / archive.file)
    raise AssertionError("every try returns or raises")


def is_web_address(url: str) -> bool:
    """Return whether a text is an http or https address with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # for example "http://[" and "http://host:port"
        return False


class _PartialFile:
    """The downloaded part of a file, and the version of the file that it belongs to."""

    def __init__(self, path: Path) -> None:
        self.path, self.note = path, path.with_name(path.name + ".json")

    def length(self) -> int:
        """Return how many bytes have been downloaded."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def version(self) -> dict[str, Any]:
        """Return the recorded address, validator and total length."""
        with contextlib.suppress(Exception):  # missing or damaged: the version is unknown
            return read_json(self.note)
        return {}

    def delete(self) -> None:
        """Delete the part."""
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def finish(self, path: Path) -> Path:
        """Rename the complete file."""
        sync(self.path)
        self.path.replace(path)
        self.note.unlink(missing_ok=True)
        sync(path.parent)
        return path

    def open(self, position: int) -> IO[bytes]:
        """Open the part for writing at a position; links are not followed."""
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        file = open(os.open(self.path, flags, 0o666), "wb", buffering=0)  # noqa: PTH123, SIM115
        file.truncate(position)
        file.seek(position)
        return file


def _request(
    url: str, archive: Archive, part: _PartialFile, progress: Progress, retry: RetryPolicy
) -> bool:
    """Make one request, and append the response to the part.

    Returns whether the file arrived in one piece with the announced length.
    """
    have = part.length()
    version = part.version()
    validator = version.get("validator") if version.get("url") == url else None
    if archive.size is not None and have == archive.size:
        return False  # complete: the caller checks the hash
    if not have or (validator is None and archive.hash is None):
        have = 0
    headers = {"User-Agent": f"transduce/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if validator is not None:
            headers["If-Range"] = validator
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (the scheme was checked)
    with _response(request, retry) as response:
        position, total = _start(response, have, archive, part)
        validator = _validator(response.headers)
        write_json(part.note, {"url": url, "validator": validator, "total": total})
        _receive(response, archive, part, position, total, progress, retry)
    return position == 0 and total is not None


@contextlib.contextmanager
def _response(request: urllib.request.Request, retry: RetryPolicy) -> Iterator[Any]:
    """Yield the response to a request; raise `DownloadFailed` if the network fails."""
    try:
        opener = urllib.request.build_opener(_Redirects)
        with opener.open(request, timeout=retry.stall) as response:
            yield response
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:
                yield error
                return
            reason = f"says {error.code} ({error.reason})"
            if 300 <= error.code < 400:
                reason = "redirects endlessly, or to an address that is not http or https"
            raise DownloadFailed(
                f"the server {reason}",
                may_retry=error.code in RETRY_STATUS,
                retry_after=_retry_after(error.headers),
            ) from None
    except TimeoutError:
        raise DownloadFailed(f"nothing arrived for {format_duration(retry.stall)}") from None
    except urllib.error.URLError as error:
        raise DownloadFailed(f"it cannot be reached ({error.reason})", reached=False) from None
    except ValueError as error:  # a redirect to an address such as "http://["
        raise DownloadFailed(
            f"it redirects to an invalid address ({error})", may_retry=False
        ) from None
    except (http.client.HTTPException, ConnectionError) as error:
        raise DownloadFailed(f"the connection failed ({type(error).__name__}: {error})") from None
    except OSError as error:
        if not type(error).__name__.startswith("SSL"):  # a disk error
            raise
        raise DownloadFailed(f"the encrypted connection failed ({error})") from None


def _retry_after(headers: Any) -> float | None:
    """Return the seconds that a server asks to wait, given as seconds or as a date."""
    value = headers.get("Retry-After") if headers else None
    if value is None:
        return None
    if re.fullmatch(r"\d{1,9}", value.strip()):
        return float(value)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _validator(headers: Any) -> str | None:
    """Return the validator for this version of a file: a strong ETag, else Last-Modified."""
    tag, modified = headers.get("ETag"), headers.get("Last-Modified")
    validator: str | None = tag if tag and not tag.startswith("W/") else modified
    return validator


def _start(
    response: Any, have: int, archive: Archive, part: _PartialFile
) -> tuple[int, int | None]:
    """Return the position at which a response starts, and the total length of the file."""
    if response.status == 416:
        part.delete()
        raise DownloadFailed("the server has no further bytes; starting again")
    position, total = 0, _number(response.headers.get("Content-Length"))
    if response.status == 206:
        content_range = response.headers.get("Content-Range") or ""
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", content_range)
        if not match or int(match[1]) != have:
            part.delete()
            raise DownloadFailed("the server sent other bytes than were requested")
        position, total = have, _number(match[2])
    elif response.status != 200:
        raise DownloadFailed(f"the server says {response.status}", may_retry=False)
    if archive.size is not None and total is not None and total != archive.size:
        raise DownloadFailed(
            f"the server offers {total:,} bytes: expected {archive.size:,}", may_retry=False
        )
    return position, total if total is not None else archive.size


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,15}", text) else None


def _receive(
    response: Any,
    archive: Archive,
    part: _PartialFile,
    position: int,
    total: int | None,
    progress: Progress,
    retry: RetryPolicy,
) -> None:
    """Write the response; fail if it exceeds the announced length or is too slow."""
    limit = MAX_BYTES if total is None else total
    started = window = time.monotonic()
    received = 0  # since `window`
    with part.open(position) as file, progress.watch("downloading") as show:
        report = _reporter(archive.file, position, total, show)
        while block := response.read1(BLOCK):
            if position + len(block) > limit:
                part.delete()
                raise DownloadFailed(
                    f"the server sends more than the expected {limit:,} bytes", may_retry=False
                )
            file.write(block)
            position += len(block)
            received += len(block)
            report(position)
            if (now := time.monotonic()) - window > retry.stall:
                if received < retry.min_bytes:
                    raise DownloadFailed(
                        f"only {received:,} bytes in {format_duration(retry.stall)}"
                    )
                window, received = now, 0
        if total is not None and position < total:
            raise DownloadFailed(f"it ended after {position:,} of {total:,} bytes")
        elapsed = format_duration(time.monotonic() - started)
        show(1.0, f"{archive.file} {format_bytes(position)} in {elapsed}")


def _reporter(
    file: str, begin: int, total: int | None, show: Callable[[float, str], None]
) -> Callable[[int], None]:
    """Return a function that shows the position, the rate and the remaining time."""
    started = time.monotonic()

    def report(position: int) -> None:
        rate = (position - begin) / max(time.monotonic() - started, 1e-3)
        time_left = f" {format_duration((total - position) / rate)} left" if total and rate else ""
        size = format_bytes(position) + (f"/{format_bytes(total)}" if total else "")
        fraction = position / total if total else 0.0
        show(fraction, f"{file} {size} {format_bytes(rate)}/s{time_left}")

    return report
