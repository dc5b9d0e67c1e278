"""How fast a model translates here, and how well: engines and peers, side by side.

All sides have the same weights and the same lines, and take turns. BLEU stands beside the speed, so
that none is bought unnoticed.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transduce.bench import hardware
from transduce.bench.results import aligned, machine_in_words, quantile
from transduce.bench.translators import (
    CTranslate2,
    HuggingFace,
    Ours,
    Translated,
    translating,
)
from transduce.bench.workers import Worker, by_turns, installed, library, named, named_peers
from transduce.config import SearchConfig
from transduce.errors import BadInput
from transduce.evaluation import scores as scoring
from transduce.runs.folder import SUBWORDS, RunConfig
from transduce.subwords import Codec
from transduce.system.devices import choose_device
from transduce.system.formatting import pluralize
from transduce.system.processes import cores
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text import reading as text
from transduce.translation.engines.selection import ENGINES

PEERS = ("huggingface", "ctranslate2")
Plan = tuple[str, Any, tuple[Any, ...]]  # the name of a side, what makes it, and its arguments
COLUMNS = (
    *("", "sentences/s", "lowest to highest", "tokens/s", "one sentence, ms", "95th percentile"),
    *("peak memory", "start", "BLEU"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What was measured of one side."""

    name: str
    path: str
    start: float  # seconds, from a new process to its first translation
    rounds: tuple[Translated, ...]
    each: tuple[float, ...]  # seconds of single sentences
    tokens: int = 0  # of the output
    bleu: float | None = None

    def judged(self, codec: Codec, references: Sequence[str] | None, language: str) -> "Measured":
        """Return the same with its output counted in tokens, and scored where people wrote it."""
        outputs = self.rounds[-1].outputs
        return replace(
            self,
            tokens=sum(len(ids) + 1 for ids in codec.target.encode_batch(outputs)),
            bleu=None
            if references is None
            else round(scoring.bleu(outputs, references, language), 2),
        )

    @property
    def speeds(self) -> list[float]:
        """The sentences per second of each round."""
        return [len(one.outputs) / one.seconds for one in self.rounds]

    @property
    def speed(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.speeds)

    @property
    def tokens_per_second(self) -> float:
        """Output tokens, </s> counted, by the median of the rounds."""
        return self.speed * self.tokens / len(self.rounds[0].outputs)

    def quantile(self, part: float) -> float | None:
        """Return the milliseconds that so large a part of single sentences took at most."""
        return quantile(self.each, part)

    def to_json(self) -> dict[str, Any]:
        """Return what was measured as a JSON object."""
        return {
            "name": self.name,
            "path": self.path,
            "sentences_per_second": round(self.speed, 2),
            "rounds": [round(speed, 2) for speed in self.speeds],
            "tokens_per_second": round(self.tokens_per_second, 1),
            "latency_ms_median": self.quantile(0.5),
            "latency_ms_95": self.quantile(0.95),
            "peak_memory": max(one.peak_memory for one in self.rounds),
            "start_seconds": round(self.start, 3),
            "bleu": self.bleu,
        }

    def row(self) -> list[str]:
        """Return the line of the table."""
        middle, late = self.quantile(0.5), self.quantile(0.95)
        return [
            self.name,
            f"{self.speed:,.1f}",
            f"{min(self.speeds):,.1f} to {max(self.speeds):,.1f}",
            f"{self.tokens_per_second:,.0f}",
            "" if middle is None else f"{middle:,.1f}",
            "" if late is None else f"{late:,.1f}",
            f"{max(one.peak_memory for one in self.rounds) / 2**30:.2f} GiB",
            f"{self.start:.1f} s",
            "" if self.bleu is None else f"{self.bleu:.2f}",
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What was measured of all sides, and on what."""

    sides: tuple[Measured, ...]
    peers: int  # so many of the sides, the last ones
    search: SearchConfig
    text: str
    machine: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return {
            "bench": "translate",
            "sides": [side.to_json() for side in self.sides],
            "ratios": {
                f"{ours.name} to {peer.name}": round(ours.speed / peer.speed, 3)
                for ours, peer in self._pairs()
            },
            "search": self.search.to_json(),
            "text": self.text,
            "machine": dict(self.machine),
        }

    def report(self) -> str:
        """Return a table of all sides, and under it what was measured on what."""
        rows = [list(COLUMNS), *(side.row() for side in self.sides)]
        for ours, peer in self._pairs():
            each = [a / b for a, b in zip(ours.speeds, peer.speeds, strict=True)]
            rows.append(
                [
                    f"{ours.name} to {peer.name}",
                    f"{ours.speed / peer.speed:.2f}",
                    f"{min(each):.2f} to {max(each):.2f}",
                    *[""] * (len(COLUMNS) - 3),
                ]
            )
        notes = {
            "rounds": f"median of {len(self.sides[0].rounds)}, each all of the text, by turns",
            "text": self.text,
            "search": f"beam {self.search.beam}, alpha {self.search.alpha}; the peers' penalty is "
            "the length to the power of alpha",
            **{side.name: side.path for side in self.sides},
            **dict(machine_in_words(self.machine)),
        }
        lines = (f"{name:12} {value}" for name, value in notes.items())
        return "\n".join([*aligned(rows), "", *lines])

    def _pairs(self) -> list[tuple[Measured, Measured]]:
        """Return each of our engines beside each peer; without peers, beside our first."""
        cut = len(self.sides) - self.peers
        ours, peers = self.sides[:cut], self.sides[cut:]
        if not peers:
            return [(one, ours[0]) for one in ours[1:]]
        return [(one, peer) for peer in peers for one in ours]


def compare(
    run: Path,
    source: str,
    reference: str | None = None,
    *,
    engines: Sequence[str] | None = None,
    peers: Sequence[str] | None = None,
    lines: int | None = None,
    single: int = 50,
    rounds: int = 3,
    batch: int | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Comparison:
    """Measure engines and peers on a run's model and the first `lines` of a text.

    `single` of them are translated one by one too. An engine is named as `--engine` takes it, with
    a quantisation behind a colon: ctranslate2:int8. Without `engines` all that are installed take
    part, without `peers` huggingface if it is installed.
    """
    progress = progress or Silent()
    config = RunConfig.load(run)
    search = config.search.replace(**(settings or {}))
    chosen, names = _engines(engines, device), named_peers(peers, PEERS, progress)
    texts, references = read(source, reference, lines)
    codec = Codec.load(config.verified(run, SUBWORDS))
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_interrupt("stopped: nothing was measured"))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transduce-bench-")))
        plans: list[Plan] = [(name, Ours, (run, name, device, search, batch)) for name in chosen]
        for name in [*names]:
            try:
                how = _peer(name, run, scratch, device, search, batch)
            except BadInput as error:
                if peers is not None:
                    raise BadInput(f"{error}; --peer none measures without it") from None
                progress.say(f"measuring without {name}: {error}")
                names.remove(name)
            else:
                plans.append((f"peer {name}", *how))
        sides = _measured(plans, texts, single, rounds, stack, progress)
    return Comparison(
        sides=tuple(side.judged(codec, references, config.languages[1]) for side in sides),
        peers=len(names),
        search=search,
        text=f"{pluralize(len(texts), 'line')} of {source}",
        machine=hardware.describe(
            "cuda" if any("cuda" in side.path for side in sides) else "cpu",
            cores(),
            dict.fromkeys(["torch", *map(library, (*chosen, *names))]),
        ),
    )


def _measured(
    plans: Sequence[Plan],
    texts: Sequence[str],
    single: int,
    rounds: int,
    stack: contextlib.ExitStack,
    progress: Progress,
) -> list[Measured]:
    """Start the sides, and have them take turns."""
    workers, started = [], []
    for name, make, arguments in plans:
        # One after the other: each has the machine for itself until it has translated a line.
        progress.say(f"starting {name}")
        began = time.perf_counter()
        worker = Worker(name, make, texts[0], *arguments, begin=translating)
        workers.append(stack.enter_context(worker))
        started.append((worker.started(), time.perf_counter() - began))
    found = by_turns(workers, ("all", texts), rounds, _speed, progress, warm_ups=1)
    each = [worker.measure(("each", texts[:single])) for worker in workers]
    return [
        Measured(name=worker.name, path=path, start=start, rounds=tuple(own), each=tuple(one))
        for worker, (path, start), own, one in zip(workers, started, found, each, strict=True)
    ]


def read(
    source: str, reference: str | None = None, lines: int | None = None
) -> tuple[list[str], list[str] | None]:
    """Read the first lines of a text that are not blank, and their translations by people."""
    texts = list(text.read_lines(source))
    kept = [i for i, line in enumerate(texts) if line.strip()][:lines]
    if not kept:
        raise BadInput(f"{source} is empty: there is nothing to translate")
    if reference is None:
        return [texts[i] for i in kept], None
    others = list(text.read_lines(reference))
    if len(others) != len(texts):
        raise BadInput(
            f"{reference} has {pluralize(len(others), 'line')} for {len(texts):,} of {source}: "
            "expected one each"
        )
    return [texts[i] for i in kept], [others[i] for i in kept]


def _engines(wanted: Sequence[str] | None, device: str) -> list[str]:
    """Return the engines that are wanted; where nobody says, those that are there."""
    on = choose_device(device, mps=False)
    if wanted:
        return named("engine", wanted, ENGINES)
    return ["torch", *(["ctranslate2"] if on.type == "cpu" and installed("ctranslate2") else [])]


def _peer(
    name: str, run: Path, scratch: Path, device: str, search: SearchConfig, batch: int | None
) -> tuple[Any, tuple[Any, ...]]:
    """Export the model for a peer; return what makes the peer."""
    folder = scratch / name.replace(":", "-")
    if name == "huggingface":
        from transduce.interop.export.huggingface import export

        export(run, folder)
        return HuggingFace, (folder, device, search, batch)
    from transduce.interop.export import ctranslate2

    quantize = name.partition(":")[2] or "none"
    ctranslate2.export(run, folder, quantize)
    return CTranslate2, (folder, "float32" if quantize == "none" else quantize, search, batch)


def _speed(found: Translated) -> str:
    return f"{len(found.outputs) / found.seconds:,.1f} sentences/s"
