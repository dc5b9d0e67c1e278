"""The gradient of an update, computed as fast as this machine allows.

On a GPU: packed batches of one shape, Triton kernels, bf16, and forward and backward pass as one
CUDA graph. Features that a machine lacks are left out, and a message says so. On a CPU and on
Apple's GPUs: batches grouped by length, float32. The mathematics is the same. Several processes use
the fastest path that all of them support.
"""

import contextlib
import gc
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_, get_total_norm

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

LARGEST_NORM = 1e18  # Adam stores squared gradients, which must stay finite
Say = Callable[[str], None]


class Objective(nn.Module):
    """The model with its loss, and in training with R-Drop, SimCut and word dropout."""

    def __init__(self, model: Transducer, config: TrainConfig) -> None:
        super().__init__()
        self.model, self.eps_ls, self.word_dropout = model, config.eps_ls, config.word_dropout
        self.symmetric = config.rdrop > 0
        self.alpha = config.rdrop or config.simcut
        self.cutoff = config.word_dropout if self.symmetric else config.cutoff
        self.divergence_weight = self.alpha / 2 if self.symmetric else self.alpha

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the sums over tokens of the loss and of the negative log-likelihood.

        In training with R-Drop or SimCut, two passes over the batch are computed. The loss then
        includes their divergence, which is returned as a third sum.
        """
        model = self.model
        x = model(batch.drop_words(self.word_dropout) if model.training else batch)
        fused = model.kernels.usable(x)
        if not (self.alpha and model.training):
            return losses.loss(
                *(x, model.output, batch.labels, self.eps_ls), bias=model.logits_bias, fused=fused
            )
        y = model(batch.drop_words(self.cutoff))
        total, divergence, nll = losses.consistency_loss(
            *(x, y, model.output, batch.labels, self.eps_ls, self.alpha),
            symmetric=self.symmetric,
            bias=model.logits_bias,
            fused=fused,
        )
        return total, nll, divergence


class GradientStep:
    """Computes the gradients of updates and sums losses on the device, without waiting for it."""

    def __init__(
        self,
        model: Transducer,
        config: TrainConfig,
        part: Split,
        processes: Processes,
        say: Say,
        split_in: Callable[[int], Split] | None = None,
    ) -> None:
        """Train on `part`; in each epoch as `split_in(epoch)` encodes it, if given."""
        self.model, self.config, self.part = model, config, part
        self.split_in = split_in or (lambda _: part)
        self.processes, self.say = processes, say
        self.device = model.output.device
        self.objective = Objective(model, config)
        self.packed, self.precision = agree_on_path(
            processes, model.kernels, choose_path(model, config, say), say
        )
        model.compute_in(torch.bfloat16 if self.precision == "bf16" else torch.float32)
        model.recompute = config.recompute
        wide = widest_float(self.device)
        self.counts = torch.zeros(6, dtype=wide, device=self.device)  # log.Counts
        self.sums = self.counts[: 3 if self.objective.alpha else 2]  # losses
        self.before = self.counts.clone()  # the counts before the current update
        self.skipped = torch.zeros((), device=self.device)  # 1 if the current update is skipped
        self.scale = torch.zeros((), dtype=wide, device=self.device)
        self.deterministic = config.deterministic and self.device.type == "cuda"
        self.graphs: Graphs | None = None
        # Several processes exchange gradients during a pass, which a graph would have to contain.
        self.graphed = self.packed and self.device.type == "cuda" and processes.world == 1
        self.graphed = self.graphed and not config.recompute
        self.micro_batches = (config.accumulate or 1) * processes.world  # per update
        self.layout = self.make_layout()
        self.shared = processes.share_gradients(self.objective)

    @property
    def path(self) -> str:
        """A short description of the path that was chosen."""
        ways = ["packed" if self.packed else "grouped", self.precision]
        ways += ["CUDA graph"] * self.graphed + ["deterministic"] * self.deterministic
        return ", ".join(ways)

    def make_layout(self) -> Layout:
        """Return the layout of batches for this number of micro-batches."""
        tokens, longest = self.config.batch_tokens, self.model.config.max_len
        if self.packed:
            return PackedLayout(self.part, tokens, self.micro_batches, longest=longest)
        # On a GPU, the grouped path uses the same updates as the packed path.
        packed = None
        if self.device.type == "cuda":
            packed = PackedLayout(self.part, tokens, longest=longest)
        return GroupedLayout(self.part, tokens, self.micro_batches, updates_of=packed)

    def deal(
        self, epoch: int, random: np.random.Generator, sentences: Ints | None = None
    ) -> list[Ints]:
        """Divide the sentences of an epoch (default: all) into updates."""
        return self.layout.on(self.split_in(epoch)).updates(random, sentences)

    def prepare(
        self, sentences: Ints, position: DataPosition, epochs: float, epoch: int | None = None
    ) -> Update:
        """Lay out this process's micro-batches of an update; may run in a different thread.

        Without an epoch, the sentences are those of the token files.
        """
        part = self.part if epoch is None else self.split_in(epoch)
        return self._lay_out(sentences, part, position, epochs)

    def _lay_out(
        self, sentences: Ints, part: Split, position: DataPosition, epochs: float
    ) -> Update:
        layout = self.layout
        here = layout.on(part)
        share = here.micro_batches(sentences)[self.processes.rank :: self.processes.world]
        batches = [here.batch(micro_batch) for micro_batch in share or [sentences[:1]]]
        if self.device.type == "cuda":
            batches = [batch.pinned() for batch in batches]
        tokens = int(part.target.lengths_of(sentences).sum())
        return Update(sentences, part, tokens, batches, not share, layout, position, epochs)

    def compute(self, update: Update) -> None:
        """Compute the gradient of an update's mean loss into `.grad`, and add up its losses.

        If memory runs out, updates are cut into twice as many micro-batches from then on.
        """
        while True:
            if update.layout is not self.layout:
                update = self._lay_out(
                    update.sentences, update.part, update.next_position, update.epochs
                )
            self.before.copy_(self.counts)
            try:
                with deterministic_kernels(on=self.deterministic):
                    return self._compute(update)
            except RuntimeError as error:
                if not is_out_of_memory(error) or self.processes.world > 1 or self._is_smallest():
                    raise
            self._halve()  # outside `except`, because the error keeps the tensors alive
            self.counts.copy_(self.before)

    def clip(self) -> Tensor:
        """Return the norm of the gradient, and clip the gradient if `clip` is set."""
        if self.config.clip:
            return clip_grad_norm_(self.model.parameters(), self.config.clip)
        gradients = (parameter.grad for parameter in self.model.parameters())
        return get_total_norm([gradient for gradient in gradients if gradient is not None])

    def skip_nonfinite(self, norm: Tensor, tokens: int) -> None:
        """Skip an update whose gradient has a non-finite or excessive norm.

        The optimizer reads `skipped` and leaves weights and moments unchanged. The update's losses
        are not counted. All of this happens on the device, without waiting for it.
        """
        finite = norm < LARGEST_NORM  # False for NaN
        self.skipped.copy_(~finite)
        torch.where(finite, self.counts, self.before, out=self.counts)
        if self.processes.first:  # every process has the same norm
            self.counts[3].add_(self.skipped)
            self.counts[4].add_(self.skipped, alpha=tokens)
            self.counts[5].add_(1).mul_(self.skipped)

    def _compute(self, update: Update) -> None:
        # DistributedDataParallel averages over processes; the gradient is a sum.
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
        """Forward and backward pass over a micro-batch."""
        total, nll, *divergence = self.shared(batch)
        (total * self.scale).backward()
        if not counts:
            return
        smoothed = total.detach()
        if divergence:
            smoothed = smoothed - self.objective.divergence_weight * divergence[0]
        self.sums += torch.stack([smoothed, nll, *divergence])

    def _unshared(self, *, last: bool) -> contextlib.AbstractContextManager[None]:
        """Exchange gradients between processes only in the last pass of an update."""
        if last or not isinstance(self.shared, DistributedDataParallel):
            return contextlib.nullcontext()
        return self.shared.no_sync()

    def _capture(self, batch: Batch) -> None:
        """Capture a pass as a CUDA graph; if that fails, continue without it."""
        try:
            self.graphs = Graphs(batch.to(self.device), self._pass, self.model, self.sums)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self.graphed = False
            self.say(f"CUDA graphs do not work here, which is slower: {summarize_error(error)}")

    def _is_smallest(self) -> bool:
        """Return whether micro-batches cannot be made smaller."""
        return self.config.batch_tokens // self.micro_batches <= self.model.config.max_len

    def _halve(self) -> None:
        """Cut updates into twice as many micro-batches."""
        tokens = self.config.batch_tokens // self.micro_batches
        self.micro_batches *= 2
        self.graphs = None
        for parameter in self.model.parameters():
            parameter.grad = None
        self.layout = self.make_layout()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        elif self.device.type == "mps":
            torch.mps.empty_cache()
        self.say(
            f"out of memory with {tokens:,} tokens at a time: from now on {tokens // 2:,}, "
            f"{self.micro_batches} times for each update, which learns the same"
        )

    def probe_memory(self) -> None:
        """Find out how many micro-batches an update needs to fit into memory."""
        if self.device.type != "cuda" or self.processes.world > 1:
            self.say(
                "accumulate = none: memory is probed only by one process on a GPU; "
                "updates are not cut into micro-batches"
            )
            return
        random, before = torch.cuda.get_rng_state(), self.sums.clone()
        sentences = self.layout.updates(np.random.default_rng(0))[0]
        self.model.train()
        self.compute(self.prepare(sentences, DataPosition(), 0.0))
        self.sums.copy_(before)
        torch.cuda.set_rng_state(random)
        self.say(
            f"{self.config.batch_tokens:,} tokens per side in "
            f"{pluralize(self.micro_batches, 'micro-batch', 'micro-batches')}: "
            "the largest that fit in memory"
        )

    def synchronise(self) -> None:
        """Wait until the device has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        elif self.device.type == "mps":
            torch.mps.synchronize()


