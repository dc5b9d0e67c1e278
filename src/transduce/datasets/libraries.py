"""Data sets from other libraries: sacreBLEU's test sets, and everything in mtdata's index.

The libraries provide addresses, member names and sometimes hashes. We download, check and unpack
the files, so that downloads resume, sizes are bounded, and nothing is written outside the folder.
"""

import contextlib
import difflib
import importlib
import itertools
import logging
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from transduce.datasets.catalogue import Archive, DataSet, Location, Source
from transduce.errors import BadInput, MissingExtra, did_you_mean

SEGMENTS = ("sgm", "xml")
# The modules of mtdata's index. OPUS has the most entries and takes seconds to read.
OPUS = ("opus.opus_index", "opus.opus100")
OTHERS = (
    *("statmt", "paracrawl", "tilde", "joshua_indian", "unitednations", "wikimatrix", "other"),
    *("neulab_tedtalks", "elrc_share", "ai4bharat", "eu", "linguatools", "anuvaad"),
    *("allenai_nllb", "flores"),
)
TABLES = {"tsv", "tsv.gz", "tsv.xz"}
TEXTS = {"txt", "txt.gz", "txt.xz"}
ARCHIVES = {"zip", "tar", "tgz", "tar.gz"}


def from_sacrebleu(name: str, pair: str) -> DataSet:
    """Return a sacreBLEU test set, such as wmt14/full for en-de."""
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise BadInput(
            f"sacreBLEU has no test set {name!r}.{did_you_mean(name, DATASETS)} "
            "`sacrebleu --list` lists them"
        )
    test_set = DATASETS[name]
    if pair not in test_set.langpairs:
        raise BadInput(
            f"sacreBLEU's {name} has no pair {pair!r}.{did_you_mean(pair, test_set.langpairs)} "
            f"It has {', '.join(sorted(test_set.langpairs))}"
        )
    urls, members = list(test_set.data or ()), test_set.langpairs[pair]
    members = list(members) if isinstance(members, list | tuple) else []
    suffixes = {member.rpartition(".")[2] for member in members}
    if len(members) < 2 or not suffixes <= {*SEGMENTS, *pair.split("-"), "txt"}:
        raise BadInput(
            f"sacreBLEU's {name} for {pair} has an unsupported format: "
            f"write it with `sacrebleu -t {name} -l {pair} --echo src ref`"
        )
    stem = name.replace("/", "_")
    hashes: list[str | None] = list(test_set.md5 or ()) or [None] * len(urls)
    archives = {}
    for url, md5 in zip(urls, hashes, strict=True):
        file = _cached_name(stem, url)
        archives[file] = Archive(file, (url,), md5=md5)
    first_side, second_side = (
        Location(_archive_of(member, archives), member) for member in members[:2]
    )
    format_ = "segments" if suffixes <= set(SEGMENTS) else "plain"
    first, second = pair.split("-")
    needed = {first_side.archive, second_side.archive}
    return DataSet(
        name=f"sacrebleu:{name}:{pair}",
        title=f"sacreBLEU's test set {name}, {pair}",
        languages=(first, second),
        terms="not given by sacreBLEU: ask the authors",
        about=test_set.description or "",
        archives={file: archive for file, archive in archives.items() if file in needed},
        sources={"test": (Source((first_side, second_side), format_),)},
    )


def _cached_name(stem: str, url: str) -> str:
    """Return the name of a file in sacreBLEU's own cache."""
    return f"{stem}.{url.rpartition('/')[2]}"


def _archive_of(member: str, archives: Iterable[str]) -> str:
    """Return the archive of a member; if there are several, the member's folder tells which."""
    files = list(archives)
    folder = member.partition("/")[0]
    return next((file for file in files if file.endswith(f".{folder}.tgz")), files[0])


