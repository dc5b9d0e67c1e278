"""A translator with an untrained model: its words are nonsense, its behaviour is not."""

import torch

from transduce import Translator
from transduce.config import ModelConfig, TrainConfig
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec, Subwords
from transduce.translation.engines.pytorch import TorchEngine

TEXT = [
    "Two dogs run over the wet grass.",
    "A man sleeps; a woman reads a long letter.",
    "Zwei Hunde laufen über das nasse Gras.",
    "Ein Mann schläft, eine Frau liest einen langen Brief.",
] * 30


def untrained_translator(*, sentinels: bool = False) -> Translator:
    subwords = Subwords.learn(TEXT, 320)
    if sentinels:
        subwords = subwords.with_markers(spans=True, terms=False)
    torch.manual_seed(0)
    model = Transformer(
        ModelConfig(
            N=1,
            d_model=32,
            d_ff=32,
            h=2,
            d_k=16,
            d_v=16,
            max_len=24,
            source_vocabulary=len(subwords),
            target_vocabulary=len(subwords),
        )
    )
    with torch.no_grad():
        model.output.mul_(3)
    config = RunConfig(model=model.config, train=TrainConfig())
    engine = TorchEngine([model], subwords.forbidden_ids())
    return Translator(engine, Codec(subwords, subwords), config)
