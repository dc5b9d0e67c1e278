"""The Transformer of "Attention Is All You Need" as a system: two text files in, a translator out.

>>> from transduce import Translator, train
>>> train("train.en", "train.de", out="runs/en-de")
>>> Translator.load("runs/en-de")("Two dogs run.")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.distillation import distill
    from transduce.training import train
    from transduce.translator import Candidate, Translation, Translator

__version__ = "0.1.0"

__all__ = ["Candidate", "Translation", "Translator", "distill", "train"]


def __getattr__(name: str) -> Any:
    """Import torch only when something is asked for that needs it."""
    if name == "train":
        from transduce.training import train

        return train
    if name == "distill":
        from transduce.distillation import distill

        return distill
    if name in __all__:
        from transduce import translator

        return getattr(translator, name)
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
