"""Attention of a translation, and pictures of attention and of training runs.

- inspector: `Inspector` and `Inspection`, the attention weights of one translation
- matrices: attention weights with their labels, by pieces or by whole words
- head_jobs: heads whose attention can be described as a job
- style: the style of pictures, and saving them
- attention_drawing: lines between words, maps and grids of heads
- notebook_map: an attention map for notebooks
- explorer_page: the attention explorer as one HTML file
- curves: loss, BLEU and speed of training runs

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

PUBLIC = {  # imported when first used
    "attention_map": ("notebook_map", "attention_map"),
    "draw_attention": ("attention_drawing", "draw"),
    "draw_curves": ("curves", "draw_runs"),
    "find_heads": ("head_jobs", "find"),
    "save": ("style", "save"),
}
__all__ = ["attention_map", "draw_attention", "draw_curves", "find_heads", "save"]


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        module, function = PUBLIC[name]
        return getattr(importlib.import_module(f"transduce.inspection.{module}"), function)
    raise AttributeError(f"module 'transduce.inspection' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
