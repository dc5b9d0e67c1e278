"""The peer: Hugging Face's MarianMTModel, trained as its users would (padded rows, AdamW, sdpa).

B sentences, S tokens of the longest source, T tokens of the longest target, V words.

It gets the sentences of our batches, batch for batch, so it profits from equal lengths standing
together. Its rows are padded before the clock starts, as by a loader in the background.
"""

from collections import deque
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from transduce.batches import Batch, Batches
from transduce.bench.sides import Seen
from transduce.checkpoint import RunConfig
from transduce.config import ModelConfig
from transduce.corpus import open_corpus
from transduce.errors import BadSetting, MissingExtra
from transduce.schedule import learning_rate
from transduce.subwords import BOS, EOS, PAD

NAME = "huggingface"


def require(model: ModelConfig, *, joint: bool) -> None:
    """Refuse what the peer cannot do, before any work is done for it."""
    if find_spec("transformers") is None:
        raise MissingExtra(f"--peer {NAME}", "transformers", "huggingface")
    width = f"h * d_k = h * d_v = d_model, which is {model.d_model}"
    for found, fits, expected in (
        (f"h = {model.h}, d_k = {model.d_k}", model.h * model.d_k == model.d_model, width),
        (f"h = {model.h}, d_v = {model.d_v}", model.h * model.d_v == model.d_model, width),
        (f"positions = {model.positions!r}", model.positions == "sinusoidal", "'sinusoidal'"),
        (f"tie = {model.tie!r}", model.tie == "all", "'all'"),
        ("joint = false", joint, "true"),
    ):
        if not fits:
            raise BadSetting(
                f"the peer {NAME} cannot have {found}: expected {expected}; "
                "--peer none measures without it"
            )


@dataclass(frozen=True, slots=True)
class Padded:
    """A batch as rows of equal length, a sentence each, filled up with <pad>."""

    source: Tensor  # (B, S)
    target: Tensor  # (B, T) the decoder's input: <s> and all but the last token
    labels: Tensor  # (B, T) the decoder's answer: all tokens, </s> the last

    @classmethod
    def of(cls, batch: Batch) -> "Padded":
        """Lay out a packed batch, row n of one side translating row n of the other."""
        cross, groups = batch.cross, batch.target.view.groups
        lengths = [length for sentences, length in groups for _ in range(sentences)]
        target, labels = (
            pad_sequence(run.split(lengths), batch_first=True, padding_value=PAD)
            for run in (batch.target.tokens, batch.labels)
        )
        source = batch.source.tokens[cross.index].masked_fill(~cross.real, PAD)
        return cls(source, target, labels)

    def to(self, device: torch.device) -> "Padded":
        """Move to a device."""
        sides = (self.source, self.target, self.labels)
        return Padded(*(side.to(device, non_blocking=True) for side in sides))

    def seen(self) -> Seen:
        """Count what a step on this batch works on."""
        cells = self.source.numel() + self.labels.numel()
        target_tokens = int((self.labels != PAD).sum())
        real = target_tokens + int((self.source != PAD).sum())
        return Seen(target_tokens, cells, cells - real)


class HuggingFace:
    """The training of a MarianMTModel of our model's shape, on our batches, at our rates."""

    def __init__(self, config: RunConfig, corpus: Path, device: str) -> None:
        self.config, self.recipe = config, config.train
        self.device = torch.device(device)
        assert self.recipe.threads is not None
        torch.set_num_threads(self.recipe.threads)
        torch.manual_seed(self.recipe.seed)
        self.model = marian(config.model).to(self.device).train()
        self.parameters = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            betas=(self.recipe.beta1, self.recipe.beta2),
            eps=self.recipe.epsilon,
            weight_decay=0.0,
            fused=True,
        )
        self.batches = Batches(
            open_corpus(corpus).train, batch_tokens=self.recipe.batch_tokens, seed=self.recipe.seed
        )
        self.waiting: deque[tuple[list[Padded], Seen]] = deque()
        self.steps = 0

    def prepare(self, steps: int) -> None:
        """Pad and count the batches of so many steps."""
        for _ in range(steps):
            batches = [Padded.of(next(self.batches)) for _ in range(self.recipe.accumulate)]
            seen = Seen(*map(sum, zip(*(batch.seen() for batch in batches), strict=True)))
            self.waiting.append((batches, seen))

    def step(self) -> Seen:
        """Make one update of the weights from `accumulate` batches, as our trainer does."""
        recipe = self.recipe
        batches, seen = self.waiting.popleft()
        for batch in batches:
            (self.loss(batch.to(self.device)) / seen.target_tokens).backward()
        if recipe.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.steps, self.config.model.d_model, recipe)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return seen

    def loss(self, batch: Padded) -> Tensor:
        """Return the sum of the smoothed loss over the tokens that are no padding."""
        # No mask for the target: none of its tokens sees the padding behind it, and without a mask
        # the peer's attention is faster.
        logits = self.model(
            input_ids=batch.source,
            attention_mask=(batch.source != PAD).long(),
            decoder_input_ids=batch.target,
        ).logits  # (B, T, V)
        return F.cross_entropy(
            logits.flatten(0, 1),
            batch.labels.flatten(),
            ignore_index=PAD,
            label_smoothing=self.recipe.eps_ls,
            reduction="sum",
        )

    def synchronise(self) -> None:
        """Wait until the device has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def marian(config: ModelConfig) -> torch.nn.Module:
    """Return an untrained MarianMTModel of this shape.

    What it learns differs from ours in the biases of its attention projections alone.
    """
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(  # type: ignore[no-any-return]
        MarianConfig(
            vocab_size=config.target_vocabulary,
            max_position_embeddings=config.max_len,
            d_model=config.d_model,
            encoder_layers=config.N,
            decoder_layers=config.depth_of_decoder,
            encoder_attention_heads=config.h,
            decoder_attention_heads=config.h,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function="relu",
            dropout=config.P_drop,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.relu_dropout,
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            use_cache=False,  # of use in decoding alone; filling it would cost the peer time
        )
    )
