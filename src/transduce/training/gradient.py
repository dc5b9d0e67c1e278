"""How an update's gradient is computed on this machine: the fastest way that it has.

On a GPU: packed batches of one shape, our own kernels, bf16, and the whole pass as one CUDA graph,
so that the processor has nothing to do. What a machine lacks is left out, with a line that says so.
On a CPU, and on Apple's GPUs: batches grouped by length, float32. The mathematics is the same
throughout. Several processes take the path that all of them can take.
"""

import contextlib
import gc
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transduce.batching.layouts import GroupedLayout, Layout
from transduce.batching.packed import Batch, Ints, unflatten
from transduce.batching.prefetch import Update
from transduce.batching.static import PackedLayout
from transduce.config import ModelConfig, TrainConfig
from transduce.corpus.token_files import Split
from transduce.corpus.updates import DataPosition
from transduce.errors import BadSetting, is_out_of_memory, summarize_error
from transduce.model import loss as losses
from transduce.model.base import Transducer
from transduce.model.ops import graphs
from transduce.model.ops.kernels import Kernels
from transduce.system.devices import deterministic_kernels, widest_float
from transduce.system.formatting import pluralize
from transduce.training.distributed.processes import Processes

LARGEST = 1e18  # norm of a gradient whose square, which Adam keeps, is surely a number
Say = Callable[[str], None]


