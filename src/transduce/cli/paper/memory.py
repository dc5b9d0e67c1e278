"""`transduce paper memory`."""

from pathlib import Path

from transduce.cli.declaring import option
from transduce.cli.options import Device
from transduce.cli.paper import options

EXAMPLES = """
transduce paper memory
transduce paper memory --hops 1,2,3,4 --seeds 8 --out runs/memory
"""


def memory(
    *,
    out: options.Out = Path("runs/memory"),
    hops: str = option("Numbers of hops to compare.", default="1,2,3", metavar="1,2,…"),
    seeds: int = option("Training runs per model, with seeds 1, 2, …", default=5, min=1, max=100),
    steps: int = option("Steps per training run.", default=2500, min=1, max=1_000_000),
    stories: int = option("Training stories.", default=20_000, min=70, max=1_000_000),
    device: Device = "auto",
) -> None:
    """Train memory networks to answer questions about stories, by the number of hops (paper 2).

    The stories are generated. Run the same command again to continue.
    """
    from transduce.cli.paper.printing import require_folder, show
    from transduce.experiments.memory import MemoryTrial
    from transduce.experiments.memory import memory as measure
    from transduce.system.progress import console_progress

    trial = MemoryTrial(
        out=out,
        hops=sorted(options.numbers(int, "--hops", hops, "1,2,3")),
        seeds=range(1, seeds + 1),
        steps=steps,
        stories=stories,
        device=device,
    )
    require_folder(out, "memory")
    show(measure(trial, console_progress()), out)
