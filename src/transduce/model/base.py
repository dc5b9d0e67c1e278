"""The base class of models: the interface that training and search use.

T tokens in a packed batch, S sentences, k hypotheses each, R = S * k rows, V words.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transduce.batching.packed import Batch, Ints, KeyRanges, PackedTokens, SourceRows
from transduce.batching.padded import packed_batch
from transduce.config import ModelConfig
from transduce.errors import BadSetting
from transduce.model.embedding import Embedding
from transduce.model.ops.kernels import Kernels
from transduce.model.ops.linear import Linear, packed, product, product_float32

Layer = TypeVar("Layer", bound=nn.Module)


class DecoderState(Protocol):
    """The state of decoding: sentences in slots, with k hypotheses each."""

    lengths: Tensor  # (S,) steps so far
    uses_kernels: bool  # whether our Triton kernels compute attention over it

    def put(
        self, slots: Tensor, lengths: Tensor, places: tuple[Tensor, Tensor], rows: Tensor
    ) -> None:
        """Begin new sentences in some slots.

        `rows` (n, T, …) is the result of `project_memory` for their sources; `places` are the slot
        of each token and its position in the sentence.
        """

    def grow(self, source: int, steps: int) -> None:
        """Grow to a capacity of at least `source` source tokens and `steps` output steps."""

    def keep(self, slots: Tensor) -> None:
        """Remove all other slots."""

    def begin_step(self, source: int, steps: int) -> None:
        """Prepare a step; no source is longer than `source`, no output longer than `steps`."""

    def end_step(self, parents: Tensor, live: Tensor) -> None:
        """Make each hypothesis continue its parent (S, k); advance the live slots (S,)."""


class Stack(nn.ModuleList, Generic[Layer]):
    """A list of layers of the same type."""

    def __iter__(self) -> Iterator[Layer]:
        """Iterate over the layers from bottom to top."""
        return cast("Iterator[Layer]", super().__iter__())


class Transducer(nn.Module):
    """A sequence-to-sequence model: embeddings, softmax matrix and precision.

    Subclasses define the encoder and the decoder between them.
    """

    supports_packed = True  # whether it accepts packed batches (`PackedLayout`)

    architecture: ClassVar[str]  # the value of the setting `architecture`

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.architecture != self.architecture:
            raise BadSetting(
                f"architecture = {config.architecture!r}: {type(self).__name__} is the model of "
                f"architecture = {self.architecture!r}; transduce.model.architecture.build(config) "
                "builds the model of any configuration"
            )
        self.config = config
        self.kernels = Kernels()
        self.recompute = False  # recompute activations in the backward pass to save memory
        target = _matrix(config.target_vocabulary, config.d_model)
        source = (
            target if config.tie == "all" else _matrix(config.source_vocabulary, config.d_model)
        )
        self.source_embedding = Embedding(source, config)
        self.target_embedding = Embedding(target, config)
        self.output = (
            target if config.tie != "none" else _matrix(config.target_vocabulary, config.d_model)
        )
        bias = nn.Parameter(torch.zeros(config.target_vocabulary)) if config.logits_bias else None
        self.logits_bias = bias
        self.packed_output: Tensor | None = None

    def forward(self, batch: Batch) -> Tensor:
        """Return the decoder's output before the softmax matrix. -> (T, d_model)."""
        return self.decode(batch.target, self.encode(batch.source), batch.cross)

    def embed_source(self, source: PackedTokens) -> Tensor:
        """Return the encoder's input. -> (T, d_model)."""
        return self.source_embedding(source.tokens, source.positions, source.kept)  # type: ignore[no-any-return]

    def embed_target(self, target: PackedTokens) -> Tensor:
        """Return the decoder's input. -> (T, d_model)."""
        return self.target_embedding(target.tokens, target.positions, target.kept)  # type: ignore[no-any-return]

    def forward_padded(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits of every next token, for padded tensors. (B, S), (B, T) -> (B, T, V).

        Both are token ids padded with 0. A source sentence ends with </s> (2). The target is the
        decoder's input: it begins with <s> (1), and the logits at position t predict token
        t + 1. The logits of padding are 0. Dropout is on in training mode.

        >>> import torch
        >>> from transduce import ModelConfig, Transformer
        >>> model = Transformer(ModelConfig(N=2, d_model=64, d_ff=128, h=4, d_k=16, d_v=16)).eval()
        >>> source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
        >>> target = torch.tensor([[1, 9, 10], [1, 11, 0]])
        >>> model.forward_padded(source, target).shape
        torch.Size([2, 3, 37000])
        """
        batch, places = packed_batch(source, target, self.config)
        logits = self.logits(self(batch))  # (tokens, V)
        padded = logits.new_zeros(target.numel(), logits.size(1))
        return padded.index_copy(0, places, logits).view(*target.shape, -1)

    @staticmethod
    @abstractmethod
    def weights_per_token(config: ModelConfig) -> tuple[int, int]:
        """Return the number of weights applied to each source token and each target token."""

    @staticmethod
    def weights_by_length(config: ModelConfig, source: Ints, target: Ints) -> int:
        """Return how many more weights are applied because of the lengths of pairs; (pairs,) each.

        It is 0, except for a model that computes more for a token the longer its sentence is.
        """
        return 0

    @abstractmethod
    def encode(self, source: PackedTokens) -> Tensor:
        """Transform source sentences. -> (T, …)."""

    @abstractmethod
    def decode(self, target: PackedTokens, memory: Tensor, cross: SourceRows | KeyRanges) -> Tensor:
        """Transform target sentences, conditioned on their sources. -> (T, d_model)."""

    def apply_layer(self, layer: Callable[..., Any], *arguments: Any) -> Any:
        """Apply a layer; with `recompute`, store only its input for the backward pass."""
        if self.recompute and self.training:
            return checkpoint(layer, *arguments, use_reentrant=False)
        return layer(*arguments)

    @abstractmethod
    def project_memory(self, memory: Tensor) -> Tensor:
        """Project the encoder's output to the tensors that decoding caches. (T, …) -> (n, T, …)."""

    @abstractmethod
    def cache(self, slots: int, hypotheses: int, capacity: tuple[int, int]) -> DecoderState:
        """Return an empty state; `capacity` is the number of source tokens and of output steps."""

    @abstractmethod
    def cache_size(self, hypotheses: int, capacity: tuple[int, int]) -> int:
        """Return the number of elements that such a state holds per sentence."""

    @abstractmethod
    def step(self, tokens: Tensor, positions: Tensor, cache: DecoderState) -> Tensor:
        """Add one token to each hypothesis; return the logits of the next. (R,) -> (R, V)."""

    def residual_outputs(self) -> list[Linear]:
        """Return the matrices whose outputs are added to the residual stream, if it has one."""
        return []

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the arithmetic."""
        return self.target_embedding.dtype

    def compute_in(self, dtype: torch.dtype) -> None:
        """Compute in this precision, except for LayerNorm statistics; weights stay float32."""
        self.source_embedding.dtype = self.target_embedding.dtype = dtype

    def narrow(self, dtype: torch.dtype) -> Self:
        """Convert the matrices to this precision: for decoding, which reads them at every step."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.to(dtype)
        for matrix in {self.source_embedding.matrix, self.target_embedding.matrix, self.output}:
            matrix.data = matrix.data.to(dtype)
        self.compute_in(dtype)
        return self

    def pack(self) -> Self:
        """Store the matrices in the CPU's fastest layout: for decoding only."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.pack()
        self.packed_output = packed(self.output)
        return self

    @property
    def _softmax_matrix(self) -> Tensor:
        return self.output if self.packed_output is None else self.packed_output

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits of all words. (T, d_model) -> (T, V)."""
        return product(x, self._softmax_matrix, self.logits_bias)

    def logits_float32(self, x: Tensor) -> Tensor:
        """Return the logits in float32, for the search. (R, d_model) -> (R, V)."""
        return product_float32(x, self._softmax_matrix, self.logits_bias)


def _matrix(vocabulary: int, d_model: int) -> nn.Parameter:
    """Draw an embedding matrix; after scaling by sqrt(d_model), its entries have unit variance."""
    return nn.Parameter(nn.init.normal_(torch.empty(vocabulary, d_model), std=d_model**-0.5))
