"""Shell completion for option values and run folders.

It runs every time Tab is pressed, so it imports little and reads few files.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from transduce.system.devices import DEVICES

DEPTH = 3  # levels of folders to search for runs
MAX_FOLDERS = 2000  # maximum number of folders to search
# Copies of constants whose modules are slow to import; a test compares them.
ENGINES = ("auto", "torch", "ctranslate2")
QUANTIZATIONS = ("auto", "none", "int8", "int8_float32", "int8_float16", "int16", "float16")

Complete = Callable[[str], list[str]]


def among(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a completer for the names that a function returns."""

    def complete(incomplete: str) -> list[str]:
        return _matching(incomplete, names())

    return complete


def _matching(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _settings() -> Iterator[str]:
    """Yield NAME=VALUE with the value of the base preset, to be changed."""
    from transduce.presets import find_preset
    from transduce.settings.base import format_value

    base = find_preset("base")
    for name, value in (base.model.to_json() | base.train.to_json()).items():
        if not name.endswith("_vocabulary"):  # determined by the subwords
            yield f"{name}={format_value(value)}"


def _setting_names() -> Iterable[str]:
    from transduce.config import all_settings

    return all_settings()


def _presets() -> Iterable[str]:
    from transduce.presets import PRESETS

    return PRESETS


def _recipes() -> Iterable[str]:
    from transduce.recipes.recipe import names

    return names()


def _data_sets() -> Iterable[str]:
    from transduce.datasets.catalogue import names

    return names()


def runs(incomplete: str) -> list[str]:
    """Complete a run folder; if there is none, the shell completes file names."""
    typed = Path(incomplete or ".")
    parent = typed if incomplete.endswith(("/", "\\")) or not incomplete else typed.parent
    folders = itertools.islice(_folders(parent, DEPTH), MAX_FOLDERS)
    return sorted(_matching(incomplete, (str(path) for path in folders if _is_run(path))))


def _folders(parent: Path, depth: int) -> Iterator[Path]:
    """Yield the folders below a folder, parents before their subfolders, but none inside a run."""
    try:
        children = sorted(
            path for path in parent.iterdir() if not path.name.startswith(".") and path.is_dir()
        )
    except OSError:
        return
    yield from children
    if depth > 1:
        for child in children:
            if not _is_run(child):
                yield from _folders(child, depth - 1)


def _is_run(folder: Path) -> bool:
    return (folder / "config.json").is_file() and (folder / "subwords.json").is_file()


settings, setting_names = among(_settings), among(_setting_names)
recipes, data_sets = among(_recipes), among(_data_sets)
VALUES: dict[str, Complete] = {  # by parameter name
    "device": among(lambda: DEVICES),
    "engine": among(lambda: ENGINES),
    "from_": runs,
    "others": runs,
    "preset": among(_presets),
    "quantize": among(lambda: QUANTIZATIONS),
    "recipe": recipes,
    "run": runs,
    "runs": runs,
    "set_": settings,
}
