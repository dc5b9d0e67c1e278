"""The learning rate, Adam (paper 5.3), and Muon as an alternative.

The contract of an optimizer here: `make_optimizer` returns it, and training sets its `found_inf`, a
tensor on the device that is 1 if the gradient is not finite. In that case `step` must change
nothing: the host does not wait for the gradient, so it cannot decide. If an optimizer cannot read
`found_inf`, its `reads_found_inf` is False; training then waits and does not call `step`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig, TrainConfig
from transduce.model.embedding import Embedding
from transduce.model.ops.linear import Linear
from transduce.training.muon import blocks_in_layers, make_stacks


def learning_rate(step: int, d_model: int, config: TrainConfig, done: float = 0.0) -> float:
    """Return the learning rate for an update; the first update is step 1.

    Paper: 5.3, Eq. 3, d_model^-0.5 * min(step^-0.5, step * warmup^-1.5).
    Differs: with `ramp`, the rate rises to the same peak in fewer steps and stays there until step
    `warmup`. With `schedule` "constant", it keeps its peak after the warm-up. With `cooldown` > 0,
    the rate falls linearly to 0 over that last fraction of the run, which short runs need; `done`
    is the fraction of the run before this update. Both together are warm-up-stable-decay (WSD).
    """
    warmup = config.warmup
    fall = warmup**-0.5 if config.schedule == "constant" else step**-0.5
    rise = step * warmup**-1.5
    if config.ramp is not None and config.ramp < warmup:
        rise = min(1.0, step / config.ramp) * warmup**-0.5
    rate: float = d_model**-0.5 * min(fall, rise) * config.lr_scale
    if config.cooldown:
        rate *= min(1.0, (1.0 - done) / config.cooldown)
    return rate


def fit_ramp(config: TrainConfig, steps: int) -> TrainConfig:
    """Return settings whose rate rises for at most the fraction `warmup_cap` of `steps`.

    Only the rise gets steeper. The peak and the rates after step `warmup` stay the same, so a run
    that is given more steps later continues as if it had been planned with them.
    """
    ramp = max(1, int(config.warmup_cap * steps))
    if config.warmup_cap == 1 or config.ramp is not None or config.warmup <= ramp:
        return config
    return config.replace(ramp=ramp)


def fit_residual_lr(config: TrainConfig, model: ModelConfig) -> TrainConfig:
    """Return settings with which post-norm stays stable at a higher rate than that of Eq. 3.

    The last matrices of sub-layers write into the residual stream. With `lr_scale` 2 `base`
    diverged; it learned when these matrices had a quarter of the rate (docs/log.md).
    """
    post_norm = model.architecture == "transformer" and not model.pre_norm
    steep = post_norm and config.optimizer == "adam" and config.lr_scale > 1
    return config.replace(residual_lr=config.lr_scale**-2 if steep else 1.0)


class Adam(torch.optim.Adam):
    """The paper's optimizer, with torch's fused kernel."""

    found_inf: Tensor | None = None  # torch reads this attribute; GradScaler also sets it

    def __init__(self, groups: Iterable[dict[str, Any]], config: TrainConfig) -> None:
        """Allocate the moments, so that the free memory is known before the first step."""
        super().__init__(
            groups,
            lr=0.0,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            fused=True,
            decoupled_weight_decay=config.weight_decay > 0,
        )
        for parameter in (weight for group in self.param_groups for weight in group["params"]):
            self.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next step."""
        for group in self.param_groups:
            group["lr"] = rate * group["factor"]

    @property
    def reads_found_inf(self) -> bool:
        """Whether `step` changes nothing if `found_inf` is 1: not on Apple's GPUs."""
        weight: Tensor = self.param_groups[0]["params"][0]
        return weight.device.type != "mps"


def parameter_groups(
    parameters: Iterable[nn.Parameter], config: TrainConfig, factors: Mapping[Tensor, float]
) -> list[dict[str, Any]]:
    """Group parameters by their weight decay and the factor on their learning rate, 1 by default.

    Only matrices decay, embeddings included; biases, the gains of norms and other vectors do not.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in parameters:
        decay = config.weight_decay if parameter.squeeze().ndim > 1 else 0.0
        groups.setdefault((decay, factors.get(parameter, 1.0)), []).append(parameter)
    return [
        {"params": group, "weight_decay": decay, "factor": factor}
        for (decay, factor), group in groups.items()
    ]


class Muon(Adam):
    """Muon for the matrices in the layers, Adam for all other weights, at the same rate.

    Differs: the paper uses Adam for all weights.
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        blocks = blocks_in_layers(model)
        matrices = {block.weight for block in blocks}
        others = (w for w in model.parameters() if w not in matrices)
        super().__init__(parameter_groups(others, config, position_factors(model, config)), config)
        device = blocks[0].weight.device
        self.found_inf = torch.zeros((), device=device)
        self.weight_decay, self.matrices = config.weight_decay, [*matrices]
        self.stacks = make_stacks(blocks, iteration_dtype(device, config))
        for stack in self.stacks:
            for block, momentum in zip(stack.blocks, stack.momentum, strict=True):
                self.state[block.weight][f"momentum_{block.number}"] = momentum

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all weights; if `found_inf` is 1, change nothing."""
        loss = super().step(closure)
        assert self.found_inf is not None
        rate, applied = self.param_groups[0]["lr"], 1 - self.found_inf
        if self.weight_decay:
            torch._foreach_mul_(self.matrices, 1 - applied * (rate * self.weight_decay))
        for stack in self.stacks:
            stack.step(rate, applied)
        return loss


def iteration_dtype(device: torch.device, config: TrainConfig) -> torch.dtype:
    """Return the precision of Newton-Schulz iterations, for which bf16 is enough."""
    narrow = device.type == "cuda" and config.precision != "float32"
    if narrow and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float32


def make_optimizer(
    model: nn.Module, config: TrainConfig, residual_outputs: Iterable[Linear] = ()
) -> Adam:
    """Return the optimizer of `config.optimizer`; `residual_lr` applies to `residual_outputs`."""
    if config.optimizer == "muon":
        return Muon(model, config)
    factors = position_factors(model, config)
    factors |= {matrix.weight: config.residual_lr for matrix in residual_outputs}
    return Adam(parameter_groups(model.parameters(), config, factors), config)


def position_factors(model: nn.Module, config: TrainConfig) -> dict[Tensor, float]:
    """Return the factor on the learning rate of learned positions.

    Word embeddings are multiplied by sqrt(d_model) on the way in (paper 3.4), positions are not. So
    Adam changes a position by sqrt(d_model) less than a word in the same step; `position_lr` =
    sqrt(d_model) makes up for it.
    """
    tables = [each.positions for each in model.modules() if isinstance(each, Embedding)]
    return {table: config.position_lr for table in tables if isinstance(table, nn.Parameter)}
