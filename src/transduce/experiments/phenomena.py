"""The phenomena of the paper's Figures 3 to 5, measured on the attention in one sentence.

H heads, Q queries, K keys, all whole words of one sentence, </s> included; layers and heads count
from 1, words from 0. Strength is a head's weight beyond a baseline: its weight on the same
word from other words (Figures 3 and 4), or a head that does the same job (Figure 5).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transduce.inspection.head_jobs import FAR
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import COLOURS

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]  # (Q, K)

DISTANT = 5  # words; in the paper's Figure 3 there are six from "making" to "more difficult"
AGREEING_ON_DISTANT, AGREEING_ON_PRONOUN = 3, 2  # heads
NEIGHBOUR_SHARE = 1 / 3  # a neighbour with this share of a word's weight belongs to the same link
SHORTEST_CONTENT_WORD = 3  # letters


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# In lower case. A word that is both article and pronoun (German die, French le) is an article here.
PRONOUNS = {
    "en": _words(
        "it its itself he him his himself she her hers herself they them their theirs themselves"
    ),
    "de": _words(
        "er sie es ihn ihm ihr ihre ihren ihrem ihrer ihres sein seine seinen seinem seiner seines "
        "ihnen sich"
    ),
    "fr": _words("il ils elle elles lui leur leurs son sa ses se eux celui celle ceux celles"),
}
FUNCTION_WORDS = {
    "en": _words(
        "a an the this that these those and or but nor so if as than then when while because "
        "of in on at by for from with without to into onto over under about after before between "
        "through during against i me my mine you your yours we us our ours who whom whose which "
        "what there here not no is are was were be been being am has have had having do does did "
        "will would shall should can could may might must also very such some any all each most "
        "many never just only behind other others both own even still however where"
    ),
    "de": _words(
        "der die das den dem des ein eine einen einem einer eines kein keine keinen dieser diese "
        "dieses diesen diesem und oder aber denn sondern wenn als ob dass weil damit da wie so in "
        "im an am auf aus bei beim mit nach von vom vor zu zum zur über unter durch für gegen ohne "
        "um bis ich mich mir mein du dich dir dein wir uns unser wer was wo nicht auch nur noch "
        "sehr ist sind war waren bin bist sei wird werden wurde worden hat haben hatte kann können "
        "muss müssen soll sollte will wollen darf mag"
    ),
    "fr": _words(
        "le la les l un une des du de d à au aux en dans sur sous par pour avec sans entre vers "
        "et ou mais donc or ni car si que qui quoi dont où quand comme ce cet cette ces je me moi "
        "tu te toi nous vous notre nos votre vos mon ma mes ne pas plus est sont était été être a "
        "ont avait avoir y on aussi très tout tous toute"
    ),
}


def is_word(text: str) -> bool:
    """Return whether a token is a word or a number, not punctuation or </s>."""
    return text[:1] != "<" and any(map(str.isalnum, text))


def is_pronoun(text: str, language: str) -> bool:
    """Return whether a word is a pronoun of the third person."""
    return text.casefold() in PRONOUNS.get(language, ())


def is_content_word(text: str, language: str) -> bool:
    """Return whether a word is a noun, verb, adjective or name."""
    word = text.casefold()
    return (
        len(word) >= SHORTEST_CONTENT_WORD
        and is_word(word)
        and not is_pronoun(word, language)
        and word not in FUNCTION_WORDS.get(language, ())
    )


def may_be_antecedent(text: str, language: str) -> bool:
    """Return whether a word looks like a noun, which a pronoun may refer to."""
    if language == "de":
        return is_content_word(text, language) and text[0].isupper()
    verb = language == "en" and text.casefold().endswith(("ing", "ed", "n't"))
    return is_content_word(text, language) and not verb


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """Heads of a layer that attend from one word to another."""

    layer: int
    heads: tuple[int, ...]  # the strongest first
    word: int  # the query
    at: tuple[int, ...]  # the keys: one word, or several side by side
    shares: tuple[float, ...]  # the weight that each head gives there
    alike: float  # the weight that a uniform head would give there
    others: float  # the weight that the same heads give there from other words
    median: float  # the weight that the median head of the layer gives there
    strength: float  # the criterion for choosing the link


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """Two heads of a layer that do different things."""

    layer: int
    heads: tuple[int, int]
    apart: float  # 0 if they attend to the same words, 1 if always to different ones
    typical: float  # the median of `apart` over all pairs of the layer's heads
    sharpness: tuple[float, float]  # 0 for a uniform head, 1 if each query attends to one word
    strength: float


def upper_layers(count: int, layer: int | None) -> list[int]:
    """Return the layers to search: the given one, or those above the middle."""
    return [layer] if layer is not None else list(range(count // 2 + 1, count + 1))


def long_distance(
    attention: AttentionMatrices, layers: Iterable[int], language: str
) -> Link | None:
    """Find the word from which several heads attend to a distant one (Figure 3)."""
    words = np.array([word.casefold() for word in attention.keys])
    allowed = _distant_content(attention, language) & (words[:, None] != words)
    agreeing = min(AGREEING_ON_DISTANT, attention.heads)
    return _strongest(attention, layers, allowed, agreeing=agreeing, most=len(COLOURS))


def anaphora(attention: AttentionMatrices, layers: Iterable[int], language: str) -> Link | None:
    """Find the pronoun from which two heads attend to one earlier word (Figure 4)."""
    allowed = _antecedents(attention, language)
    agreeing = min(AGREEING_ON_PRONOUN, attention.heads)
    return _strongest(attention, layers, allowed, agreeing=agreeing, most=AGREEING_ON_PRONOUN)


def different_jobs(attention: AttentionMatrices, layers: Iterable[int]) -> Jobs | None:
    """Find the two heads of a layer that attend to different words, each sharply (Figure 5).

    Strength: how far apart they attend, times the sharpness of the less sharp one, times its share
    on words; a head that attends to </s> or full stops has no job.
    """
    words = np.array([is_word(word) for word in attention.keys])
    if attention.heads < 2 or words.sum() < 2:
        return None
    candidates: list[Jobs] = []
    for layer in layers:
        weights = attention.weights[layer - 1][:, words].astype(np.float64)  # (H, words, K)
        apart = np.abs(weights[:, None] - weights).sum(-1).mean(-1) / 2  # (H, H)
        sharp = sharpness(weights)
        quality = sharp * weights[:, :, words].sum(-1).mean(-1)  # (H,)
        strength = np.triu(apart * np.minimum(quality[:, None], quality), 1)
        a, b = _largest(strength)
        candidates.append(
            Jobs(
                layer=layer,
                heads=(a + 1, b + 1),
                apart=float(apart[a, b]),
                typical=float(np.median(apart[np.triu_indices(attention.heads, 1)])),
                sharpness=(float(sharp[a]), float(sharp[b])),
                strength=float(strength[a, b]),
            )
        )
    return max(candidates, key=lambda jobs: jobs.strength)


def sharpness(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return 1 - entropy / log K, the mean over queries. (H, Q, K) -> (H,)."""
    entropy = -(weights * np.log(np.maximum(weights, 1e-12))).sum(-1)
    return np.asarray(1 - entropy.mean(-1) / np.log(weights.shape[-1]))


