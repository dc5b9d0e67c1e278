"""`transduce paper`: one file an experiment."""

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
    """Measure what the paper's tables, figures and text say, beside its own numbers."""


MODULES: tuple[ModuleType, ...] = (
    *(table1, table2, table3, table4, figures),
    *(scaling, positions, smoothing, all_, report),
)


def flowing(text: str) -> str:
    """Join the lines of each paragraph: a terminal breaks them where it ends."""
    return "\n\n".join(" ".join(one.split()) for one in inspect.cleandoc(text).split("\n\n"))


for module in MODULES:
    name = module.__name__.rpartition(".")[2]
    command = getattr(module, name)
    about = flowing(command.__doc__)
    app.command(name.rstrip("_"), help=about, epilog=module.EXAMPLES)(command)
