"""`transduce watch`."""

from pathlib import Path

from transduce.cli.declaring import argument
from transduce.cli.serve import AccessOptions, ListenOptions, start_service
from transduce.errors import BadRun
from transduce.serving.limits import Limits

EXAMPLES = """
transduce watch runs/en-de
transduce watch runs/small runs/base
transduce watch runs --no-open
"""


def watch(
    runs: list[Path] = argument("Run folders, or folders of runs.", metavar="RUN…"),
    *,
    listen: ListenOptions,
    access: AccessOptions,
) -> None:
    """Show runs on a page while they train: curves, speed, sample translations.

    All runs in a folder are shown, including those that start later. Ctrl-C stops it.
    """
    for run in runs:
        if not run.is_dir():
            raise BadRun(f"there is no folder {run}: `transduce train` makes one for a run")
    start_service("watching", listen, lambda _: (), runs, Limits(), access)
