"""Downloads that go on where they stopped, and are what was asked for or not there at all.

A file comes as FILE.part, with FILE.part.json beside it, which says what the server called that
version of it. A part is continued only where the server still has that version, or where a hash
will tell in the end.
"""

import contextlib
import email.utils
import hashlib
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
from transduce.datasets.catalogue import Archive
from transduce.errors import BadData
from transduce.system.files import created_folder, read_json, sync, write_json
from transduce.system.formatting import format_duration
from transduce.system.progress import Progress

BLOCK = 1 << 18
LARGEST = 1 << 36  # bytes; for a server that says no length, of a file whose size nobody knows
REDIRECTS = 10
TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for servers, and how often."""

    tries: int = 5  # for each place
    wait: float = 2.0  # seconds before the second try; twice as long before each further one
    longest: float = 120.0  # seconds, whatever a server asks for
    stall: float = 60.0  # seconds in which at least `least` bytes must come
    least: int = 1024


class Failed(Exception):
    """A download that did not work, and whether the same may work later."""

    def __init__(
        self, why: str, *, again: bool = True, after: float | None = None, reached: bool = True
    ) -> None:
        super().__init__(why)
        self.again, self.after, self.reached = again, after, reached


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to the web alone, never from an encrypted place to an open one."""

    max_redirections = REDIRECTS

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
            raise Failed(f"it redirects to {newurl}, which is not followed", again=False)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Return what opens http and https and nothing else: no file, no ftp, no data."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def fetch(
    archive: Archive,
    folder: Path,
    *,
    progress: Progress,
    mirrors: Sequence[str] = (),
    patience: Patience | None = None,
) -> Path:
    """Download a file from the first place that has it, and check it; mirrors are asked first."""
    patience = patience or Patience()
    own = [f"{mirror.rstrip('/')}/{quote(archive.file)}" for mirror in mirrors]
    reasons = []
    with created_folder(folder):
        for url in [*own, *archive.urls]:
            try:
                return _from(url, archive, folder, progress, patience)
            except Failed as failed:
                reasons.append(f"{url}: {failed}")
                if len(reasons) < len(own) + len(archive.urls):
                    progress.say(f"{reasons[-1]}; trying the next place")
        raise BadData(f"{archive.file} could not be downloaded ({'; '.join(reasons)})")


def _from(url: str, archive: Archive, folder: Path, progress: Progress, patience: Patience) -> Path:
    """Download a file from one place, with as many tries as patience allows."""
    if not is_address(url):
        raise Failed("it is no http or https address", again=False)
    anew = False  # whether it was fetched from its start, since what had come was wrong
    for number in range(1, patience.tries + 1):
        part = _Part(folder / f"{archive.file}.part")
        try:
            at_once = _get(url, archive, part, progress, patience)
            if why := wrong(part.path, archive):
                part.forget()
                # What came in one piece would come so again; of several, one may be at fault.
                again, anew = not (at_once or anew), True
                raise Failed(why, again=again)
        except Failed as failed:
            # Who has no network should hear it soon; what has begun to come is worth a wait.
            hopeless = not failed.again or not (failed.reached or part.length())
            if hopeless or number == patience.tries:
                raise
            wait = patience.wait * 2 ** (number - 1) if failed.after is None else failed.after
            wait = min(wait, patience.longest)
            kept = part.length()
            progress.say(
                f"{archive.file}: {failed}; trying again in {format_duration(wait)}"
                + (f", from byte {kept:,} on" if kept else "")
            )
            time.sleep(wait)
        else:
            return part.finish(folder / archive.file)
    raise AssertionError("every try returns or raises")


def is_address(url: str) -> bool:
    """Tell whether a text is an http or https address with a host that can be asked."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as of "http://[" and "http://host:port"
        return False


def wrong(path: Path, archive: Archive) -> str | None:
    """Tell what is wrong with a file that should be an archive of the catalogue."""
    size = path.stat().st_size
    if archive.size is not None and size != archive.size:
        return f"it has {size:,} bytes: expected {archive.size:,}"
    if archive.hash is not None:
        name, expected = archive.hash
        found = digest(path, name)
        if found != expected:
            return f"its {name} is {found}: expected {expected}"
    return None


def digest(path: Path, name: str) -> str:
    """Return a hash of a file; MD5 where a catalogue knows no other."""
    with path.open("rb") as file:
        # For damage, not for malice: whoever can choose both files could deceive MD5.
        return hashlib.file_digest(
            file, lambda: hashlib.new(name, usedforsecurity=False)
        ).hexdigest()


class _Part:
    """What has come of a file, and which version of it that is."""

    def __init__(self, path: Path) -> None:
        self.path, self.note = path, path.with_name(path.name + ".json")

    def length(self) -> int:
        """Return how many bytes have come."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def version(self) -> dict[str, Any]:
        """Return what was noted of it: where it came from, its validator, its whole length."""
        with contextlib.suppress(Exception):  # without a note it is of no known version
            return read_json(self.note)
        return {}

    def forget(self) -> None:
        """Delete it."""
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def finish(self, path: Path) -> Path:
        """Give it its own name."""
        sync(self.path)
        self.path.replace(path)
        self.note.unlink(missing_ok=True)
        sync(path.parent)
        return path

    def open(self, at: int) -> IO[bytes]:
        """Open it to be written from a byte on; a link in its place is not followed."""
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        file = open(os.open(self.path, flags, 0o666), "wb", buffering=0)  # noqa: PTH123, SIM115
        file.truncate(at)
        file.seek(at)
        return file


