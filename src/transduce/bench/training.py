"""How fast a model trains here, side by side with a peer that trains the same on the same batches.

The measure is target tokens per second: those that have a loss, padding not counted. A step is all
that `transduce train` does in one: the next batch, forward, loss, backward, update.
"""

import contextlib
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transduce import config as configuration
from transduce import text
from transduce.bench import hardware, huggingface
from transduce.bench.sides import WARM_UP, Round, Seen, Worker
from transduce.checkpoint import RunConfig, weights_of
from transduce.corpus import open_corpus
from transduce.errors import BadSetting, did_you_mean
from transduce.machine import choose_device, terminated_as_interrupted
from transduce.plan import begun
from transduce.preparation import prepare
from transduce.presets import preset as find_preset
from transduce.progress import Progress, Silent
from transduce.training import Trainer

OURS = "transduce"
PEERS = (huggingface.NAME, "none")
NOISY = 1.25  # the fastest round by the slowest, beyond which the numbers say little
PRECISION = "float32"  # the trainer's, and so the peer's


@dataclass(frozen=True, slots=True)
class Measured:
    """One side's rounds, and their median."""

    name: str
    parameters: int
    rounds: tuple[Round, ...]

    @property
    def speeds(self) -> list[float]:
        """The target tokens per second of each round."""
        return [one.target_tokens_per_second for one in self.rounds]

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as a JSON object."""
        return {
            "name": self.name,
            "parameters": self.parameters,
            "target_tokens_per_second": round(statistics.median(self.speeds), 1),
            "lowest": round(min(self.speeds), 1),
            "highest": round(max(self.speeds), 1),
            "milliseconds_per_step": round(
                statistics.median(one.milliseconds_per_step for one in self.rounds), 3
            ),
            "padding": round(statistics.mean(one.padding for one in self.rounds), 4),
            "rounds": [
                {"seconds": round(one.seconds, 6), "target_tokens": one.target_tokens}
                for one in self.rounds
            ],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What was measured, on what, and how."""

    ours: Measured
    peer: Measured | None
    config: RunConfig
    steps: int  # of each round
    machine: Mapping[str, Any]

    @property
    def ratios(self) -> list[float] | None:
        """How many times as fast as the peer we are, round by round on the same batches."""
        if self.peer is None:
            return None
        return [a / b for a, b in zip(self.ours.speeds, self.peer.speeds, strict=True)]

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the peer we are, by the medians."""
        if self.peer is None:
            return None
        return statistics.median(self.ours.speeds) / statistics.median(self.peer.speeds)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        ratios = self.ratios
        return {
            "bench": "train",
            "ours": self.ours.to_json(),
            "peer": self.peer.to_json() if self.peer else None,
            "ratio": round(self.ratio, 3) if self.ratio else None,
            "ratio_lowest": round(min(ratios), 3) if ratios else None,
            "ratio_highest": round(max(ratios), 3) if ratios else None,
            "steps": self.steps,
            "rounds": len(self.ours.rounds),
            "warm_up": WARM_UP,
            "precision": PRECISION,
            "machine": dict(self.machine),
            "preset": self.config.preset,
            "languages": list(self.config.languages),
            "model": self.config.model.to_json(),
            "train": self.config.train.to_json(),
        }

    def __str__(self) -> str:
        """Return a table for people, and under it what was measured on what."""
        rows = [["", "target tokens/s", "lowest to highest", "ms/step", "padding", "parameters"]]
        for side in (self.ours, self.peer):
            if side is not None:
                facts = side.to_json()
                rows.append(
                    [
                        side.name,
                        f"{facts['target_tokens_per_second']:,.0f}",
                        f"{facts['lowest']:,.0f} to {facts['highest']:,.0f}",
                        f"{facts['milliseconds_per_step']:,.1f}",
                        f"{facts['padding']:.1%}",
                        f"{side.parameters:,}",
                    ]
                )
        if self.ratio and self.ratios:
            lowest, highest = min(self.ratios), max(self.ratios)
            rows.append(["ratio", f"{self.ratio:.2f}", f"{lowest:.2f} to {highest:.2f}", *[""] * 3])
        notes = (f"{name:12} {value}" for name, value in self._circumstances().items())
        return "\n".join([*_aligned(rows), "", *notes])

    def _circumstances(self) -> dict[str, str]:
        model, recipe, machine = self.config.model, self.config.train, self.machine
        threads = machine["threads"]
        return {
            "rounds": f"median of {len(self.ours.rounds)}, of {self.steps} steps each; "
            f"{WARM_UP} steps before each to warm up",
            "batches": f"at most {recipe.batch_tokens * recipe.accumulate:,} tokens a side; "
            "all sides get the same sentences",
            "model": f"{self.config.preset}: N {model.N}, d_model {model.d_model}, "
            f"d_ff {model.d_ff}, h {model.h}, P_drop {model.P_drop}, "
            f"vocabulary {model.target_vocabulary:,}, {PRECISION}",
            "machine": f"{machine['device']}, {threads} thread{'' if threads == 1 else 's'}, "
            + " and ".join(name for name in (machine["gpu"], machine["processor"]) if name),
            "versions": ", ".join(f"{name} {which}" for name, which in machine["versions"].items()),
        }


class Ours:
    """Our trainer, a step at a time."""

    def __init__(self, config: RunConfig, corpus: Path, device: str, run: Path) -> None:
        self.trainer = Trainer(run, config, open_corpus(corpus), torch.device(device), Silent())
        self.parameters = sum(p.numel() for p in weights_of(self.trainer.model).values())

    def prepare(self, steps: int) -> None:
        """Leave everything to the steps: our batches are made within them."""

    def step(self) -> Seen:
        """Make one step, and tell how many tokens the trainer has counted in it."""
        before = self.trainer.state.window.tokens
        self.trainer.update()
        tokens = self.trainer.state.window.tokens - before
        return Seen(tokens, cells=tokens, padding=0)  # packed: whatever the cells, all are real

    def synchronise(self) -> None:
        """Wait until the device has done what it was told."""
        if self.trainer.device.type == "cuda":
            torch.cuda.synchronize()


def compare(
    source: str | Path,
    target: str | Path | None,
    *,
    preset: str,
    settings: Mapping[str, str],
    peer: str,
    steps: int,
    rounds: int,
    device: str,
    corpus: Path | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Measure how fast a preset, changed by `settings`, trains on this text, and a peer beside it.

    The text is prepared into the folder `corpus`, where it is found again the next time, or into a
    temporary one.
    """
    progress = progress or Silent()
    on = choose_device(device)
    chosen = find_preset(preset)
    model, recipe = configuration.apply(settings, chosen.model, chosen.train)
    _require(peer, model, recipe)
    with contextlib.ExitStack() as stack:
        stack.enter_context(terminated_as_interrupted())
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="transduce-bench-")))
        folder = corpus or scratch / "corpus"
        prepared = prepare(
            source,
            target,
            folder,
            languages=text.languages(source, target),
            train=recipe,
            max_len=model.max_len,
            progress=progress,
        )
        config = begun(prepared, preset, settings, on, Silent())
        workers = [stack.enter_context(Worker(OURS, Ours, config, folder, on.type, scratch))]
        if peer != "none":
            other = Worker(peer, huggingface.HuggingFace, config, folder, on.type)
            workers.append(stack.enter_context(other))
        ours, *others = _by_turns(workers, steps, rounds, progress)
    assert all(  # or the comparison would be none
        [one.target_tokens for one in other.rounds] == [one.target_tokens for one in ours.rounds]
        for other in others
    )
    if any(max(side.speeds) > NOISY * min(side.speeds) for side in (ours, *others)):
        progress.say(
            f"rounds of one side differ by more than {NOISY - 1:.0%}: something else uses this "
            "machine, or the steps are too few; measure again"
        )
    assert config.train.threads is not None
    libraries = ("transduce", "torch", *(["transformers"] if others else []))
    return Comparison(
        ours=ours,
        peer=others[0] if others else None,
        config=config,
        steps=steps,
        machine=hardware.describe(on.type, config.train.threads, libraries),
    )


