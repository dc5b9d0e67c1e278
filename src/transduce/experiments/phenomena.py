"""What the paper's Figures 3 to 5 show, as measures of one sentence's attention.

H heads, Q queries, K keys, all whole words of one sentence, </s> among them; layers and heads count
from 1, places from 0. Each measure is what a head gives, less what it would give anyway: to the
same word from elsewhere (Figures 3 and 4), or if it did the same as another (Figure 5).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transduce.experiments.words import can_be_meant, has_content, is_pronoun, is_word
from transduce.inspection.head_jobs import FAR
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import COLOURS

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.bool_]

DISTANT = 5  # words: from "making" to "more difficult" the paper's Figure 3 has six
SEVERAL = 3  # heads that must agree on a distant word
PAIR = 2  # heads that must agree on what a pronoun means
STRETCH = 1 / 3  # of the weight of the word found: what a neighbour needs to belong to it


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """Heads of a layer that look from one word at another."""

    layer: int
    heads: tuple[int, ...]  # the strongest first
    word: int  # from where
    at: tuple[int, ...]  # where they look: one word, or some side by side
    shares: tuple[float, ...]  # what each of the heads gives there
    alike: float  # what a head would give that looks at everything alike
    others: float  # what the same heads give there from other words
    median: float  # what the median head of the layer gives there
    strength: float  # by which it was chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """Two heads of a layer that do different things."""

    layer: int
    heads: tuple[int, int]
    apart: float  # how far: 0 if they look at the same, 1 if never at the same word
    typical: float  # the median of that over all pairs of the layer's heads
    sharpness: tuple[float, float]  # 0 if a head looks at all alike, 1 if at one word each
    strength: float


def upper_layers(count: int, layer: int | None) -> list[int]:
    """Return the layers to look for a phenomenon in: those above the middle, or the one asked."""
    return [layer] if layer is not None else list(range(count // 2 + 1, count + 1))


def long_distance(view: AttentionMatrices, layers: Iterable[int], language: str) -> Link | None:
    """Find the word with a distant one that several heads look at (Figure 3)."""
    content = np.array([has_content(word, language) for word in view.keys])
    names = np.array([word.casefold() for word in view.keys])
    allowed = content[:, None] & content & _apart(len(names), DISTANT)
    allowed &= names[:, None] != names
    return _strongest(view, layers, allowed, agreeing=min(SEVERAL, view.heads), most=len(COLOURS))


def anaphora(view: AttentionMatrices, layers: Iterable[int], language: str) -> Link | None:
    """Find the pronoun from which two heads look at one earlier word (Figure 4)."""
    allowed = _antecedents(view, language)
    return _strongest(view, layers, allowed, agreeing=min(PAIR, view.heads), most=PAIR)


def different_jobs(view: AttentionMatrices, layers: Iterable[int]) -> Jobs | None:
    """Find the two heads of a layer that look at different things, each sharply (Figure 5).

    Strength: how far apart they look, times the sharpness of the less sharp, times its share on
    words; a head that rests on </s> or on full stops has no job.
    """
    words = np.array([is_word(word) for word in view.keys])
    if view.heads < 2 or words.sum() < 2:
        return None
    found: list[Jobs] = []
    for layer in layers:
        weights = view.weights[layer - 1][:, words].astype(np.float64)  # (H, words, K)
        apart = np.abs(weights[:, None] - weights).sum(-1).mean(-1) / 2  # (H, H)
        sharp = sharpness(weights)
        quality = sharp * weights[:, :, words].sum(-1).mean(-1)  # (H,)
        strength = np.triu(apart * np.minimum(quality[:, None], quality), 1)
        a, b = (int(one) for one in np.unravel_index(int(strength.argmax()), strength.shape))
        pairs = apart[np.triu_indices(view.heads, 1)]
        found.append(
            Jobs(
                layer=layer,
                heads=(a + 1, b + 1),
                apart=float(apart[a, b]),
                typical=float(np.median(pairs)),
                sharpness=(float(sharp[a]), float(sharp[b])),
                strength=float(strength[a, b]),
            )
        )
    return max(found, key=lambda one: one.strength)


def sharpness(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return 1 - entropy / log K, the mean over queries. (H, Q, K) -> (H,)."""
    entropy = -(weights * np.log(np.maximum(weights, 1e-12))).sum(-1)
    return np.asarray(1 - entropy.mean(-1) / np.log(weights.shape[-1]))


