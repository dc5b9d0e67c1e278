"""Downloads resume and are correct or absent, whatever a server does."""

import dataclasses
import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import faulty_server as faults
import pytest
from faulty_server import Answer, Faulty

from transduce.datasets.catalogue import Archive
from transduce.datasets.downloading import RetryPolicy, fetch
from transduce.errors import BadData
from transduce.system.formatting import format_bytes
from transduce.system.progress import Silent

CONTENT = random.Random(1).randbytes(300_000)
QUICK = RetryPolicy(tries=3, wait=0.01, max_wait=0.05, stall=0.3, min_bytes=1024)


class Recorder(Silent):
    """Keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture
def server() -> Iterator[Faulty]:
    with faults.running() as running:
        yield running


def known(*urls: str, content: bytes = CONTENT, size: bool = True) -> Archive:
    """Return an archive with its hash, and with its size if `size`."""
    digest = hashlib.sha256(content).hexdigest()
    return Archive("file.bin", urls, len(content) if size else None, digest)


def unknown(*urls: str) -> Archive:
    """Return an archive of which only the address is known."""
    return Archive("file.bin", urls)


def get(
    archive: Archive, folder: Path, recorder: Recorder | None = None, **options: object
) -> bytes:
    path = fetch(archive, folder, progress=recorder or Recorder(), retry=QUICK, **options)  # type: ignore[arg-type]
    assert [path.name for path in folder.iterdir()] == ["file.bin"], "no part is left"
    return path.read_bytes()


def test_a_file_is_downloaded_unchanged(server: Faulty, tmp_path: Path) -> None:
    assert get(known(server.serve("a", CONTENT)), tmp_path) == CONTENT


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(faults.cut(100_000), id="cut short"),
        pytest.param(faults.cut(0), id="cut at once"),
        pytest.param(faults.reset, id="reset"),
        pytest.param(faults.stall(50_000, 0.6), id="stalled"),
        pytest.param(faults.say(500), id="500"),
        pytest.param(faults.say(503, Retry_After="0"), id="503"),
        pytest.param(faults.say(429), id="429"),
    ],
)
@pytest.mark.parametrize("archive", [known, unknown])
def test_a_temporary_fault_is_retried(
    server: Faulty, tmp_path: Path, fault: Answer, archive: Callable[[str], Archive]
) -> None:
    recorder = Recorder()
    assert get(archive(server.serve("a", CONTENT, fault)), tmp_path, recorder) == CONTENT
    assert len(server.requests) == 2
    assert "trying again" in recorder.messages[0]


def test_a_very_slow_download_is_a_stall(server: Faulty, tmp_path: Path) -> None:
    recorder = Recorder()
    url = server.serve("a", CONTENT, faults.trickle(0.04, 200))
    assert get(known(url), tmp_path, recorder) == CONTENT
    assert recorder.messages[0].startswith("file.bin: only ")


def test_a_partial_download_is_resumed(server: Faulty, tmp_path: Path) -> None:
    url = server.serve("a", CONTENT, faults.cut(100_000), faults.reset)
    assert get(unknown(url), tmp_path) == CONTENT
    assert server.requests[1:] == [("a", "bytes=100000-"), ("a", "bytes=100000-")]


def test_a_partial_download_of_an_earlier_command_is_resumed(
    server: Faulty, tmp_path: Path
) -> None:
    url = server.serve("a", CONTENT, *[faults.cut(100_000), *[faults.say(500)] * 2])
    with pytest.raises(BadData):
        get(unknown(url), tmp_path)
    assert (tmp_path / "file.bin.part").stat().st_size == 100_000
    assert get(unknown(url), tmp_path) == CONTENT
    assert server.requests[-1] == ("a", "bytes=100000-")


def test_a_server_without_ranges_sends_the_whole_file(server: Faulty, tmp_path: Path) -> None:
    url = server.serve("a", CONTENT, faults.cut(100_000), faults.whole)
    assert get(unknown(url), tmp_path) == CONTENT


def test_a_wrong_range_is_not_appended(server: Faulty, tmp_path: Path) -> None:
    url = server.serve("a", CONTENT, faults.cut(100_000), faults.other_part)
    assert get(unknown(url), tmp_path) == CONTENT


def test_two_versions_of_a_file_are_never_joined(server: Faulty, tmp_path: Path) -> None:
    """The file changes between two parts: because of If-Range, the server sends the new file."""
    url = server.serve("a", CONTENT, faults.cut(100_000), *[faults.say(500)] * 2)
    with pytest.raises(BadData):
        get(unknown(url), tmp_path)
    newer = CONTENT[::-1]
    assert get(unknown(server.serve("a", newer)), tmp_path) == newer


def test_a_part_without_validator_and_hash_is_not_resumed(server: Faulty, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"of another file")
    assert get(unknown(server.serve("a", CONTENT)), tmp_path) == CONTENT
    assert server.requests == [("a", None)]


def test_a_damaged_part_is_found_by_its_hash_and_downloaded_again(
    server: Faulty, tmp_path: Path
) -> None:
    (tmp_path / "file.bin.part").write_bytes(bytes(100_000))
    assert get(known(server.serve("a", CONTENT)), tmp_path) == CONTENT
    assert [part for _, part in server.requests] == ["bytes=100000-", None]


def test_a_complete_part_needs_no_request(server: Faulty, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert get(known(server.serve("a", CONTENT)), tmp_path) == CONTENT
    assert not server.requests


def test_a_part_longer_than_the_file_is_downloaded_again(server: Faulty, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert get(known(server.serve("a", CONTENT), size=False), tmp_path) == CONTENT


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (faults.say(404), "says 404"),
        (faults.say(403), "says 403"),
        (faults.claim(len(CONTENT) + 7), "offers 300,007 bytes: expected 300,000"),
        (faults.claim(len(CONTENT) - 7), "offers 299,993 bytes: expected 300,000"),
        (faults.endless, "more than the expected 300,000 bytes"),
        (faults.redirect("file:///etc/passwd"), "not http or https"),
        (faults.redirect("ftp://127.0.0.1/a"), "not allowed"),
        (faults.redirect("http://["), "an invalid address"),
    ],
)
def test_a_permanent_failure_is_not_retried(
    server: Faulty, tmp_path: Path, fault: Answer, why: str
) -> None:
    bad, good = server.serve("bad", CONTENT, fault), server.serve("good", CONTENT)
    recorder = Recorder()
    assert get(known(bad, good), tmp_path, recorder) == CONTENT
    assert [name for name, _ in server.requests] == ["bad", "good"]
    assert why in recorder.messages[0]


def test_endless_redirects_are_refused(server: Faulty, tmp_path: Path) -> None:
    url = server.serve("a", b"", *[faults.redirect(f"{server.address}/a")] * 20)
    with pytest.raises(BadData, match="redirects endlessly"):
        get(known(url), tmp_path)
    assert len(server.requests) < 15


def test_a_redirect_is_followed_and_resumed(server: Faulty, tmp_path: Path) -> None:
    there = server.serve("there", CONTENT, faults.cut(100_000))
    url = server.serve("a", b"", *[faults.redirect(there)] * 2)
    assert get(known(url), tmp_path) == CONTENT
    assert server.requests[-1] == ("there", "bytes=100000-")


def test_a_response_without_a_length_is_accepted(server: Faulty, tmp_path: Path) -> None:
    assert get(known(server.serve("a", CONTENT, faults.claim(None))), tmp_path) == CONTENT


def test_more_bytes_than_announced_are_refused(server: Faulty, tmp_path: Path) -> None:
    """Without a known size, the announced length is the limit."""
    url = server.serve("a", CONTENT, faults.claim(1000))
    assert get(unknown(url), tmp_path) == CONTENT[:1000]


def test_a_file_with_a_wrong_hash_is_not_stored(server: Faulty, tmp_path: Path) -> None:
    url = server.serve("a", CONTENT, faults.wrong_bytes)
    with pytest.raises(BadData, match=r"its sha256 is .*: expected"):
        get(known(url), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_complete_file_with_a_wrong_hash_is_not_retried(server: Faulty, tmp_path: Path) -> None:
    bad, good = server.serve("bad", CONTENT, faults.wrong_bytes), server.serve("good", CONTENT)
    assert get(known(bad, good), tmp_path) == CONTENT
    assert server.requests == [("bad", None), ("good", None)]


def test_a_resumed_file_with_a_wrong_hash_is_downloaded_once_more(
    server: Faulty, tmp_path: Path
) -> None:
    """Both parts are of one version, so only the hash shows the error."""
    pieces = [faults.cut(100_000), faults.succeed]
    bad = server.serve("bad", bytes(len(CONTENT)), *pieces, *pieces)
    patience = dataclasses.replace(QUICK, tries=9)
    archive = known(bad, server.serve("good", CONTENT))
    path = fetch(archive, tmp_path, progress=Recorder(), retry=patience)
    assert path.read_bytes() == CONTENT
    ranges = [part for name, part in server.requests if name == "bad"]
    assert ranges == [None, "bytes=100000-"] * 2


def test_a_wrong_file_without_a_length_is_downloaded_again(server: Faulty, tmp_path: Path) -> None:
    """The connection may have ended too early; only the hash shows it."""

    def ends_early(handler: faults.Handler, content: bytes) -> None:
        faults.claim(None)(handler, content[:1000])

    url = server.serve("a", CONTENT, ends_early)
    assert get(known(url, size=False), tmp_path) == CONTENT


def test_mirrors_are_tried_first_and_in_order(server: Faulty, tmp_path: Path) -> None:
    server.serve("second/file.bin", CONTENT)
    mirrors = [f"{server.address}/first", f"{server.address}/second/"]
    assert get(known(server.serve("a", CONTENT)), tmp_path, mirrors=mirrors) == CONTENT
    assert [name for name, _ in server.requests] == ["first/file.bin", "second/file.bin"]


def test_a_part_with_a_known_hash_is_resumed_from_another_server(
    server: Faulty, tmp_path: Path
) -> None:
    bad = server.serve("bad", CONTENT, faults.cut(100_000), faults.say(404))
    assert get(known(bad, server.serve("good", CONTENT)), tmp_path) == CONTENT
    assert server.requests[-1] == ("good", "bytes=100000-")


def test_retry_after_is_respected_up_to_a_limit(server: Faulty, tmp_path: Path) -> None:
    recorder = Recorder()
    busy = faults.say(503, Retry_After="3600")
    late = faults.say(503, Retry_After="Fri, 01 Jan 2100 00:00:00 GMT")
    assert get(known(server.serve("a", CONTENT, busy, late)), tmp_path, recorder) == CONTENT
    assert all("trying again in 0s" in line for line in recorder.messages)  # max_wait of QUICK


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/a", "data:,x", "a"])
def test_only_http_addresses_are_used(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadData, match="not an http or https address"):
        get(unknown(url), tmp_path)


def test_an_unreachable_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"127.0.0.1:1/a: it cannot be reached"):
        get(unknown("http://127.0.0.1:1/a"), tmp_path)


def test_a_server_that_disappears_during_the_download_is_retried(tmp_path: Path) -> None:
    """It is only retried if a part has been downloaded."""
    recorder = Recorder()
    with pytest.raises(BadData):
        get(known("http://127.0.0.1:1/a"), tmp_path, recorder)
    assert not recorder.messages
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    with pytest.raises(BadData):
        get(known("http://127.0.0.1:1/a"), tmp_path, recorder)
    assert [line.rpartition(", ")[2] for line in recorder.messages] == ["from byte 1,000"] * 2


def test_a_link_instead_of_a_part_is_not_followed(server: Faulty, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "file.bin.part").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        get(unknown(server.serve("a", CONTENT)), folder)
    assert victim.read_text() == "mine"


def test_numbers_of_bytes_are_formatted() -> None:
    assert [format_bytes(count) for count in (812, 4200, 4.2e6, 657632379, 2.6e9)] == [
        *("812 bytes", "4.2 kB", "4.2 MB", "658 MB", "2.6 GB")
    ]
