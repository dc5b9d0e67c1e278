"""Which models each library can represent. An export refuses all others, naming the setting."""

from collections.abc import Iterator
from dataclasses import dataclass

from transduce.config import ModelConfig
from transduce.config.model import TRANSFORMER_SETTINGS
from transduce.errors import BadInput


@dataclass(frozen=True, slots=True)
class Library:
    """A library, and what its model format can represent beyond the paper's base model."""

    name: str
    positions: tuple[str, ...]
    narrow_heads: bool  # d_k or d_v below d_model / h
    settings: frozenset[str] = frozenset()  # in addition to TRANSFORMER_SETTINGS

    def require_support(self, model: ModelConfig) -> None:
        """Refuse a model that the library cannot represent."""
        for setting in self._unsupported(model):
            raise BadInput(f"{self.name} cannot represent this model: {setting}")

    def _unsupported(self, model: ModelConfig) -> Iterator[str]:
        departure = model.first_departure_from(TRANSFORMER_SETTINGS | self.settings)
        if departure:
            yield departure
        if model.positions not in self.positions:
            yield f"positions = {model.positions!r}, expected {' or '.join(self.positions)}"
        head_width, remainder = divmod(model.d_model, model.h)
        if remainder:
            yield f"d_model = {model.d_model} is not a multiple of h = {model.h}"
        for name, width in (("d_k", model.d_k), ("d_v", model.d_v)):
            if width > head_width:
                yield f"{name} = {width} is more than d_model / h = {head_width}"
            if width < head_width and not self.narrow_heads:
                yield f"{name} = {width} is less than d_model / h = {head_width}"


CTRANSLATE2 = Library(
    "CTranslate2",
    positions=("sinusoidal", "learned", "rotary"),
    narrow_heads=True,
    # Not qk_norm: version 4.8 computes it in self-attention, but not in cross-attention.
    settings=frozenset({"pre_norm", "norm", "gated"}),
)
MARIAN = Library("Marian", positions=("sinusoidal",), narrow_heads=False)
