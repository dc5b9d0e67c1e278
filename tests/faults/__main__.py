"""`python -m faults [KIND…] [--count N] [--seed S] [--out DIR]`: the long form."""

import argparse
import importlib
import signal
import sys
from pathlib import Path

# Each is a module with `COUNT`, the default number of faults, and
# `inject(count, seed, folder) -> list[Tally]`.
KINDS = {
    "kills": "kill -9 of training at random instants",
    "signals": "SIGTERM, SIGINT, SIGHUP at random instants",
    "environments": "locale C, no HOME, no terminal, few open files, two processes",
    "disk": "a full disk, failing fsync and rename, at every write",
    "corruption": "bit flips and truncation in every file",
    "workers": "workers that die, hang or are slow",
    "nonfinite": "NaN, infinite and exploding losses and gradients",
    "fuzz": "coverage-guided fuzzing of every reader",
    "documents": "200 documents of all formats, translated and read again",
    "spoiled": "500 damaged, hostile and misnamed documents",
    "overload": "the service at twice its capacity",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--count", type=int, help="how many; each kind has its own default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/faults"))
    options = parser.parse_args()
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        parser.error(f"unknown kind of fault {unknown[0]}: expected {', '.join(KINDS)}")
    # A shell ignores these signals for background processes, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    broken = 0
    for kind in options.kinds or KINDS:
        print(f"== {kind}: {KINDS[kind]}", flush=True)
        folder = options.out / kind
        folder.mkdir(parents=True, exist_ok=True)
        module = importlib.import_module(f"faults.{kind}")
        for count in module.inject(options.count or module.COUNT, options.seed, folder):
            count.save(folder / f"{count.promise.split(':')[0].replace(' ', '-')}.json")
            print(count.summary(), flush=True)
            broken += len(count.broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