class Objective(nn.Module):
    """The model with its loss: what a pass computes, and what processes share the gradient of."""

    def __init__(self, model: Transducer, eps_ls: float) -> None:
        super().__init__()
        self.model, self.eps_ls = model, eps_ls

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the sums of the smoothed loss and of the negative log-likelihood."""
        model = self.model
        x = model(batch)
        return losses.loss(
            *(x, model.output, batch.labels, self.eps_ls),
            bias=model.logits_bias,
            fused=model.kernels.usable(x),
        )


class GradientStep:
    """Computes gradients of updates; counts losses on the device, where nobody has to wait."""

    def __init__(
        self,
        model: Transducer,
        recipe: TrainConfig,
        part: Split,
        processes: Processes,
        say: Say,
    ) -> None:
        self.model, self.recipe, self.part = model, recipe, part
        self.processes, self.say = processes, say
        self.device = model.output.device
        self.objective = Objective(model, recipe.eps_ls)
        self.packed, self.precision = agreed(
            processes, model.kernels, choose(model, recipe, say), say
        )
        model.compute_in(torch.bfloat16 if self.precision == "bf16" else torch.float32)
        model.recompute = recipe.recompute
        wide = widest_float(self.device)
        self.counts = torch.zeros(5, dtype=wide, device=self.device)  # log.Counts
        self.before = self.counts.clone()  # the update at hand
        self.sums = self.counts[:2]
        self.skipped = torch.zeros((), device=self.device)  # 1: the update at hand is
        self.scale = torch.zeros((), dtype=wide, device=self.device)
        self.repeats = recipe.deterministic and self.device.type == "cuda"
        self.graphs: Graphs | None = None
        # Processes share their gradients in the midst of a pass, which a graph would have to hold.
        self.graphed = self.packed and self.device.type == "cuda" and processes.world == 1
        self.graphed = self.graphed and not recipe.recompute
        self.pieces = (recipe.accumulate or 1) * processes.world
        self.layout = self.lay_out()
        self.shared: nn.Module = self.objective
        if processes.world > 1:
            self.shared = DistributedDataParallel(self.objective)
            self.shared.broadcast_buffers = False  # all have the same, and they never change

    @property
    def path(self) -> str:
        """Say in a few words which way was chosen."""
        ways = ["packed" if self.packed else "grouped", self.precision]
        return ", ".join(ways + ["CUDA graph"] * self.graphed + ["deterministic"] * self.repeats)

    def lay_out(self) -> Layout:
        """Return how sentences are laid out in so many pieces."""
        tokens, longest = self.recipe.batch_tokens, self.model.config.max_len
        if self.packed:
            return PackedLayout(self.part, tokens, self.pieces, longest=longest)
        # On a GPU updates are the same whichever way they are computed.
        like = (
            PackedLayout(self.part, tokens, longest=longest) if self.device.type == "cuda" else None
        )
        return GroupedLayout(self.part, tokens, self.pieces, updates_of=like)

    def prepare(self, sentences: Ints, position: DataPosition, epochs: float) -> Update:
        """Lay out an update, as far as it falls to this process; may run in another thread."""
        layout = self.layout
        pieces = layout.micro_batches(sentences)
        own = pieces[self.processes.rank :: self.processes.world]
        batches = [layout.batch(piece) for piece in own or [sentences[:1]]]
        if self.device.type == "cuda":
            batches = [batch.pinned() for batch in batches]
        tokens = int(self.part.target.lengths_of(sentences).sum())
        return Update(sentences, tokens, batches, not own, layout, position, epochs)

    def compute(self, update: Update) -> None:
        """Leave the gradient of an update's mean loss in the parameters, and add up its losses.

        Where memory does not suffice, updates are cut into twice as many pieces from now on.
        """
        while True:
            if update.layout is not self.layout:
                update = self.prepare(update.sentences, update.next_position, update.epochs)
            self.before.copy_(self.counts)
            try:
                with deterministic_kernels(on=self.repeats):
                    return self._gradient(update)
            except RuntimeError as error:
                if not is_out_of_memory(error) or self.processes.world > 1 or self._is_least():
                    raise
            self._halve()  # out here, for the error holds on to what filled the memory
            self.counts.copy_(self.before)

    def skip_nonfinite(self, norm: Tensor, tokens: int) -> None:
        """Skip an update whose gradient has no number as its norm, or one beyond all measure.

        The optimizer, which knows `skipped`, then leaves weights and moments as they are, and its
        losses count for nothing. All of it happens on the device, so that nobody waits.
        """
        sound = norm < LARGEST  # so is no NaN
        self.skipped.copy_(~sound)
        torch.where(sound, self.counts, self.before, out=self.counts)
        if self.processes.first:  # all judge alike
            self.counts[2].add_(self.skipped)
            self.counts[3].add_(self.skipped, alpha=tokens)
            self.counts[4].add_(1).mul_(self.skipped)

    def _gradient(self, update: Update) -> None:
        # torch takes the mean over processes, we the sum.
        self.scale.fill_(0.0 if update.idle else self.processes.world / update.tokens)
        if self.graphed and self.graphs is None:
            self._capture(update.batches[0])
        if self.graphs is not None:
            for number, batch in enumerate(update.batches):
                self.graphs.replay(batch, first=number == 0)
            return
        self.model.zero_grad()
        for number, batch in enumerate(update.batches):
            with self._unshared(last=number + 1 == len(update.batches)):
                self._pass(batch.to(self.device), counts=not update.idle)

    def _pass(self, batch: Batch, *, counts: bool = True) -> None:
        smoothed, nll = self.shared(batch)
        (smoothed * self.scale).backward()
        if counts:
            self.sums += torch.stack([smoothed.detach(), nll])

    def _unshared(self, *, last: bool) -> contextlib.AbstractContextManager[None]:
        """Let processes meet only in the last pass of an update, while it is being computed."""
        if last or not isinstance(self.shared, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.shared.no_sync()

    def _capture(self, batch: Batch) -> None:
        """Record a pass; if that fails, go on without."""
        try:
            self.graphs = Graphs(batch.to(self.device), self._pass, self.model, self.sums)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self.graphed = False
            self.say(f"CUDA graphs do not work here, which is slower: {summarize_error(error)}")

    def _is_least(self) -> bool:
        """Tell whether pieces are as small as they can be."""
        return self.recipe.batch_tokens // self.pieces <= self.model.config.max_len

    def _halve(self) -> None:
        """Cut updates into twice as many pieces."""
        tokens = self.recipe.batch_tokens // self.pieces
        self.pieces *= 2
        self.graphs = None
        for parameter in self.model.parameters():
            parameter.grad = None
        self.layout = self.lay_out()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        elif self.device.type == "mps":
            torch.mps.empty_cache()
        self.say(
            f"out of memory with {tokens:,} tokens at a time: from now on {tokens // 2:,}, "
            f"{self.pieces} times for each update, which learns the same"
        )

    def probe(self) -> None:
        """Find out into how many pieces updates must be cut."""
        if self.device.type != "cuda" or self.processes.world > 1:
            self.say("accumulate = none: memory is probed by one process on a GPU alone; one piece")
            return
        random, before = torch.cuda.get_rng_state(), self.sums.clone()
        sentences = self.layout.updates(np.random.default_rng(0))[0]
        self.model.train()
        self.compute(self.prepare(sentences, DataPosition(), 0.0))
        self.sums.copy_(before)
        torch.cuda.set_rng_state(random)
        self.say(
            f"{self.recipe.batch_tokens:,} tokens a side in {pluralize(self.pieces, 'piece')}: "
            "the largest that fit into memory"
        )

    def synchronise(self) -> None:
        """Wait until the device has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        elif self.device.type == "mps":
            torch.mps.synchronize()


