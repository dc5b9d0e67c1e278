"""Get a data set by name into a folder: download, check, unpack, write as text.

DIR/
  train.en, train.de      one sentence per line; line n of one translates line n of the other
  valid.…, test.…
  data.json               origins, hashes, counts, and the pairs that were left out
  archives/               the downloads, until everything is written
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.datasets import catalogue, libraries, pocket
from transduce.datasets.archives import (
    bytes_present,
    delete_unchecked,
    needed_archives,
    origins,
    present_archives,
)
from transduce.datasets.catalogue import POCKET, SPLITS, Archive, DataSet, SplitName
from transduce.datasets.downloading import RetryPolicy, fetch, is_web_address
from transduce.datasets.folders import (
    ARCHIVES,
    FORMAT,
    RECORD,
    hold_folder,
    read_record,
    refuse_foreign,
    remove_archives,
    remove_work_folder,
)
from transduce.datasets.pocket.files import write_pairs
from transduce.datasets.writing import word_counters, write_split
from transduce.errors import BadData, BadInput, did_you_mean
from transduce.system.files import remove_leftovers, sha256, write_checksummed
from transduce.system.formatting import format_bytes, pluralize
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt

MIRROR = "TRANSDUCE_MIRROR"
TEXT_RATIO = 4  # assumed size of the texts relative to the archive, if unknown
POCKET_HELD_OUT = 500  # pairs in each of valid and test
STOPPED = "stopped; downloads are kept: the same command continues from there"


@dataclass(frozen=True)
class DataFiles:
    """The files of a complete data set."""

    folder: Path
    languages: tuple[str, str]
    train: tuple[Path, Path] | None
    valid: tuple[Path, Path] | None
    test: tuple[Path, Path] | None


def resolve(name: str) -> DataSet:
    """Return the data set for a catalogue name, sacrebleu:SET:PAIR or mtdata:NAME."""
    kind, colon, rest = name.partition(":")
    if kind == "sacrebleu" and colon:
        test_set, colon, pair = rest.rpartition(":")
        if not colon or pair.count("-") != 1:
            raise BadInput(f"{name!r}: expected sacrebleu:SET:PAIR, such as sacrebleu:wmt14:en-de")
        return libraries.from_sacrebleu(test_set, pair)
    if kind == "mtdata" and colon:
        return libraries.from_mtdata(rest)
    known = catalogue.names()
    if name not in known:
        words = name.rsplit("-", 2)
        reverse = "-".join([words[0], *reversed(words[1:])])  # a set has both directions
        hint = f" Did you mean {reverse}?" if reverse in known else did_you_mean(name, known)
        raise BadInput(
            f"there is no data set {name!r}.{hint} `transduce data list` "
            "lists them; mtdata:NAME and sacrebleu:SET:PAIR give many more"
        )
    return catalogue.find(name)


def get(
    name: str,
    out: Path,
    *,
    progress: Progress,
    given: Path | None = None,
    mirrors: Sequence[str] = (),
    keep: bool = False,
    retry: RetryPolicy | None = None,
) -> DataFiles:
    """Get a data set into a folder; complete files that already exist are kept.

    Archives in the folder `given` are used; all others are downloaded. MIRROR/FILE is tried first
    for each mirror, including the one in TRANSDUCE_MIRROR. `keep` keeps the archives.
    """
    if existing := _open_existing(name, out, progress):
        return existing
    if name.startswith("mtdata:"):
        progress.say("searching mtdata's index, which takes some seconds")
    data = resolve(name)
    if mirror := os.environ.get(MIRROR):
        mirrors = [*mirrors, mirror]
    for mirror in mirrors:
        if not is_web_address(mirror):
            raise BadInput(
                f"the mirror {mirror!r} is not a web address: expected http://HOST/… or "
                "https://HOST/…"
            )
    with signals_as_interrupt(STOPPED), hold_folder(name, out):
        # Another process may have completed it in the meantime.
        files = _open_existing(name, out, progress)
        if files is None:
            files = _get(data, out, given, mirrors, retry, progress)
            if not keep:
                remove_archives(out, read_record(out))
    # A process that waits for this lock will find a complete data set.
    remove_work_folder(out)
    return files


def _open_existing(name: str, out: Path, progress: Progress) -> DataFiles | None:
    """Return the data set if the folder contains all of it; refuse a folder with anything else."""
    refuse_foreign(name, out)
    record = read_record(out)
    if not record or set(record["made"]) != _complete_splits(record, out):
        return None
    progress.say(f"{out} already has all of {name}")
    return _data_files(record, out)


def _get(
    data: DataSet,
    out: Path,
    given: Path | None,
    mirrors: Sequence[str],
    retry: RetryPolicy | None,
    progress: Progress,
) -> DataFiles:
    """Write the splits that are missing or damaged; this process holds the folder."""
    remove_leftovers(out)
    record = read_record(out)
    complete = _complete_splits(record, out)
    splits = tuple(split for split in data.splits if split not in complete)
    if data.clean is not None and {"train", "valid"} & set(splits):
        word_counters(data.languages)  # a missing library is reported before the download
    archives = needed_archives(data, splits, record)
    files = present_archives(archives, out, given, progress)
    missing = {file: archive for file, archive in archives.items() if file not in files}
    _announce(data, splits, missing, out, progress)
    for file, archive in missing.items():
        try:
            files[file] = fetch(
                archive, out / ARCHIVES, progress=progress, mirrors=mirrors, retry=retry
            )
        except BadData as error:
            raise BadData(
                f"{error}: try again later, set {MIRROR} to another server, or download it "
                f"yourself and run `transduce data get {data.name} --out {out} --from FOLDER`"
            ) from None
    entries = {**record.get("archives", {}), **origins(archives, files, out, progress)}
    try:
        for split in _to_write(data, splits):
            record = _write(data, split, out, files, {**record, "archives": entries}, progress)
    except BadData as error:
        raise delete_unchecked(error, archives, out) from None
    return _data_files(record, out)


def _complete_splits(record: Mapping[str, Any], out: Path) -> set[str]:
    """Return the splits whose two files are unchanged."""
    by_split: dict[str, list[bool]] = {}
    for file, entry in record.get("files", {}).items():
        by_split.setdefault(Path(file).stem, []).append(_is_unchanged(out / file, entry))
    return {split for split, unchanged in by_split.items() if unchanged == [True, True]}


def _is_unchanged(path: Path, entry: Mapping[str, Any]) -> bool:
    """Return whether a file is unchanged; it is read only if its modification time has changed."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != entry["size"]:
        return False
    same_time: bool = path.stat().st_mtime_ns == entry["mtime_ns"]
    return same_time or sha256(path) == entry["sha256"]


