"""The settings of a search; the defaults are the paper's."""

from dataclasses import dataclass
from typing import Literal

from transduce.settings.base import Settings, at_least, setting

MIN_TEMPERATURE = 1e-6  # smaller values could overflow float32 in logits / temperature


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig(Settings):
    """How to translate (paper 6.1)."""

    beam: int = setting(4, "beam size", "6.1")
    alpha: float = setting(0.6, "exponent of the length penalty ((5 + length) / 6)^alpha", "6.1")
    penalty: Literal["paper", "power"] = setting(
        "paper", "form of the length penalty; power: length^alpha, for imported models", "6.1"
    )
    extra: int = setting(
        50, "most tokens by which an output may exceed its input, or its prefix if longer", "6.1"
    )
    nbest: int = setting(1, "translations to return per sentence")
    sample: bool = setting(False, "sample translations instead of searching")
    temperature: float = setting(1.0, "sampling temperature: below 1 sharper, above 1 flatter")
    top_k: int = setting(0, "sample from the k most likely tokens; 0: all")
    top_p: float = setting(
        1.0,
        "nucleus sampling: keep the smallest set of tokens whose probabilities sum to p; 1: all",
    )
    draw: int = setting(1, "sampling seed")

    def check(self) -> None:
        """Refuse searches that are impossible."""
        self._check_each("beam extra nbest", at_least(1))
        self._check_each("alpha top_k draw", at_least(0))
        self._check_each("temperature", at_least(MIN_TEMPERATURE))
        self._require(0 < self.top_p <= 1, "top_p", "a number above 0, up to 1")
        if not self.sample:
            at_most = f"at most the beam, which is {self.beam}"
            self._require(self.nbest <= self.beam, "nbest", at_most)
