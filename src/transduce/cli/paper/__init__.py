"""`transduce paper`: one file an experiment."""

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
for module in MODULES:
    name = module.__name__.rpartition(".")[2]
    app.command(name.rstrip("_"), epilog=module.EXAMPLES)(getattr(module, name))
