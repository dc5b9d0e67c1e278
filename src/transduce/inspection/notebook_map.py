"""An attention map for notebooks that can be saved as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.inspection.attention_drawing import ROWS, TITLES, draw_map
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import save
from transduce.translation.notebook import heatmap

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection


@dataclass(frozen=True, slots=True, repr=False)
class AttentionMap:
    """The mean attention of some heads of a layer. A notebook shows it as a map."""

    attention: AttentionMatrices
    layer: int  # from 1
    heads: tuple[int, ...]  # from 1

    def save(self, path: str | Path) -> None:
        """Write the map as a picture: the name ends in .svg, .png or .pdf."""
        save(draw_map(self.attention, self.layer, self.heads), path)

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _title(self) -> str:
        heads = self.attention.describe(self.layer, self.heads, mean=True)
        return f"{TITLES[self.attention.kind]}: {heads}"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        weights = self.attention.mean(self.layer, self.heads)
        about = f"{self._title()}; {ROWS[self.attention.kind]}"
        return heatmap(weights, self.attention.queries, self.attention.keys, about)


def attention_map(
    inspection: "Inspection",
    kind: str = "cross",
    *,
    layer: int | None = None,
    heads: Sequence[int] = (),
    words: bool = True,
) -> AttentionMap:
    """Return a map for a notebook: the mean of some heads (default all) of a layer (default last).

    `kind` is encoder, decoder or cross. Layers and heads count from 1, as in the paper's figures.
    `words` merges the pieces of a word. `.save("map.svg")` writes it as a picture.

    >>> inspection = Inspector.load("runs/en-de").inspect("Two dogs run.")
    >>> attention_map(inspection, layer=2, heads=[1, 3])
    """
    attention = AttentionMatrices.of(inspection, kind, words=words)
    chosen = tuple(attention.select_heads(heads))
    return AttentionMap(attention, attention.layer(layer), chosen)
