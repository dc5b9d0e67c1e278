"""`transduce paper figures`."""

import itertools
from pathlib import Path

from transduce.cli.declaring import argument, option
from transduce.cli.options import LanguageOptions, TrainedRun
from transduce.errors import BadInput

EXAMPLES = """
transduce paper figures runs/en-de --out figures
transduce paper figures runs/en-de "The dog that chased the cat wagged its tail." --out figures
transduce paper figures runs/en-de --text test.en --lines 500 --out figures
"""


def figures(
    run: TrainedRun,
    sentences: list[str] | None = argument(
        "Sentences to read. Default: the paper's, which are English.",
        default=None,
        metavar="SENTENCE",
    ),
    *,
    text: str | None = option("Use the sentences of a text that show most.", metavar="FILE"),
    lines: int = option("How many lines of the text to search.", default=200, min=1),
    layer: int | None = option("Encoder layer, from 1. Default: the strongest above the middle."),
    out: Path | None = option("Folder for the pictures and numbers.", "--out", "-o"),
    languages: LanguageOptions,
) -> None:
    """Draw the paper's Figures 3 to 5: distant words, pronouns, and heads with different jobs.

    Heads and sentences are chosen by how strongly they show this; the table says how strongly.
    """
    from transduce.cli.paper.printing import require_folder, show
    from transduce.experiments.figures import figures as draw
    from transduce.system.progress import console_progress

    if sentences and text is not None:
        raise BadInput("expected sentences or --text FILE, not both")
    given = list(sentences or [])
    if text is not None:
        from transduce.text.reading import read_lines

        given = list(itertools.islice(read_lines(text), lines))
        if not given:
            raise BadInput(f"{text} is empty: expected one sentence per line")
    require_folder(out, "figures")
    found = draw(
        *(run, given, console_progress()),
        search=text is not None,
        layer=layer,
        to=languages.to,
        source=languages.from_,
    )
    show(found, out)