def to_distant(view: AttentionMatrices, language: str) -> tuple[Floats, float, int]:
    """Return what content words give to distant ones: of all heads (N, H), alike, how many words.

    Sums over words, for adding up over sentences.
    """
    content = np.array([has_content(word, language) for word in view.keys])
    places = content[:, None] & content & _apart(len(content), DISTANT)
    rows = places.any(1)
    shares = (view.weights * places).sum(-1)[..., rows].sum(-1)
    alike = float(places.sum(1)[rows].sum()) / len(content)
    return shares, alike, int(rows.sum())


def to_antecedent(view: AttentionMatrices, language: str) -> tuple[Floats, float, int]:
    """Return what pronouns give to the earlier content word that a head prefers, as above."""
    places = _antecedents(view, language)
    rows = places.any(1)
    shares = (view.weights * places).max(-1)[..., rows].sum(-1)
    return shares, float(rows.sum()) / len(view.keys), int(rows.sum())


def _antecedents(view: AttentionMatrices, language: str) -> Places:
    """Tell which earlier words each pronoun may mean. (Q, K).

    None that is near it, which a head that looks at neighbours would find anyway.
    """
    pronouns = np.array([is_pronoun(word, language) for word in view.keys])
    nouns = np.array([can_be_meant(word, language) for word in view.keys])
    return np.asarray(pronouns[:, None] & nouns & np.tril(_apart(len(nouns), FAR)))


def _apart(count: int, words: int) -> Places:
    places = np.arange(count)
    return np.asarray(np.abs(places[:, None] - places) >= words)


def _strongest(
    view: AttentionMatrices, layers: Iterable[int], allowed: Places, *, agreeing: int, most: int
) -> Link | None:
    """Find the query and the key, among those allowed, on which the best heads agree most.

    Beside those, at most `most` heads are named, if they look there twice as much as alike.
    """
    if not allowed.any():
        return None
    found: list[Link] = []
    for layer in layers:
        weights = view.weights[layer - 1]
        beyond = weights - _from_others(weights)  # (H, Q, K)
        agreed = np.sort(beyond, axis=0)[-agreeing:].mean(0)
        strength = np.where(allowed, agreed, -np.inf)
        query, key = (int(one) for one in np.unravel_index(int(strength.argmax()), strength.shape))
        best = np.argsort(-beyond[:, query, key], kind="stable")
        at = _stretch(weights[best[:agreeing], query].mean(0), key, allowed[query])
        given = weights[:, :, list(at)].sum(-1)  # (H, Q)
        alike = len(at) / len(view.keys)
        more = [head for head in best[agreeing:most] if given[head, query] >= 2 * alike]
        heads = [*map(int, best[:agreeing]), *map(int, more)]
        others = np.delete(given[heads[:agreeing]], [query, *at], axis=1)
        found.append(
            Link(
                layer=layer,
                heads=tuple(head + 1 for head in heads),
                word=query,
                at=at,
                shares=tuple(float(given[head, query]) for head in heads),
                alike=alike,
                others=float(others.mean()) if others.size else 0.0,
                median=float(np.median(given[:, query])),
                strength=float(strength[query, key]),
            )
        )
    return max(found, key=lambda one: one.strength)


def _from_others(weights: Floats) -> Floats:
    """Return what each key gets on average from the words that are neither it nor the query."""
    counted = ~np.eye(weights.shape[-1], dtype=bool)  # (Q, K)
    total = (weights * counted).sum(1, keepdims=True) - weights * counted
    return np.asarray(total / np.maximum(1, counted.sum(0, keepdims=True) - counted))


def _stretch(weights: Floats, key: int, allowed: Places) -> tuple[int, ...]:
    """Return a key and its neighbours that get enough to be looked at with it."""
    begin = end = key
    enough = STRETCH * weights[key]
    while begin > 0 and allowed[begin - 1] and weights[begin - 1] >= enough:
        begin -= 1
    while end + 1 < len(weights) and allowed[end + 1] and weights[end + 1] >= enough:
        end += 1
    return tuple(range(begin, end + 1))
