"""`transduce import`."""

from pathlib import Path

from transduce.cli.declaring import argument, option
from transduce.cli.options import command

EXAMPLES = """
transduce import opus-mt-en-de --out runs/opus-en-de
transduce import opus-mt-tc-big-en-de --out runs/big --languages en-de
"""


def import_(
    folder: Path = argument(
        "A Hugging Face folder of a MarianMTModel, such as OPUS-MT's, or one with "
        "fairseq's weights, prepared as in docs/converting.md."
    ),
    *,
    out: Path = option("The run folder to create.", "--out", "-o", default=...),
    languages: str | None = option("Default: as the folder says.", metavar="en-de"),
) -> None:
    """Import a model from another library as a run folder, for use with all commands."""
    from transduce.interop.importing import import_model
    from transduce.system.progress import console_progress
    from transduce.text.languages import list_pairs

    config = import_model(folder, out, languages=languages)
    to = ["--to", config.targets[0]] if len(config.targets) > 1 else []
    console_progress().say(
        f"{out} now translates {list_pairs(config.all_pairs)}: "
        f"{command('translate', out, 'FILE', *to)}"
    )
