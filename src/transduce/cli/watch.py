"""`transduce watch`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import (
    AccessLog,
    AllowHost,
    AllowOrigin,
    Browser,
    Host,
    KeyFile,
    Port,
    TrustedProxy,
)
from transduce.cli.serve import DEFAULT_PORT, AccessOptions, start_service
from transduce.errors import BadRun
from transduce.serving.limits import Limits

EXAMPLES = """
[bold]Examples[/bold]

transduce watch runs/en-de

transduce watch runs/small runs/base

transduce watch runs --no-open
"""


def watch(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Run folders, or folders of runs."),
    ],
    *,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    browser: Browser = True,
    key_file: KeyFile = None,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    trusted_proxy: TrustedProxy = None,
    access_log: AccessLog = False,
) -> None:
    """Show runs on a page while they train: curves, speed, sample translations.

    All runs in a folder are shown, also those that start later. Ctrl-C stops it.
    """
    for run in runs:
        if not run.is_dir():
            raise BadRun(f"there is no folder {run}: `transduce train` makes one for a run")
    access = AccessOptions(key_file, allow_host, allow_origin, trusted_proxy, access_log)
    start_service("watching", host, port, lambda _: (), runs, Limits(), access, browser=browser)
