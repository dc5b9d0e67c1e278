"""`transduce translate`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from transduce.cli.options import MACHINE, Device, EngineName, Quantize
from transduce.errors import BadInput

EXAMPLES = """
[bold]Examples[/bold]

transduce translate runs/en-de test.en > out.de

echo "Two dogs run." | transduce translate runs/en-de

transduce translate runs/en-de book.txt.gz --split

transduce translate runs/en-de test.en --beam 8 --nbest 3

transduce translate runs/en-de test.en --json --align

transduce translate runs/en-de test.en --align | cut -f 2 > links.txt

transduce translate runs/en-de test.en --sample --top-p 0.9 --seed 7

transduce translate runs/en-de test.en --prefixes begins.de

transduce translate runs/en-de test.en --given test.de

transduce translate runs/en-de test.en --engine ctranslate2 --quantize int8

transduce translate runs/seed1 test.en --with runs/seed2 --with runs/seed3
"""

SEARCH, SAMPLING, INPUT, OUTPUT = "Search", "Sampling", "Input", "Output"


def translate(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    file: Annotated[
        str, typer.Argument(help="Text to translate (plain, gz, xz, zst); - is stdin.")
    ] = "-",
    *,
    split: Annotated[
        bool,
        typer.Option(
            "--split",
            rich_help_panel=INPUT,
            help="Lines are paragraphs: translate their sentences one by one.",
        ),
    ] = False,
    prefix: Annotated[
        str | None,
        typer.Option(rich_help_panel=INPUT, help="Words that every translation begins with."),
    ] = None,
    prefixes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=INPUT,
            help="Words that each translation begins with, line by line.",
        ),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=INPUT,
            help="Score these translations: score and text between tabs.",
        ),
    ] = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            rich_help_panel=OUTPUT,
            help="Write the K best: line number, score and text between tabs.",
        ),
    ] = None,
    align: Annotated[
        bool,
        typer.Option(
            "--align",
            rich_help_panel=OUTPUT,
            help="Write which word translates which after a tab: 0-0 1-2, source-target.",
        ),
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            rich_help_panel=OUTPUT,
            help="Write one JSON object a line: text, scores, subwords and what was asked for.",
        ),
    ] = False,
    beam: Annotated[
        int | None,
        typer.Option(rich_help_panel=SEARCH, help="Width of the search; 1 is greedy. Default: 4."),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(rich_help_panel=SEARCH, help="Length penalty. Default: 0.6.")
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="RUN",
            rich_help_panel=SEARCH,
            help="Another model, for the mean of their probabilities; may stand several times.",
        ),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample", rich_help_panel=SAMPLING, help="Draw from the model instead of searching."
        ),
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(rich_help_panel=SAMPLING, help="Of the draws. Default: 1.")
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(metavar="K", rich_help_panel=SAMPLING, help="Draw among the K likeliest."),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            metavar="P", rich_help_panel=SAMPLING, help="Draw among those that make up P."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(rich_help_panel=SAMPLING, help="Of the draws. Default: 1.")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=MACHINE, help="Sentences searched side by side. Default: by machine."
        ),
    ] = None,
    device: Device = "auto",
    engine: EngineName = "auto",
    quantize: Quantize = "none",
) -> None:
    """Translate text line by line: line n of the output translates line n of the input.

    The search is the paper's: beam 4, alpha 0.6, output at most 50 subwords longer than the input.
    CTranslate2's rule for ending differs a little. Lines through a pipe are answered as they come.
    """
    from transduce.cli import lines
    from transduce.progress import for_people
    from transduce.translator import Translator

    asked: dict[str, Any] = {
        "beam": beam,
        "alpha": alpha,
        "nbest": nbest,
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "draw": seed,
    }
    settings = {name: value for name, value in asked.items() if value is not None}
    begins = prefix is not None or prefixes is not None
    if given is not None and (settings.keys() - {"alpha"} or begins or split):
        raise BadInput("--given scores what is there: of the search it takes --alpha alone")
    if not sample and settings.keys() & {"temperature", "top_k", "top_p", "draw"}:
        raise BadInput("--temperature, --top-k, --top-p and --seed need --sample")
    if prefix is not None and prefixes is not None:
        raise BadInput("--prefix and --prefixes both say how translations begin: give one of them")
    lines.require(file, given, prefixes)
    progress = for_people()
    runs = [run, *(others or [])]
    if sample and engine == "auto":
        engine = "torch"  # it alone draws
    translator = Translator.load(runs, device=device, engine=engine, quantize=quantize)
    progress.say(f"engine: {translator.engine.name}")
    if not all((one / "model.safetensors").exists() for one in runs):
        progress.say(f"translating with {translator.weights}")
    form: lines.Form
    if given is not None:
        found = lines.scored(translator, file, given, align=align, **settings)
        form = lines.with_score
    else:
        settings |= {"batch": batch, "split": split, "align": align}
        found = lines.translated(translator, file, prefix, prefixes, progress, **settings)
        form = lines.plain if nbest is None else lines.ranked
    lines.write(found, lines.as_json(candidates=nbest is not None) if json else form)
