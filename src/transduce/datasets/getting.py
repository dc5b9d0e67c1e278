"""A data set by its name, in a folder: downloaded, checked, unpacked, written as text.

DIR/
  train.en, train.de      a sentence a line, line n of one translates line n of the other
  valid.…, test.…
  data.json               where all came from, hashes, counts, what was left out and why
  archives/               what was downloaded, until all is written
"""

import contextlib
import dataclasses
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.datasets import catalogue, elsewhere, pocket
from transduce.datasets.catalogue import PARTS, POCKET, Archive, DataSet
from transduce.datasets.downloading import Patience, fetch, is_address, volume, wrong
from transduce.datasets.folders import (
    ARCHIVES,
    FORMAT,
    RECORD,
    end,
    record_of,
    refuse_foreign,
    remove_archives,
    working,
)
from transduce.datasets.pocket import Part
from transduce.datasets.writing import moses, write
from transduce.errors import BadData, BadInput, did_you_mean
from transduce.system.files import remove_leftovers, sha256, write_checksummed
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt

MIRROR = "TRANSDUCE_MIRROR"
UNPACKED = 4  # times an archive's size: about what its texts take, where nobody knows
FORMS = ("", ".xz", ".zst")  # in which a text may be given, instead of the .gz that is downloaded
HELD_POCKET = 500  # pairs of valid and of test
STOPPED = "stopped; what has come is kept: the same command goes on from there"


@dataclass(frozen=True)
class Got:
    """A data set that lies in a folder, whole."""

    folder: Path
    languages: tuple[str, str]
    train: tuple[Path, Path] | None
    valid: tuple[Path, Path] | None
    test: tuple[Path, Path] | None


def resolve(name: str) -> DataSet:
    """Return the data set of a name: of the catalogue, sacrebleu:SET:PAIR or mtdata:NAME."""
    kind, colon, rest = name.partition(":")
    if kind == "sacrebleu" and colon:
        test, colon, pair = rest.rpartition(":")
        if not colon or pair.count("-") != 1:
            raise BadInput(f"{name!r}: expected sacrebleu:SET:PAIR, such as sacrebleu:wmt14:en-de")
        return elsewhere.of_sacrebleu(test, pair)
    if kind == "mtdata" and colon:
        return elsewhere.of_mtdata(rest)
    known = catalogue.names()
    if name not in known:
        words = name.rsplit("-", 2)
        turned = "-".join([words[0], *reversed(words[1:])])  # a set serves both directions
        hint = f" Did you mean {turned}?" if turned in known else did_you_mean(name, known)
        raise BadInput(
            f"there is no data set {name!r}.{hint} `transduce data list` "
            "names them; mtdata:NAME and sacrebleu:SET:PAIR reach many more"
        )
    return catalogue.named(name)


def get(
    name: str,
    out: Path,
    *,
    progress: Progress,
    given: Path | None = None,
    mirrors: Sequence[str] = (),
    keep: bool = False,
    patience: Patience | None = None,
) -> Got:
    """Have a data set in a folder; what is there and whole already is left as it is.

    Files in the folder `given` are taken from there, all others are downloaded: from the mirrors
    first, at MIRROR/FILE, of which TRANSDUCE_MIRROR names another. `keep` keeps the archives.
    """
    if there := _whole_already(name, out, progress):
        return there
    if name.startswith("mtdata:"):
        progress.say("looking it up in mtdata's index, which takes some seconds")
    data = resolve(name)
    if own := os.environ.get(MIRROR):
        mirrors = [*mirrors, own]
    for one in mirrors:
        if not is_address(one):
            raise BadInput(
                f"the mirror {one!r} is not a web address: expected http://HOST/… or https://HOST/…"
            )
    with signals_as_interrupt(STOPPED), working(name, out):
        # Another process may have been at it while this one looked.
        got = _whole_already(name, out, progress)
        if got is None:
            got = _get(data, out, given, mirrors, patience, progress)
            if not keep:
                remove_archives(out, record_of(out))
    # Whoever waits for this very lock finds all whole, and needs it no more.
    end(out)
    return got


def _whole_already(name: str, out: Path, progress: Progress) -> Got | None:
    """Return the data set if it lies in the folder, whole; refuse a folder of something else."""
    refuse_foreign(name, out)
    record = record_of(out)
    if not record or _damaged(record, out):
        return None
    progress.say(f"{out} holds {name}, whole")
    return _got(record, out)


