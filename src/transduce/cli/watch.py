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
    key_file: KeyFile = None,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    trusted_proxy: TrustedProxy = None,
    access_log: AccessLog = False,
) -> None:
    """Show on a page how runs go while they train: curves, speed, sample translations.

    Of a folder of runs all are shown, those that are begun later too. Ctrl-C ends it.
    """
    from transduce.errors import BadRun, MissingExtra
    from transduce.progress import for_people

    try:
        from transduce.web.access import Access
        from transduce.web.limits import Limits
        from transduce.web.server import bound, serve_on
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
        access = Access.of(
            listening,
            host,
            progress.say,
            key_file=key_file,
            hosts=allow_host or (),
            origins=allow_origin or (),
            proxies=trusted_proxy or (),
            log_requests=access_log,
        )
        ready = announcing(progress, browser=browser)
        serve_on(listening, (), runs, Limits(), access, ready, lambda: progress.say("ended"))
