"""The texts of a recipe: checked before anything is done, then fetched. Takes no torch.

With several processes the first alone has to have them.
"""

import re
from pathlib import Path

from transduce.errors import BadInput
from transduce.recipes.recipe import Data, Pair
from transduce.system.processes import torchrun_number, world_size
from transduce.system.progress import Progress
from transduce.text.reading import check_readable


def is_main_process() -> bool:
    """Tell whether this is the process that fetches, speaks and evaluates."""
    return world_size() == 1 or torchrun_number("RANK", 0) == 0


def require_texts(*pairs: tuple[str | Path, str | Path | None] | None) -> None:
    """Refuse texts that are missing or may not be read."""
    for pair in pairs if is_main_process() else ():
        for path in pair or ():
            if path is not None:
                check_readable(path)


def check_data(data: Data, folder: Path | None, valid: Pair | None = None) -> None:
    """Refuse texts that cannot be had; `valid` is the validation text that wins over the recipe's.

    A name of mtdata's is left to `fetch_data`: its index takes seconds to read.
    """
    require_texts(data.train, valid or data.valid, data.test)
    if not is_main_process():
        return
    if data.name is None:
        if folder is not None:
            raise BadInput("the recipe's [data] names its own files: leave --data away")
        return
    from transduce import datasets as sets

    sets.refuse_foreign(data.name, _place(data.name, folder))
    if not data.name.startswith("mtdata:") and "train" not in sets.resolve(data.name).made:
        raise _nothing_to_train_on(data.name)


def fetch_data(data: Data, folder: Path | None, progress: Progress) -> Data:
    """Return the files of a data set that is known by its name; get them if they are not there."""
    if data.name is None:
        return data
    from transduce import datasets as sets

    got = sets.get(data.name, _place(data.name, folder), progress=progress)
    if got.train is None:
        raise _nothing_to_train_on(data.name)
    return Data(
        name=data.name,
        train=got.train,
        valid=got.valid,
        test=got.test,
        languages="-".join(got.languages),
    )


def _place(name: str, folder: Path | None) -> Path:
    return folder if folder is not None else Path("data", re.sub(r"[^\w.-]+", "-", name))


def _nothing_to_train_on(name: str) -> BadInput:
    return BadInput(f"the data set {name} has no text to train on: choose another")