def _get(
    data: DataSet,
    out: Path,
    given: Path | None,
    mirrors: Sequence[str],
    patience: Patience | None,
    progress: Progress,
) -> Got:
    """Make what is missing or damaged; the folder is this process's own."""
    remove_leftovers(out)
    record = record_of(out)
    parts = tuple(part for part in data.made if part not in _whole(record, out))
    archives = _archives(data, parts, record)
    files = _here(archives, out, given)
    missing = {file: one for file, one in archives.items() if file not in files}
    _announce(data, parts, missing, out, progress)
    _tell_given(archives, files, given, progress)
    for file, one in missing.items():
        try:
            files[file] = fetch(
                one, out / ARCHIVES, progress=progress, mirrors=mirrors, patience=patience
            )
        except BadData as error:
            raise BadData(
                f"{error}: try again later, set {MIRROR} to another place, or get it yourself and "
                f"run `transduce data get {data.name} --out {out} --from FOLDER`"
            ) from None
    origins = {**record.get("archives", {}), **_origins(archives, files, out, progress)}
    try:
        for part in _to_write(data, parts):
            record = _make(data, part, out, files, {**record, "archives": origins}, progress)
    except BadData as error:
        raise _without_unchecked(error, archives, out) from None
    return _got(record, out)


def _whole(record: Mapping[str, Any], out: Path) -> set[str]:
    """Return the parts whose two files are as they were written."""
    by_part: dict[str, list[bool]] = {}
    for file, then in record.get("files", {}).items():
        by_part.setdefault(Path(file).stem, []).append(_as_written(out / file, then))
    return {part for part, good in by_part.items() if len(good) == 2 and all(good)}


def _as_written(path: Path, then: Mapping[str, Any]) -> bool:
    """Tell whether a file is as it was; only one that was touched since is read to tell."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != then["size"]:
        return False
    untouched: bool = path.stat().st_mtime_ns == then["mtime_ns"]
    return untouched or sha256(path) == then["sha256"]


def _damaged(record: Mapping[str, Any], out: Path) -> bool:
    return set(record["made"]) != _whole(record, out)


def _got(record: Mapping[str, Any], out: Path) -> Got:
    first, second = record["languages"]
    paths = {part: (out / f"{part}.{first}", out / f"{part}.{second}") for part in record["made"]}
    return Got(out, (first, second), *(paths.get(part) for part in PARTS))


def _archives(
    data: DataSet, parts: tuple[str, ...], record: Mapping[str, Any]
) -> dict[str, Archive]:
    """Return the archives that are needed, with the hashes that were found the first time."""
    if data.clean is not None and {"train", "valid"} & set(parts):
        moses(data.languages)  # what is missing for it is better said before a download
    found = data.needed(parts)
    for file, then in record.get("archives", {}).items():
        if file in found and found[file].hash is None and then["file"] == file:
            found[file] = dataclasses.replace(found[file], sha256=then["sha256"], size=then["size"])
    return found


def _announce(
    data: DataSet,
    parts: tuple[str, ...],
    archives: Mapping[str, Archive],
    out: Path,
    progress: Progress,
) -> None:
    """Say what will come, how large it is, on what terms and where it will lie; check for room."""
    progress.say(f"{data.name}: {data.title}")
    if data.about:
        progress.say(f"  {data.about}")
    terms = f" ({data.terms})" if data.terms else ""
    progress.say(f"  licence: {data.licence}{terms}")
    if archives:
        here = sum(_come(out, file) for file in archives)
        size = sum(one.size or 0 for one in archives.values())
        unknown = sum(1 for one in archives.values() if one.size is None)
        known = f"{volume(size)} in all" if size else "of unknown size"
        also = f", but for {unknown} of unknown size" if size and unknown else ""
        begun = f", of which {volume(here)} are here already" if here else ""
        many = pluralize(len(archives), "file")
        progress.say(f"  to download: {many}, {known}{also}{begun}")
    else:
        size = here = 0
    progress.say(f"  to write: {', '.join(parts)} in {out}")
    need = max(0, size - here) + (data.space or UNPACKED * size)
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if need > free:
        raise BadData(
            f"{data.name} needs about {volume(need)} in {out}, where {volume(free)} are free: free "
            "some, or choose a folder on another disk"
        )


def _come(out: Path, file: str) -> int:
    """Return how many bytes of a file have come already."""
    paths = (out / ARCHIVES / file, out / ARCHIVES / f"{file}.part")
    return next((path.stat().st_size for path in paths if path.is_file()), 0)


def _here(archives: Mapping[str, Archive], out: Path, given: Path | None) -> dict[str, Path]:
    """Return the archives that need no download: given, or downloaded before; all are checked."""
    if given is not None and not given.is_dir():
        raise BadInput(f"{given} is no folder: --from names one with files that are there already")
    files = {}
    for file, archive in archives.items():
        path = None if given is None else _given(archive, given)
        before = out / ARCHIVES / file
        if path is None and before.is_file() and not wrong(before, archive):
            path = before
        if path is not None:
            files[file] = path
    return files


def _given(archive: Archive, given: Path) -> Path | None:
    """Return a file that is there already, checked; a text may be there in another form."""
    names = dict.fromkeys([archive.file, *(url.rpartition("/")[2] for url in archive.urls)])
    for name in names:
        path = given / name
        if path.is_file():
            if why := wrong(path, archive):
                raise BadData(f"{path} is not the file that is needed: {why}")
            return path
    if archive.file.endswith(".gz") and not archive.file.endswith(".tar.gz"):
        stem = archive.file.removesuffix(".gz")
        return next(
            (given / (stem + form) for form in FORMS if (given / (stem + form)).is_file()), None
        )
    return None


def _tell_given(
    archives: Mapping[str, Archive],
    files: Mapping[str, Path],
    given: Path | None,
    progress: Progress,
) -> None:
    """Say which files were not downloaded, and which of those could not be checked by a hash."""
    taken = {file: path for file, path in files.items() if path.parent == given}
    if taken:
        progress.say(f"taken from {given}: {', '.join(path.name for path in taken.values())}")
    if any(
        archives[file].hash and not path.name.endswith(Path(file).suffix)
        for file, path in taken.items()
    ):
        progress.say("  texts in another form than is downloaded: no hash of that is known")


def _origins(
    archives: Mapping[str, Archive], files: Mapping[str, Path], out: Path, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return where each archive came from, its size and its hash; one that was unknown is said."""
    origins = {}
    for file, path in files.items():
        checked = archives[file].sha256 if path.suffix == Path(file).suffix else None
        size, found = path.stat().st_size, checked or sha256(path)
        if archives[file].hash is None:
            progress.say(
                f"{path.name}: no hash was known; it has {size:,} bytes and the sha256 {found}, "
                f"which {RECORD} keeps"
            )
        own = path.parent == out / ARCHIVES
        urls = list(archives[file].urls) if own else [str(path)]
        origins[file] = {"file": path.name, "from": urls, "size": size, "sha256": found}
    return origins


