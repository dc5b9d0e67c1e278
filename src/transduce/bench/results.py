"""Results of `bench train`, as a table and as JSON."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transduce.bench.flops import flops
from transduce.bench.workers import WARM_UP, Round, Saving, Started, StepTokens, total
from transduce.config import ModelConfig
from transduce.runs.folder import RunConfig
from transduce.system.formatting import pluralize

COLUMNS = (
    *("", "target tokens/s", "lowest to highest", "ms/step", "MFU"),
    *("peak memory", "first step", "fill", "parameters"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The rounds of one side."""

    name: str
    model: ModelConfig
    passes: int = 1  # over each batch
    started: Started
    rounds: tuple[Round, ...]
    matrix_rate: float  # FLOPs per second of the machine

    @property
    def speeds(self) -> list[float]:
        """The target tokens per second of each round."""
        return [timed.target_tokens_per_second for timed in self.rounds]

    @property
    def utilisation(self) -> float:
        """The model's FLOPs per second as a share of the machine's matrix rate."""
        rates = (self._flops(timed.tokens) * self.passes / timed.seconds for timed in self.rounds)
        return statistics.median(rates) / self.matrix_rate

    def _flops(self, tokens: StepTokens) -> int:
        counts = tokens.source_tokens, tokens.target_tokens, tokens.weights_by_length
        return flops(self.model, *counts)

    @property
    def fill(self) -> tuple[float, float]:
        """The share of real tokens among all positions, for source and target."""
        tokens = total([timed.tokens for timed in self.rounds])
        return (
            tokens.source_tokens / tokens.places_source,
            tokens.target_tokens / tokens.places_target,
        )

    @property
    def peak_memory(self) -> int:
        """The peak memory in bytes."""
        return max(timed.peak_memory for timed in self.rounds)

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as a JSON object."""
        source, target = self.fill
        return {
            "name": self.name,
            "parameters": self.started.parameters,
            "precision": self.started.precision,
            "path": self.started.path,
            "target_tokens_per_second": round(statistics.median(self.speeds), 1),
            "lowest": round(min(self.speeds), 1),
            "highest": round(max(self.speeds), 1),
            "milliseconds_per_step": round(
                statistics.median(timed.milliseconds_per_step for timed in self.rounds), 3
            ),
            "model_flops_utilisation": round(self.utilisation, 4),
            "peak_memory_bytes": self.peak_memory,
            "seconds_to_first_step": round(self.started.seconds, 3),
            "fill": {
                "source": round(source, 4),
                "target": round(target, 4),
                "worse": round(min(source, target), 4),
            },
            "rounds": [
                {"seconds": round(timed.seconds, 6), **timed.tokens._asdict()}
                for timed in self.rounds
            ],
        }

    def row(self, label: str) -> list[str]:
        """Return the table row."""
        facts = self.to_json()
        return [
            label,
            f"{facts['target_tokens_per_second']:,.0f}",
            f"{facts['lowest']:,.0f} to {facts['highest']:,.0f}",
            f"{facts['milliseconds_per_step']:,.1f}",
            f"{self.utilisation:.1%}",
            f"{self.peak_memory / 2**20:,.0f} MiB",
            f"{self.started.seconds:.1f} s",
            f"{min(self.fill):.1%}",
            f"{self.started.parameters:,}",
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """All measurements of one preset."""

    ours: Measured
    peers: tuple[Measured, ...]
    config: RunConfig
    text: str  # a description of the training text
    steps: int  # per round
    machine: Mapping[str, Any]
    saving: Saving | None = None

    @property
    def saving_share(self) -> float:
        """The share of training time that checkpoints take at `save_every`."""
        assert self.saving is not None
        steps = self.config.train.save_every * self.saving.step
        return self.saving.checkpoint / (steps + self.saving.checkpoint)

    @property
    def sides(self) -> tuple[Measured, ...]:
        """Our side and the peers."""
        return self.ours, *self.peers

    def ratios(self, peer: Measured) -> list[float]:
        """Return our speed divided by a peer's, round by round."""
        return [a / b for a, b in zip(self.ours.speeds, peer.speeds, strict=True)]

    def ratio(self, peer: Measured) -> float:
        """Return our median speed divided by a peer's."""
        return statistics.median(self.ours.speeds) / statistics.median(peer.speeds)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return {
            "bench": "train",
            "ours": self.ours.to_json(),
            "peers": [
                peer.to_json()
                | {
                    "ratio": round(self.ratio(peer), 3),
                    "ratio_lowest": round(min(self.ratios(peer)), 3),
                    "ratio_highest": round(max(self.ratios(peer)), 3),
                }
                for peer in self.peers
            ],
            "saving": None
            if self.saving is None
            else {
                "seconds_a_checkpoint": round(self.saving.checkpoint, 4),
                "milliseconds_per_step": round(1000 * self.saving.step, 3),
                "save_every": self.config.train.save_every,
                "share_of_time": round(self.saving_share, 6),
            },
            "steps": self.steps,
            "rounds": len(self.ours.rounds),
            "warm_up": WARM_UP,
            "precision": self.ours.started.precision,
            "text": self.text,
            "machine": dict(self.machine),
            "preset": self.config.preset,
            "languages": list(self.config.languages),
            "model": self.config.model.to_json(),
            "train": self.config.train.to_json(),
        }

    def rows(self, *, named: bool) -> list[list[str]]:
        """Return the rows of the table, with the preset's name if there are several."""
        prefix = f"{self.config.preset}, " if named else ""
        rows = [side.row(prefix + side.name) for side in self.sides]
        for peer in self.peers:
            label = f"{prefix}ratio to {peer.name}"
            rows.append(ratio_row(label, self.ours.speeds, peer.speeds, len(COLUMNS)))
        return rows


