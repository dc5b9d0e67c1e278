"""`transduce average`."""

from pathlib import Path

from transduce.cli.declaring import argument, option
from transduce.errors import BadRun

EXAMPLES = """
transduce average runs/en-de --last 5
"""

DEFAULT = 5  # checkpoints, as for the paper's base models (6.1)


def average(
    run: Path = argument("The run folder."),
    *,
    last: int | None = option(
        "Number of checkpoints to average, the newest ones. Default: up to 5.", min=1
    ),
) -> None:
    """Average the last checkpoints, as in the paper (6.1), for use in translation.

    The mean replaces model.safetensors of the run folder.
    """
    from transduce.checkpoints.checkpoint import average_checkpoints, save_model
    from transduce.runs.folder import WRITTEN_IN, RunConfig, checkpoints
    from transduce.runs.locks import locked_run
    from transduce.system.files import remove_leftovers
    from transduce.system.formatting import pluralize
    from transduce.system.progress import console_progress

    RunConfig.load(run)  # refuse folders that are not runs before anything is written
    with locked_run(run):
        remove_leftovers(run, *WRITTEN_IN)
        count = sum(checkpoint.scheduled for checkpoint in checkpoints(run))
        if last is not None and count and last > count:
            raise BadRun(
                f"{run} has {pluralize(count, 'checkpoint')} to average, not {last:,}: "
                f"--last {count} takes all of them (the setting keep says how many training keeps)"
            )
        tensors, description = average_checkpoints(run, last or DEFAULT)
        save_model(run, RunConfig.load(run), tensors, description)
    console_progress().say(f"{run / 'model.safetensors'} is now the {description}")
