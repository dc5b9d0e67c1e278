"""The GPU's own kernels, in Triton: what torch's would do in many passes, or in large tiles.

Whoever calls one has a slower way beside it, for machines that have no Triton or no GPU.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

_working = find_spec("triton") is not None


def usable(x: Tensor) -> bool:
    """Tell whether kernels can work on this tensor."""
    return x.device.type == "cuda" and _working


def installed() -> bool:
    """Tell whether there is a Triton to make kernels with, and it has not failed."""
    return _working


def switch_off() -> None:
    """Use torch's kernels from now on."""
    global _working  # noqa: PLW0603
    _working = False


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
