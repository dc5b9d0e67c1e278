"""Data sets that other libraries know: test sets of sacreBLEU, and all that mtdata has an index of.

Both give addresses, hashes where they have them, and the names of members. Downloading, unpacking
and checking are ours, so that they resume, are bounded, and never write outside of the folder.
"""

import contextlib
import difflib
import importlib
import itertools
import logging
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from transduce.datasets.catalogue import Archive, DataSet, Place, Source
from transduce.errors import BadInput, MissingExtra, did_you_mean

SEGMENTS = ("sgm", "xml")
# The modules of mtdata's index; OPUS has most of its entries, and takes seconds to read.
OPUS = ("opus.opus_index", "opus.opus100")
OTHERS = (
    *("statmt", "paracrawl", "tilde", "joshua_indian", "unitednations", "wikimatrix", "other"),
    *("neulab_tedtalks", "elrc_share", "ai4bharat", "eu", "linguatools", "anuvaad"),
    *("allenai_nllb", "flores"),
)
TABLES = {"tsv", "tsv.gz", "tsv.xz"}
TEXTS = {"txt", "txt.gz", "txt.xz"}
ARCHIVES = {"zip", "tar", "tgz", "tar.gz"}


def of_sacrebleu(name: str, pair: str) -> DataSet:
    """Return a test set of sacreBLEU, such as wmt14/full of en-de."""
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise BadInput(
            f"sacreBLEU has no test set {name!r}.{did_you_mean(name, DATASETS)} "
            "`sacrebleu --list` names them all"
        )
    test = DATASETS[name]
    if pair not in test.langpairs:
        raise BadInput(
            f"sacreBLEU's {name} has no pair {pair!r}.{did_you_mean(pair, test.langpairs)} "
            f"It has {', '.join(sorted(test.langpairs))}"
        )
    urls, members = list(test.data or ()), test.langpairs[pair]
    members = list(members) if isinstance(members, list | tuple) else []
    endings = {member.rpartition(".")[2] for member in members}
    if len(members) < 2 or not endings <= {*SEGMENTS, *pair.split("-"), "txt"}:
        raise BadInput(
            f"sacreBLEU's {name} of {pair} is in a form that is not read here: "
            f"`sacrebleu -t {name} -l {pair} --echo src ref` writes it"
        )
    stem = name.replace("/", "_")
    hashes: list[str | None] = list(test.md5 or ()) or [None] * len(urls)
    archives = {}
    for url, md5 in zip(urls, hashes, strict=True):
        file = _kept_as(stem, url)
        archives[file] = Archive(file, (url,), md5=md5)
    places = tuple(Place(_holding(member, archives), member) for member in members[:2])
    kind = "segments" if endings <= set(SEGMENTS) else "plain"
    first, second = pair.split("-")
    wanted = {place.archive for place in places}
    return DataSet(
        name=f"sacrebleu:{name}:{pair}",
        title=f"sacreBLEU's test set {name}, {pair}",
        languages=(first, second),
        terms="sacreBLEU names none: ask its makers",
        about=test.description or "",
        archives={file: one for file, one in archives.items() if file in wanted},
        parts={"test": (Source((places[0], places[1]), kind),)},
    )


def _kept_as(stem: str, url: str) -> str:
    """Return the name that sacreBLEU itself keeps a file under."""
    return f"{stem}.{url.rpartition('/')[2]}"


def _holding(member: str, archives: Iterable[str]) -> str:
    """Return the archive that a member lies in: where there are several, its folder names it."""
    files = list(archives)
    folder = member.partition("/")[0]
    return next((one for one in files if one.endswith(f".{folder}.tgz")), files[0])


def of_mtdata(name: str) -> DataSet:
    """Return a data set by the name that mtdata has for it, such as OPUS-books-v1-deu-eng."""
    entry = _entry(name)
    if len(entry.did.langs) != 2:
        raise BadInput(f"mtdata's {name} has one language: expected sentences and translations")
    urls = [entry.url] if isinstance(entry.url, str) else list(entry.url)
    files = [entry.filename] if len(urls) == 1 else [url.rpartition("/")[2] for url in urls]
    files = [f"{name}.{file}" for file in files]
    places, kind = _places(name, entry, files)
    first, second = (_short(language.lang) for language in entry.did.langs)
    if first == second:  # two forms of one language
        first, second = (str(language).lower() for language in entry.did.langs)
    return DataSet(
        name=f"mtdata:{name}",
        title=f"{name}, of mtdata's index",
        languages=(first, second),
        terms="mtdata names none: ask its makers",
        about=f"to be cited: {', '.join(entry.cite)}" if entry.cite else "",
        archives={file: Archive(file, (url,)) for file, url in zip(files, urls, strict=True)},
        parts={"train": (Source(places, kind),)},
    )


def _places(name: str, entry: Any, files: list[str]) -> tuple[tuple[Place, Place], str]:
    """Tell where the two languages of an entry lie, and in which format."""
    inner = entry.in_ext or entry.ext
    if entry.ext in ARCHIVES and inner in {"txt", "sgm"} and len(entry.in_paths) == 2:
        first, second = (Place(files[0], path) for path in entry.in_paths)
        return (first, second), "plain" if inner == "txt" else "segments"
    first_column, second_column = entry.cols or (0, 1)
    if entry.ext in ARCHIVES and inner == "tsv" and len(entry.in_paths) == 1:
        path = entry.in_paths[0]
        return (Place(files[0], path, first_column), Place(files[0], path, second_column)), "plain"
    if entry.ext in TABLES and len(files) == 1:
        return (Place(files[0], "", first_column), Place(files[0], "", second_column)), "plain"
    if entry.ext in TEXTS and len(files) == 2:
        return (Place(files[0]), Place(files[1])), "plain"
    raise BadInput(
        f"mtdata's {name} is in a form that is not read here ({entry.ext}, {inner}): "
        f"`mtdata get` writes it as text, and `transduce train` takes that"
    )


def _short(language: str) -> str:
    """Return the code of two letters for a language where it has one: de of deu."""
    table: str = importlib.import_module("mtdata.iso.iso639_1").data
    codes = dict(line.split(",")[:2][::-1] for line in table.split())
    return codes.get(language, language)


def _near(name: str, known: list[str]) -> str:
    """Suggest a name; among hundreds of thousands, only those alike in some part are compared."""
    parts = name.lower().split("-")
    alike = [
        one
        for one in known
        if one.lower().split("-")[1:2] == parts[1:2] or one.lower().split("-")[3:] == parts[3:]
    ]
    near = difflib.get_close_matches(name, alike[:20_000], n=1, cutoff=0.6)
    return f" Did you mean mtdata:{near[0]}?" if near else ""


def _entry(name: str) -> Any:
    """Look a name up in mtdata's index, without its cache: that is a pickle in the user's home."""
    try:
        with _quiet():
            index = importlib.import_module("mtdata.index")
    except ImportError:
        raise MissingExtra("data sets of mtdata", "mtdata", "data") from None
    found: Any = index.Index()
    known: dict[str, Any] = {}
    for module in OPUS if name.lower().startswith("opus-") else OTHERS:
        with _quiet():
            importlib.import_module(f"mtdata.index.{module}").load_all(found)
        new = itertools.islice(found.get_entries(), len(known), None)
        known |= {str(one.did): one for one in new}
        if name in known:
            return known[name]
    raise BadInput(
        f"mtdata has no data set {name!r}.{_near(name, list(known))} A name is of the form "
        "GROUP-NAME-VERSION-LANGUAGE-LANGUAGE; `mtdata list` names them all"
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Have mtdata keep its log and warnings to itself, and leave ours as they are."""
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
