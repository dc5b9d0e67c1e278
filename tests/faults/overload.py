"""The service at twice what it can take: every answer right, memory bounded, well again soon."""

import shutil
from pathlib import Path

from faults.tally import Tally
from transduce.bench.overload import overload
from transduce.bench.served import Overload
from transduce.bench.serving import Plan
from transduce.datasets import pocket
from transduce.system.progress import for_people
from transduce.training.train import train

COUNT = 900  # seconds

TRAINING = {"vocabulary": "1000", "batch_tokens": "1000", "P_drop": "0", "seconds": "60"}
PAIRS, LINES = 20_000, 3_000
GROWTH = 64 * 2**20  # bytes that the second half may take more than the first: caches that fill
RECOVERED = 10.0  # seconds; the queue alone may hold four (`--wait`)
KEPT = 0.8  # of what it can take


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Overload a service for `count` seconds."""
    fresh = folder / "trial"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    run, text = trained(fresh, seed)
    found = overload(Plan(run=run, source=str(text)), count, for_people(), seed=seed)
    (folder / "report.txt").write_text(found.report() + "\n", encoding="utf-8")
    return counted(found, seed)


def trained(folder: Path, seed: int) -> tuple[Path, Path]:
    """Train a small model for a minute, and write what it is asked to translate."""
    pairs = pocket.pairs(PAIRS, "train", seed)
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"train.{language}").write_text(text, encoding="utf-8")
    run, asked = folder / "run", folder / "asked.en"
    train(
        folder / "train.en",
        folder / "train.de",
        out=run,
        preset="tiny",
        settings=TRAINING | {"seed": str(seed)},
        device="cpu",
    )
    lines = dict.fromkeys(source for source, _ in pocket.pairs(LINES, "test", seed))
    asked.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return run, asked


def counted(found: Overload, seed: int) -> list[Tally]:
    """Hold what was measured against each promise."""
    return [_right(found, seed), _told(found, seed), _limit(found, seed), *_state(found, seed)]


def _right(found: Overload, seed: int) -> Tally:
    load = found.load
    count = Tally("overload-right: every answer is the right translation", seed)
    count.held["right"] = load.answers["200"] - load.wrong
    for _ in range(load.wrong):
        count.fail(f"wrong: {load.first_wrong}")
    count.figures["answers wrong"] = load.wrong
    return count


def _told(found: Overload, seed: int) -> Tally:
    """Whoever is not answered is told when to come again, and nobody else."""
    count = Tally("overload-shed: the rest is told when to come again", seed)
    count.held["shed with Retry-After"] = found.load.shed
    others = {
        status: number
        for status, number in found.load.answers.items()
        if status not in {"200", "429", "503"}
    }
    for status, number in others.items():
        count.fail(f"{number:,} were answered {status}: {found.load.refused}")
    refused = found.load.answers["429"] + found.load.answers["503"]
    if refused > found.load.shed:
        count.fail(f"{refused - found.load.shed:,} were not told when to come again")
    return count


def _limit(found: Overload, seed: int) -> Tally:
    count = Tally(f"overload-limit: it answers at {KEPT:.0%} of its limit at least", seed)
    part = found.answered / found.capacity
    count.figures |= {
        "seconds": round(found.load.seconds, 1),
        "texts/s it can take": round(found.capacity, 1),
        "texts/s offered": round(found.offered, 1),
        "texts/s answered": round(found.answered, 1),
        "of its limit": f"{part:.0%}",
        "cores of the clients": round(found.load.client_seconds / found.load.seconds, 2),
    }
    if part >= KEPT:
        count.hold("kept answering")
    else:
        count.fail(f"{found.answered:.1f} texts/s of {found.capacity:.1f}")
    return count


def _state(found: Overload, seed: int) -> list[Tally]:
    memory = Tally("overload-memory: it is bounded", seed)
    sizes = found.memory.sizes
    first, second = (max(part, default=0) for part in (_half(sizes, 0), _half(sizes, 1)))
    memory.figures["MiB, start, middle, end, most"] = ", ".join(
        f"{size / 2**20:.0f}" for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1], max(sizes))
    )
    if second - first <= GROWTH:
        memory.hold("bounded")
    else:
        memory.fail(f"{(second - first) / 2**20:.0f} MiB more in the second half than before")
    well = Tally(f"overload-recovery: well again within {RECOVERED:g} s", seed)
    well.figures["seconds"] = "never" if found.recovery is None else round(found.recovery, 2)
    if found.recovery is not None and found.recovery <= RECOVERED:
        well.hold("recovered")
    else:
        well.fail(f"a single client was answered as before after {found.recovery} s")
    return [memory, well]


def _half(sizes: tuple[int, ...], place: int) -> tuple[int, ...]:
    middle = max(1, len(sizes) // 2)
    return sizes[middle:] if place else sizes[:middle]
