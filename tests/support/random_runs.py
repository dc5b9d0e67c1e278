"""Run folders of models with random weights."""

import dataclasses
from pathlib import Path
from typing import Any

import torch

from transduce.checkpoints.checkpoint import save_model, weights_of
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec, Subwords


def run_of(folder: Path, like: Path, *, joint: bool = True, **changes: Any) -> Path:
    """Make the run folder of a model with random weights."""
    codec = Codec.load(like / "subwords.json")
    if not joint:
        codec = Codec(codec.source, Subwords.learn(["der die das und"] * 9, 270))
    config = RunConfig.load(like)
    model = config.model.replace(
        **changes, source_vocabulary=len(codec.source), target_vocabulary=len(codec.target)
    )
    torch.manual_seed(1)
    weights = {
        name: tensor + 0.1 * torch.randn_like(tensor)  # so that no bias is 0 and no norm is 1
        for name, tensor in weights_of(Transformer(model)).items()
    }
    folder.mkdir()
    codec.save(folder / "subwords.json")
    own = dataclasses.replace(config, model=model, hashes={})
    save_model(folder, own.with_hashes(folder, "subwords.json"), weights, "random weights")
    return folder
