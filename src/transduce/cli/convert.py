"""`transduce convert`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.declaring import argument, option
from transduce.cli.options import command

if TYPE_CHECKING:
    from transduce.interop.converting import Conversion

EXAMPLES = """
transduce convert train.sh --out recipe.toml
transduce convert preprocess.sh train.sh --text train.de train.en --gpus 8 --out recipe.toml
transduce convert transformer.yaml --dictionary vocab.txt --out recipe.toml
transduce train --recipe recipe.toml --out runs/mine
"""
Two = tuple[Path, Path] | None


def convert(
    files: list[Path] = argument(
        "A script with a fairseq-train command (and fairseq-preprocess), or the YAML of "
        "fairseq-hydra-train, of OpenNMT-py's onmt_train, or of JoeyNMT."
    ),
    *,
    out: Path | None = option("The recipe to write. Default: standard output.", "--out", "-o"),
    text: Two = option("Raw training text, both sides, instead of the one in the files."),
    valid: Two = option("Raw validation text, both sides."),
    test: Two = option("Raw test text, both sides."),
    dictionary: list[Path] | None = option(
        "A dictionary (dict.de.txt, vocab.txt) to count the words of."
    ),
    gpus: int | None = option("GPUs that shared each update, if the files do not say.", min=1),
) -> None:
    """Convert a configuration of fairseq, OpenNMT-py or JoeyNMT to a recipe.

    Every key is taken, changed or not taken, and the recipe says which and why.
    The files are not executed, and checkpoints are never opened.
    """
    from transduce.errors import BadInput
    from transduce.interop.converting import convert as convert_files
    from transduce.system.files import write_text_file

    if out is not None and os.path.lexists(out):
        raise BadInput(f"{out} exists already: choose a new name for the recipe")
    given = {"train": text, "valid": valid, "test": test}
    conversion = convert_files(
        files,
        out.parent if out else Path(),
        text={part: pair for part, pair in given.items() if pair},
        dictionaries=dictionary or (),
        gpus=gpus,
    )
    if out is None:
        sys.stdout.write(conversion.text)
    else:
        write_text_file(out, conversion.text)
    _report(conversion, out)


def _report(conversion: "Conversion", out: Path | None) -> None:
    """Print how many keys were taken, changed and not taken, and what is left to do."""
    from transduce.system.progress import console_progress

    counts = ", ".join(f"{conversion.count(outcome)} {outcome}" for outcome in ("taken", "changed"))
    progress = console_progress()
    progress.say(
        f"{conversion.toolkit}: {len(conversion.entries)} keys: {counts}, "
        f"{conversion.count('not taken')} not taken; the recipe says why"
    )
    for note in conversion.to_do:
        progress.say(f"to do: {note}")
    if out is not None:
        then = "then train" if conversion.to_do else "train"
        progress.say(f"{then} with: {command('train', '--recipe', out, '--out', 'RUN')}")
