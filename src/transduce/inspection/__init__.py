"""Pictures of what a run is and does.

>>> from transduce import Inspector
>>> from transduce.inspection import draw_attention, save
>>> inspection = Inspector.load("runs/en-de").inspect("Two dogs run.")
>>> save(draw_attention(inspection, "encoder", layer=2, heads=[1, 3]), "heads.svg")
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.inspection.attention_drawing import draw as draw_attention
    from transduce.inspection.curves import draw_runs as draw_curves
    from transduce.inspection.head_jobs import find as find_heads
    from transduce.inspection.notebook_map import attention_map
    from transduce.inspection.style import save

PLACES = {
    "attention_map": ("notebook_map", "attention_map"),
    "draw_attention": ("attention_drawing", "draw"),
    "draw_curves": ("curves", "draw_runs"),
    "find_heads": ("head_jobs", "find"),
    "save": ("style", "save"),
}
__all__ = [
    "attention_map",
    "draw_attention",
    "draw_curves",
    "find_heads",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import only what is asked for."""
    if name in PLACES:
        module, function = PLACES[name]
        return getattr(importlib.import_module(f"transduce.inspection.{module}"), function)
    raise AttributeError(f"module 'transduce.inspection' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