def to_distant(attention: AttentionMatrices, language: str) -> tuple[Floats, float, int]:
    """Return the weight from content words to distant ones, summed over words.

    Returns the sums for every head (N, H), the sum for a uniform head, and the number of words.
    """
    mask = _distant_content(attention, language)
    rows = mask.any(1)
    shares = (attention.weights * mask).sum(-1)[..., rows].sum(-1)
    uniform = float(mask.sum(1)[rows].sum()) / len(attention.keys)
    return shares, uniform, int(rows.sum())


def to_antecedent(attention: AttentionMatrices, language: str) -> tuple[Floats, float, int]:
    """Return the weight from pronouns to each head's preferred antecedent, like `to_distant`."""
    mask = _antecedents(attention, language)
    rows = mask.any(1)
    shares = (attention.weights * mask).max(-1)[..., rows].sum(-1)
    return shares, float(rows.sum()) / len(attention.keys), int(rows.sum())


def _distant_content(attention: AttentionMatrices, language: str) -> Mask:
    """Return a mask of pairs of distant content words. (Q, K)."""
    content = np.array([is_content_word(word, language) for word in attention.keys])
    return np.asarray(content[:, None] & content & _apart(len(content), DISTANT))


def _antecedents(attention: AttentionMatrices, language: str) -> Mask:
    """Return a mask of the earlier words that each pronoun may refer to. (Q, K).

    Near words are excluded: heads that attend to neighbours would find them by chance.
    """
    pronouns = np.array([is_pronoun(word, language) for word in attention.keys])
    nouns = np.array([may_be_antecedent(word, language) for word in attention.keys])
    return np.asarray(pronouns[:, None] & nouns & np.tril(_apart(len(nouns), FAR)))


