"""An attention to look at in a notebook, and to keep as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.inspection.attention_drawing import ROWS, TITLES, draw
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import save
from transduce.translation.notebook import heatmap

if TYPE_CHECKING:
    from transduce.inspection.inspector import Inspection


@dataclass(frozen=True, slots=True, repr=False)
class AttentionMap:
    """What a layer looks at, as a map: the mean of some of its heads. A notebook shows it."""

    inspection: "Inspection"
    view: AttentionMatrices  # the weights, and the words along both sides
    layer: int  # from 1
    heads: tuple[int, ...]  # from 1
    words: bool  # whether the pieces of a word are taken together

    def save(self, path: str | Path) -> None:
        """Write the map as a picture: the name ends in .svg, .png or .pdf."""
        figure = draw(
            self.inspection,
            self.view.kind,
            view="map",
            layer=self.layer,
            heads=self.heads,
            words=self.words,
        )
        save(figure, path)

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _title(self) -> str:
        which = self.view.which(self.layer, self.heads, mean=True)
        return f"{TITLES[self.view.kind]}: {which}"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        weights = self.view.mean(self.layer, self.heads)
        about = f"{self._title()}; {ROWS[self.view.kind]}"
        return heatmap(weights, self.view.queries, self.view.keys, about)


def attention_map(
    inspection: "Inspection",
    kind: str = "cross",
    *,
    layer: int | None = None,
    heads: Sequence[int] = (),
    words: bool = True,
) -> AttentionMap:
    """Return a map that a notebook shows: of a layer (the last), the mean of some heads (of all).

    `kind` is encoder, decoder or cross. Layers and heads count from 1, as in the paper's figures.
    `words` takes the pieces of a word together. `.save("map.svg")` keeps it.

    >>> found = Inspector.load("runs/en-de").inspect("Two dogs run.")
    >>> attention_map(found, layer=2, heads=[1, 3])
    """
    view = AttentionMatrices.of(inspection, kind, words=words)
    chosen = tuple(view.some(heads))
    return AttentionMap(inspection, view, view.layer(layer), chosen, words)
