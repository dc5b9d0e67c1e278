"""Inspections with random weights, for tests that draw them."""

import numpy as np
import numpy.typing as npt

from transduce.inspection.inspector import Inspection

Floats = npt.NDArray[np.float32]

SOURCE = " The dog sleeps ."
TARGET = " Der Hund schläf|t ."


def sharp(*shape: int, seed: int = 1) -> Floats:
    """Return rows that sum to 1, with large and small weights."""
    scores = 3 * np.random.default_rng(seed).normal(size=shape)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    return np.asarray(weights, dtype=np.float32)


def causal(*shape: int) -> Floats:
    weights = np.tril(sharp(*shape))
    return np.asarray(weights / weights.sum(-1, keepdims=True), dtype=np.float32)


def pieces_of(text: str) -> tuple[list[str], list[int], list[str]]:
    """Split a text at spaces and bars: its pieces, their words, and the words, with </s>."""
    words = text.split()
    pieces = [
        " " * (not index) + piece for word in words for index, piece in enumerate(word.split("|"))
    ]
    numbers = [n for n, word in enumerate(words) for _ in word.split("|")]
    spelled = [word.replace("|", "") for word in words]
    return [*pieces, "</s>"], [*numbers, len(words)], [*spelled, "</s>"]


def make_inspection(
    source: str = SOURCE, target: str = TARGET, N: int = 2, h: int = 3
) -> Inspection:
    """Return an inspection of these pieces with random weights."""
    source_pieces, source_words, source_spelled = pieces_of(source)
    target_pieces, target_words, target_spelled = pieces_of(target)
    S, T = len(source_pieces), len(target_pieces)
    return Inspection(
        model="made",
        languages=("en", "de"),
        sentences=(" ".join(source_spelled[:-1]), " ".join(target_spelled[:-1])),
        source=tuple(source_pieces),
        target=tuple(target_pieces),
        inputs=("<s>", *target_pieces[:-1]),
        source_words=tuple(source_words),
        target_words=tuple(target_words),
        spelled=(tuple(source_spelled), tuple(target_spelled)),
        probabilities=np.linspace(0.5, 1, T, dtype=np.float32),
        alternatives=((),) * T,
        encoder=sharp(N, h, S, S),
        decoder=causal(N, h, T, T),
        cross=sharp(N, h, T, S),
    )
