"""Translate in two threads on one GPU for a while, and report errors and speed.

    python tools/threads_trial.py --seconds 60

The models have the size of the paper's base model and random weights. Each thread translates random
batches of 1 to 200 sentences: two threads with a model each, then two threads that share a model.
A single thread comes first, for comparison. Sentences per second are counted over all threads.
"""

import argparse
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from transduce.config import ModelConfig, SearchConfig
from transduce.model.transformer import Transformer
from transduce.subwords import EOS
from transduce.system.devices import choose_device
from transduce.translation.engines.pytorch import TorchEngine
from transduce.translation.types import Job

FORBIDDEN = [0, 1, 3]
SEARCH = SearchConfig(extra=10)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def engine(seed: int) -> TorchEngine:
    """Return an engine with random weights in float16."""
    torch.manual_seed(seed)
    model = Transformer(ModelConfig()).to(choose_device("cuda"))
    return TorchEngine([model.narrow(torch.float16)], FORBIDDEN)


def jobs(random: np.random.Generator, count: int) -> list[Job]:
    """Return sentences of random words, the longest first."""
    lengths = np.sort(np.clip(random.lognormal(3.1, 0.5, count), 4, 120).astype(int))[::-1]
    return [Job(np.append(random.integers(4, 37_000, length - 1), EOS)) for length in lengths]


def work(
    searching: TorchEngine, end: float, seed: int, most: int, done: list[tuple[float, int]]
) -> None:
    """Translate batches until `end`; append the time and size of each to `done`."""
    random = np.random.default_rng(seed)
    while time.monotonic() < end:
        batch = jobs(random, most if most < 200 else int(random.integers(1, 201)))
        results = dict(searching.search(batch, SEARCH, 512))
        if len(results) != len(batch) or not all(results.values()):
            raise RuntimeError(f"{len(results)} of {len(batch)} sentences were translated")
        done.append((time.monotonic(), len(batch)))


def trial(name: str, engines: list[TorchEngine], seconds: float, most: int = 200) -> None:
    """Run one thread for each engine in the list, and print errors and speed."""
    done: list[tuple[float, int]] = []
    began = time.monotonic()
    with ThreadPoolExecutor(len(engines)) as pool:
        futures = [
            pool.submit(work, searching, began + seconds, seed, most, done)
            for seed, searching in enumerate(engines)
        ]
    errors = [error for future in futures if (error := future.exception())]
    edge = min(10.0, seconds / 2)
    first = sum(count for when, count in done if when < began + edge) / edge
    last = sum(count for when, count in done if when >= began + seconds - edge) / edge
    say(
        f"{name}: {len(errors)} errors, {len(done)} batches; sentences/s in the first {edge:g} s "
        f"{first:,.0f}, in the last {edge:g} s {last:,.0f}"
    )
    for error in errors:
        say(repr(error))


def main() -> None:
    """Run the trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the longest trial")
    seconds = parser.parse_args().seconds
    logging.basicConfig(level=logging.WARNING)
    one, other = engine(1), engine(2)
    trial("one thread, batches of 60", [one], seconds / 4, most=60)
    trial("one thread", [one], seconds / 4)
    trial("two threads, two models", [one, other], seconds)
    trial("two threads, one model", [one, one], seconds / 2)
    for number, each in enumerate((one, other), 1):
        spaces = each.decoder.workspaces
        say(f"model {number}: {len(spaces.pool)} recorded steps, {spaces.failures} failures")
    say(f"memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