def _data_files(record: Mapping[str, Any], out: Path) -> DataFiles:
    first, second = record["languages"]
    paths = {
        split: (out / f"{split}.{first}", out / f"{split}.{second}") for split in record["made"]
    }
    return DataFiles(out, (first, second), *(paths.get(split) for split in SPLITS))


def _announce(
    data: DataSet,
    splits: tuple[SplitName, ...],
    archives: Mapping[str, Archive],
    out: Path,
    progress: Progress,
) -> None:
    """Print the size, licence and destination of a data set; check the free disk space."""
    progress.say(f"{data.name}: {data.title}")
    if data.about:
        progress.say(f"  {data.about}")
    terms = f" ({data.terms})" if data.terms else ""
    progress.say(f"  licence: {data.licence}{terms}")
    size = sum(archive.size or 0 for archive in archives.values())
    present = sum(bytes_present(out, file) for file in archives)
    if archives:
        unknown = sum(1 for archive in archives.values() if archive.size is None)
        total = f"{format_bytes(size)} in total" if size else "of unknown size"
        plus = f", plus {unknown} of unknown size" if size and unknown else ""
        already = f", of which {format_bytes(present)} are here already" if present else ""
        progress.say(f"  to download: {pluralize(len(archives), 'file')}, {total}{plus}{already}")
    progress.say(f"  to write: {', '.join(splits)} in {out}")
    needed = max(0, size - present) + (data.space or TEXT_RATIO * size)
    folder = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BadData(
            f"{data.name} needs about {format_bytes(needed)} in {out}, but {format_bytes(free)} "
            "are free: free some space, or choose a folder on another disk"
        )


def _to_write(data: DataSet, splits: Iterable[SplitName]) -> list[SplitName]:
    """Return the splits to write; a split that is held out from train is written with it."""
    with_train = data.clean is not None and "valid" not in data.sources
    return list(
        dict.fromkeys("train" if split == "valid" and with_train else split for split in splits)
    )


def _write(
    data: DataSet,
    split: SplitName,
    out: Path,
    files: Mapping[str, Path],
    record: dict[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """Write a split, report its counts, and add it to data.json."""
    counts: dict[str, dict[str, int]]
    if data.name == POCKET:
        pairs = pocket.pairs((data.pairs or 0) if split == "train" else POCKET_HELD_OUT, split)
        write_pairs(out, split, pairs, data.languages)
        counts = {split: {"pairs": len(pairs)}}
    else:
        counts = write_split(data, split, out, files, progress)
    for name, count in counts.items():
        progress.say(f"{name}: {_describe_counts(data, name, count)}")
    paths = [out / f"{name}.{language}" for name in counts for language in data.languages]
    record = {
        "format": FORMAT,
        "name": data.name,
        "title": data.title,
        "languages": list(data.languages),
        "licence": data.licence,
        "made": list(data.splits),
        "archives": record["archives"],
        "parts": {**record.get("parts", {}), **counts},
        "files": {**record.get("files", {}), **{path.name: _file_entry(path) for path in paths}},
    }
    write_checksummed(out / RECORD, record)
    return record


def _file_entry(path: Path) -> dict[str, Any]:
    """Return the entry for a text file in data.json."""
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256(path)}


def _describe_counts(data: DataSet, split: str, counts: Mapping[str, int]) -> str:
    """Format the number of pairs, the number left out, and the published number."""
    reasons = ", ".join(f"{count:,} {why}" for why, count in counts.items() if why != "pairs")
    published = data.published_pairs.get(split)
    compared = "" if published in (None, counts["pairs"]) else f"; others report {published:,}"
    left_out = f"; left out: {reasons}" if reasons else ""
    return f"{pluralize(counts['pairs'], 'pair')}{left_out}{compared}"
