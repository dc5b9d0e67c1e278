"""`transduce recipes`."""

from typing import Annotated

import typer

from transduce.cli import completion

EXAMPLES = """
[bold]Examples[/bold]

transduce recipes

transduce recipes show multi30k-en-de > mine.toml

transduce train --recipe mine.toml --out runs/mine
"""

app = typer.Typer(invoke_without_command=True, epilog=EXAMPLES, rich_markup_mode="rich")


@app.callback()
def recipes(context: typer.Context) -> None:
    """List the recipes: files that say which data, which model, how long, and how to measure it.

    `transduce train --recipe NAME --out RUN` follows one from the data to the scores.
    """
    if context.invoked_subcommand:
        return
    from transduce.recipes import recipe as reading

    found = [reading.find(name) for name in reading.names()]
    width = max(len(one.name) for one in found)
    for one in found:
        typer.echo(f"{one.name:{width}}  {one.about}")
    typer.echo(
        "\ntransduce recipes show NAME prints one; transduce train --recipe NAME --out RUN",
        err=True,
    )


@app.command("show", epilog=EXAMPLES)
def show(
    name: Annotated[
        str,
        typer.Argument(
            help="One of `transduce recipes`, or a file.", autocompletion=completion.recipes
        ),
    ],
) -> None:
    """Print a recipe: the beginning of one of your own."""
    from transduce.recipes import recipe as reading

    typer.echo(reading.find(name).text, nl=False)