def _apart(count: int, words: int) -> Mask:
    positions = np.arange(count)
    return np.asarray(np.abs(positions[:, None] - positions) >= words)


def _largest(matrix: npt.NDArray[np.floating]) -> tuple[int, int]:
    row, column = np.unravel_index(int(matrix.argmax()), matrix.shape)
    return int(row), int(column)


def _strongest(
    attention: AttentionMatrices, layers: Iterable[int], allowed: Mask, *, agreeing: int, most: int
) -> Link | None:
    """Find the allowed query and key on which the best heads agree most.

    Further heads, up to `most` in total, are included if they give twice a uniform head's weight.
    """
    if not allowed.any():
        return None
    links: list[Link] = []
    for layer in layers:
        weights = attention.weights[layer - 1]
        beyond = weights - _from_others(weights)  # (H, Q, K)
        agreed = np.sort(beyond, axis=0)[-agreeing:].mean(0)
        strength = np.where(allowed, agreed, -np.inf)
        query, key = _largest(strength)
        best = np.argsort(-beyond[:, query, key], kind="stable")
        keys = _with_neighbours(weights[best[:agreeing], query].mean(0), key, allowed[query])
        received = weights[:, :, list(keys)].sum(-1)  # (H, Q)
        uniform = len(keys) / len(attention.keys)
        more = [head for head in best[agreeing:most] if received[head, query] >= 2 * uniform]
        heads = [*map(int, best[:agreeing]), *map(int, more)]
        others = np.delete(received[heads[:agreeing]], [query, *keys], axis=1)
        links.append(
            Link(
                layer=layer,
                heads=tuple(head + 1 for head in heads),
                word=query,
                at=keys,
                shares=tuple(float(received[head, query]) for head in heads),
                alike=uniform,
                others=float(others.mean()) if others.size else 0.0,
                median=float(np.median(received[:, query])),
                strength=float(strength[query, key]),
            )
        )
    return max(links, key=lambda link: link.strength)


def _from_others(weights: Floats) -> Floats:
    """Return each key's mean weight from all words except itself and the query."""
    counted = ~np.eye(weights.shape[-1], dtype=bool)  # (Q, K)
    total = (weights * counted).sum(1, keepdims=True) - weights * counted
    return np.asarray(total / np.maximum(1, counted.sum(0, keepdims=True) - counted))


def _with_neighbours(weights: Floats, key: int, allowed: Mask) -> tuple[int, ...]:
    """Return a key and its neighbours that get at least NEIGHBOUR_SHARE of its weight."""
    first = last = key
    enough = NEIGHBOUR_SHARE * weights[key]
    while first > 0 and allowed[first - 1] and weights[first - 1] >= enough:
        first -= 1
    while last + 1 < len(weights) and allowed[last + 1] and weights[last + 1] >= enough:
        last += 1
    return tuple(range(first, last + 1))
