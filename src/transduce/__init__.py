"""The Transformer of "Attention Is All You Need" as a system: two text files in, a translator out.

Train a model, then translate with it:

>>> from transduce import Translator, train
>>> run = train("train.en", "train.de", out="runs/en-de")
>>> Translator.load(run)("Two dogs run.")
'Zwei Hunde laufen.'

Public names are imported on first use, so that `import transduce` is fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.config import ModelConfig, SearchConfig, TrainConfig
    from transduce.errors import (
        BadData,
        BadInput,
        BadRun,
        BadSetting,
        Diverged,
        Interrupted,
        LostProcess,
        MissingExtra,
        TransduceError,
        UnsupportedFormat,
    )
    from transduce.evaluation.scores import Score, score
    from transduce.inspection.inspector import Inspection, Inspector
    from transduce.model.transformer import Transformer
    from transduce.parsing.parser import Parser
    from transduce.parsing.training import train_parser
    from transduce.parsing.trees import Tree
    from transduce.text.corpora import CorpusText
    from transduce.training.train import train
    from transduce.translation.translation import Candidate, Translation
    from transduce.translation.translator import Translator
    from transduce.workflows.distillation import distill

__version__ = "0.2.0"

# Public name: the module that defines it.
MODULES = {
    "BadData": "errors",
    "BadInput": "errors",
    "BadRun": "errors",
    "BadSetting": "errors",
    "Candidate": "translation.translation",
    "CorpusText": "text.corpora",
    "Diverged": "errors",
    "Inspection": "inspection.inspector",
    "Inspector": "inspection.inspector",
    "Interrupted": "errors",
    "LostProcess": "errors",
    "MissingExtra": "errors",
    "ModelConfig": "config",
    "Parser": "parsing.parser",
    "Score": "evaluation.scores",
    "SearchConfig": "config",
    "TrainConfig": "config",
    "TransduceError": "errors",
    "Transformer": "model.transformer",
    "Translation": "translation.translation",
    "Translator": "translation.translator",
    "Tree": "parsing.trees",
    "UnsupportedFormat": "errors",
    "distill": "workflows.distillation",
    "score": "evaluation.scores",
    "train": "training.train",
    "train_parser": "parsing.training",
}
__all__ = [
    "BadData",
    "BadInput",
    "BadRun",
    "BadSetting",
    "Candidate",
    "CorpusText",
    "Diverged",
    "Inspection",
    "Inspector",
    "Interrupted",
    "LostProcess",
    "MissingExtra",
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
    "UnsupportedFormat",
    "distill",
    "score",
    "train",
    "train_parser",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name in MODULES:
        return getattr(importlib.import_module(f"transduce.{MODULES[name]}"), name)
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
