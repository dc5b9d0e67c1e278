"""Kernels in Triton, imported when `model.ops`, `model.cache` or `model.loss` first run them.

- `rows`: residuals, norms, ReLU and softmax, a row at a time.
- `attention`: attention over packed tokens.
- `decoding`: attention over the cache in decoding steps.
"""
