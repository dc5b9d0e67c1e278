"""Bytes from outside, by a fuzzer that is led by coverage, into everything that reads.

`python -m faults.fuzz READER --runs N --seed S --material DIR --folder DIR` fuzzes one reader in a
process of its own, which libFuzzer ends; `inject` starts one for each of them, as many at a time as
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
SECONDS = 5.0  # of the processor, after which an input counts as one that hangs
LONGEST = 16_384  # bytes of an input
ROOM = 3_000  # MB that a process may take; torch alone takes 500
# MB that it may grow by in the second half of its inputs: a leak of 3 KB shows in 100,000. Memory
# that is kept to be used again grows slower and slower, with the longest sentence so far.
LEAK = 128
STRUCTURED = 0.7  # of the inputs that are JSON, the part that is changed as JSON
ANEW = 0.3  # of the inputs, the part that is made of one that is whole, not of what it found
STATS = "stats.json"


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Fuzz every reader, with so many inputs in all."""
    from faults.readers import READERS

    folder = _fresh(folder)
    told = Tally("fuzz: what is read from outside is taken or refused in one sentence", seed)
    make_material(folder / "material")
    whole = sum(share for _, share in READERS.values())
    runs = {name: math.ceil(count * share / whole) for name, (_, share) in READERS.items()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        order = sorted(runs, key=runs.__getitem__)  # the slowest, which have few, first
        found = dict(
            zip(order, pool.map(lambda n: fuzz(n, runs[n], seed, folder), order), strict=True)
        )
    for name, stats in found.items():
        for outcome, number in stats["outcomes"].items():
            told.held[f"{name} {outcome}"] += number
        for what in stats["broken"]:
            told.fail(f"{name}: {what}")
        told.figures[name] = (
            f"{stats['done']:,} inputs in {stats['seconds']:.0f} s of a core, the slowest "
            f"{1000 * stats['slowest']:.0f} ms, {stats['grown']:.0f} MB more after than halfway"
        )
    return [told]


def fuzz(name: str, runs: int, seed: int, folder: Path) -> dict[str, Any]:
    """Fuzz one reader in a process of its own; return what it says of it."""
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
    """One reader and what came of its inputs."""

    def __init__(self, reader: Any, runs: int, folder: Path) -> None:
        self.reader, self.runs, self.folder = reader, runs, folder
        self.outcomes: Counter[str] = Counter()
        self.broken: dict[str, str] = {}
        self.done, self.slowest, self.began = 0, 0.0, time.process_time()
        self.halfway = 0.0

    def __call__(self, data: bytes) -> None:
        """Try one input."""
        before = time.thread_time()
        try:
            self.outcomes[self.reader.outcome(data)] += 1
        except Exception as error:
            self.fail(data, f"{type(error).__name__}: {str(error)[:200]}", _where(error))
        except BaseException as error:  # a panic of Rust's, which is no Exception
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
            self.keep()

    def fail(self, data: bytes, what: str, where: str) -> None:
        """Remember a defect once, with the input that shows it."""
        if where in self.broken:
            self.outcomes[f"broken at {where}"] += 1
            return
        name = hashlib.sha256(data).hexdigest()[:12]
        (self.folder / name).write_bytes(data)
        self.broken[where] = f"{what} at {where}, input {self.folder / name}"
        print(f"BROKEN: {self.broken[where]}", flush=True)

    def keep(self) -> None:
        """Write how it stands: libFuzzer ends the process without a word to Python."""
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
    """Return the last line of ours that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "transduce" in one.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {type(error).__name__}"


def make_material(folder: Path) -> None:
    """Make the real files that inputs begin with."""
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
    given = parser.parse_args()
    with atheris.instrument_imports(include=["transduce"]):
        from faults.reader import Material
        from faults.readers import READERS

        scratch, corpus = given.folder / "scratch", given.folder / "corpus"
        scratch.mkdir(parents=True, exist_ok=True)
        corpus.mkdir(exist_ok=True)
        material = Material(given.material / "run", given.material / "marian")
        reader = READERS[given.reader][0](material, scratch)
    for number, data in enumerate(reader.seeds):
        (corpus / f"seed-{number}").write_bytes(data)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if draw.random() < ANEW:
            data = draw.choice(reader.seeds)
        if reader.is_json and draw.random() < STRUCTURED:
            found = reader.mutated(data, draw)
            if found is not None and len(found) <= most:
                return found
        mutated: bytes = atheris.Mutate(data, most)
        return mutated

    longest = max(LONGEST, *(2 * len(data) for data in reader.seeds))
    options = {"runs": given.runs, "seed": given.seed, "max_len": longest, "timeout": 60}
    options |= {"rss_limit_mb": ROOM, "print_final_stats": 1, "verbosity": 0, "len_control": 0}
    flags = [f"-{name}={value}" for name, value in options.items()]
    flags.append(f"-artifact_prefix={given.folder}/")
    trial = Trial(reader, given.runs, given.folder)
    atheris.Setup(["fuzz", *flags, str(corpus)], trial, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
