"""`transduce import`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import command

EXAMPLES = """
transduce import opus-mt-en-de --out runs/opus-en-de
transduce import opus-mt-tc-big-en-de --out runs/big --languages en-de
"""


def import_(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A Hugging Face folder of a MarianMTModel, such as OPUS-MT's, or one with "
            "fairseq's weights, prepared as in docs/converting.md."
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder to create.")],
    languages: Annotated[
        str | None, typer.Option(metavar="en-de", help="Default: as the folder says.")
    ] = None,
) -> None:
    """Import a model of another library as a run folder, for use with all commands."""
    from transduce.interop.importing import import_model
    from transduce.system.progress import console_progress

    config = import_model(folder, out, languages=languages)
    source, target = config.languages
    console_progress().say(
        f"{out} now translates from {source} to {target}: {command('translate', out, 'FILE')}"
    )
