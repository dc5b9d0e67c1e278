"""The service at twice its capacity: every answer right, memory bounded, fast recovery."""

import json
import shutil
from pathlib import Path

from faults.tally import Tally
from load_test import Overload, Plan, overload
from transduce.datasets import pocket
from transduce.training.train import train

COUNT = 900  # seconds

TRAINING = {"vocabulary": "1000", "batch_tokens": "1000", "P_drop": "0", "seconds": "60"}
PAIRS, LINES = 20_000, 3_000
MAX_GROWTH = 64 * 2**20  # bytes from the first half to the second: caches that fill
MAX_RECOVERY = 10.0  # seconds; the queue alone may hold four (`--wait`)
MIN_SHARE = 0.8  # of the capacity that must be answered under overload


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Overload a service for `count` seconds."""
    fresh = folder / "trial"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    run, text = train_model(fresh, seed)
    measured = overload(Plan(run=run, source=str(text)), count, seed)
    report = json.dumps(measured.to_json(), indent=2)
    (folder / "report.json").write_text(report + "\n", encoding="utf-8")
    return judge(measured, seed)


def train_model(folder: Path, seed: int) -> tuple[Path, Path]:
    """Train a small model for a minute, and write a text to translate."""
    pairs = pocket.pairs(PAIRS, "train", seed)
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"train.{language}").write_text(text, encoding="utf-8")
    run, source = folder / "run", folder / "source.en"
    train(
        folder / "train.en",
        folder / "train.de",
        out=run,
        preset="tiny",
        settings=TRAINING | {"seed": str(seed)},
        device="cpu",
    )
    lines = dict.fromkeys(source for source, _ in pocket.pairs(LINES, "test", seed))
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return run, source


def judge(measured: Overload, seed: int) -> list[Tally]:
    """Check the measurements against each promise."""
    checks = (_right, _shed, _limit, _memory, _recovery)
    return [check(measured, seed) for check in checks]


def _right(measured: Overload, seed: int) -> Tally:
    load = measured.load
    count = Tally("overload-right: every answer is the right translation", seed)
    count.held["right"] = load.statuses["200"] - load.wrong
    for _ in range(load.wrong):
        count.fail(f"wrong: {load.first_wrong}")
    count.figures["answers wrong"] = load.wrong
    return count


def _shed(measured: Overload, seed: int) -> Tally:
    load = measured.load
    count = Tally("overload-shed: all other answers are 429 or 503 with Retry-After", seed)
    count.held["shed with Retry-After"] = load.shed
    for status, number in load.statuses.items():
        if status not in {"200", "429", "503"}:
            count.fail(f"{number:,} were answered {status}: {load.first_error}")
    refused = load.statuses["429"] + load.statuses["503"]
    if refused > load.shed:
        count.fail(f"{refused - load.shed:,} had no Retry-After")
    return count


def _limit(measured: Overload, seed: int) -> Tally:
    count = Tally(f"overload-limit: answers stay above {MIN_SHARE:.0%} of the capacity", seed)
    answered, capacity = measured.load.speed, measured.before.speed
    count.figures |= {
        "seconds": round(measured.load.seconds, 1),
        "capacity, texts/s": round(capacity, 1),
        "offered, texts/s": round(measured.offered, 1),
        "answered, texts/s": round(answered, 1),
        "share of the capacity": f"{answered / capacity:.0%}",
        "cores of the clients": round(measured.load.client_seconds / measured.load.seconds, 2),
    }
    if answered >= MIN_SHARE * capacity:
        count.hold("kept answering")
    else:
        count.fail(f"{answered:.1f} texts/s of {capacity:.1f}")
    return count


def _memory(measured: Overload, seed: int) -> Tally:
    count = Tally("overload-memory: memory is bounded", seed)
    sizes = measured.memory
    middle = max(1, len(sizes) // 2)
    growth = max(sizes[middle:], default=0) - max(sizes[:middle])
    count.figures["MiB, start, middle, end, most"] = ", ".join(
        f"{size / 2**20:.0f}" for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1], max(sizes))
    )
    if growth <= MAX_GROWTH:
        count.hold("bounded")
    else:
        count.fail(f"{growth / 2**20:.0f} MiB more in the second half than in the first")
    return count


def _recovery(measured: Overload, seed: int) -> Tally:
    count = Tally(f"overload-recovery: normal latency within {MAX_RECOVERY:g} s", seed)
    seconds = measured.recovery
    count.figures["seconds"] = "never" if seconds is None else round(seconds, 2)
    if seconds is not None and seconds <= MAX_RECOVERY:
        count.hold("recovered")
    else:
        count.fail(f"a single client's latency was normal after {seconds} s")
    return count
