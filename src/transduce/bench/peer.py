"""A peer: a padded model, trained as its users would train it (fused AdamW, sdpa).

B sentences, S tokens in the longest source, T tokens in the longest target, V vocabulary.

Batches have sentences of similar length, so there is little padding. Rows are padded and moved to
the device before timing starts, as a background loader would do.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from transduce.batching.layouts import GroupedLayout
from transduce.batching.packed import Tokens
from transduce.bench.workers import StepTokens
from transduce.config import ModelConfig, TrainConfig
from transduce.corpus.token_files import open_corpus
from transduce.corpus.updates import Updates
from transduce.errors import BadSetting
from transduce.runs.folder import RunConfig
from transduce.subwords import BOS, PAD
from transduce.training.optimizer import learning_rate

# Read when torch is imported. Padded batches of many shapes would fragment memory.
ENVIRONMENT = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}

# Training settings that change what a step computes; peers compute the paper's.
OF_A_STEP = ("optimizer", "bpe_dropout", "rdrop", "simcut", "word_dropout", "weight_decay", "ema")


def require(name: str, model: ModelConfig, train: TrainConfig) -> None:
    """Refuse a shape or a training step that the peers do not support."""
    width = f"h * d_k = h * d_v = d_model, which is {model.d_model}"
    departure, paper = model.first_departure, TrainConfig()
    values = {setting: getattr(train, setting) for setting in OF_A_STEP}
    changed = [
        f"{key} = {value!r}" for key, value in values.items() if value != getattr(paper, key)
    ]
    for setting, fits, expected in (
        (departure, not departure, "the paper's Transformer"),
        (f"h = {model.h}, d_k = {model.d_k}", model.h * model.d_k == model.d_model, width),
        (f"h = {model.h}, d_v = {model.d_v}", model.h * model.d_v == model.d_model, width),
        (f"positions = {model.positions!r}", model.positions == "sinusoidal", "'sinusoidal'"),
        (f"tie = {model.tie!r}", model.tie == "all", "'all'"),
        ("joint = false", train.joint, "true"),
        (", ".join(changed), not changed, "the paper's training"),
    ):
        if not fits:
            raise BadSetting(
                f"the peer {name} does not support {setting}: expected {expected}; "
                "--peer none measures without it"
            )


@dataclass(frozen=True, slots=True)
class Padded:
    """A batch of padded rows, one sentence each."""

    source: Tensor  # (B, S)
    target: Tensor  # (B, T) the decoder's input: <s> and all but the last token
    labels: Tensor  # (B, T) the expected output: all tokens, </s> last

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[Tokens, Tokens]]) -> "Padded":
        """Pad pairs of token lists, each ending in </s>."""
        source, labels = (
            pad_sequence(
                [torch.from_numpy(side.astype(np.int64)) for side in sides],
                batch_first=True,
                padding_value=PAD,
            )
            for sides in zip(*pairs, strict=True)
        )
        shifted = F.pad(labels, (1, -1), value=BOS)
        return cls(source, shifted.masked_fill(labels == PAD, PAD), labels)

    def to(self, device: str) -> "Padded":
        """Move to a device."""
        return Padded(*(side.to(device) for side in (self.source, self.target, self.labels)))

    def tokens(self) -> StepTokens:
        """Count the tokens of this batch."""
        return StepTokens(
            target_tokens=int((self.labels != PAD).sum()),
            source_tokens=int((self.source != PAD).sum()),
            places_source=self.source.numel(),
            places_target=self.labels.numel(),
        )


class Peer:
    """Trains a padded model with our model's shape and our learning rates.

    `make` builds the model: a module from source (B, S) and target (B, T) to logits (B, T, V).
    """

    def __init__(
        self,
        make: Callable[[ModelConfig], nn.Module],
        config: RunConfig,
        corpus: Path,
        device: str,
        precision: str,
        as_it_comes: bool,
    ) -> None:
        self.config, self.train = config, config.train
        self.device, self.precision = device, precision
        assert self.train.threads is not None
        torch.set_num_threads(self.train.threads)
        self.path = ", ".join(["padded", *tune(device, as_it_comes=as_it_comes), precision])
        torch.manual_seed(self.train.seed)
        self.model = make(config.model).to(device).train()
        self.parameters = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            betas=(self.train.beta1, self.train.beta2),
            eps=self.train.epsilon,
            weight_decay=0.0,
            fused=True,
        )
        self.part = open_corpus(corpus).train
        layout = GroupedLayout(self.part, self.train.batch_tokens)  # similar lengths together
        self.updates = Updates(lambda _, random: layout.updates(random), seed=self.train.seed)
        self.waiting: deque[tuple[Padded, StepTokens]] = deque()
        self.steps = 0

    def prepare(self, steps: int) -> None:
        """Pad, count and move the batches of `steps` steps."""
        for _ in range(steps):
            batch = Padded.from_pairs([self.part.pair(int(i)) for i in next(self.updates)])
            self.waiting.append((batch.to(self.device), batch.tokens()))

    def step(self) -> StepTokens:
        """Update the weights once."""
        train = self.train
        batch, tokens = self.waiting.popleft()
        (self.loss(batch) / tokens.target_tokens).backward()
        if train.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), train.clip)
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.steps, self.config.model.d_model, train)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return tokens

    def loss(self, batch: Padded) -> Tensor:
        """Return the sum of the smoothed loss over real tokens."""
        with torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16"):
            logits = self.model(batch.source, batch.target)  # (B, T, V)
            return F.cross_entropy(
                logits.flatten(0, 1),
                batch.labels.flatten(),
                ignore_index=PAD,
                label_smoothing=self.train.eps_ls,
                reduction="sum",
            )


def tune(device: str, *, as_it_comes: bool) -> list[str]:
    """Set torch as an expert would for padded batches on a GPU; return a description."""
    if device != "cuda":
        return []
    torch.set_float32_matmul_precision("high")
    # cuDNN's attention makes a plan for each new shape, and nearly every padded batch has one.
    torch.backends.cuda.enable_cudnn_sdp(as_it_comes)
    return ["as it comes" if as_it_comes else "without cuDNN's attention"]
