"""The JSON of inspections, as the attention explorer gets it."""

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

SOURCE = ["The", " animal", " was", " t", "ired", ".", "</s>"]
TARGET = ["Das", " Tier", " war", " m", "ü", "de", ".", "</s>"]
IN_BYTES = ["Das", " Tier", " war", " m", "<0xC3>", "<0xBC>", "de", ".", "</s>"]
LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen"
NASTY = ["</script><script>alert(1)</script>", " $title", " &amp;<b>", " שלום", f" {LONG}", "</s>"]

Floats = npt.NDArray[np.float64]


def weights(*shape: int, causal: bool = False) -> Floats:
    scores = np.random.default_rng(sum(shape)).normal(size=shape) * 2
    if causal:
        scores[..., ~np.tri(shape[-2], shape[-1], dtype=bool)] = -np.inf
    exponentials = np.exp(scores)
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def packed(values: Floats) -> dict[str, Any]:
    data = np.rint(values * 65535).astype("<u2").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(data).decode()}


def words(pieces: list[str]) -> list[int]:
    is_first = [
        i > 0 and (piece[0] == " " or piece in {".", "</s>"}) for i, piece in enumerate(pieces)
    ]
    return [sum(is_first[: i + 1]) for i in range(len(pieces))]


def spelled(pieces: list[str]) -> list[str]:
    """Return the words; pieces may be single bytes."""
    texts = [""] * (words(pieces)[-1] + 1)
    for word, piece in zip(words(pieces), pieces, strict=True):
        texts[word] += piece
    return [text.replace("<0xC3><0xBC>", "ü").strip() for text in texts]


def _text(pieces: list[str]) -> str:
    return "".join(pieces[:-1]).replace("<0xC3><0xBC>", "ü")


def explorer_json(
    source: list[str] = SOURCE, target: list[str] = TARGET, *, layers: int = 2, heads: int = 3
) -> dict[str, Any]:
    """Return the JSON of an inspection; the decoder has one layer less than the encoder."""
    s, t = len(source), len(target)
    attention = {
        "encoder": weights(layers, heads, s, s),
        "decoder": weights(layers - 1, heads, t, t, causal=True),
        "cross": weights(layers - 1, heads, t, s),
    }
    return {
        "model": "en-de",
        "languages": ["en", "de"],
        "sentences": [_text(source), _text(target)],
        "source": source,
        "target": target,
        "inputs": ["<s>", *target[:-1]],
        "words": {"source": words(source), "target": words(target)},
        "spelled": {"source": spelled(source), "target": spelled(target)},
        "probabilities": [0.75] * t,
        "alternatives": [[[piece, 0.75], [" other", 0.125]] for piece in target],
        "attention": {kind: packed(values) for kind, values in attention.items()},
    }
