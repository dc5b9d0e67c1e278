"""`transduce average`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.errors import BadRun

EXAMPLES = """
[bold]Example[/bold]

transduce average runs/en-de --last 5
"""

DEFAULT = 5  # checkpoints, as the paper averages for its base models (6.1)


def average(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    *,
    last: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many checkpoints, the newest ones. Default: 5, or fewer if there are."
        ),
    ] = None,
) -> None:
    """Translate from now on with the mean of the last checkpoints, as the paper does (6.1)."""
    from transduce.checkpoints.checkpoint import average_checkpoints, save_model
    from transduce.runs.folder import WRITTEN_IN, RunConfig, checkpoints
    from transduce.runs.locks import locked_run
    from transduce.system.files import remove_leftovers
    from transduce.system.formatting import pluralize
    from transduce.system.progress import console_progress

    RunConfig.load(run)  # refuses what is no run before anything is written there
    with locked_run(run):
        remove_leftovers(run, *WRITTEN_IN)
        there = sum(one.scheduled for one in checkpoints(run))
        if last is not None and there and last > there:
            raise BadRun(
                f"{run} has {pluralize(there, 'checkpoint')} to average, not {last:,}: "
                f"--last {there} takes all of them (the setting keep says how many training keeps)"
            )
        tensors, words = average_checkpoints(run, last or DEFAULT)
        save_model(run, RunConfig.load(run), tensors, words)
    console_progress().say(f"{run / 'model.safetensors'} is now the {words}")
