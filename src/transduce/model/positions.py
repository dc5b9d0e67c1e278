"""Sinusoidal positional encodings, in torch for models and in numpy for exports."""

from typing import Any


def sinusoids(length: int, d_model: int, library: Any) -> Any:
    """Return the positional encodings, as an array from `library` (torch or numpy).

    Paper: 3.5, PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same). In float64.
    (length, d_model).
    """
    pos = library.arange(length, dtype=library.float64)[:, None]
    angle = pos / 10_000 ** (library.arange(0, d_model, 2, dtype=library.float64) / d_model)
    pairs = library.stack([library.sin(angle), library.cos(angle)], -1)  # (length, d_model / 2, 2)
    return pairs.reshape(length, d_model)
