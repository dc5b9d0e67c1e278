"""`transduce translate`."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import (
    Device,
    EngineName,
    Quantize,
    TrainedRun,
    machine_option,
    panel,
    search_option,
    without_none,
)
from transduce.errors import BadInput, MissingExtra, UnsupportedFormat
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from transduce.translation.translator import Translator

EXAMPLES = """
[bold]Examples[/bold]

transduce translate runs/en-de "Two dogs run."

transduce translate runs/en-de test.en > out.de

cat test.en | transduce translate runs/en-de

transduce translate runs/en-de book.txt.gz --out book.de

transduce translate runs/en-de a.en b.en --out translated/

transduce translate runs/en-de test.en --no-split | transduce score - test.de

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

Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE|TEXT]...",
        help="Text files (plain, gz, xz, zst) or text in quotes; - is standard input. Default: -.",
    ),
]
Split = Annotated[
    bool | None,
    of_input(
        "--split/--no-split",
        help="Translate the sentences of a line one by one and join them (default), or each line "
        "as a whole, as for a test set.",
        show_default=False,
    ),
]
AsText = Annotated[
    bool,
    of_input(
        "--as-text",
        help="Translate every line of a file, even if it looks like HTML, subtitles or another "
        "format that is refused.",
    ),
]
Prefix = Annotated[str | None, of_input(help="Words that every translation begins with.")]
Prefixes = Annotated[
    str | None,
    of_input(metavar="FILE", help="Words that each translation begins with, line by line."),
]
Given = Annotated[
    str | None,
    of_input(
        metavar="FILE",
        help="Score these translations, line by line, instead of translating: score and text with "
        "a tab.",
    ),
]
Out = Annotated[
    str | None,
    of_output(
        "--out",
        "-o",
        metavar="FILE",
        help="Write here instead of to standard output, completely or not at all. Several files "
        "need a folder, where test.en becomes test.de. Existing files are refused.",
    ),
]
Overwrite = Annotated[bool, of_output("--overwrite", help="Let --out replace existing files.")]
NBest = Annotated[
    int | None,
    of_output(metavar="K", help="Write the K best: line number, score and text, with tabs."),
]
Align = Annotated[
    bool,
    of_output("--align", help="Add the word alignment after a tab: 0-0 1-2, source-target."),
]
Json = Annotated[
    bool,
    of_output(
        "--json",
        help="Write one JSON object per line: text, scores, subwords and further results.",
    ),
]
Beam = Annotated[int | None, search_option(help="Beam size; 1 is greedy. Default: 4.")]
Alpha = Annotated[float | None, search_option(help="Length penalty. Default: 0.6.")]
Others = Annotated[
    list[Path] | None,
    search_option(
        "--with",
        metavar="RUN",
        help="Another model for an ensemble: probabilities are averaged. Repeatable.",
    ),
]
Sample = Annotated[bool, of_sampling("--sample", help="Sample at random instead of searching.")]
Temperature = Annotated[float | None, of_sampling(help="Temperature of sampling. Default: 1.")]
TopK = Annotated[int | None, of_sampling(metavar="K", help="Sample from the K likeliest tokens.")]
TopP = Annotated[
    float | None,
    of_sampling(
        metavar="P",
        help="Nucleus sampling: the smallest set of tokens whose probabilities sum to P.",
    ),
]
Seed = Annotated[int | None, of_sampling(help="Seed of sampling. Default: 1.")]
Batch = Annotated[
    int | None, machine_option(help="Sentences searched side by side. Default: by machine.")
]


def translate(
    run: TrainedRun,
    inputs: Inputs = None,
    *,
    split: Split = None,
    as_text: AsText = False,
    prefix: Prefix = None,
    prefixes: Prefixes = None,
    given: Given = None,
    out: Out = None,
    overwrite: Overwrite = False,
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

    A line may have several sentences. Lines from a pipe are translated as they arrive.
    The search is the paper's: beam 4, alpha 0.6, output at most 50 subwords longer than the input.
    CTranslate2's stopping rule differs slightly.
    """
    from transduce.cli import lines, outputs
    from transduce.system.progress import console_progress

    sampling = without_none(temperature=temperature, top_k=top_k, top_p=top_p, draw=seed)
    search = without_none(beam=beam, alpha=alpha, nbest=nbest, sample=sample or None) | sampling
    arguments, progress = inputs or ["-"], console_progress()
    if sampling and not sample:
        raise BadInput("--temperature, --top-k, --top-p and --seed need --sample")
    _check_options(arguments, {*search, *(["split"] if split else [])}, prefix, prefixes, given)
    splits = _choose_split(split, progress, given)
    form = lines.form(nbest=nbest is not None, given=given is not None, json=json)
    options = {**search, "batch": batch, "split": splits, "align": align}
    with _offering_as_text():
        texts = lines.Texts.read(arguments, prefixes, given, as_text=as_text)
        paths = outputs.output_paths(out, texts.sources, run, overwrite=overwrite)
        engine = "torch" if sample and engine == "auto" else engine  # only torch samples
        translator = _load([run, *(others or [])], device, engine, quantize, progress)
        bar = outputs.wants_bar(paths, arguments)
        results = lines.results(translator, texts, prefix, progress, bar=bar, **options)
        outputs.write(results, paths, form, progress)


def _check_options(
    arguments: list[str],
    options: set[str],
    prefix: str | None,
    prefixes: str | None,
    given: str | None,
) -> None:
    """Refuse options that exclude each other."""
    from transduce.text.reading import is_file_argument

    has_prefix = prefix is not None or prefixes is not None
    if given is not None and (options - {"alpha"} or has_prefix):
        raise BadInput("--given scores given translations: of the search options it takes --alpha")
    if prefix is not None and prefixes is not None:
        raise BadInput("--prefix and --prefixes exclude each other: give one of them")
    for name, file in (("--prefixes", prefixes), ("--given", given)):
        if file is not None and (len(arguments) > 1 or not is_file_argument(arguments[0])):
            raise BadInput(f"{name} has one line for each line of a file: give one file to read")


def _choose_split(wanted: bool | None, progress: Progress, given: str | None) -> bool:
    """Return whether lines are split; without the splitter, say so or refuse --split."""
    from transduce.text.splitting import MISSING, is_installed

    if wanted is False or given is not None or is_installed():
        return wanted is not False
    if wanted:
        raise MissingExtra("--split", "sentencex", "split")
    progress.say(MISSING)
    return False


@contextlib.contextmanager
def _offering_as_text() -> Iterator[None]:
    """Mention --as-text in the error about an unsupported format."""
    try:
        yield
    except UnsupportedFormat as error:
        if error.binary:
            raise
        raise BadInput(f"{error}; --as-text translates its lines as they are") from None


def _load(
    runs: list[Path], device: str, engine: str, quantize: str, progress: Progress
) -> "Translator":
    """Load the models, and print the engine and the weights."""
    from transduce.translation.translator import Translator

    translator = Translator.load(runs, device=device, engine=engine, quantize=quantize)
    progress.say(f"engine: {translator.engine.name}")
    if not all((run / "model.safetensors").exists() for run in runs):
        progress.say(f"translating with {translator.weights}")
    return translator
