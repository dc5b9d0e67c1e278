"""Check a recipe's texts before anything else is done, and download them if needed.

With several processes, only the main process needs the texts.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import BadInput
from transduce.recipes.recipe import CorpusTable, Data, Files, Pair
from transduce.system.processes import torchrun_number, world_size
from transduce.system.progress import Progress
from transduce.text.corpora import unused_name
from transduce.text.languages import guess_languages, language_code
from transduce.text.reading import check_readable

if TYPE_CHECKING:
    from transduce.datasets import DataFiles

Languages = tuple[str, str]


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
    """Refuse missing texts, unknown data sets, and corpora in the opposite direction.

    `valid` replaces the recipe's validation text. mtdata names are checked by `fetch_data`, because
    the mtdata index takes seconds to read.
    """
    texts = [files for corpus in data.corpora for files in (corpus.files, corpus.valid)]
    require_texts(data.train, valid or data.valid, data.test, *texts)
    if not is_main_process():
        return
    known: dict[str, Languages] = {}
    for corpus in data.corpora:
        if corpus.dataset is not None:
            known |= _check_set(corpus.dataset, _folder(corpus.dataset, None))
    if data.name is not None:
        known |= _check_set(data.name, _folder(data.name, folder))
    elif folder is not None:
        raise BadInput("the recipe's [data] names files: --data is for data sets")
    _check_languages(data, known)


def _check_set(name: str, folder: Path) -> dict[str, Languages]:
    """Refuse an unknown data set, or one without training text; return its languages if known."""
    from transduce import datasets as sets

    sets.refuse_foreign(name, folder)
    if name.startswith("mtdata:"):
        return {}
    dataset = sets.resolve(name)
    if "train" not in dataset.splits:
        raise _nothing_to_train_on(name)
    return {name: dataset.languages}


def _check_languages(data: Data, known: Mapping[str, Languages]) -> None:
    """Refuse files whose names say the opposite direction of the data set in [data].

    They are read in the languages of the data set, unless they state their own. The user may write
    languages in another way, such as eng for en, so other names are not refused.
    """
    if data.name is None or data.name not in known:
        return
    expected = known[data.name]
    for corpus in data.corpora:
        if corpus.files is None or corpus.dataset or corpus.languages:
            continue
        stated = guess_languages(*corpus.files)
        if _codes(stated) == _codes(expected)[::-1]:
            raise BadInput(
                f"the languages of {_shown(corpus.files)} are {'-'.join(stated)}, but those of the "
                f"data set {data.name} are {'-'.join(expected)}: give each source before its "
                f'target, or add languages = "{"-".join(stated)}" to [[corpus]], to train one '
                "model on both"
            )


def _codes(languages: Languages) -> Languages:
    return language_code(languages[0]), language_code(languages[1])


def _shown(files: Files) -> str:
    return " and ".join(str(path) for path in files if path is not None)


def fetch_data(data: Data, folder: Path | None, progress: Progress) -> Data:
    """Return the data with its files; a data set is downloaded if needed."""
    known: dict[str, Languages] = {}
    main: DataFiles | None = None
    if data.name is not None:
        main = _fetch(data.name, folder, progress)
        known[data.name] = main.languages
        _check_languages(data, known)
    texts: dict[str, DataFiles] = {}
    for corpus in data.corpora:
        if corpus.dataset is not None and corpus.dataset not in texts:
            texts[corpus.dataset] = _fetch(corpus.dataset, None, progress)
            known[corpus.dataset] = texts[corpus.dataset].languages
    stated = [guess_languages("", None, data.languages)] if data.languages else []
    several = len({_codes(pair) for pair in (*known.values(), *stated)}) > 1
    corpora = _with_files(data.corpora, texts)
    if several:
        corpora = tuple(_with_languages(corpus, texts, main) for corpus in corpora)
    data = dataclasses.replace(data, corpora=corpora)
    if main is None:
        return data
    return dataclasses.replace(
        data,
        train=main.train,
        valid=main.valid,
        test=main.test,
        languages="-".join(main.languages),
    )


def _with_files(
    corpora: tuple[CorpusTable, ...], texts: Mapping[str, "DataFiles"]
) -> tuple[CorpusTable, ...]:
    """Return the corpora with the files of their data sets, named after these."""
    taken = {corpus.name for corpus in corpora if corpus.name}
    complete = []
    for corpus in corpora:
        if corpus.dataset is None:
            complete.append(corpus)
            continue
        name = corpus.name or unused_name(corpus.dataset, taken)
        taken.add(name)
        files = texts[corpus.dataset].train
        complete.append(dataclasses.replace(corpus, files=files, name=name))
    return tuple(complete)


def _with_languages(
    corpus: CorpusTable, texts: Mapping[str, "DataFiles"], main: "DataFiles | None"
) -> CorpusTable:
    """Return a corpus with the languages of its data set, if others have different ones.

    Validation text of the data set is used if its languages are not those of the data set in
    [data], which has its own.
    """
    if corpus.dataset is None or corpus.languages:
        return corpus
    files = texts[corpus.dataset]
    valid = corpus.valid
    if main is None or _codes(main.languages) != _codes(files.languages):
        valid = valid or files.valid
    return dataclasses.replace(corpus, languages="-".join(files.languages), valid=valid)


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
