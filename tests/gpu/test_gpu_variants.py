"""The compiled kernels of the model's variants compute what float64 computes."""

import pytest
import torch
from variant_kernels import NAMES, assert_exact

from transduce.system.devices import choose_device

# Warnings of other versions of torch are not failures.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

# Of the norm, as in test_gpu_kernels.
EXACT = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


@pytest.fixture(autouse=True, scope="module")
def cuda() -> None:
    """Set torch's flags as `choose_device` does."""
    choose_device("cuda")


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("sizes", [(5001, 512, 8, 64, 64), (1030, 1365, 6, 40, 24)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_exact_forward_and_backward(
    name: str, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    assert_exact(name, sizes, dtype, "cuda", EXACT[dtype])
