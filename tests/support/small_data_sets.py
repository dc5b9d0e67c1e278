"""Small versions of all data sets of the catalogue, in the layout of the real archives."""

import gzip
import hashlib
import io
import itertools
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from faulty_server import Faulty

from transduce import datasets as data_sets
from transduce.datasets import catalogue, libraries
from transduce.datasets.catalogue import DataSet, Location, Source
from transduce.datasets.downloading import RetryPolicy
from transduce.system.progress import Silent

Pairs = list[tuple[str, str]]
DOWNLOADED = [name for name in catalogue.names() if name != catalogue.POCKET]
SENTENCES = 50  # of each text; more than two that IWSLT14 holds out


def text_of(place: Location, language: str) -> list[str]:
    """Return sentences that name their text and line, with equal numbers of words."""
    stem = (
        hashlib.md5(place.archive.encode()).hexdigest()[:4]
        if not place.member
        else "".join(sign for sign in place.member if sign.isdigit())
    )
    return [f'{language} {stem} "A & B" < {number}' for number in range(SENTENCES)]


def written(source: Source, place: Location, language: str) -> str:
    """Write sentences in the format of a source."""
    sentences = text_of(place, language)
    if source.format == "plain":
        return "".join(f"{sentence}\n" for sentence in sentences)
    if source.format == "talks":
        head = "<url>http://x</url>\n<keywords>talks</keywords>\n<talkid>1</talkid>\n"
        return (
            head + "<title>A title</title>\n" + "".join(f" {sentence} \n" for sentence in sentences)
        )
    segments = "".join(
        f'<seg id="{n}"> {escape(sentence)} </seg>\n'
        for n, sentence in enumerate(sentences, start=1)
    )
    return f'<refset><doc docid="a">\n<p>\n{segments}</p>\n</doc></refset>\n'


def miniatures(*sets: DataSet) -> dict[str, bytes]:
    """Return small archives of data sets, by file name."""
    members: dict[str, dict[str, bytes]] = {file: {} for data in sets for file in data.archives}
    for data in sets:
        for source in itertools.chain.from_iterable(data.sources.values()):
            for place, language in zip(source.locations, data.languages, strict=True):
                content = written(source, place, language).encode()
                packed = gzip.compress(content) if place.member.endswith(".gz") else content
                members[place.archive][place.member] = packed
    return {file: packed_as(file, inside) for file, inside in members.items()}


def packed_as(file: str, members: Mapping[str, bytes]) -> bytes:
    """Pack members in the format of the archive's name."""
    out = io.BytesIO()
    if file.endswith(".zip"):
        with zipfile.ZipFile(out, "w") as zipped:
            zipped.writestr("README", "read me")
            for name, content in members.items():
                zipped.writestr(name, content)
    elif file.endswith((".tgz", ".tar")):
        with tarfile.open(fileobj=out, mode="w:gz" if file.endswith("tgz") else "w") as tar:
            for name, content in {"README": b"read me", **members}.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    else:
        return gzip.compress(members[""])
    return out.getvalue()


def iwslt14(english: list[str], german: list[str]) -> bytes:
    """Return IWSLT14's archive with another training text."""
    members = {
        place.member: written(source, place, language).encode()
        for part, sources in catalogue.find("iwslt14-de-en").sources.items()
        for source in sources
        for place, language in zip(source.locations, ("de", "en"), strict=True)
    } | {
        "de-en/train.tags.de-en.en": "\n".join(english).encode(),
        "de-en/train.tags.de-en.de": "\n".join(german).encode(),
    }
    return packed_as("iwslt14-de-en.tgz", members)


def stock(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve small versions of the whole catalogue, and patch in their hashes."""
    tables = catalogue._tables()
    changed: dict[str, Any] = {}
    for file, content in miniatures(*map(catalogue.find, DOWNLOADED)).items():
        server.serve(file, content)
    for file, entry in tables["archives"].items():
        content = server.files[file]
        changed[file] = {"urls": [f"{server.address}/{file}"]}
        if "sha256" in entry:
            changed[file] |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        if "md5" in entry:
            changed[file] |= {"md5": hashlib.md5(content).hexdigest()}
    monkeypatch.setattr(catalogue, "_tables", lambda: {**tables, "archives": changed})
    from sacrebleu.dataset import DATASETS

    for name in ("wmt13", "wmt14/full", "iwslt17"):
        test: Any = DATASETS[name]
        files = [test._get_tarball_filename(url) for url in test.data]
        hashes = [hashlib.md5(server.files.get(file, b"")).hexdigest() for file in files]
        monkeypatch.setattr(test, "data", [f"{server.address}/{file}" for file in files])
        monkeypatch.setattr(test, "md5", hashes)
    # Keep the served names.
    monkeypatch.setattr(libraries, "_cached_name", lambda stem, url: url.rpartition("/")[2])


def expected(data: DataSet, part: str) -> Pairs:
    """Return the expected pairs of a part, before cleaning and holding out."""
    found: Pairs = []
    for source in data.sources[part]:
        sides = [
            text_of(place, language)
            for place, language in zip(source.locations, data.languages, strict=True)
        ]
        titles = [("A title", "A title")] if source.keep else []
        found += [*titles, *zip(*sides, strict=True)]
    return found


def lines(path: Path) -> list[str]:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    assert b"\r" not in content
    return content.decode().removesuffix("\n").split("\n")


def pairs_in(folder: Path, part: str, languages: tuple[str, str]) -> Pairs:
    left, right = (lines(folder / f"{part}.{language}") for language in languages)
    return list(zip(left, right, strict=True))


def quick(name: str, out: Path, **options: Any) -> data_sets.DataFiles:
    retry = RetryPolicy(tries=2, wait=0.01, stall=1.0)
    return data_sets.get(name, out, progress=Silent(), retry=retry, **options)
