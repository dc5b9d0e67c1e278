"""The Transformer of "Attention Is All You Need" as a system: two text files in, a translator out.

>>> from transduce import Translator, train
>>> train("train.en", "train.de", out="runs/en-de")
>>> Translator.load("runs/en-de")("Two dogs run.")
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.config import ModelConfig, SearchConfig, TrainConfig
    from transduce.distillation import distill
    from transduce.errors import TransduceError
    from transduce.inspection import Inspection, Inspector
    from transduce.model import Transformer
    from transduce.parsing.parser import Parser
    from transduce.parsing.training import train_parser
    from transduce.parsing.trees import Tree
    from transduce.scoring import Score, score
    from transduce.training import train
    from transduce.translation import Candidate, Translation
    from transduce.translator import Translator

__version__ = "0.1.0"

MODULES = {
    "Candidate": "translation",
    "Inspection": "inspection",
    "Inspector": "inspection",
    "ModelConfig": "config",
    "Parser": "parsing.parser",
    "Score": "scoring",
    "SearchConfig": "config",
    "TrainConfig": "config",
    "TransduceError": "errors",
    "Transformer": "model",
    "Translation": "translation",
    "Translator": "translator",
    "Tree": "parsing.trees",
    "distill": "distillation",
    "score": "scoring",
    "train": "training",
    "train_parser": "parsing.training",
}
__all__ = [
    "Candidate",
    "Inspection",
    "Inspector",
    "ModelConfig",
    "Parser",
    "Score",
    "SearchConfig",
    "TrainConfig",
    "TransduceError",
    "Transformer",
    "Translation",
    "Translator",
    "Tree",
    "distill",
    "score",
    "train",
    "train_parser",
]


def __getattr__(name: str) -> Any:
    """Import what is heavy only when something is asked for that needs it."""
    if name in MODULES:
        return getattr(importlib.import_module(f"transduce.{MODULES[name]}"), name)
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
