"""`transduce recipes`."""

import typer

from transduce.cli import completion
from transduce.cli.declaring import add_command, argument, epilog

EXAMPLES = """
transduce recipes
transduce recipes show multi30k-en-de > mine.toml
transduce train --recipe mine.toml --out runs/mine
"""

app = typer.Typer(invoke_without_command=True, epilog=epilog(EXAMPLES), rich_markup_mode="rich")


@app.callback()
def recipes(context: typer.Context) -> None:
    """List the recipes: files with data, model, length of training, and evaluation.

    `transduce train --recipe NAME --out RUN` follows one from the data to the scores.
    """
    if context.invoked_subcommand:
        return
    from transduce.recipes.recipe import find, names

    recipes = [find(name) for name in names()]
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        typer.echo(f"{recipe.name:{width}}  {recipe.about}")
    typer.echo(
        "\ntransduce recipes show NAME prints one; transduce train --recipe NAME --out RUN",
        err=True,
    )


def show(
    name: str = argument(
        "One of `transduce recipes`, or a file.", autocompletion=completion.recipes
    ),
) -> None:
    """Print a recipe, for example as a template for your own."""
    from transduce.recipes.recipe import find

    typer.echo(find(name).text, nl=False)


add_command(app, show, EXAMPLES)
