"""The weights of a Marian folder, with the rows of embeddings in our order. V words.

Nothing here runs code from a file: safetensors holds tensors only, and older formats are read by
`transformers`, which loads tensors only.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from transduce.config import ModelConfig
from transduce.errors import BadInput, MissingExtra
from transduce.interop.importing.vocabulary import Side
from transduce.interop.marian import EMBEDDINGS, LOGITS_BIAS, shapes
from transduce.runs.arrays import require_small_header
from transduce.subwords import BOS

# The bias of a word that is never produced. Finite, because label smoothing averages over all
# words; e^-100 adds nothing to a softmax.
NEVER = -100.0
OLDER = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.safetensors.index.json")
SHARED, ENCODER, DECODER, HEAD = (
    *("model.shared.weight", "model.encoder.embed_tokens.weight"),
    *("model.decoder.embed_tokens.weight", "lm_head.weight"),
)
# By the setting `tie`: other names under which a matrix may be saved, instead or in addition.
TIED: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {SHARED: (ENCODER, DECODER, HEAD)},
    "decoder": {DECODER: (HEAD,)},
    "none": {ENCODER: (SHARED,), DECODER: (SHARED,)},
}
# Ignored: copies of tied matrices, and the sinusoids of positions (paper 3.5).
REPEATED = (SHARED, ENCODER, DECODER, HEAD, "embed_positions.weight")


def read_weights(folder: Path, model: ModelConfig, source: Side, target: Side) -> dict[str, Tensor]:
    """Return the weights by Marian's names.

    If a different token begins outputs, <s> gets a copy of its row, and a bias that keeps <s> out
    of the softmax.
    """
    tensors = _read(folder)
    tensors |= read_embeddings(folder, tensors, model, source, target)
    tensors[LOGITS_BIAS] = logits_bias(folder, tensors, target)
    return check_weights(folder, tensors, model)


def read_embeddings(
    folder: Path, tensors: dict[str, Tensor], model: ModelConfig, source: Side, target: Side
) -> dict[str, Tensor]:
    """Return the embedding matrices, with a row for each of our ids."""
    embeddings = {}
    for name in EMBEDDINGS[model.tie].values():
        saved = _saved_as(folder, tensors, name, model)
        side = source if name == ENCODER else target
        embeddings[name] = _in_our_order(folder, tensors, saved, side)
    return embeddings


def logits_bias(folder: Path, tensors: dict[str, Tensor], target: Side) -> Tensor:
    """Return the bias of each of our ids. (1, V)."""
    bias = tensors.get(LOGITS_BIAS, torch.zeros(1, target.size))  # (1, V)
    bias = _in_our_order(folder, {LOGITS_BIAS: bias.flatten()}, LOGITS_BIAS, target)
    if target.bos_row_is_shared:
        bias[BOS] = NEVER
    return bias.clamp(min=NEVER)[None]


def check_weights(
    folder: Path, tensors: dict[str, Tensor], model: ModelConfig
) -> dict[str, Tensor]:
    """Return the model's weights; refuse missing, misshapen and unknown ones."""
    expected = shapes(model)
    for name, shape in expected.items():
        if name not in tensors:
            raise BadInput(f"the weights of {folder} lack {name}")
        if tensors[name].shape != shape:
            raise BadInput(
                f"{name} of {folder} is {tuple(tensors[name].shape)}, expected {tuple(shape)}"
            )
    for name in sorted(tensors.keys() - expected.keys()):
        if not name.endswith(REPEATED):
            raise BadInput(f"{folder} has weights that its config.json does not describe: {name}")
    return {name: tensors[name] for name in expected}


def _saved_as(folder: Path, tensors: dict[str, Tensor], name: str, model: ModelConfig) -> str:
    """Return the name under which an embedding matrix was saved; refuse copies that differ."""
    names = (name, *TIED[model.tie].get(name, ()))
    first, *copies = [candidate for candidate in names if candidate in tensors] or [name]
    for other in copies if model.tie != "none" else []:
        if not torch.equal(tensors[first], tensors[other]):
            raise BadInput(
                f"{first} and {other} of {folder} differ: expected equal matrices, "
                "because its config.json says that they are tied"
            )
    return first


def _in_our_order(folder: Path, tensors: dict[str, Tensor], name: str, side: Side) -> Tensor:
    if name not in tensors:
        raise BadInput(f"the weights of {folder} lack {name}")
    rows = len(tensors[name])
    if rows != side.size:
        raise BadInput(
            f"{name} of {folder} has {rows:,} rows, but its vocabulary {side.size:,} words: "
            "expected a row for each"
        )
    return tensors[name].index_select(0, torch.tensor(side.rows)).float()


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; refuse a damaged one."""
    try:
        require_small_header(path)
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise BadInput(f"{path} is damaged or not a safetensors file: {error}") from None


def _read(folder: Path) -> dict[str, Tensor]:
    path = folder / "model.safetensors"
    if path.exists():
        return read_safetensors(path)
    if any((folder / name).exists() for name in OLDER):
        return _read_by_transformers(folder)
    raise BadInput(f"{folder} has no weights: expected model.safetensors or pytorch_model.bin")


def _read_by_transformers(folder: Path) -> dict[str, Tensor]:
    try:
        from transformers import MarianMTModel
        from transformers.utils import logging
    except ImportError:
        raise MissingExtra(f"the format of {folder}", "transformers", "huggingface") from None
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        model, report = MarianMTModel.from_pretrained(folder, output_loading_info=True)
    except Exception as error:  # transformers does not document which classes it raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadInput(f"transformers cannot load {folder}: {reason}") from None
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
    for name in sorted(report["missing_keys"]):
        raise BadInput(f"the weights of {folder} lack {name}")
    return dict(model.state_dict())
