"""`transduce paper`: one file an experiment."""

import typer

from transduce.cli.paper import figures

app = typer.Typer(help="The paper's tables, figures and claims, measured.", no_args_is_help=True)


@app.callback()
def paper() -> None:
    """The paper's tables, figures and claims, measured here beside the paper's own numbers."""


MODULES = (figures,)
for module in MODULES:
    name = module.__name__.rpartition(".")[2]
    app.command(name, epilog=module.EXAMPLES)(getattr(module, name))
