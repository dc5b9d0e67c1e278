"""RMSNorm (Zhang and Sennrich 2019)."""

from torch import Tensor, nn
from torch.nn import functional as F


class RMSNorm(nn.LayerNorm):
    """x / sqrt(mean(x^2) + eps) * weight.

    Differs: LayerNorm (3.1) also subtracts the mean and adds a bias.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row. (T, width) -> (T, width)."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