class Graphs:  # pragma: no cover  (no CPU has any: tests/gpu/test_gpu.py)
    """A pass over a batch of one shape, recorded once and played again for each batch.

    The first pass of an update writes the gradients, the others add to them.
    """

    def __init__(
        self, batch: Batch, run: Callable[[Batch], None], model: nn.Module, sums: Tensor
    ) -> None:
        assert batch.flat is not None
        self.flat = batch.flat.clone()
        batch = unflatten(self.flat, batch.places, batch.order, batch.used)
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        random, spare, before = generator.get_state(), generator.clone_state(), sums.clone()
        try:
            self.writing, self.adding = self._captured(lambda: run(batch), model)
        except BaseException:
            model.zero_grad()
            # A failed capture can leave the generator's state unusable outside of captures.
            generator.graphsafe_set_state(spare)
            sums.copy_(before)
            raise
        generator.set_state(random)
        sums.copy_(before)

    def _captured(
        self, run: Callable[[], None], model: nn.Module
    ) -> tuple[torch.cuda.CUDAGraph, torch.cuda.CUDAGraph]:
        """Capture a pass that writes the gradients, and one that adds to them."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # kernels are compiled and libraries set up before
            for _ in range(2):
                run()
        torch.cuda.current_stream().wait_stream(aside)
        model.zero_grad()
        writing = graphs.capture(run)
        return writing, graphs.capture(run, writing.pool())

    def replay(self, batch: Batch, *, first: bool) -> None:
        """Pass over a batch."""
        assert batch.flat is not None
        self.flat.copy_(batch.flat, non_blocking=True)
        (self.writing if first else self.adding).replay()


def choose(model: Transducer, recipe: TrainConfig, say: Say) -> tuple[bool, str]:
    """Choose batches (packed or not) and precision; say what is missing for the fastest."""
    device, precision = model.output.device, recipe.precision
    if device.type != "cuda":
        if precision == "bf16":
            raise BadSetting(
                f"precision = 'bf16': expected a GPU of CUDA; on {device.type} it is float32"
            )
        return False, "float32"
    if precision == "auto":
        precision = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
        if precision == "float32":
            say(f"{torch.cuda.get_device_name(device)} has no bf16: training in float32, slower")
    if not recipe.kernels:
        model.kernels.enabled = False
        return False, precision
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    problem = model.kernels.select(model.config, dtype, device, training=True)
    if problem:
        say(problem)
        return False, precision
    unknown = _unknown(model.config)
    if unknown:
        say(f"{unknown}: attention goes by torch's kernels, which is slower")
    return model.supports_packed and not unknown, precision


def agreed(
    processes: Processes, kernels: Kernels, chosen: tuple[bool, str], say: Say
) -> tuple[bool, str]:
    """Return the path that every process can take, given the one that this process has chosen.

    Layouts deal sentences to processes in different ways. If they differed between processes, some
    sentences would be learned twice and others not at all.
    """
    packed, precision = chosen
    own = packed, precision == "bf16", kernels.enabled
    all_packed, all_bf16, all_enabled = processes.all(own)
    if own != (all_packed, all_bf16, all_enabled):
        say("another process lacks what this one has: all take the slower path")
    kernels.enabled = all_enabled
    return all_packed, "bf16" if all_bf16 else "float32"


def _unknown(config: ModelConfig) -> str:
    """Return the setting that our kernels of attention do not know, if there is one."""
    if config.attention_dropout:
        return "attention_dropout"
    additive = config.architecture == "transformer" and config.attention == "additive"
    return "attention = 'additive'" if additive else ""
