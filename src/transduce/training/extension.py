"""A trained model that gets more subwords: where its vectors for the new ones come from."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from transduce.errors import BadSetting
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec, Coder, Subwords, decompose_new_pieces
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.training.settings import Start

# The weights that have a row for each subword, and of which side; of matrices that are tied only
# one name is there.
OF_SOURCE = ("source_embedding.matrix",)
OF_TARGET = ("target_embedding.matrix", "output", "logits_bias")


def grown(
    tensors: Mapping[str, Tensor], old: Codec, new: Codec, progress: Progress
) -> dict[str, Tensor]:
    """Return weights with a row for each new subword, the mean of the rows of what it is made of.

    So the model reads a new piece as something like what it read before, and writes it about as
    readily as its parts; all other weights are the same. Differs: the paper trains from nothing.
    """
    parts = {
        **dict.fromkeys(OF_SOURCE, _parts(old.source, new.source)),
        **dict.fromkeys(OF_TARGET, _parts(old.target, new.target)),
    }
    counts = {len(parts[name]) for name in (OF_SOURCE[0], OF_TARGET[0])}
    *fewer, most = sorted(counts)
    numbers = " and ".join([*(f"{count:,}" for count in fewer), pluralize(most, "new subword")])
    progress.say(
        f"{numbers}: the vector of each begins as the mean of those of its parts; "
        "all other weights are as they were"
    )
    return {name: _longer(one, parts.get(name, [])) for name, one in tensors.items()}


def added(config: RunConfig, run: Path, start: Start | None) -> int:
    """Return how many subwords a run that goes on was to add; refuse another number."""
    more = config.origin.more if config.origin else 0
    if start and start.more != more:
        began = pluralize(more, "more subword") if more else "the subwords as they were"
        raise BadSetting(
            f"{run} was begun with {began}, not with {start.more:,} more: go on with "
            f"{f'--extend-vocabulary {more}' if more else 'the same'}, or choose another folder"
        )
    return more


def _parts(old: Coder, new: Coder) -> list[list[int]]:
    assert isinstance(new, Subwords)
    return decompose_new_pieces(new, len(old))


def _longer(tensor: Tensor, parts: list[list[int]]) -> Tensor:
    """Add a row for each list of rows: their mean."""
    if not parts:
        return tensor
    rows = [tensor[part].mean(0, keepdim=True) for part in parts]
    return torch.cat([tensor, *rows])
