"""`transduce export`."""

from enum import StrEnum
from pathlib import Path

from transduce.cli.declaring import argument, option
from transduce.cli.options import TrainedRun

EXAMPLES = """
transduce export runs/en-de en-de-ct2 --to ctranslate2
transduce export runs/en-de en-de-ct2 --to ctranslate2 --quantize int8
transduce export runs/en-de en-de-marian --to huggingface
"""


class Target(StrEnum):
    """The libraries that a model can be exported to."""

    CTRANSLATE2 = "ctranslate2"
    HUGGINGFACE = "huggingface"


def export(
    run: TrainedRun,
    folder: Path = argument("The folder to create."),
    *,
    to: Target = option("The library to export to.", default=...),
    quantize: str | None = option(
        "For ctranslate2: none (float32), int8, int8_float32, int8_float16, int16, "
        "float16, or auto: the fastest on this processor. Default: none."
    ),
) -> None:
    """Write a model for another library.

    [bold]ctranslate2[/bold]: ctranslate2.Translator loads the folder, on CPUs and GPUs.

    [bold]huggingface[/bold]: MarianMTModel and AutoTokenizer load it with from_pretrained.
    """
    from transduce.errors import BadInput
    from transduce.system.progress import console_progress

    number_format = ""
    match to:
        case Target.CTRANSLATE2:
            from transduce.interop.export import ctranslate2

            stored = ctranslate2.export(run, folder, quantize or "none")
            number_format = f", {'float32' if stored == 'none' else stored}"
        case Target.HUGGINGFACE:
            from transduce.interop.export import huggingface

            if quantize is not None:
                raise BadInput("--quantize is for ctranslate2: Hugging Face's models are float32")
            huggingface.export(run, folder)
    console_progress().say(f"{folder} holds the model of {run} for {to.value}{number_format}")
