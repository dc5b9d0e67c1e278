"""What was measured: as a table for people, as JSON for machines."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transduce.bench.flops import flops
from transduce.bench.workers import WARM_UP, Round, Saving, Started, total
from transduce.config import ModelConfig
from transduce.runs.folder import RunConfig
from transduce.system.formatting import pluralize

COLUMNS = (
    *("", "target tokens/s", "lowest to highest", "ms/step", "MFU"),
    *("peak memory", "first step", "fill", "parameters"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One side's rounds, and their median."""

    name: str
    model: ModelConfig
    started: Started
    rounds: tuple[Round, ...]
    matrix_rate: float  # FLOPs a second of the machine

    @property
    def speeds(self) -> list[float]:
        """The target tokens per second of each round."""
        return [one.target_tokens_per_second for one in self.rounds]

    @property
    def utilisation(self) -> float:
        """The model's FLOPs per second as a share of the machine's matrix rate."""
        rates = (
            flops(self.model, one.seen.source_tokens, one.seen.target_tokens) / one.seconds
            for one in self.rounds
        )
        return statistics.median(rates) / self.matrix_rate

    @property
    def fill(self) -> tuple[float, float]:
        """The share of places that hold a token, of source and target."""
        seen = total([one.seen for one in self.rounds])
        return seen.source_tokens / seen.places_source, seen.target_tokens / seen.places_target

    @property
    def peak_memory(self) -> int:
        """The most bytes that the side has held."""
        return max(one.peak_memory for one in self.rounds)

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
                statistics.median(one.milliseconds_per_step for one in self.rounds), 3
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
                {"seconds": round(one.seconds, 6), **one.seen._asdict()} for one in self.rounds
            ],
        }

    def row(self, label: str) -> list[str]:
        """Return the line of the table."""
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
    """What was measured of one preset, on what, and how."""

    ours: Measured
    peers: tuple[Measured, ...]
    config: RunConfig
    text: str  # what was trained on, in words
    steps: int  # of each round
    machine: Mapping[str, Any]
    saving: Saving | None = None

    @property
    def saving_share(self) -> float:
        """How much of the time goes into checkpoints at the interval of the settings."""
        assert self.saving is not None
        steps = self.config.train.save_every * self.saving.step
        return self.saving.checkpoint / (steps + self.saving.checkpoint)

    @property
    def sides(self) -> tuple[Measured, ...]:
        """All that were compared."""
        return self.ours, *self.peers

    def ratios(self, peer: Measured) -> list[float]:
        """Return how many times as fast as a peer we are, round by round."""
        return [a / b for a, b in zip(self.ours.speeds, peer.speeds, strict=True)]

    def ratio(self, peer: Measured) -> float:
        """Return how many times as fast as a peer we are, by the medians."""
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
        """Return the lines of the table, with the preset's name where there are several."""
        before = f"{self.config.preset}, " if named else ""
        rows = [side.row(before + side.name) for side in self.sides]
        for peer in self.peers:
            lowest, highest = min(self.ratios(peer)), max(self.ratios(peer))
            speeds = [f"{self.ratio(peer):.2f}", f"{lowest:.2f} to {highest:.2f}"]
            label = f"{before}ratio to {peer.name}"
            rows.append([label, *speeds, *[""] * (len(COLUMNS) - 3)])
        return rows


def report(comparisons: Sequence[Comparison]) -> str:
    """Return one table of all that was measured, and under it what was measured on what."""
    named = len(comparisons) > 1
    rows = [list(COLUMNS), *(row for one in comparisons for row in one.rows(named=named))]
    notes = (f"{name:13} {value}" for name, value in _circumstances(comparisons))
    return "\n".join([*aligned(rows), "", *notes])


def _circumstances(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    one, machine = comparisons[0], comparisons[0].machine
    rounds, matrix = len(one.ours.rounds), machine["matrix"]
    size = f"{matrix['size']:,} x {matrix['size']:,}"
    steps = pluralize(one.steps, "step")
    yield "rounds", f"median of {rounds}, of {steps} each; {WARM_UP} steps before each to warm up"
    yield "text", one.text
    for each in comparisons:
        yield "model", _shape(each.config)
    for each in comparisons:
        if each.saving is not None:
            every, step = each.config.train.save_every, 1000 * each.saving.step
            share, checkpoint = each.saving_share, 1000 * each.saving.checkpoint
            often = f"every {pluralize(every, 'step')} of {step:,.1f}"
            words = f"{checkpoint:,.0f} ms for each checkpoint, {often}"
            yield "saving", f"{share:.2%} of the time: {words} ms"
    if one.peers:
        yield "batches", "of one size from one corpus for all sides; sorted by length for the peers"
    yield from dict.fromkeys(
        (side.name, side.started.path) for each in comparisons for side in each.sides
    )
    yield (
        "MFU",
        f"of the {_rate(matrix['flops_per_second'])} of a {matrix['precision']} product of {size}",
    )
    yield from machine_in_words(machine)


def machine_in_words(machine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines that say on what was measured."""
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
        f"{config.train.batch_tokens:,} tokens a side and step"
    )


def _rate(flops_per_second: float) -> str:
    tera = flops_per_second / 1e12
    return f"{tera:,.0f} TFLOP/s" if tera >= 1 else f"{1000 * tera:,.0f} GFLOP/s"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Set the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def quantile(seconds: Sequence[float], part: float) -> float | None:
    """Return the milliseconds that so large a part of some times took at most; None of none."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]
