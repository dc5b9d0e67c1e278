"""`transduce paper table1`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device
from transduce.errors import BadInput

EXAMPLES = """
[bold]Examples[/bold]

transduce paper table1 --out runs/paper

transduce paper table1 --device cuda --n 16..8192 --d 512,1024

transduce paper table1 --n 64,128,256 --d 128 --r 16 --seconds 10
"""


def table1(
    *,
    n: Annotated[
        str, typer.Option(metavar="16..8192", help="Lengths: each twice the one before, or a list.")
    ] = "16..8192",
    d: Annotated[str, typer.Option(metavar="512,1024", help="Widths of the layers.")] = "512,1024",
    k: Annotated[int, typer.Option("-k", "--k", help="Width of the convolution.")] = 3,
    r: Annotated[
        int, typer.Option("-r", "--r", help="Tokens that restricted self-attention sees.")
    ] = 32,
    batch: Annotated[
        int | None,
        typer.Option(help="Sentences read together. Default: 32 on a GPU, 1 on a CPU."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="For all timings together; what is too long is left out.")
    ] = 80.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder for the figures and the picture.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Measure a layer of each kind of Table 1: time, memory, operations and path lengths.

    The powers of n that large n show stand beside the paper's O().
    """
    from transduce.cli.paper.printing import require, show
    from transduce.experiments.costs import Plan
    from transduce.experiments.table1 import table1 as measure
    from transduce.system.progress import console_progress

    plan = Plan(n=_lengths(n), d=_numbers("d", d), k=k, r=r, batch=batch, seconds=seconds)
    require(out, "table1")
    show(measure(plan, device, console_progress()), out)


def _lengths(text: str) -> tuple[int, ...]:
    """Read 16..8192 (16, 32, … 8192), or 64,128,256."""
    first, dots, last = text.partition("..")
    if not dots:
        return _numbers("n", text)
    try:
        length, most = int(first), int(last)
    except ValueError:
        length = most = 0
    if not 0 < length <= most:
        raise BadInput(f"--n {text}: expected a range such as 16..8192")
    found = []
    while length <= most:
        found.append(length)
        length *= 2
    return tuple(found)


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(one) for one in text.split(",")}))
    except ValueError:
        raise BadInput(f"--{name} {text}: expected whole numbers such as 512,1024") from None
