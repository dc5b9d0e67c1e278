"""A Hugging Face folder of a MarianMTModel, such as OPUS-MT's, or weights of fairseq, as a run.

Differs: no <unk> ever comes out here; and the probabilities of a search are those among all words,
where `generate` with `renormalize_logits` leaves out what may not come out.
"""

import os
import platform
from pathlib import Path

import torch

from transduce import __version__
from transduce.checkpoints.checkpoint import save_tensors
from transduce.config import TrainConfig
from transduce.errors import BadInput
from transduce.interop.importing.fairseq import SETTINGS, Imported, of_fairseq
from transduce.interop.importing.settings import Theirs
from transduce.interop.importing.vocabulary import read_sides
from transduce.interop.importing.weights import read_weights
from transduce.interop.marian import LOGITS_BIAS, attention_biases, from_marian
from transduce.runs.folder import MODEL, SUBWORDS, RunConfig
from transduce.subwords import Codec
from transduce.system.files import atomic_folder
from transduce.text import reading as text

__all__ = ["import_model"]


def import_model(folder: Path, run: Path, *, languages: str | None = None) -> RunConfig:
    """Make a run of a folder, whole or not at all; return its settings.

    The languages are as given ("en-de"), else as the folder says, else src and tgt. Of the search
    the folder's `num_beams` and `length_penalty` are taken over.
    """
    if os.path.lexists(run):
        raise BadInput(f"{run} exists already: choose a new folder for the run")
    _require_regular(folder)
    found = of_fairseq(folder) if (folder / SETTINGS).exists() else _of_marian(folder)
    config = RunConfig(
        model=found.model,
        train=TrainConfig(joint=found.codec.joint, subwords=found.codec.kind),
        search=found.search,
        languages=text.guess_languages("", "", languages) if languages else found.languages,
        preset="imported",
        weights=f"imported from {folder.resolve().name}",
        versions={
            "transduce": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    )
    with atomic_folder(run, ("config.json", SUBWORDS, MODEL)) as beside:
        found.codec.save(beside / SUBWORDS)
        save_tensors(beside / MODEL, found.weights)
        config.with_hashes(beside, SUBWORDS, MODEL).save(beside)
    return config


def _require_regular(folder: Path) -> None:
    """Refuse a folder with a pipe or a device in it: some library might read it without end."""
    for path in [*folder.glob("*"), *folder.glob("target/*")]:
        if not path.is_dir() and path.exists() and not path.is_file():
            raise BadInput(f"{path} is a pipe or a device: expected a folder of regular files")


def _of_marian(folder: Path) -> Imported:
    theirs = Theirs.read(folder)
    source, target = read_sides(theirs)
    theirs.require_sizes(source.size, target.size)
    codec = Codec(source.subwords, target.subwords)
    model = theirs.model(len(source.rows), len(target.rows), joint=codec.joint)
    tensors = read_weights(folder, model, source, target)
    model = model.replace(
        attention_bias=any(bool(bias.any()) for bias in attention_biases(tensors)),
        logits_bias=bool(tensors[LOGITS_BIAS].any()),
    )
    weights = from_marian(model, tensors)
    return Imported(model, theirs.search(), codec, weights, theirs.languages(None))