def _without_unchecked(error: BadData, archives: Mapping[str, Archive], out: Path) -> BadData:
    """Delete what was downloaded and no hash could check, since it may be what is wrong."""
    unchecked = [
        out / ARCHIVES / file for file, archive in archives.items() if archive.hash is None
    ]
    if not any(path.is_file() for path in unchecked):
        return error
    for path in unchecked:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # others may be there
        (out / ARCHIVES).rmdir()
    return BadData(f"{error}; no hash of it is known, so the same command downloads it anew")


def _to_write(data: DataSet, parts: Iterable[Part]) -> list[Part]:
    """Return the parts to write; one that is held out from train is written with it."""
    held = data.clean is not None and "valid" not in data.parts
    wanted: Iterator[Part] = ("train" if part == "valid" and held else part for part in parts)
    return list(dict.fromkeys(wanted))


def _make(
    data: DataSet,
    part: Part,
    out: Path,
    files: Mapping[str, Path],
    record: dict[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """Write a part, say what came of it, and add it to data.json."""
    counts: dict[str, dict[str, int]]
    if data.name == POCKET:
        made = pocket.pairs((data.pairs or 0) if part == "train" else HELD_POCKET, part)
        pocket.write_pairs(out, part, made, data.languages)
        counts = {part: {"pairs": len(made)}}
    else:
        counts = write(data, part, out, files, progress)
    written = [f"{one}.{language}" for one, language in itertools.product(counts, data.languages)]
    for one, count in counts.items():
        progress.say(f"{one}: {_told(data, one, count)}")
    record = {
        "format": FORMAT,
        "name": data.name,
        "title": data.title,
        "languages": list(data.languages),
        "licence": data.licence,
        "made": list(data.made),
        "archives": record["archives"],
        "parts": {**record.get("parts", {}), **counts},
        "files": {**record.get("files", {}), **{file: _facts(out / file) for file in written}},
    }
    write_checksummed(out / RECORD, record)
    return record


def _facts(path: Path) -> dict[str, Any]:
    """Return what the record keeps of a text."""
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256(path)}


def _told(data: DataSet, part: str, counts: Mapping[str, int]) -> str:
    """Say how many pairs a part has, what was left out, and how that compares."""
    dropped = {why: count for why, count in counts.items() if why != "pairs"}
    reasons = ", ".join(f"{count:,} {why}" for why, count in dropped.items())
    known = data.known.get(part)
    compared = "" if known in (None, counts["pairs"]) else f"; others count {known:,}"
    left_out = f"; left out: {reasons}" if dropped else ""
    return f"{pluralize(counts['pairs'], 'pair')}{left_out}{compared}"
