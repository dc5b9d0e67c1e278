"""`transduce translate`."""

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.errors import BadInput

if TYPE_CHECKING:
    from transduce.translator import Translator

EXAMPLES = """
[bold]Examples[/bold]

transduce translate runs/en-de test.en > out.de

echo "Two dogs run." | transduce translate runs/en-de

transduce translate runs/en-de test.en --beam 8 --nbest 3

transduce translate runs/en-de test.en --given test.de
"""


def translate(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    file: Annotated[
        str, typer.Argument(help="Text to translate (plain, gz, xz, zst); - is stdin.")
    ] = "-",
    *,
    beam: Annotated[
        int | None, typer.Option(help="Width of the search; 1 is greedy. Default: 4.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Length penalty. Default: 0.6.")] = None,
    nbest: Annotated[
        int | None,
        typer.Option(help="Write the K best: line number, score and text between tabs."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Sentences searched side by side.")] = 32,
    sample: Annotated[bool, typer.Option("--sample", help="Draw from the model instead.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the draws. Default: 1.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among the K likeliest words.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among words that make up P.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the draws. Default: 1.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Words every translation begins with.")] = None,
    given: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Score these translations: score and text between tabs."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, torch or ctranslate2.")] = "auto",
    quantize: Annotated[
        str, typer.Option(help="How ctranslate2 holds the matrices: auto, none, int8 ...")
    ] = "auto",
) -> None:
    """Translate text line by line: line n of the output translates line n of the input.

    The search is the paper's: beam 4, alpha 0.6, output at most 50 subwords longer than the input.
    """
    from transduce import text
    from transduce.progress import for_people
    from transduce.translator import WINDOW, Translator

    settings: dict[str, Any] = {
        name: value
        for name, value in {
            "beam": beam,
            "alpha": alpha,
            "nbest": nbest,
            "sample": sample or None,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "draw": seed,
        }.items()
        if value is not None
    }
    progress = for_people()
    translator = Translator.load(run, device=device, engine=engine, quantize=quantize)
    progress.say(f"engine: {translator.engine.name}")
    if not (run / "model.safetensors").exists():
        progress.say(f"translating with {translator.weights}")
    if given is not None:
        unused = settings.keys() - {"alpha"}
        if unused or prefix is not None:
            raise BadInput("--given scores what is there: of the search it takes --alpha alone")
        _score(translator, file, given, settings)
        return
    if not sample and settings.keys() & {"temperature", "top_k", "top_p", "draw"}:
        raise BadInput("--temperature, --top-k, --top-p and --seed need --sample")
    lines = text.open_lines(file)
    typed = file == "-" and sys.stdin.isatty()  # then each line is answered at once
    cut = 0
    with progress.track("translating", _count(file), "lines") as advance:
        translations = translator.stream(
            lines,
            prefixes=None if prefix is None else itertools.repeat(prefix),
            batch=1 if typed else batch,
            window=1 if typed else WINDOW,
            advance=advance,
            **settings,
        )
        for number, translation in enumerate(translations, start=1):
            cut += translation.parts > 1
            if nbest is None:
                sys.stdout.write(translation.text + "\n")
            else:
                for candidate in translation.candidates:
                    sys.stdout.write(f"{number}\t{candidate.score:.4f}\t{candidate.text}\n")
    sys.stdout.flush()
    if cut:
        progress.say(
            f"{cut:,} lines were longer than the model's {translator.config.model.max_len:,} "
            "subwords: they were cut, translated in parts and joined"
        )


def _score(translator: "Translator", source: str, target: str, settings: dict[str, Any]) -> None:
    from transduce import text

    first = 1
    pairs = text.read_pairs(source, target)
    while block := list(itertools.islice(pairs, 1000)):
        for candidate in translator.score(block, first=first, **settings):
            sys.stdout.write(f"{candidate.score:.4f}\t{candidate.text}\n")
        first += len(block)


def _count(file: str) -> int | None:
    """Count the lines of a file for the bar; a stream has no count."""
    from transduce import text

    if file == "-" or not Path(file).is_file():
        return None
    count = sum(1 for _ in text.open_lines(file))
    if not count:
        raise BadInput(f"{file} is empty: there is nothing to translate")
    return count
