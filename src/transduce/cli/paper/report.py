"""`transduce paper report`."""

from pathlib import Path

from transduce.cli.declaring import argument, option

EXAMPLES = """
transduce paper report t1 t2 t3 --out report.html
"""


def report(
    folders: list[Path] = argument("Folders with findings, as given to --out.", metavar="DIR"),
    *,
    out: Path | None = option("The page. Default: report.html in the first folder.", "--out", "-o"),
) -> None:
    """Write the findings of several folders on one self-contained HTML page."""
    from transduce.experiments.report import report as write_report
    from transduce.system.progress import console_progress

    path = write_report(folders, folders[0] if out is None else out)
    console_progress().say(f"wrote {path}")
