"""Predict how efficiently `base` and `big` train on many GPUs, from the measured speed of one.

    PYTHONPATH=src python tools/scaling_model.py
    PYTHONPATH=src python tools/scaling_model.py --update-tokens 409600 --networks infiniband-400

Nothing is measured here. The formulas and their limits are in docs/many-gpus.md.

Compute time of a GPU's share of an update: its tokens divided by the measured speed of one GPU, but
for each micro-batch at least the time in which the processor starts the kernels (`--launch`).
Gradients are summed by reduce-scatter within a machine, all-reduce between machines, and all-gather
within a machine. DistributedDataParallel does this during the backward pass of the last
micro-batch, except for the last parameter whose gradient is complete: the shared embedding.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from transduce.model.architecture import count_parameters
from transduce.presets import find_preset

BUCKET = 25 * 2**20  # bytes that DistributedDataParallel sends at once
BACKWARD = 2 / 3  # of a pass: twice the operations of the forward pass
VOCABULARY = 37_000


@dataclass(frozen=True, slots=True)
class Model:
    """A model on one GPU."""

    name: str
    speed: float  # target tokens per second
    parameters: int
    last: int  # parameters whose gradient is complete only at the end of the backward pass


@dataclass(frozen=True, slots=True)
class Machine:
    """Machines of several GPUs and their links, in bytes per second and direction."""

    gpus: int = 8  # of a machine
    within: float = 450e9  # of a GPU to the others of its machine
    between: float = 400e9  # of a machine to the others
    achieved: float = 0.8  # the share of these rates that is reached
    hop: float = 20e-6  # latency of one step of a collective operation


NETWORKS = {
    "infiniband-400": Machine(between=8 * 400e9 / 8),
    "ethernet-100": Machine(between=100e9 / 8),
}


@dataclass(frozen=True, slots=True)
class Step:
    """The predicted parts of one update, in seconds, and its tokens per side."""

    tokens: int
    ideal: float  # what one GPU, at its measured speed, needs for its share
    compute: float
    communication: float
    exposed: float  # communication that compute does not hide

    @property
    def overlapped(self) -> float:
        """The efficiency if gradients are sent during the backward pass, as transduce does."""
        return self.ideal / (self.compute + self.exposed)

    @property
    def sequential(self) -> float:
        """The efficiency if gradients are sent after it."""
        return self.ideal / (self.compute + self.communication)


def all_reduce(size: float, gpus: int, machine: Machine) -> float:
    """Return the seconds in which `gpus` GPUs sum a tensor of `size` bytes.

    A ring of n sends (n - 1) / n of the tensor for the reduce-scatter, and the same again for the
    all-gather. Between machines every GPU sums its part with the same part of the other machines,
    so that together they send the tensor once.
    """
    local = min(gpus, machine.gpus)
    machines = math.ceil(gpus / machine.gpus)
    seconds = 2 * (local - 1) / local * size / (machine.within * machine.achieved)
    seconds += 2 * (machines - 1) / machines * size / (machine.between * machine.achieved)
    hops = math.ceil(math.log2(local)) + math.ceil(math.log2(machines))
    return seconds + 2 * hops * machine.hop * math.ceil(size / BUCKET)


def predict(
    model: Model,
    gpus: int,
    tokens: int,
    machine: Machine,
    *,
    width: int = 4,
    launch: float = 0.0,
    largest: int = 25_600,
) -> Step:
    """Predict an update with `tokens` per GPU, in micro-batches of at most `largest`.

    `width` is the number of bytes of a gradient's element, `launch` the least time of a pass.
    """
    micro_batches = math.ceil(tokens / largest)
    ideal = tokens / model.speed
    one_pass = max(launch, ideal / micro_batches)
    total = all_reduce(model.parameters * width, gpus, machine)
    last = all_reduce(model.last * width, gpus, machine)
    exposed = last + max(0.0, total - last - BACKWARD * one_pass)
    return Step(tokens * gpus, ideal, one_pass * micro_batches, total, exposed)


def paper_model(name: str, speed: float) -> Model:
    """Return a model of the paper with its speed on one GPU."""
    config = replace(
        find_preset(name).model, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY
    )
    assert config.tie == "all"  # one matrix, used at both ends of the model
    return Model(name, speed, count_parameters(config), VOCABULARY * config.d_model)


# Updates of `big` on A100s that were published with their logs (MLPerf training v0.7, closed
# division): GPUs, target tokens of an update, tokens per second. Gradients in 16 bits, links of 300
# GB/s within a machine, 8 x 200 Gbit/s between machines.
LOGGED = [(8, 100_937, 810_800.0), (80, 668_546, 7_175_550.0), (480, 652_160, 22_598_500.0)]
A100 = Machine(within=300e9, between=8 * 200e9 / 8)


def compare_with_logs() -> Iterator[tuple[int, float, float, float]]:
    """Yield GPUs, efficiency that was logged, and that predicted with and without overlap.

    They are relative to the GPUs of one machine, whose speed is the only one that is put in.
    """
    first, _, rate = LOGGED[0]
    big = paper_model("big", rate / first)
    for gpus, tokens, logged in LOGGED:
        step = predict(big, gpus, tokens // gpus, A100, width=2)
        yield gpus, logged / gpus / big.speed, step.overlapped, step.sequential


def rows(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the rows of the table of predictions."""
    models = [paper_model("base", arguments.base), paper_model("big", arguments.big)]
    for model in models:
        for number, network in enumerate(arguments.networks):
            for gpus in arguments.gpus:
                alone = gpus <= NETWORKS[network].gpus
                if alone and number:
                    continue
                share = arguments.tokens
                if arguments.update_tokens:
                    share = arguments.update_tokens // gpus
                cells = [model.name, "one machine" if alone else network]
                cells += [f"{gpus:,}", f"{share:,}", f"{share * gpus:,}"]
                for width in (4, 2):
                    step = predict(
                        model,
                        gpus,
                        share,
                        NETWORKS[network],
                        width=width,
                        launch=arguments.launch / 1e3,
                        largest=arguments.micro_batch,
                    )
                    cells += [f"{step.communication * 1e3:.1f}", f"{step.exposed * 1e3:.1f}"]
                    cells += [f"{step.overlapped:.0%}", f"{step.sequential:.0%}"]
                yield cells


