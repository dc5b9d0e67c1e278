"""Check a recipe's texts before anything else is done, and download them if needed.

With several processes, only the main process needs the texts.
"""

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import BadInput
from transduce.recipes.recipe import Data, Pair
from transduce.system.processes import torchrun_number, world_size
from transduce.system.progress import Progress
from transduce.text.reading import check_readable

if TYPE_CHECKING:
    from transduce.datasets import DataFiles


def is_main_process() -> bool:
    """Return whether this process downloads, reports and evaluates."""
    return world_size() == 1 or torchrun_number("RANK", 0) == 0


def require_texts(*pairs: tuple[str | Path, str | Path | None] | None) -> None:
    """Refuse texts that are missing or cannot be read."""
    for pair in pairs if is_main_process() else ():
        for path in pair or ():
            if path is not None:
                check_readable(path)


def check_data(data: Data, folder: Path | None, valid: Pair | None = None) -> None:
    """Refuse missing texts and unknown data sets; `valid` replaces the recipe's validation text.

    mtdata names are checked by `fetch_data`, because the mtdata index takes seconds to read.
    """
    texts = [files for corpus in data.corpora for files in (corpus.files, corpus.valid)]
    require_texts(data.train, valid or data.valid, data.test, *texts)
    if not is_main_process():
        return
    for corpus in data.corpora:
        if corpus.dataset:
            _check_set(corpus.dataset, _folder(corpus.dataset, None))
    if data.name is None:
        if folder is not None:
            raise BadInput("the recipe's [data] names files: --data is for data sets")
        return
    _check_set(data.name, _folder(data.name, folder))


def _check_set(name: str, folder: Path) -> None:
    """Refuse an unknown data set, or one without training text."""
    from transduce import datasets as sets

    sets.refuse_foreign(name, folder)
    if not name.startswith("mtdata:") and "train" not in sets.resolve(name).splits:
        raise _nothing_to_train_on(name)


def fetch_data(data: Data, folder: Path | None, progress: Progress) -> Data:
    """Return the data with its files; a data set is downloaded if needed."""
    corpora = tuple(
        dataclasses.replace(
            corpus,
            files=_fetch(corpus.dataset, None, progress).train,
            name=corpus.name or re.sub(r"[^\w.-]+", "-", corpus.dataset),
        )
        if corpus.dataset
        else corpus
        for corpus in data.corpora
    )
    data = dataclasses.replace(data, corpora=corpora)
    if data.name is None:
        return data
    dataset = _fetch(data.name, folder, progress)
    return dataclasses.replace(
        data,
        train=dataset.train,
        valid=dataset.valid,
        test=dataset.test,
        languages="-".join(dataset.languages),
    )


def _fetch(name: str, folder: Path | None, progress: Progress) -> "DataFiles":
    """Return a data set with training text; download it if needed."""
    from transduce import datasets as sets

    dataset = sets.get(name, _folder(name, folder), progress=progress)
    if dataset.train is None:
        raise _nothing_to_train_on(name)
    return dataset


def _folder(name: str, folder: Path | None) -> Path:
    return folder if folder is not None else Path("data", re.sub(r"[^\w.-]+", "-", name))


def _nothing_to_train_on(name: str) -> BadInput:
    return BadInput(f"the data set {name} has no training text: choose another")
