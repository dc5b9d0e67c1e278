"""`transduce paper`: one file per experiment."""

import inspect
from types import ModuleType

import typer

from transduce.cli.paper import (
    all_,
    figures,
    positions,
    report,
    scaling,
    smoothing,
    table1,
    table2,
    table3,
    table4,
)

app = typer.Typer(help="The paper's tables, figures and claims, measured.", no_args_is_help=True)


@app.callback()
def paper() -> None:
    """Measure the paper's tables, figures and claims, beside its own numbers."""


MODULES: tuple[ModuleType, ...] = (
    *(table1, table2, table3, table4, figures),
    *(scaling, positions, smoothing, all_, report),
)


def unwrap(text: str) -> str:
    """Join the lines of each paragraph, so that the terminal wraps them."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for module in MODULES:
    name = module.__name__.rpartition(".")[2]
    command = getattr(module, name)
    app.command(name.rstrip("_"), help=unwrap(command.__doc__), epilog=module.EXAMPLES)(command)
