"""Private functions of torch that the model uses, with the code that uses them.

If a new version of torch lacks one, the test that names it fails, and the code needs another way.
"""

from operator import attrgetter

import pytest
import torch

PRIVATE = {
    "_addmm_activation": "model/ops/fused.py: product, bias and ReLU in one kernel",
    "_weight_norm": "model/baselines/convs2s.py: weight normalisation in one kernel",
    "_C._cuda_endAllocateToPool": "model/ops/graphs.py: close the pool of a failed capture",
    "ops.mkldnn._linear_pointwise": "model/ops/linear.py: oneDNN's product",
    "ops.mkldnn._reorder_linear_weight": "model/ops/linear.py: oneDNN's layout of a matrix",
}


@pytest.mark.parametrize("name", PRIVATE)
def test_torch_has_the_private_function(name: str) -> None:
    path, _, function = name.rpartition(".")
    owner = attrgetter(path)(torch) if path else torch
    assert hasattr(owner, function), (
        f"torch {torch.__version__} has no torch.{name}, used by {PRIVATE[name]}"
    )
