"""`transduce look`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import TrainedRun, panel
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection

EXAMPLES = """
[bold]Examples[/bold]

transduce look runs/en-de "Two dogs run because they are happy."

transduce look runs/en-de "Two dogs run." --out heads.png

transduce look runs/en-de "Two dogs run." --kind encoder --layer 2 --head 1 --head 3 --out two.svg

transduce look runs/en-de "Two dogs run." --kind encoder --word run --out from-run.pdf

transduce look runs/en-de "Two dogs run." --target "Zwei Hunde rennen." --layer 6 --out map.png

transduce look runs/en-de "Two dogs run." --out explore.html

transduce look runs/en-de --find test.en
"""

ENDINGS = (".svg", ".png", ".pdf", ".html")
SAMPLE = 100  # sentences that heads are judged by

of_attention, of_picture = panel("Which attention"), panel("Picture")

Sentence = Annotated[str | None, typer.Argument(help="What is translated.")]
Target = Annotated[
    str | None, typer.Option(help="Its translation. Default: what the model would write.")
]
Find = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Instead of one sentence: find the heads that have a visible job in the first "
        f"{SAMPLE} sentences of a text.",
    ),
]
Kind = Annotated[
    str,
    of_attention(
        help="encoder (source to source), decoder (target to target) or cross (target to source)."
    ),
]
Layer = Annotated[int | None, of_attention(help="From 1. Default: the last.")]
Heads = Annotated[
    list[int] | None,
    of_attention(
        help="From 1; may stand several times. Default: all; a map and the table show their mean."
    ),
]
Out = Annotated[
    Path | None,
    of_picture(
        "--out",
        "-o",
        help="The picture: .svg, .png or .pdf; .html is a page to explore all heads in. "
        "Default: a table in the terminal.",
    ),
]
View = Annotated[
    str | None,
    of_picture(
        help="lines (between words), map (a matrix) or grid (a small map of every head). "
        "Default: lines with --head or --word, else a map with --layer, else a grid."
    ),
]
Word = Annotated[str | None, of_picture(help="Draw only the lines from this word, taken whole.")]
Words = Annotated[bool, of_picture("--words", help="Take the pieces of a word as one.")]


def look(
    run: TrainedRun,
    sentence: Sentence = None,
    *,
    target: Target = None,
    find: Find = None,
    kind: Kind = "cross",
    layer: Layer = None,
    head: Heads = None,
    out: Out = None,
    view: View = None,
    word: Word = None,
    words: Words = False,
) -> None:
    """Show what a model attends to while it translates a sentence.

    Layers and heads count from 1, as in the paper's figures. The weights of a word sum to 1.
    """
    from transduce.system.progress import console_progress

    progress = console_progress()
    drawn = view is not None or word is not None or words
    if (sentence is None) == (find is None):
        raise BadInput('expected a sentence, such as "Two dogs run.", or else --find FILE')
    _require_sentence(sentence)
    whole = kind == "cross" and layer is None and not head and not drawn
    if find is not None:
        if target is not None or out is not None or not whole:
            raise BadInput("--find tries all layers and heads and draws nothing: give it alone")
        from transduce.cli import look_tables

        look_tables.heads(run, find, SAMPLE, progress)
    elif out is None:
        if drawn:
            raise BadInput("--view, --word and --words are for pictures: say where with --out")
        from transduce.cli import look_tables

        look_tables.words(_inspected(run, sentence, target), kind, layer, head or [])
        progress.say("for a picture, the same with --out attention.png, .svg, .pdf or .html")
    else:
        if _ending(out, whole=whole) == ".html":
            _write_page(_inspected(run, sentence, target), out)
        else:
            from transduce.inspection.attention_drawing import draw
            from transduce.inspection.style import save

            inspection = _inspected(run, sentence, target)
            one = words or word is not None
            figure = draw(
                *(inspection, kind), view=view, layer=layer, heads=head or [], word=word, words=one
            )
            save(figure, out)
        progress.say(f"wrote {out}")


def _require_sentence(argument: str | None) -> None:
    """Refuse the name of a file, existing or mistyped; a single word is a sentence here."""
    from transduce.text.reading import is_file_argument, path_exists

    if argument is None or not is_file_argument(argument):
        return
    there = path_exists(argument) and Path(argument).is_file()
    if there or re.search(r"[\w/\\]\.[A-Za-z]\w*$", argument):
        raise BadInput(
            f"{argument} {'is a file' if there else 'is no sentence, and there is no such file'}: "
            'expected a sentence, such as "Two dogs run."; --find FILE searches the heads of a text'
        )


def _inspected(run: Path, sentence: str | None, target: str | None) -> "Inspection":
    from transduce.inspection.inspector import Inspector

    return Inspector.load(run).inspect(sentence or "", target)


def _ending(out: Path, *, whole: bool) -> str:
    """Return the ending of a name, or refuse it before a model is loaded for it."""
    from transduce.inspection.style import check_ending

    ending = check_ending(out, ENDINGS)
    if ending == ".html" and not whole:
        raise BadInput(
            f"--out {out}: a page shows every layer and head of every kind; "
            "leave --kind, --layer, --head, --view, --word and --words out"
        )
    return ending


def _write_page(inspection: "Inspection", out: Path) -> None:
    from transduce.inspection.explorer_page import render_explorer
    from transduce.system.files import atomic_write

    page = render_explorer(inspection.to_json(), title=f"What {inspection.model} attends to")
    with atomic_write(out) as beside:
        # The name of a run that is not UTF-8 is shown with question marks.
        beside.write_text(page, encoding="utf-8", errors="replace", newline="\n")