def report(comparisons: Sequence[Comparison]) -> str:
    """Return one table for all presets, followed by notes on the conditions."""
    named = len(comparisons) > 1
    rows = [
        list(COLUMNS),
        *(row for comparison in comparisons for row in comparison.rows(named=named)),
    ]
    notes = (f"{name:13} {value}" for name, value in _notes(comparisons))
    return "\n".join([*align(rows), "", *notes])


def _notes(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    first, machine = comparisons[0], comparisons[0].machine
    rounds, matrix = len(first.ours.rounds), machine["matrix"]
    size = f"{matrix['size']:,} x {matrix['size']:,}"
    steps = pluralize(first.steps, "step")
    yield "rounds", f"median of {rounds} rounds of {steps}, each after {WARM_UP} untimed steps"
    yield "text", first.text
    for comparison in comparisons:
        yield "model", _shape(comparison.config)
    for comparison in comparisons:
        if comparison.saving is not None:
            every, step = comparison.config.train.save_every, 1000 * comparison.saving.step
            share, checkpoint = comparison.saving_share, 1000 * comparison.saving.checkpoint
            often = f"every {pluralize(every, 'step')} of {step:,.1f}"
            cost = f"{checkpoint:,.0f} ms for each checkpoint, {often}"
            yield "saving", f"{share:.2%} of the time: {cost} ms"
    if first.peers:
        yield "batches", "the same size and corpus for all sides; sorted by length for the peers"
    yield from dict.fromkeys(
        (side.name, side.started.path) for comparison in comparisons for side in comparison.sides
    )
    yield (
        "MFU",
        f"of the {_rate(matrix['flops_per_second'])} of a {matrix['precision']} product of {size}",
    )
    yield from machine_notes(machine)


def machine_notes(machine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the notes on the machine."""
    threads = machine["threads"]
    yield (
        "machine",
        f"{machine['device']}, {threads} thread{'' if threads == 1 else 's'}, "
        + " and ".join(name for name in (machine["gpu"], machine["processor"]) if name),
    )
    yield "versions", ", ".join(f"{name} {which}" for name, which in machine["versions"].items())


def _shape(config: RunConfig) -> str:
    model = config.model
    return (
        f"{config.preset}: N {model.N}, d_model {model.d_model}, d_ff {model.d_ff}, h {model.h}, "
        f"P_drop {model.P_drop}, vocabulary {model.target_vocabulary:,}, "
        f"{config.train.batch_tokens:,} tokens per side and step"
    )


def _rate(flops_per_second: float) -> str:
    tera = flops_per_second / 1e12
    return f"{tera:,.0f} TFLOP/s" if tera >= 1 else f"{1000 * tera:,.0f} GFLOP/s"


def ratio_row(
    label: str, ours: Sequence[float], theirs: Sequence[float], columns: int
) -> list[str]:
    """Return the table row of a ratio of median speeds, with its range over the rounds."""
    ratio = statistics.median(ours) / statistics.median(theirs)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    cells = [label, f"{ratio:.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"]
    return cells + [""] * (columns - len(cells))


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
