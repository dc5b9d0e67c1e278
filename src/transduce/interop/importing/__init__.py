"""Import a MarianMTModel (a Hugging Face folder, such as OPUS-MT's) or fairseq weights as a run.

`settings`, `vocabulary` and `weights` read a Marian folder; `fairseq` reads fairseq's weights.

Differs: <unk> is never produced here; and probabilities are normalised over all words, whereas
`generate` with `renormalize_logits` leaves out the forbidden ones.
"""

import os
import platform
from pathlib import Path

import torch

from transduce import __version__
from transduce.checkpoints.checkpoint import save_tensors
from transduce.config import TrainConfig
from transduce.errors import BadInput
from transduce.interop.importing.fairseq import SETTINGS, Imported, read_fairseq
from transduce.interop.importing.settings import MarianSettings
from transduce.interop.importing.vocabulary import read_sides
from transduce.interop.importing.weights import read_weights
from transduce.interop.marian import LOGITS_BIAS, attention_biases, from_marian
from transduce.runs.folder import MODEL, SUBWORDS, RunConfig
from transduce.subwords import Codec
from transduce.system.files import atomic_folder
from transduce.text.languages import guess_languages

__all__ = ["import_model"]


def import_model(folder: Path, run: Path, *, languages: str | None = None) -> RunConfig:
    """Make a run from a folder, completely or not at all; return its settings.

    The languages are those given ("en-de"), else the folder's, else src and tgt. A model of several
    pairs of languages keeps all of them, unless one is given. The folder's
    `num_beams` and `length_penalty` become search settings.
    """
    if os.path.lexists(run):
        raise BadInput(f"{run} exists already: choose a new folder for the run")
    _require_regular(folder)
    imported = read_fairseq(folder) if (folder / SETTINGS).exists() else _read_marian(folder)
    config = RunConfig(
        model=imported.model,
        train=TrainConfig(joint=imported.codec.joint, subwords=imported.codec.kind),
        search=imported.search,
        languages=guess_languages("", "", languages) if languages else imported.languages,
        pairs=() if languages else imported.pairs,
        preset="imported",
        weights=f"imported from {folder.resolve().name}",
        versions={
            "transduce": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    )
    with atomic_folder(run, ("config.json", SUBWORDS, MODEL)) as temporary:
        imported.codec.save(temporary / SUBWORDS)
        save_tensors(temporary / MODEL, imported.weights)
        config.with_hashes(temporary, SUBWORDS, MODEL).save(temporary)
    return config


def _require_regular(folder: Path) -> None:
    """Refuse a folder with a pipe or a device in it, which a library might read forever."""
    for path in [*folder.glob("*"), *folder.glob("target/*")]:
        if not path.is_dir() and path.exists() and not path.is_file():
            raise BadInput(f"{path} is a pipe or a device: expected a folder of regular files")


def _read_marian(folder: Path) -> Imported:
    settings = MarianSettings.read(folder)
    source, target = read_sides(settings)
    settings.require_sizes(source.size, target.size)
    codec = Codec(source.subwords, target.subwords)
    model = settings.model(len(source.rows), len(target.rows), joint=codec.joint)
    tensors = read_weights(folder, model, source, target)
    model = model.replace(
        attention_bias=any(bool(bias.any()) for bias in attention_biases(tensors)),
        logits_bias=bool(tensors[LOGITS_BIAS].any()),
    )
    weights = from_marian(model, tensors)
    return Imported(
        model, settings.search(), codec, weights, settings.languages(), settings.pairs()
    )
