"""Coverage-guided fuzzing of every reader of external data.

`python -m faults.fuzz READER --runs N --seed S --material DIR --folder DIR` fuzzes one reader in
its own process, which libFuzzer ends; `inject` starts one process per reader, as many at a time as
there are cores.
"""

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from faults.tally import Tally

COUNT = 1_000_000
SECONDS = 5.0  # of CPU time, after which an input counts as hanging
MAX_INPUT = 16_384  # bytes
MEMORY_LIMIT = 3_000  # MB; torch alone takes 500
# MB by which a process may grow in the second half of its inputs: a leak of 3 KB shows in 100,000.
# Buffers that are reused grow with the longest sentence so far, ever more slowly.
LEAK = 128
STRUCTURED = 0.7  # share of JSON inputs that are changed as JSON
FROM_SEED = 0.3  # share of inputs derived from a valid one, not from earlier findings
STATS = "stats.json"


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Fuzz every reader, with `count` inputs in total."""
    from faults.readers import READERS

    folder = _fresh(folder)
    tally = Tally("fuzz: external data is accepted or refused in one sentence", seed)
    make_material(folder / "material")
    total = sum(share for _, share in READERS.values())
    runs = {name: math.ceil(count * share / total) for name, (_, share) in READERS.items()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        order = sorted(runs, key=runs.__getitem__)  # the slowest readers have the fewest inputs
        results = dict(
            zip(order, pool.map(lambda n: fuzz(n, runs[n], seed, folder), order), strict=True)
        )
    for name, stats in results.items():
        for outcome, number in stats["outcomes"].items():
            tally.held[f"{name} {outcome}"] += number
        for what in stats["broken"]:
            tally.fail(f"{name}: {what}")
        tally.figures[name] = (
            f"{stats['done']:,} inputs in {stats['seconds']:.0f} s of a core, the slowest "
            f"{1000 * stats['slowest']:.0f} ms, {stats['grown']:.0f} MB more after than halfway"
        )
    return [tally]


def fuzz(name: str, runs: int, seed: int, folder: Path) -> dict[str, Any]:
    """Fuzz one reader in its own process; return its statistics."""
    own = folder / name
    own.mkdir()
    options = {"runs": runs, "seed": seed, "material": folder / "material", "folder": own}
    words = [word for option, value in options.items() for word in (f"--{option}", str(value))]
    paths = [
        str(Path(__file__).parents[1]),
        str(Path(__file__).parents[1] / "support"),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    environment = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with (own / "log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-m", "faults.fuzz", name, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            check=False,
        )
    stats: dict[str, Any] = {"done": 0, "outcomes": {}, "broken": [], "slowest": 0.0}
    stats |= {"seconds": 0.0, "grown": 0.0}
    if (own / STATS).exists():
        stats |= json.loads((own / STATS).read_bytes())
    if done.returncode or stats["done"] < runs * 0.99:
        last = (own / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
        stats["broken"].append(f"ended with {done.returncode} after {stats['done']:,}: {last}")
    return stats


class Trial:
    """One reader and the outcomes of its inputs."""

    def __init__(self, reader: Any, runs: int, folder: Path) -> None:
        self.reader, self.runs, self.folder = reader, runs, folder
        self.outcomes: Counter[str] = Counter()
        self.broken: dict[str, str] = {}
        self.done, self.slowest, self.began = 0, 0.0, time.process_time()
        self.halfway = 0.0

    def __call__(self, data: bytes) -> None:
        """Run one input."""
        before = time.thread_time()
        try:
            self.outcomes[self.reader.outcome(data)] += 1
        except Exception as error:
            self.fail(data, f"{type(error).__name__}: {str(error)[:200]}", _where(error))
        except BaseException as error:  # a Rust panic is not an Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            self.fail(data, f"{type(error).__name__}: {str(error)[:200]}", _where(error))
        spent = time.thread_time() - before
        self.slowest = max(self.slowest, spent)
        if spent > SECONDS:
            self.fail(data, f"{spent:.1f} s", "slow")
        self.done += 1
        if self.done == self.runs // 2:
            self.halfway = resident()
        if self.done % 1000 == 0 or self.done >= self.runs:
            self.save()

    def fail(self, data: bytes, what: str, where: str) -> None:
        """Record a bug once, with the input that shows it."""
        if where in self.broken:
            self.outcomes[f"broken at {where}"] += 1
            return
        name = hashlib.sha256(data).hexdigest()[:12]
        (self.folder / name).write_bytes(data)
        self.broken[where] = f"{what} at {where}, input {self.folder / name}"
        print(f"BROKEN: {self.broken[where]}", flush=True)

    def save(self) -> None:
        """Write the statistics: libFuzzer ends the process without calling Python."""
        grown = resident() - self.halfway if self.halfway else 0.0
        broken = list(self.broken.values())
        if self.done >= self.runs and grown > LEAK:
            broken.append(f"{grown:.0f} MB more after {self.done:,} inputs than after half of them")
        stats = {
            "done": self.done,
            "outcomes": self.outcomes,
            "broken": broken,
            "slowest": self.slowest,
            "seconds": time.process_time() - self.began,
            "grown": grown,
        }
        (self.folder / STATS).write_text(json.dumps(stats))


def resident() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _where(error: BaseException) -> str:
    """Return the last line of our code in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "transduce" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {type(error).__name__}"


def make_material(folder: Path) -> None:
    """Create the real files from which inputs are derived."""
    from conftest import TINY, tiny_pairs, write_pairs

    from opus import write_opus
    from transduce.training.train import train

    folder.mkdir(parents=True)
    texts = write_pairs(folder, "tiny", tiny_pairs(60))
    train(*texts, out=folder / "run", settings=TINY, preset="tiny", device="cpu")
    write_opus(folder / "marian")


def _fresh(folder: Path) -> Path:
    number = 1
    while (folder / f"trial-{number}").exists():
        number += 1
    (folder / f"trial-{number}").mkdir(parents=True)
    return folder / f"trial-{number}"


def main() -> None:
    """Fuzz one reader."""
    import atheris

    parser = argparse.ArgumentParser(prog="python -m faults.fuzz")
    parser.add_argument("reader")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--material", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    with atheris.instrument_imports(include=["transduce"]):
        from faults.reader import Material
        from faults.readers import READERS

        scratch, corpus = options.folder / "scratch", options.folder / "corpus"
        scratch.mkdir(parents=True, exist_ok=True)
        corpus.mkdir(exist_ok=True)
        material = Material(options.material / "run", options.material / "marian")
        reader = READERS[options.reader][0](material, scratch)
    for number, data in enumerate(reader.seeds):
        (corpus / f"seed-{number}").write_bytes(data)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if draw.random() < FROM_SEED:
            data = draw.choice(reader.seeds)
        if reader.is_json and draw.random() < STRUCTURED:
            changed = reader.mutated(data, draw)
            if changed is not None and len(changed) <= most:
                return changed
        mutated: bytes = atheris.Mutate(data, most)
        return mutated

    longest = max(MAX_INPUT, *(2 * len(data) for data in reader.seeds))
    flags_by_name = {"runs": options.runs, "seed": options.seed, "max_len": longest, "timeout": 60}
    flags_by_name |= {
        "rss_limit_mb": MEMORY_LIMIT,
        "print_final_stats": 1,
        "verbosity": 0,
        "len_control": 0,
    }
    flags = [f"-{name}={value}" for name, value in flags_by_name.items()]
    flags.append(f"-artifact_prefix={options.folder}/")
    trial = Trial(reader, options.runs, options.folder)
    atheris.Setup(["fuzz", *flags, str(corpus)], trial, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
