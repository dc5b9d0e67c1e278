"""`transduce paper table1`."""

from pathlib import Path

from transduce.cli.declaring import option
from transduce.cli.options import Device
from transduce.cli.paper import options
from transduce.errors import BadInput

EXAMPLES = """
transduce paper table1 --out runs/paper
transduce paper table1 --device cuda --n 16..8192 --d 512,1024
transduce paper table1 --n 64,128,256 --d 128 --r 16 --seconds 10
"""


def table1(
    *,
    n: str = option(
        "Lengths: each double the last, or a list.", default="16..8192", metavar="16..8192"
    ),
    d: str = option("Widths of the layers.", default="512,1024", metavar="512,1024"),
    k: int = option("Width of the convolution.", "-k", "--k", default=3),
    r: int = option(
        "Neighbourhood of restricted self-attention, in tokens.", "-r", "--r", default=32
    ),
    batch: int | None = option("Sentences in a batch. Default: 32 on a GPU, 1 on a CPU."),
    seconds: float = option(
        "Time for all timings together; slow sizes are left out.", default=80.0
    ),
    out: Path | None = option("Folder for the numbers and the picture.", "--out", "-o"),
    device: Device = "auto",
) -> None:
    """Measure a layer of each kind of Table 1: time, memory, operations and path lengths.

    The measured exponents of n are shown next to the paper's O().
    """
    from transduce.cli.paper.printing import require_folder, show
    from transduce.experiments.table1 import table1 as measure
    from transduce.experiments.table1_measurement import Plan
    from transduce.system.progress import console_progress

    plan = Plan(n=_lengths(n), d=_numbers("--d", d), k=k, r=r, batch=batch, seconds=seconds)
    require_folder(out, "table1")
    show(measure(plan, device, console_progress()), out)


def _lengths(text: str) -> tuple[int, ...]:
    """Read 16..8192 (16, 32, … 8192), or 64,128,256."""
    first, dots, last = text.partition("..")
    if not dots:
        return _numbers("--n", text)
    try:
        length, most = int(first), int(last)
    except ValueError:
        length = most = 0
    if not 0 < length <= most:
        raise BadInput(f"--n {text}: expected a range such as 16..8192")
    lengths = []
    while length <= most:
        lengths.append(length)
        length *= 2
    return tuple(lengths)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    return tuple(sorted(set(options.numbers(int, option, text, "512,1024"))))
