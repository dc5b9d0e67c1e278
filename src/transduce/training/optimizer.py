"""Adam and the learning rate (paper 5.3).

The contract of an optimizer here: `make_optimizer` returns it, and training sets its `found_inf`, a
tensor on the device that is 1 if the gradient is not finite. In that case `step` must change
nothing: the host does not wait for the gradient, so it cannot decide. If an optimizer cannot read
`found_inf`, its `reads_found_inf` is False; training then waits and does not call `step`.
"""

import torch
from torch import Tensor, nn

from transduce.config import TrainConfig


def learning_rate(step: int, d_model: int, config: TrainConfig, done: float = 0.0) -> float:
    """Return the learning rate for an update; the first update is step 1.

    Paper: 5.3, Eq. 3, d_model^-0.5 * min(step^-0.5, step * warmup^-1.5).
    Differs: with `ramp`, the rate rises to the same peak in fewer steps and stays there until step
    `warmup`. With `cooldown` > 0, the rate falls linearly to 0 over that last fraction of the run,
    which short runs need; `done` is the fraction of the run before this update.
    """
    warmup = config.warmup
    rise = step * warmup**-1.5
    if config.ramp is not None and config.ramp < warmup:
        rise = min(1.0, step / config.ramp) * warmup**-0.5
    rate: float = d_model**-0.5 * min(step**-0.5, rise) * config.lr_scale
    if config.cooldown:
        rate *= min(1.0, (1.0 - done) / config.cooldown)
    return rate


def fit_ramp(config: TrainConfig, steps: int) -> TrainConfig:
    """Return settings whose rate rises for at most the fraction `warmup_cap` of `steps`.

    Only the rise gets steeper. The peak and the rates after it follow Eq. 3, so a run that is given
    more steps later continues as if it had been planned with them.
    """
    ramp = max(1, int(config.warmup_cap * steps))
    if config.warmup_cap == 1 or config.ramp is not None or config.warmup <= ramp:
        return config
    return config.replace(ramp=ramp)


class Adam(torch.optim.Adam):
    """The paper's optimizer, with torch's fused kernel."""

    found_inf: Tensor | None = None  # torch reads this attribute; GradScaler also sets it

    @property
    def reads_found_inf(self) -> bool:
        """Whether `step` changes nothing if `found_inf` is 1: not on Apple's GPUs."""
        weight: Tensor = self.param_groups[0]["params"][0]
        return weight.device.type != "mps"


def make_optimizer(model: nn.Module, config: TrainConfig) -> Adam:
    """Return the paper's optimizer; its learning rate is set before every step.

    Its memory is allocated now, so that the free memory is known before the first step.
    """
    optimizer = Adam(
        model.parameters(),
        lr=0.0,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )
    for parameter in model.parameters():
        optimizer.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimizer
