"""`transduce data`."""

import json as json_module
import os
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transduce.cli import cleaning, completion
from transduce.cli.declaring import add_command, argument, flag, option
from transduce.cli.options import command

if TYPE_CHECKING:
    from transduce.datasets.catalogue import DataSet
    from transduce.system.progress import Advance

EXAMPLES_LIST = """
transduce data list
transduce data list --json
"""

EXAMPLES_GET = """
transduce data get pocket --out data/pocket
transduce data get multi30k-en-de --out data/multi30k
transduce data get wmt14-en-de --out data/wmt14 --from ~/downloads
transduce data get mtdata:OPUS-books-v1-deu-eng --out data/books
transduce data get sacrebleu:wmt14/full:en-de --out data/newstest2014
"""

EXAMPLES_TERMS = """
transduce data terms train.en train.de --out terms.tsv
transduce data terms pairs.tsv --limit 1000 --out terms.tsv
"""

REPORTED = 4_096  # pairs between progress reports

app = typer.Typer(
    help="List and download data sets by name; check and clean parallel text; find terms in it.",
    no_args_is_help=True,
)


def list_(
    *,
    json: bool = flag("Print JSON, with every address.", "--json"),
) -> None:
    """List the data sets of the catalogue: size, licence and content."""
    from transduce.datasets import catalogue

    sets = [catalogue.find(name) for name in catalogue.names()]
    if json:
        values = [data_set.to_json() for data_set in sets]
        typer.echo(json_module.dumps(values, indent=2, ensure_ascii=False))
        return
    width = shutil.get_terminal_size().columns
    line = "{:16}{:11}{:>11}  {:>13}  {}".format
    typer.echo(line("name", "languages", "pairs", "download", "licence"))
    for data_set in sets:
        languages, pairs = "-".join(data_set.languages), f"{data_set.pairs:,}"
        row = (data_set.name, languages, pairs, _download_size(data_set), data_set.licence)
        typer.echo(line(*row))
        about = f"{data_set.title}; {data_set.about}"
        typer.echo(
            textwrap.fill(about, max(60, width - 1), initial_indent="  ", subsequent_indent="  ")
        )
    typer.echo(
        "\nmtdata:NAME is a data set of OPUS and other sources, by its name in mtdata;\n"
        "sacrebleu:SET:PAIR is a test set. To get one: transduce data get NAME --out DIR",
        err=True,
    )


def get(
    name: str = argument(
        "A name of `transduce data list`, mtdata:NAME or sacrebleu:SET:PAIR.",
        autocompletion=completion.data_sets,
    ),
    *,
    out: Path = option("The folder to write to.", "--out", "-o", default=...),
    given: Path | None = option("A folder with downloaded files to use.", "--from", metavar="DIR"),
    mirror: list[str] | None = option(
        "A server to try first for every file, at URL/FILE; may be repeated. "
        "TRANSDUCE_MIRROR adds one.",
        metavar="URL",
    ),
    keep_archives: bool = flag("Keep the downloads in DIR/archives.", "--keep-archives"),
) -> None:
    """Download a data set: train, valid and test as two files each, one sentence per line.

    Prints the size and licence first. Run again, the command resumes an interrupted download,
    repairs damaged files, and returns at once if everything is complete.
    """
    from transduce import datasets as data_sets
    from transduce.system.progress import console_progress

    progress = console_progress()
    files = data_sets.get(
        name,
        out,
        progress=progress,
        given=given,
        mirrors=mirror or [],
        keep=keep_archives,
    )
    for paths in (files.train, files.valid, files.test):
        if paths:
            typer.echo(f"{paths[0]}\t{paths[1]}")
    if files.train:
        arguments: list[str | Path] = [*files.train]
        if files.valid:
            arguments += ["--valid", *files.valid]
        arguments += ["--out", "runs/first"]
        progress.say(f"next: {command('train', *arguments)}")


def terms(
    source: Path = argument(
        "Source text, or one TSV, CSV, TMX or XLIFF file with both sides; `-` is standard input."
    ),
    target: Path | None = argument("Target text.", default=None),
    *,
    out: Path = option("The glossary to write: a TSV.", "--out", "-o", default=...),
    limit: int = option("The maximum number of terms.", default=300, min=1),
    min_count: int = option("Leave out terms in fewer sentence pairs.", default=5, min=2),
) -> None:
    """Find terms and their translations in parallel text: words that translate each other.

    The best come first. Look through them before you use them: some may be wrong. Terms that are
    the same in both languages are left out.
    """
    from transduce.errors import BadInput
    from transduce.glossary.extraction import extract_terms
    from transduce.system.files import write_text_file
    from transduce.system.formatting import pluralize
    from transduce.system.progress import console_progress
    from transduce.text.reading import STDIN, display_name

    if os.path.lexists(out) or str(out) == STDIN:
        reason = "is standard output" if str(out) == STDIN else "exists already"
        raise BadInput(f"{out} {reason}: choose a new name for the glossary")
    progress = console_progress()
    with progress.track(f"reading {display_name(source)}", None, "pairs") as advance:
        found = extract_terms(_reported(source, target, advance), limit=limit, min_count=min_count)
    if not found:
        raise BadInput(
            f"{display_name(source)} has no terms in at least {min_count} sentence pairs: expected "
            "a larger text, or a smaller --min-count"
        )
    write_text_file(out, "".join(f"{term.source}\t{term.target}\n" for term in found))
    progress.say(f"{pluralize(len(found), 'term')} in {out}: look through them before use")


def _reported(source: Path, target: Path | None, advance: "Advance") -> Iterator[tuple[str, str]]:
    """Yield the pairs of a text, and report progress."""
    from transduce.text.reading import read_pairs

    for number, pair in enumerate(read_pairs(source, target), start=1):
        yield pair
        if number % REPORTED == 0:
            advance(REPORTED)


def _download_size(data_set: "DataSet") -> str:
    """Format the size of the download, or an upper bound if it is unknown."""
    from transduce.system.formatting import format_bytes

    if not data_set.archives:
        return "nothing"
    if data_set.download:
        return format_bytes(data_set.download)
    return f"under {format_bytes(data_set.space)}" if data_set.space else "unknown"


add_command(app, list_, EXAMPLES_LIST)
add_command(app, get, EXAMPLES_GET)
add_command(app, terms, EXAMPLES_TERMS)
add_command(app, cleaning.check, cleaning.EXAMPLES_CHECK)
add_command(app, cleaning.clean, cleaning.EXAMPLES_CLEAN)
