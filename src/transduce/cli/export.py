"""`transduce export`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
[bold]Examples[/bold]

transduce export runs/en-de en-de-ct2 --to ctranslate2

transduce export runs/en-de en-de-ct2 --to ctranslate2 --quantize int8
"""


class Format(StrEnum):
    """What a model can be exported to."""

    CTRANSLATE2 = "ctranslate2"


def export(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    folder: Annotated[Path, typer.Argument(help="A new folder for the export.")],
    *,
    to: Annotated[Format, typer.Option(help="For which system.")],
    quantize: Annotated[
        str | None,
        typer.Option(
            help="For ctranslate2: none (float32), int8, int8_float32, int8_float16, int16, "
            "float16, or auto: what this processor multiplies fastest. Default: none."
        ),
    ] = None,
) -> None:
    """Write a trained model in the format of another system."""
    from transduce.progress import for_people

    match to:
        case Format.CTRANSLATE2:
            from transduce.export.ctranslate2 import export as to_ctranslate2

            kind = to_ctranslate2(run, folder, quantize or "none")
            for_people().say(f"{folder} holds the model for CTranslate2, quantized: {kind}")
