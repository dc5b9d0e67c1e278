"""Kernels in Triton; only `model.ops` and `model.cache` import them, when they run.

- `rows`: residuals, norms, ReLU and softmax, a row at a time.
- `attention`: attention over packed tokens.
- `decoding`: attention of decode steps over the cache.
"""
