"""`transduce data`."""

import json as json_module
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli import completion
from transduce.cli.options import command

if TYPE_CHECKING:
    from transduce.datasets.catalogue import DataSet

EXAMPLES_LIST = """
[bold]Examples[/bold]

transduce data list

transduce data list --json
"""

EXAMPLES_GET = """
[bold]Examples[/bold]

transduce data get pocket --out data/pocket

transduce data get multi30k-en-de --out data/multi30k

transduce data get wmt14-en-de --out data/wmt14 --from ~/downloads

transduce data get mtdata:OPUS-books-v1-deu-eng --out data/books

transduce data get sacrebleu:wmt14/full:en-de --out data/newstest2014
"""

app = typer.Typer(help="Get data sets by their names, ready to train on.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Get data sets by their names: downloaded, checked, unpacked, written as two text files."""


@app.command("list", epilog=EXAMPLES_LIST)
def list_(
    *,
    json: Annotated[bool, typer.Option("--json", help="Write JSON, with every address.")] = False,
) -> None:
    """List the data sets that are known by name: size, licence, and what each is."""
    from transduce.datasets import catalogue

    sets = [catalogue.find(name) for name in catalogue.names()]
    if json:
        typer.echo(json_module.dumps([_facts(one) for one in sets], indent=2, ensure_ascii=False))
        return
    width = shutil.get_terminal_size().columns
    line = "{:16}{:11}{:>11}  {:>13}  {}".format
    typer.echo(line("name", "languages", "pairs", "download", "licence"))
    for one in sets:
        row = (one.name, "-".join(one.languages), f"{one.pairs:,}", _download(one), one.licence)
        typer.echo(line(*row))
        about = f"{one.title}; {one.about}"
        typer.echo(
            textwrap.fill(about, max(60, width - 1), initial_indent="  ", subsequent_indent="  ")
        )
    typer.echo(
        "\nmtdata:NAME is anything of OPUS, and much else, by mtdata's name for it;\n"
        "sacrebleu:SET:PAIR is a test set. To get one: transduce data get NAME --out DIR",
        err=True,
    )


@app.command("get", epilog=EXAMPLES_GET)
def get(
    name: Annotated[
        str,
        typer.Argument(
            help="Of `transduce data list`; or mtdata:NAME, sacrebleu:SET:PAIR.",
            autocompletion=completion.data_sets,
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for it.")],
    given: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="DIR", help="A folder with files that are there already; checked."
        ),
    ] = None,
    mirror: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="A place to ask first for every file, at URL/FILE; may stand several times. "
            "TRANSDUCE_MIRROR names one more.",
        ),
    ] = None,
    keep_archives: Annotated[
        bool, typer.Option("--keep-archives", help="Keep what was downloaded, in DIR/archives.")
    ] = False,
) -> None:
    """Get a data set: train, valid and test, a sentence a line, as two files each.

    Says beforehand what will come, how large it is and on what terms. The same command again goes
    on where it stopped, mends what is damaged, and returns at once if all is whole.
    """
    from transduce import datasets as data_sets
    from transduce.system.progress import console_progress

    progress = console_progress()
    got = data_sets.get(
        name,
        out,
        progress=progress,
        given=given,
        mirrors=mirror or [],
        keep=keep_archives,
    )
    for paths in (got.train, got.valid, got.test):
        if paths:
            typer.echo(f"{paths[0]}\t{paths[1]}")
    if got.train:
        words: list[str | Path] = [*got.train]
        if got.valid:
            words += ["--valid", *got.valid]
        words += ["--out", "runs/first"]
        progress.say(f"next: {command('train', *words)}")


def _download(one: "DataSet") -> str:
    """Write how much there is to download; of texts whose packed size is unknown, the bound."""
    from transduce.system.formatting import format_bytes

    if not one.archives:
        return "nothing"
    if one.download:
        return format_bytes(one.download)
    return f"under {format_bytes(one.space)}" if one.space else "unknown"


def _facts(one: "DataSet") -> dict[str, Any]:
    """Return all that the catalogue knows of a data set."""
    return {
        "name": one.name,
        "title": one.title,
        "about": one.about,
        "languages": list(one.languages),
        "pairs": one.pairs,
        "licence": one.licence,
        "terms": one.terms,
        "download_bytes": one.download,
        "text_bytes": one.space,
        "parts": list(one.splits),
        "archives": [
            {
                "file": archive.file,
                "urls": list(archive.urls),
                "bytes": archive.size,
                "sha256": archive.sha256,
                "md5": archive.md5,
            }
            for archive in one.archives.values()
        ],
    }