HEADER = ["model", "network", "GPUs", "tokens per GPU", "tokens per update"]
HEADER += [
    f"{what}, {width} bits"
    for width in (32, 16)
    for what in ("all-reduce, ms", "exposed, ms", "efficiency", "efficiency without overlap")
]


def main(given: Sequence[str] | None = None) -> None:
    """Print a table of predictions, and the comparison with logged runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--networks", nargs="+", choices=[*NETWORKS], default=[*NETWORKS])
    parser.add_argument("--tokens", type=int, default=25_600, help="per GPU and update")
    parser.add_argument("--update-tokens", type=int, help="per update, whatever the GPUs")
    parser.add_argument("--micro-batch", type=int, default=25_600, help="most tokens of a pass")
    parser.add_argument(
        "--launch", type=float, default=42.0, help="ms in which the processor starts a pass"
    )
    parser.add_argument("--base", type=float, default=919_234, help="target tokens/s of one GPU")
    parser.add_argument("--big", type=float, default=359_564, help="target tokens/s of one GPU")
    arguments = parser.parse_args(given)
    lines = ["predicted, not measured", "\t".join(HEADER)]
    lines += ["\t".join(cells) for cells in rows(arguments)]
    lines += ["", "A100 GPUs\tlogged\tpredicted\tpredicted without overlap"]
    lines += [
        "\t".join([str(gpus), *(f"{share:.0%}" for share in shares)])
        for gpus, *shares in compare_with_logs()
    ]
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main()
