"""`transduce bench`."""

import typer

app = typer.Typer(help="Measure, side by side with peers.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure, side by side with peers."""
