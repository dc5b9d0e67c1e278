"""Variants of the paper's model, each chosen by a setting.

- `additive` (paper 3.2.1), `restricted` (4): attention.
- `rotary`, `qk_norm`: changes of queries and keys before their products.
- `pre_norm`, `rms_norm`: norms.
"""