class Graphs:  # pragma: no cover  (needs a GPU: tests/gpu)
    """A pass over a batch of fixed shape, captured once and replayed for each batch.

    The first pass of an update writes the gradients; the others add to them.
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
            # A failed capture can leave the generator's state unusable outside captures.
            generator.graphsafe_set_state(spare)
            sums.copy_(before)
            raise
        generator.set_state(random)
        sums.copy_(before)

    def _captured(
        self, run: Callable[[], None], model: nn.Module
    ) -> tuple[torch.cuda.CUDAGraph, torch.cuda.CUDAGraph]:
        """Capture a pass that writes the gradients, and one that adds to them."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # compile kernels and set up libraries first
            for _ in range(2):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        model.zero_grad()
        writing = graphs.capture(run)
        return writing, graphs.capture(run, writing.pool())

    def replay(self, batch: Batch, *, first: bool) -> None:
        """Run the pass over a batch."""
        assert batch.flat is not None
        self.flat.copy_(batch.flat, non_blocking=True)
        (self.writing if first else self.adding).replay()


def choose_path(model: Transducer, config: TrainConfig, say: Say) -> tuple[bool, str]:
    """Return whether batches are packed, and the precision; say why if the path is slower."""
    device, precision = model.output.device, config.precision
    if device.type != "cuda":
        if precision == "bf16":
            raise BadSetting(
                f"precision = 'bf16': expected a CUDA GPU; on {device.type} it is float32"
            )
        return False, "float32"
    if precision == "auto":
        precision = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
        if precision == "float32":
            say(f"{torch.cuda.get_device_name(device)} has no bf16: training in float32, slower")
    if not config.kernels:
        model.kernels.enabled = False
        return False, precision
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    problem = model.kernels.select(model.config, dtype, device, training=True)
    if problem:
        say(problem)
        return False, precision
    unsupported = _unsupported(model.config)
    if unsupported:
        say(f"{unsupported}: attention uses torch's kernels, which is slower")
    return model.supports_packed and not unsupported, precision


def agree_on_path(
    processes: Processes, kernels: Kernels, chosen: tuple[bool, str], say: Say
) -> tuple[bool, str]:
    """Return the path that every process supports, given the one chosen by this process.

    With different layouts, processes would divide the sentences of an update differently: some
    sentences would be used twice and others not at all.
    """
    packed, precision = chosen
    supported = packed, precision == "bf16", kernels.enabled
    all_packed, all_bf16, all_enabled = processes.all(supported)
    if supported != (all_packed, all_bf16, all_enabled):
        say("another process lacks what this one has: all take the slower path")
    kernels.enabled = all_enabled
    return all_packed, "bf16" if all_bf16 else "float32"


def _unsupported(config: ModelConfig) -> str:
    """Return the setting that the Triton attention kernels do not support, or ""."""
    if config.attention_dropout:
        return "attention_dropout"
    if config.architecture == "transformer" and not config.uses_dot_products:
        return f"attention = {config.attention!r}"
    return ""