def _require(
    peer: str, model: configuration.ModelConfig, recipe: configuration.TrainConfig
) -> None:
    if peer not in PEERS:
        raise BadSetting(
            f"there is no peer {peer}.{did_you_mean(peer, PEERS)} The peers are: {', '.join(PEERS)}"
        )
    if peer == huggingface.NAME:
        huggingface.require(model, joint=recipe.joint)


def _by_turns(
    workers: Sequence[Worker], steps: int, rounds: int, progress: Progress
) -> list[Measured]:
    """Let the sides work one after the other, round by round, so that all meet the same weather."""
    parameters = [worker.parameters() for worker in workers]
    names = " and ".join(worker.name for worker in workers)
    progress.say(f"measuring {names}: {rounds} rounds of {steps} steps each, by turns")
    found: list[list[Round]] = [[] for _ in workers]
    with progress.watch("measuring") as show:
        for number in range(1, rounds + 1):
            for worker, own in zip(workers, found, strict=True):
                own.append(worker.measure(steps))
                part = sum(map(len, found)) / (rounds * len(workers))
                speed = own[-1].target_tokens_per_second
                show(part, f"round {number}, {worker.name}: {speed:,.0f} target tokens/s")
    return [
        Measured(worker.name, size, tuple(own))
        for worker, size, own in zip(workers, parameters, found, strict=True)
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Set the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
