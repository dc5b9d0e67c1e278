"""`transduce paper`: one file per experiment, and shared modules.

- `table1` to `table4`, `figures`, `scaling`, `positions`, `smoothing`, `training`, `memory`: the
  experiments
- `all_`, `report`: run all experiments; write a report of the results
- `options`, `printing`: shared options; printing a finding
"""

import typer

from transduce.cli.declaring import add_commands
from transduce.cli.paper import (
    all_,
    figures,
    memory,
    positions,
    report,
    scaling,
    smoothing,
    table1,
    table2,
    table3,
    table4,
    training,
)

app = typer.Typer(help="Reproduce the paper's tables, figures and claims.", no_args_is_help=True)


add_commands(
    app,
    *(table1, table2, table3, table4, figures),
    *(scaling, positions, smoothing, training, memory),
    *(all_, report),
)
