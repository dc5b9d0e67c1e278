"""`transduce paper table2`."""

import dataclasses
from pathlib import Path

from transduce.cli.declaring import option
from transduce.cli.paper import options
from transduce.errors import BadInput

EXAMPLES = """
transduce paper table2 train.en train.de --valid dev.en dev.de --time 10m --out t2
transduce paper table2 pairs.tsv --systems small,recurrent-small --steps 2000 -o t2
transduce paper table2 train.en train.fr --valid dev.en dev.fr --time 10m --beside t2 \
--also-test news=newstest2014.en-fr.tsv --out t2-fr
Run the same command again to continue.
"""


def table2(
    *,
    systems: str | None = option(
        "Presets to train; the others are compared with the first. Default: base, "
        "recurrent, convs2s, bytenet and neural-gpu on a GPU, and their tiny versions on a CPU.",
        metavar="A,B,…",
    ),
    also_test: list[str] | None = option(
        "A further test set, under a name: a TSV, or two files with a comma between them. "
        "Repeatable.",
        metavar="NAME=FILE[,FILE]",
    ),
    beside: Path | None = option(
        "The folder of another Table 2, for another language: shown in the same table."
    ),
    training: options.Rows,
) -> None:
    """Train the Transformer and earlier models, each for the same time or steps.

    Reports BLEU, training FLOPs and time next to the paper's. The default budget is 100,000 steps.
    --time counts training steps only, not validation and saving. Ctrl-C saves. The paper's numbers
    are those for the languages of the texts; for French, subwords are word pieces, as in the paper.
    """
    from transduce.cli.paper.printing import show
    from transduce.experiments.table2 import table2 as measure
    from transduce.system.progress import console_progress

    setup = dataclasses.replace(training.setup(), further=_named_texts(also_test or []))
    finding = measure(setup, options.listed(systems), console_progress(), beside=beside)
    show(finding, training.out)


def _named_texts(given: list[str]) -> dict[str, tuple[str, str | None]]:
    """Read NAME=FILE.tsv, or NAME=FILE,FILE."""
    texts: dict[str, tuple[str, str | None]] = {}
    for text in given:
        name, equals, files = text.partition("=")
        first, comma, second = files.partition(",")
        if not (equals and name and first) or (comma and not second):
            raise BadInput(
                f"--also-test {text:.60}: expected a name and a file, such as "
                "newstest2014=newstest2014.en-fr.tsv"
            )
        if name in texts:
            raise BadInput(f"--also-test {name} is given twice: expected different names")
        texts[name] = (files, None) if not comma or Path(files).exists() else (first, second)
    return texts