def _get(url: str, archive: Archive, part: _Part, progress: Progress, patience: Patience) -> bool:
    """Make one request, and add what comes to the part.

    Returns whether the file came in one piece, as long as was announced.
    """
    have = part.length()
    version = part.version()
    validator = version.get("validator") if version.get("url") == url else None
    if archive.size is not None and have == archive.size:
        return False  # whole already: the hash will tell
    if not have or (validator is None and archive.hash is None):
        have = 0
    headers = {"User-Agent": f"transduce/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if validator is not None:
            headers["If-Range"] = validator
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (its scheme was looked at)
    with _answer(request, patience) as answer:
        at, total = _begin(answer, have, archive, part)
        validator = _validator(answer.headers)
        write_json(part.note, {"url": url, "validator": validator, "total": total})
        _receive(answer, archive, part, at, total, progress, patience)
    return at == 0 and total is not None


@contextlib.contextmanager
def _answer(request: urllib.request.Request, patience: Patience) -> Iterator[Any]:
    """Yield the answer to a request; what goes wrong on the way there or back is a `Failed`."""
    try:
        with _opener().open(request, timeout=patience.stall) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:
                yield error
                return
            again, after = error.code in TRY_AGAIN, _retry_after(error.headers)
            why = f"says {error.code} ({error.reason})"
            if 300 <= error.code < 400:
                why = "redirects without an end, or to what is no http or https address"
            raise Failed(f"the server {why}", again=again, after=after) from None
    except TimeoutError:
        raise Failed(f"nothing came for {format_duration(patience.stall)}") from None
    except urllib.error.URLError as error:
        raise Failed(f"it cannot be reached ({error.reason})", reached=False) from None
    except ValueError as error:  # a redirection to an address such as "http://["
        raise Failed(f"it names an address that cannot be read ({error})", again=False) from None
    except (http.client.HTTPException, ConnectionError) as error:
        raise Failed(f"the connection broke ({type(error).__name__}: {error})") from None
    except OSError as error:
        if not type(error).__name__.startswith("SSL"):  # then it is the disk's
            raise
        raise Failed(f"the encrypted connection broke ({error})") from None


def _retry_after(headers: Any) -> float | None:
    """Return the seconds that a server asks to wait, said as seconds or as a date."""
    value = headers.get("Retry-After") if headers else None
    if value is None:
        return None
    if re.fullmatch(r"\d{1,9}", value.strip()):
        return float(value)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _validator(headers: Any) -> str | None:
    """Return what names this version of a file: a strong ETag, else the time of its last change."""
    tag: str | None = headers.get("ETag")
    if tag and not tag.startswith("W/"):
        return tag
    changed: str | None = headers.get("Last-Modified")
    return changed


def _begin(answer: Any, have: int, archive: Archive, part: _Part) -> tuple[int, int | None]:
    """Tell from which byte on an answer goes, and how long the whole will be."""
    if answer.status == 416:
        part.forget()
        raise Failed("the server has no more than has come already; it is fetched anew")
    at, total = 0, _number(answer.headers.get("Content-Length"))
    if answer.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range") or "")
        if not found or int(found[1]) != have:
            part.forget()
            raise Failed("the server sent another part than was asked for")
        at, total = have, _number(found[2])
    elif answer.status != 200:
        raise Failed(f"the server says {answer.status}", again=False)
    if archive.size is not None and total is not None and total != archive.size:
        raise Failed(f"the server offers {total:,} bytes: expected {archive.size:,}", again=False)
    return at, total if total is not None else archive.size


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,15}", text) else None


def _receive(
    answer: Any,
    archive: Archive,
    part: _Part,
    at: int,
    total: int | None,
    progress: Progress,
    patience: Patience,
) -> None:
    """Write what comes, never more than was announced; a trickle counts as a stall."""
    most = LARGEST if total is None else total
    began = window = time.monotonic()
    come = 0
    with part.open(at) as file, progress.watch("downloading") as show:
        tell = _telling(archive.file, at, total, show)
        while block := answer.read1(BLOCK):
            if at + len(block) > most:
                part.forget()
                raise Failed(f"the server sends more than the {most:,} bytes expected", again=False)
            file.write(block)
            at += len(block)
            come += len(block)
            tell(at)
            if (now := time.monotonic()) - window > patience.stall:
                if come < patience.least:
                    raise Failed(f"only {come:,} bytes came in {format_duration(patience.stall)}")
                window, come = now, 0
        if total is not None and at < total:
            raise Failed(f"it was cut short after {at:,} of {total:,} bytes")
        show(1.0, f"{archive.file} {volume(at)} in {format_duration(time.monotonic() - began)}")


def _telling(
    file: str, begin: int, total: int | None, show: Callable[[float, str], None]
) -> Callable[[int], None]:
    """Return what tells how far a file has come, how fast, and for how long still."""
    began = time.monotonic()

    def tell(at: int) -> None:
        rate = (at - begin) / max(time.monotonic() - began, 1e-3)
        left = f" {format_duration((total - at) / rate)} left" if total and rate else ""
        whole = f"/{volume(total)}" if total else ""
        show(at / total if total else 0.0, f"{file} {volume(at)}{whole} {volume(rate)}/s{left}")

    return tell


def volume(size: float) -> str:
    """Write a number of bytes as people do: 812 bytes, 1.4 MB, 2.6 GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:.0f} {name}"
    return f"{size:.0f} bytes"
