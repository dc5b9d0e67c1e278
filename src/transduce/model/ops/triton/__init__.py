"""Kernels in Triton. Only `model.ops` imports them."""
