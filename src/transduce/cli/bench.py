"""`transduce bench`."""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.train import parse_settings

EXAMPLES_TRAIN = """
[bold]Examples[/bold]

transduce bench train train.en train.de

transduce bench train train.en train.de --preset base --batch-tokens 4000 --steps 5

transduce bench train pairs.tsv --set d_model=128 --set d_k=32 --set d_v=32 --json

transduce bench train train.en train.de --preset B-dk16 --peer none --corpus bench-corpus
"""

app = typer.Typer(help="Measure, side by side with peers.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure, side by side with peers."""


@app.command(epilog=EXAMPLES_TRAIN)
def train(
    source: Annotated[
        str, typer.Argument(help="Source text (plain, gz, xz, zst), or a TSV; - is stdin.")
    ],
    target: Annotated[str | None, typer.Argument(help="Target text; none for a TSV.")] = None,
    *,
    preset: Annotated[
        str, typer.Option(help="tiny, small, base, big or a row of Table 3.")
    ] = "small",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set any field of the configuration."),
    ] = None,
    peer: Annotated[str, typer.Option(help="huggingface, or none.")] = "huggingface",
    steps: Annotated[int, typer.Option(help="Steps of a round.", min=1)] = 10,
    rounds: Annotated[int, typer.Option(help="Rounds of each side, by turns.", min=1)] = 3,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a batch, a side. Default: the preset's.")
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Subwords to learn.")] = 8000,
    corpus: Annotated[
        Path | None,
        typer.Option(help="Keep the prepared text here, to be found the next time."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Write JSON, with every round.")] = False,
) -> None:
    """Measure how many target tokens a second a model trains on here, and a peer beside it.

    The peer is Hugging Face's MarianMTModel of the same shape, on the same sentences batch for
    batch. The two take turns, each in a process of its own; padding does not count as tokens.
    """
    from transduce.bench.training import compare
    from transduce.progress import for_people

    settings = {"vocabulary": str(vocabulary)} | parse_settings(set_ or [])
    if batch_tokens is not None:
        settings["batch_tokens"] = str(batch_tokens)
    found = compare(
        source,
        target,
        preset=preset,
        settings=settings,
        peer=peer,
        steps=steps,
        rounds=rounds,
        device=device,
        corpus=corpus,
        progress=for_people(),
    )
    typer.echo(json_module.dumps(found.to_json(), indent=2) if json else str(found))