def from_mtdata(name: str) -> DataSet:
    """Return a data set by its name in mtdata, such as OPUS-books-v1-deu-eng."""
    entry = _find_entry(name)
    if len(entry.did.langs) != 2:
        raise BadInput(f"mtdata's {name} has only one language: expected a parallel text")
    urls = [entry.url] if isinstance(entry.url, str) else list(entry.url)
    files = [entry.filename] if len(urls) == 1 else [url.rpartition("/")[2] for url in urls]
    files = [f"{name}.{file}" for file in files]
    locations, format_ = _locations(name, entry, files)
    first, second = (_two_letter_code(language.lang) for language in entry.did.langs)
    if first == second:  # two variants of one language
        first, second = (str(language).lower() for language in entry.did.langs)
    return DataSet(
        name=f"mtdata:{name}",
        title=f"{name}, from mtdata's index",
        languages=(first, second),
        terms="not given by mtdata: ask the authors",
        about=f"please cite: {', '.join(entry.cite)}" if entry.cite else "",
        archives={file: Archive(file, (url,)) for file, url in zip(files, urls, strict=True)},
        sources={"train": (Source(locations, format_),)},
    )


def _locations(name: str, entry: Any, files: list[str]) -> tuple[tuple[Location, Location], str]:
    """Return the locations of both sides of an entry, and their format."""
    inner = entry.in_ext or entry.ext
    if entry.ext in ARCHIVES and inner in {"txt", "sgm"} and len(entry.in_paths) == 2:
        first, second = (Location(files[0], path) for path in entry.in_paths)
        return (first, second), "plain" if inner == "txt" else "segments"
    packed = entry.ext in ARCHIVES and inner == "tsv" and len(entry.in_paths) == 1
    if packed or (entry.ext in TABLES and len(files) == 1):
        path = entry.in_paths[0] if packed else ""
        first, second = (Location(files[0], path, column) for column in entry.cols or (0, 1))
        return (first, second), "plain"
    if entry.ext in TEXTS and len(files) == 2:
        return (Location(files[0]), Location(files[1])), "plain"
    raise BadInput(
        f"mtdata's {name} has an unsupported format ({entry.ext}, {inner}): "
        f"write it as text with `mtdata get`, and give that to `transduce train`"
    )


def _two_letter_code(language: str) -> str:
    """Return the two-letter code of a language if it has one: de for deu."""
    table: str = importlib.import_module("mtdata.iso.iso639_1").data
    codes = dict(line.split(",")[:2][::-1] for line in table.split())
    return codes.get(language, language)


def _suggest(name: str, known: list[str]) -> str:
    """Suggest a similar name; for speed, only from the same corpus or languages."""
    fields = name.lower().split("-")
    candidates = [
        other
        for other in known
        if other.lower().split("-")[1:2] == fields[1:2]
        or other.lower().split("-")[3:] == fields[3:]
    ]
    matches = difflib.get_close_matches(name, candidates[:20_000], n=1, cutoff=0.6)
    return f" Did you mean mtdata:{matches[0]}?" if matches else ""


def _find_entry(name: str) -> Any:
    """Find a name in mtdata's index, bypassing its cache, which is a pickle in the user's home."""
    try:
        with _quiet():
            index = importlib.import_module("mtdata.index")
    except ImportError:
        raise MissingExtra("data sets of mtdata", "mtdata", "data") from None
    entries: Any = index.Index()
    known: dict[str, Any] = {}
    for module in OPUS if name.lower().startswith("opus-") else OTHERS:
        with _quiet():
            importlib.import_module(f"mtdata.index.{module}").load_all(entries)
        new = itertools.islice(entries.get_entries(), len(known), None)
        known |= {str(entry.did): entry for entry in new}
        if name in known:
            return known[name]
    raise BadInput(
        f"mtdata has no data set {name!r}.{_suggest(name, list(known))} A name has the form "
        "GROUP-NAME-VERSION-LANGUAGE-LANGUAGE; `mtdata list` lists them"
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence mtdata's log and warnings, and preserve our own logging settings."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        root.handlers[:] = handlers
        root.setLevel(level)
