"""`transduce look`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import LanguageOptions, TrainedRun
from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection

EXAMPLES = """
transduce look runs/en-de "Two dogs run because they are happy."
transduce look runs/en-de "Two dogs run." --out heads.png
transduce look runs/en-de "Two dogs run." --kind encoder --layer 2 --head 1 --head 3 --out two.svg
transduce look runs/en-de "Two dogs run." --kind encoder --word run --out from-run.pdf
transduce look runs/en-de "Two dogs run." --target "Zwei Hunde rennen." --layer 6 --out map.png
transduce look runs/en-de "Two dogs run." --out explore.html
transduce look runs/en-de --find test.en
"""

ENDINGS = (".svg", ".png", ".pdf", ".html")
SAMPLE = 100  # number of sentences in which to look for heads with a job


@option_group("Which attention")
class AttentionOptions:
    """Which attention to show."""

    kind: str = option(
        "encoder (source to source), decoder (target to target) or cross (target to source).",
        default="cross",
    )
    layer: int | None = option("From 1. Default: the last.")
    head: list[int] | None = option(
        "From 1. Repeatable. Default: all; a map and the table show their mean."
    )

    @property
    def everything(self) -> bool:
        """Whether all options have their defaults."""
        return self.kind == "cross" and self.layer is None and not self.head


@option_group("Picture")
class PictureOptions:
    """How to draw the attention."""

    out: Path | None = option(
        "The picture: .svg, .png or .pdf; .html is a page to explore all heads. "
        "Default: print a table.",
        "--out",
        "-o",
    )
    view: str | None = option(
        "lines (between words), map (a matrix) or grid (a small map of every head). "
        "Default: lines with --head or --word, else a map with --layer, else a grid."
    )
    word: str | None = option("Draw only the lines from this word.")
    words: bool = flag("Merge the pieces of a word.", "--words")


def look(
    run: TrainedRun,
    sentence: str | None = argument("The sentence to translate.", default=None),
    *,
    target: str | None = option("Its translation. Default: the model's own."),
    find: str | None = option(
        "Instead of a sentence: list the heads with a job that can be named, over the "
        f"first {SAMPLE} sentences of a text.",
        metavar="FILE",
    ),
    languages: LanguageOptions,
    attention: AttentionOptions,
    picture: PictureOptions,
) -> None:
    """Show what a model attends to while it translates a sentence.

    Layers and heads count from 1, as in the paper's figures. The weights of each word sum to 1.
    """
    from transduce.system.progress import console_progress

    progress = console_progress()
    if (sentence is None) == (find is None):
        raise BadInput('expected a sentence, such as "Two dogs run.", or --find FILE')
    _require_sentence(sentence)
    styled = picture.view is not None or picture.word is not None or picture.words
    everything = attention.everything and not styled
    if find is not None:
        if target is not None or picture.out is not None or not everything:
            raise BadInput("--find searches all layers and heads and draws nothing: use it alone")
        from transduce.cli.look_tables import print_heads

        print_heads(run, languages, find, SAMPLE, progress)
    elif picture.out is not None:
        ending = _check_ending(picture.out, everything=everything)
        inspection = _inspect(run, languages, sentence, target)
        if ending == ".html":
            _write_page(inspection, picture.out)
        else:
            _draw(inspection, attention, picture, picture.out)
        progress.say(f"wrote {picture.out}")
    elif styled:
        raise BadInput("--view, --word and --words are for pictures: add --out")
    else:
        from transduce.cli.look_tables import print_words

        inspection = _inspect(run, languages, sentence, target)
        print_words(inspection, attention.kind, attention.layer, attention.head or [])
        progress.say("for a picture, the same with --out attention.png, .svg, .pdf or .html")


def _require_sentence(argument: str | None) -> None:
    """Refuse the name of a file; a single word is a sentence here."""
    from transduce.text.reading import is_file_argument, path_exists

    if argument is None or not is_file_argument(argument):
        return
    is_file = path_exists(argument) and Path(argument).is_file()
    if is_file or re.search(r"[\w/\\]\.[A-Za-z]\w*$", argument):
        problem = "is a file" if is_file else "is not a sentence, and no such file exists"
        raise BadInput(
            f'{argument} {problem}: expected a sentence, such as "Two dogs run."; '
            "--find FILE lists the heads that have a job in a text"
        )


def _inspect(
    run: Path, languages: LanguageOptions, sentence: str | None, target: str | None
) -> "Inspection":
    from transduce.inspection.inspector import Inspector

    inspector = Inspector.load(run).directed(to=languages.to, source=languages.from_)
    return inspector.inspect(sentence or "", target)


def _check_ending(out: Path, *, everything: bool) -> str:
    """Return the ending of a file name; refuse unsupported endings before a model is loaded."""
    from transduce.inspection.style import check_ending

    ending = check_ending(out, ENDINGS)
    if ending == ".html" and not everything:
        raise BadInput(
            f"--out {out}: a page shows every layer and head of every kind; "
            "leave --kind, --layer, --head, --view, --word and --words out"
        )
    return ending


def _draw(
    inspection: "Inspection", attention: AttentionOptions, picture: PictureOptions, out: Path
) -> None:
    from transduce.inspection.attention_drawing import draw
    from transduce.inspection.style import save

    figure = draw(
        inspection,
        attention.kind,
        view=picture.view,
        layer=attention.layer,
        heads=attention.head or [],
        word=picture.word,
        words=picture.words or picture.word is not None,
    )
    save(figure, out)


def _write_page(inspection: "Inspection", out: Path) -> None:
    from transduce.inspection.explorer_page import render_explorer
    from transduce.system.files import write_text_file

    page = render_explorer(inspection.to_json(), title=f"What {inspection.model} attends to")
    write_text_file(out, page, errors="replace")  # a run name that is not UTF-8 gets question marks
