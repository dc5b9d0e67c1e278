"""`transduce watch`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Browser, Host, Port
from transduce.cli.serve import DEFAULT_PORT, announcing

EXAMPLES = """
[bold]Examples[/bold]

transduce watch runs/en-de

transduce watch runs/small runs/base

transduce watch runs --no-open
"""


def watch(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run folders, or folders of such.")
    ],
    *,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    browser: Browser = True,
) -> None:
    """Show on a page how runs go while they train: curves, speed, sample translations.

    Of a folder of runs all are shown, those that are begun later too. Ctrl-C ends it.
    """
    from transduce.errors import BadRun, MissingExtra
    from transduce.progress import for_people

    try:
        from transduce.web.limits import Limits
        from transduce.web.server import bound, hosts_of, serve_on
    except ImportError as error:
        library = (error.name or "fastapi").partition(".")[0]
        if library == "transduce":
            raise
        raise MissingExtra("watching", library, "web") from None

    for run in runs:
        if not run.is_dir():
            raise BadRun(f"there is no folder {run}: `transduce train` makes one for a run")
    progress = for_people()
    with bound(host, port) as listening:
        hosts = hosts_of(listening, host)
        ready = announcing(progress, browser=browser)
        serve_on(listening, (), runs, Limits(), hosts, ready, lambda: progress.say("ended"))
