"""Reference implementations for kernel tests: the paper's equations in float64."""

import math

import torch
from torch import Tensor

from transduce.batching.packed import Batch, KeyRanges
from transduce.model.variants.restricted import narrow
from transduce.subwords import PAD


def distance(ours: Tensor, exact: Tensor) -> float:
    """Return the relative error in the norm; NaN if a value is NaN."""
    ours, exact = ours.detach().double().cpu(), exact.detach().double().cpu()
    assert ours.shape == exact.shape
    return float((ours - exact).norm() / exact.norm().clamp_min(1e-30))


def view_of(batch: Batch, kind: str) -> KeyRanges:
    """Return the key ranges of a packed batch for a kind of attention, such as "self, 5 near"."""
    name, _, near = kind.partition(", ")
    view = {"self": batch.source.segments, "causal": batch.target.segments, "cross": batch.cross}[
        name
    ]
    assert isinstance(view, KeyRanges)
    return narrow(view, int(near.removesuffix(" near"))) if near else view


def attention_of(q: Tensor, k: Tensor, v: Tensor, view: KeyRanges, d_out: Tensor) -> list[Tensor]:
    """Return the output of Eq. 1 and the gradients of q, k and v. (T, H, C) each."""
    positions = torch.arange(len(k), device=k.device)
    allowed = (positions >= view.first[:, None]) & (positions < view.last[:, None])  # (Q, K)
    q, k, v = (tensor.detach().double().requires_grad_() for tensor in (q, k, v))
    scores = torch.einsum("qhc,khc->hqk", q, k) / math.sqrt(q.size(2))
    # Padding attends to nothing: its output is 0.
    p = scores.masked_fill(~allowed, -math.inf)[:, allowed.any(-1)].softmax(-1)
    out = torch.zeros(len(q), *v.shape[1:], dtype=torch.float64, device=q.device)
    out[allowed.any(-1)] = torch.einsum("hqk,khc->qhc", p, v)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), d_out.double())]


def cross_entropy_of(z: Tensor, labels: Tensor, eps_ls: float) -> tuple[Tensor, Tensor]:
    """Return the smoothed and plain loss of each token (T, 2), and the gradient of the first."""
    z = z.detach().double().requires_grad_()
    V, right = z.size(1), labels.long()[:, None]
    q = torch.full_like(z, eps_ls / (V - 1))
    q[:, PAD] = 0
    q.scatter_add_(1, right, torch.full_like(q[:, :1], 1 - eps_ls))
    log_p, real = z.log_softmax(-1), labels != PAD
    smoothed = -(q * log_p).sum(-1) * real
    nll = -log_p.gather(1, right)[:, 0] * real
    (gradient,) = torch.autograd.grad(smoothed.sum(), z)
    return torch.stack([smoothed, nll], 1).detach(), gradient


def smoothed_target(labels: torch.Tensor, V: int, eps_ls: float) -> torch.Tensor:
    """Return the target distribution of label smoothing (paper 5.4). (T,) -> (T, V)."""
    q = torch.full((len(labels), V), eps_ls / (V - 1), dtype=torch.float64)
    q[:, PAD] = 0
    q[torch.arange(len(labels)), labels] += 1 - eps_ls
    return q
