"""Speed and BLEU of translation: our engines and peers.

All sides use the same weights and lines, and take turns. BLEU shows whether speed costs quality.
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
from transduce.bench.results import align, machine_notes, ratio_row
from transduce.bench.translators import (
    CTranslate2,
    HuggingFace,
    OurEngine,
    TimedTranslation,
    start_translating,
    time_all,
    time_each,
)
from transduce.bench.workers import (
    Worker,
    check_names,
    choose_peers,
    installed,
    library,
    take_turns,
)
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
Plan = tuple[str, Any, tuple[Any, ...]]  # the name of a side, its class and arguments
COLUMNS = (
    *("", "sentences/s", "lowest to highest", "tokens/s", "one sentence, ms", "95th percentile"),
    *("peak memory", "start", "BLEU"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Measurements of one side."""

    name: str
    path: str
    start: float  # seconds, from a new process to its first translation
    rounds: tuple[TimedTranslation, ...]
    each: tuple[float, ...]  # seconds of single sentences
    tokens: int = 0  # of the output
    bleu: float | None = None

    def with_quality(
        self, codec: Codec, references: Sequence[str] | None, language: str
    ) -> "Measured":
        """Return a copy with the number of output tokens, and BLEU if there are references."""
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
        return [len(timed.outputs) / timed.seconds for timed in self.rounds]

    @property
    def speed(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.speeds)

    @property
    def tokens_per_second(self) -> float:
        """Output tokens per second, including </s>; the median of the rounds."""
        return self.speed * self.tokens / len(self.rounds[0].outputs)

    def quantile(self, part: float) -> float | None:
        """Return a quantile of the single-sentence times in milliseconds, or None without times."""
        if not self.each:
            return None
        ordered = sorted(self.each)
        return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as a JSON object."""
        return {
            "name": self.name,
            "path": self.path,
            "sentences_per_second": round(self.speed, 2),
            "rounds": [round(speed, 2) for speed in self.speeds],
            "tokens_per_second": round(self.tokens_per_second, 1),
            "latency_ms_median": self.quantile(0.5),
            "latency_ms_95": self.quantile(0.95),
            "peak_memory": max(timed.peak_memory for timed in self.rounds),
            "start_seconds": round(self.start, 3),
            "bleu": self.bleu,
        }

    def row(self) -> list[str]:
        """Return the row of the table."""
        median, percentile_95 = self.quantile(0.5), self.quantile(0.95)
        return [
            self.name,
            f"{self.speed:,.1f}",
            f"{min(self.speeds):,.1f} to {max(self.speeds):,.1f}",
            f"{self.tokens_per_second:,.0f}",
            "" if median is None else f"{median:,.1f}",
            "" if percentile_95 is None else f"{percentile_95:,.1f}",
            f"{max(timed.peak_memory for timed in self.rounds) / 2**30:.2f} GiB",
            f"{self.start:.1f} s",
            "" if self.bleu is None else f"{self.bleu:.2f}",
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Measurements of all sides, and the conditions."""

    sides: tuple[Measured, ...]
    peers: int  # number of peers, which are the last sides
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
        """Return a table of all sides, followed by notes on the conditions."""
        rows = [list(COLUMNS), *(side.row() for side in self.sides)]
        for ours, peer in self._pairs():
            label = f"{ours.name} to {peer.name}"
            rows.append(ratio_row(label, ours.speeds, peer.speeds, len(COLUMNS)))
        notes = {
            "rounds": f"median of {len(self.sides[0].rounds)} rounds with the whole text, in turn",
            "text": self.text,
            "search": f"beam {self.search.beam}, alpha {self.search.alpha}; the length penalty of "
            "the peers is |Y|^alpha",
            **{side.name: side.path for side in self.sides},
            **dict(machine_notes(self.machine)),
        }
        lines = (f"{name:12} {value}" for name, value in notes.items())
        return "\n".join([*align(rows), "", *lines])

    def _pairs(self) -> list[tuple[Measured, Measured]]:
        """Pair each of our engines with each peer; without peers, with our first engine."""
        cut = len(self.sides) - self.peers
        ours, peers = self.sides[:cut], self.sides[cut:]
        if not peers:
            return [(engine, ours[0]) for engine in ours[1:]]
        return [(engine, peer) for peer in peers for engine in ours]


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
    to: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Measure engines and peers on a run's model and the first `lines` of a text.

    `single` of them are also translated one by one. An engine may include a quantization:
    ctranslate2:int8. By default all installed engines take part, and huggingface if installed.
    """
    progress = progress or Silent()
    config = RunConfig.load(run).directed(to, None)
    search = config.search.replace(**(settings or {}))
    chosen, names = _choose_engines(engines, device), choose_peers(peers, PEERS, progress)
    texts, references = read_texts(source, reference, lines)
    codec = Codec.load(config.verified(run, SUBWORDS))
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals_as_interrupt("stopped: nothing was measured"))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transduce-bench-")))
        plans: list[Plan] = [
            (name, OurEngine, (run, name, device, search, batch, to)) for name in chosen
        ]
        for name in [*names]:
            try:
                if len(config.targets) > 1:
                    raise BadInput("peers translate to one language only")
                side = _export_for_peer(name, run, scratch, device, search, batch)
            except BadInput as error:
                if peers is not None:
                    raise BadInput(f"{error}; --peer none measures without it") from None
                progress.say(f"measuring without {name}: {error}")
                names.remove(name)
            else:
                plans.append((f"peer {name}", *side))
        sides = _measure(plans, texts, single, rounds, stack, progress)
    return Comparison(
        sides=tuple(side.with_quality(codec, references, config.languages[1]) for side in sides),
        peers=len(names),
        search=search,
        text=f"{pluralize(len(texts), 'line')} of {source}",
        machine=hardware.describe(
            "cuda" if any("cuda" in side.path for side in sides) else "cpu",
            cores(),
            dict.fromkeys(["torch", *map(library, (*chosen, *names))]),
        ),
    )


def _measure(
    plans: Sequence[Plan],
    texts: Sequence[str],
    single: int,
    rounds: int,
    stack: contextlib.ExitStack,
    progress: Progress,
) -> list[Measured]:
    """Start the sides, and measure them in turn."""
    workers, started = [], []
    for name, make, arguments in plans:
        # One after the other: each has the machine to itself until its first translation.
        progress.say(f"starting {name}")
        start = time.perf_counter()
        worker = Worker(name, make, texts[0], *arguments, begin=start_translating)
        workers.append(stack.enter_context(worker))
        started.append((worker.started(), time.perf_counter() - start))
    results = take_turns(workers, time_all, texts, rounds, _speed, progress, warm_ups=1)
    each = [worker.call(time_each, texts[:single]) for worker in workers]
    return [
        Measured(name=worker.name, path=path, start=start, rounds=tuple(timed), each=tuple(times))
        for worker, (path, start), timed, times in zip(workers, started, results, each, strict=True)
    ]


def read_texts(
    source: str, reference: str | None = None, lines: int | None = None
) -> tuple[list[str], list[str] | None]:
    """Read the first lines of a text that are not blank, and their reference translations."""
    texts = list(text.read_lines(source))
    kept = [i for i, line in enumerate(texts) if line.strip()][:lines]
    if not kept:
        raise BadInput(f"{source} is empty: there is nothing to translate")
    if reference is None:
        return [texts[i] for i in kept], None
    references = list(text.read_lines(reference))
    if len(references) != len(texts):
        raise BadInput(
            f"{reference} has {pluralize(len(references), 'line')} for {len(texts):,} of {source}: "
            "expected one each"
        )
    return [texts[i] for i in kept], [references[i] for i in kept]


def _choose_engines(wanted: Sequence[str] | None, device: str) -> list[str]:
    """Return the engines; by default all that are installed."""
    chosen = choose_device(device, mps=False)
    if wanted:
        return check_names("engine", wanted, ENGINES)
    return [
        "torch",
        *(["ctranslate2"] if chosen.type == "cpu" and installed("ctranslate2") else []),
    ]


def _export_for_peer(
    name: str, run: Path, scratch: Path, device: str, search: SearchConfig, batch: int | None
) -> tuple[Any, tuple[Any, ...]]:
    """Export the model for a peer; return the class of the peer and its arguments."""
    folder = scratch / name.replace(":", "-")
    if name == "huggingface":
        from transduce.interop.export.huggingface import export

        export(run, folder)
        return HuggingFace, (folder, device, search, batch)
    from transduce.interop.export import ctranslate2

    quantize = name.partition(":")[2] or "none"
    ctranslate2.export(run, folder, quantize)
    return CTranslate2, (folder, "float32" if quantize == "none" else quantize, search, batch)


def _speed(timed: TimedTranslation) -> str:
    return f"{len(timed.outputs) / timed.seconds:,.1f} sentences/s"
