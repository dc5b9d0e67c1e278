"""`transduce export`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
[bold]Example[/bold]

transduce export runs/en-de en-de-marian --to huggingface
"""


class Library(StrEnum):
    """For whom a model can be written."""

    huggingface = "huggingface"


def export(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    *,
    to: Annotated[Library, typer.Option(help="The library that shall load it.")],
) -> None:
    """Write a model for another library.

    [bold]huggingface[/bold]: MarianMTModel and AutoTokenizer load the folder by from_pretrained.
    """
    from transduce.progress import for_people

    match to:
        case Library.huggingface:
            from transduce.export import huggingface

            huggingface.export(run, folder)
    for_people().say(f"{folder} holds the model of {run} for {to.value}")
