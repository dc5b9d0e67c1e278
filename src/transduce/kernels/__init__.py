"""The GPU's own kernels, in Triton: what torch's would do in many passes, or in large tiles.

Whoever calls one has a slower way beside it, for machines that have no Triton or no GPU.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

_installed = find_spec("triton") is not None
_working = _installed


def usable(x: Tensor) -> bool:
    """Tell whether kernels can work on this tensor."""
    return x.device.type == "cuda" and _working


def installed() -> bool:
    """Tell whether there is a Triton to make kernels with."""
    return _installed


def switch(*, on: bool) -> None:
    """Use our kernels, or torch's, from now on."""
    global _working  # noqa: PLW0603
    _working = on and _installed


def try_out(device: torch.device) -> None:
    """Compile one of each kind and run it; raises whatever goes wrong."""
    from transduce.kernels import attention, rows

    x = torch.ones(16, 16, device=device)
    rows.residual_forward(
        x, x, x[0], x[0], torch.ones(1, dtype=torch.int64, device=device), 0.1, 1e-5
    )
    heads = x.unflatten(-1, (1, -1))
    first, last = torch.tensor([[0], [16]], dtype=torch.int32, device=device).expand(2, 16)
    attention.forward(
        *(heads, heads, heads, torch.empty_like(heads), x.new_empty(1, 16)),
        *(first.contiguous(), last.contiguous()),
    )
    torch.cuda.synchronize(device)
