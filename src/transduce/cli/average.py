"""`transduce average`."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
[bold]Example[/bold]

transduce average runs/en-de --last 5
"""


def average(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    *,
    last: Annotated[int, typer.Option(help="How many checkpoints, the newest ones.", min=1)] = 5,
) -> None:
    """Translate from now on with the mean of the last checkpoints, as the paper does (6.1)."""
    from transduce.checkpoint import average_checkpoints, save_model
    from transduce.files import remove_leftovers
    from transduce.folder import WRITTEN_IN, RunConfig
    from transduce.machine import locked
    from transduce.progress import for_people

    RunConfig.load(run)  # refuses what is no run before anything is written there
    with locked(run):
        remove_leftovers(run, *WRITTEN_IN)
        tensors, words = average_checkpoints(run, last)
        save_model(run, RunConfig.load(run), tensors, words)
    for_people().say(f"{run / 'model.safetensors'} is now the {words}")
