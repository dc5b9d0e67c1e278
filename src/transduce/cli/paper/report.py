"""`transduce paper report`."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
[bold]Examples[/bold]

transduce paper report t1 t2 t3 --out report.html
"""


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Folders that findings were written to, by --out."),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page. Default: report.html in the first folder."),
    ] = None,
) -> None:
    """Put the findings that lie in folders on one page, which opens anywhere."""
    from transduce.experiments import report as pages
    from transduce.system.progress import console_progress

    path = pages.report(folders, folders[0] if out is None else out)
    console_progress().say(f"wrote {path}")
