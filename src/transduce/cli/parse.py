"""`transduce parse`."""

import re
import sys
from pathlib import Path

from transduce.cli.declaring import argument, flag, option
from transduce.cli.options import Device, without_none
from transduce.errors import BadInput
from transduce.system.files import refuse_foreign_file, write_text_file

EXAMPLES = """
transduce parse runs/parser "Two dogs see the cat."
transduce parse runs/parser sentences.txt > trees.txt
transduce parse runs/parser "The cell binds calcium." --draw tree.svg
echo "It does n't ." | transduce parse runs/parser --words --pretty
"""


def parse(
    run: Path = argument("The run folder of a trained parser."),
    sentences: list[str] | None = argument(
        "Sentences, or one file of them, one per line (plain, gz, xz, zst); - is stdin.",
        default=None,
        metavar="SENTENCE|FILE",
    ),
    *,
    words: bool = flag("Sentences are tokenised already, with spaces between words.", "--words"),
    pretty: bool = flag("Write each tree on several lines, indented.", "--pretty"),
    draw: Path | None = option("Draw the tree of a single sentence.", metavar="FILE.svg"),
    beam: int | None = option("Beam size; 1 is greedy. Default: 21."),
    device: Device = "auto",
) -> None:
    """Parse sentences: one tree in brackets per line, over exactly the given words.

    Sentences are tokenised as in the Penn Treebank. A blank line stays blank.
    """
    from transduce.parsing.drawing import draw as draw_tree
    from transduce.parsing.parser import Parser
    from transduce.system.progress import Silent, console_progress
    from transduce.text.reading import LineReader

    source = _input_file(sentences or ["-"])
    if draw is not None:
        _check_drawing(draw, single=source is None and len(sentences or ()) == 1)
    progress = console_progress()
    parser = Parser.load(run, device=device)
    if not (run / "model.safetensors").exists():
        progress.say(f"parsing with {parser.weights}")
    lines = None if source is None else LineReader(source)
    settings = without_none(beam=beam, ready=lines and lines.ready)
    shown = Silent() if lines is None or sys.stdout.isatty() else progress
    with shown.track("parsing", None, "sentences") as advance:
        for tree in parser.stream(lines or sentences or [], cut=words, advance=advance, **settings):
            text = "" if tree is None else tree.indented() if pretty else str(tree)
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            if draw is not None:
                if tree is None:
                    raise BadInput("--draw draws a tree: there are no words to parse")
                write_text_file(draw, draw_tree(tree))
                progress.say(f"wrote {draw}")


def _check_drawing(draw: Path, *, single: bool) -> None:
    """Refuse an impossible drawing before a model is loaded."""
    if draw.suffix != ".svg":
        raise BadInput(f"--draw {draw}: expected a name that ends in .svg")
    if not single:
        raise BadInput("--draw draws one tree: give one sentence")
    if not draw.parent.is_dir():
        raise BadInput(f"--draw {draw}: there is no folder {draw.parent}")
    refuse_foreign_file(draw, "--draw")


def _input_file(arguments: list[str]) -> str | None:
    """Return the file to read; None if the arguments are sentences."""
    from transduce.text.reading import STDIN, path_exists

    first, *others = arguments
    if others or not first.strip():
        return None
    if first == STDIN or path_exists(first):
        return first
    if re.fullmatch(r"\S*/\S*|\S+\.\w+", first):  # a sentence has spaces
        raise BadInput(f"{first} does not exist: expected a file of sentences, or a sentence")
    return None
