"""`transduce translate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import (
    Device,
    EngineName,
    Quantize,
    TrainedRun,
    of_search,
    on_machine,
    panel,
    those_given,
)
from transduce.errors import BadInput
from transduce.progress import Progress

if TYPE_CHECKING:
    from transduce.translator import Translator

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

of_input, of_output, of_sampling = panel("Input"), panel("Output"), panel("Sampling")

File = Annotated[str, typer.Argument(help="Text to translate (plain, gz, xz, zst); - is stdin.")]
Split = Annotated[
    bool, of_input("--split", help="Lines are paragraphs: translate their sentences one by one.")
]
Prefix = Annotated[str | None, of_input(help="Words that every translation begins with.")]
Prefixes = Annotated[
    str | None,
    of_input(metavar="FILE", help="Words that each translation begins with, line by line."),
]
Given = Annotated[
    str | None,
    of_input(metavar="FILE", help="Score these translations: score and text between tabs."),
]
NBest = Annotated[
    int | None,
    of_output(metavar="K", help="Write the K best: line number, score and text between tabs."),
]
Align = Annotated[
    bool,
    of_output(
        "--align", help="Write which word translates which after a tab: 0-0 1-2, source-target."
    ),
]
Json = Annotated[
    bool,
    of_output(
        "--json",
        help="Write one JSON object a line: text, scores, subwords and what was asked for.",
    ),
]
Beam = Annotated[int | None, of_search(help="Width of the search; 1 is greedy. Default: 4.")]
Alpha = Annotated[float | None, of_search(help="Length penalty. Default: 0.6.")]
Others = Annotated[
    list[Path] | None,
    of_search(
        "--with",
        metavar="RUN",
        help="Another model, for the mean of their probabilities; may stand several times.",
    ),
]
Sample = Annotated[bool, of_sampling("--sample", help="Draw from the model instead of searching.")]
Temperature = Annotated[float | None, of_sampling(help="Of the draws. Default: 1.")]
TopK = Annotated[int | None, of_sampling(metavar="K", help="Draw among the K likeliest.")]
TopP = Annotated[float | None, of_sampling(metavar="P", help="Draw among those that make up P.")]
Seed = Annotated[int | None, of_sampling(help="Of the draws. Default: 1.")]
Batch = Annotated[
    int | None, on_machine(help="Sentences searched side by side. Default: by machine.")
]


def translate(
    run: TrainedRun,
    file: File = "-",
    *,
    split: Split = False,
    prefix: Prefix = None,
    prefixes: Prefixes = None,
    given: Given = None,
    nbest: NBest = None,
    align: Align = False,
    json: Json = False,
    beam: Beam = None,
    alpha: Alpha = None,
    others: Others = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    batch: Batch = None,
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

    draws = those_given(temperature=temperature, top_k=top_k, top_p=top_p, draw=seed)
    search = those_given(beam=beam, alpha=alpha, nbest=nbest, sample=sample or None) | draws
    begins = prefix is not None or prefixes is not None
    if given is not None and (search.keys() - {"alpha"} or begins or split):
        raise BadInput("--given scores what is there: of the search it takes --alpha alone")
    if draws and not sample:
        raise BadInput("--temperature, --top-k, --top-p and --seed need --sample")
    if prefix is not None and prefixes is not None:
        raise BadInput("--prefix and --prefixes both say how translations begin: give one of them")
    lines.require(file, given, prefixes)
    progress = for_people()
    if sample and engine == "auto":
        engine = "torch"  # it alone draws
    translator = _loaded([run, *(others or [])], device, engine, quantize, progress)
    form: lines.Form
    if given is not None:
        found = lines.scored(translator, file, given, align=align, **search)
        form = lines.with_score
    else:
        search |= {"batch": batch, "split": split, "align": align}
        found = lines.translated(translator, file, prefix, prefixes, progress, **search)
        form = lines.plain if nbest is None else lines.ranked
    lines.write(found, lines.as_json(candidates=nbest is not None) if json else form)


def _loaded(
    runs: list[Path], device: str, engine: str, quantize: str, progress: Progress
) -> "Translator":
    """Load the models, and say what they translate with."""
    from transduce.translator import Translator

    translator = Translator.load(runs, device=device, engine=engine, quantize=quantize)
    progress.say(f"engine: {translator.engine.name}")
    if not all((run / "model.safetensors").exists() for run in runs):
        progress.say(f"translating with {translator.weights}")
    return translator
