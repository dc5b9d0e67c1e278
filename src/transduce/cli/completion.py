"""Shell completion of option values and run folders.

It runs at every press of the Tab key, so it imports little and looks at few files.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

from transduce.cli.options import parameters

DEPTH = 3  # levels of folders that are searched for runs
MAX_FOLDERS = 2000  # searched at most
# Copies of constants whose modules import too much; a test compares them.
ENGINES = ("auto", "torch", "ctranslate2")
QUANTIZATIONS = ("auto", "none", "int8", "int8_float32", "int8_float16", "int16", "float16")

Complete = Callable[[str], list[str]]


def attach(app: typer.Typer) -> None:
    """Add completion to the parameters of every command whose names are in `VALUES`."""
    for name, info in parameters(app):
        if name in VALUES:
            info.autocompletion = VALUES[name]


def presets(incomplete: str) -> list[str]:
    """Complete the name of a preset."""
    from transduce.presets import PRESETS

    return _starting_with(incomplete, PRESETS)


def settings(incomplete: str) -> list[str]:
    """Complete NAME=VALUE with the value of the base preset, to be changed."""
    from transduce.presets import find_preset
    from transduce.settings.base import format_value

    base = find_preset("base")
    values = base.model.to_json() | base.train.to_json()
    texts = (
        f"{name}={format_value(value)}"
        for name, value in values.items()
        if not name.endswith("_vocabulary")  # they follow from the subwords
    )
    return _starting_with(incomplete, texts)


def setting_names(incomplete: str) -> list[str]:
    """Complete the name of a setting."""
    from transduce.config import all_settings

    return _starting_with(incomplete, all_settings())


def devices(incomplete: str) -> list[str]:
    """Complete a device."""
    from transduce.system.devices import DEVICES

    return _starting_with(incomplete, DEVICES)


def engines(incomplete: str) -> list[str]:
    """Complete an engine."""
    return _starting_with(incomplete, ENGINES)


def quantizations(incomplete: str) -> list[str]:
    """Complete a quantisation."""
    return _starting_with(incomplete, QUANTIZATIONS)


def runs(incomplete: str) -> list[str]:
    """Complete a run folder; if there is none, the shell completes file names."""
    typed = Path(incomplete or ".")
    parent = typed if incomplete.endswith(("/", "\\")) or not incomplete else typed.parent
    folders = itertools.islice(_folders(parent, DEPTH), MAX_FOLDERS)
    return sorted(_starting_with(incomplete, (str(path) for path in folders if _is_run(path))))


def _folders(parent: Path, depth: int) -> Iterator[Path]:
    """Yield the folders below a folder, the nearest first, but not those inside a run."""
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


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def recipes(incomplete: str) -> list[str]:
    """Complete the name of a built-in recipe."""
    from transduce.recipes.recipe import names

    return _starting_with(incomplete, names())


def data_sets(incomplete: str) -> list[str]:
    """Complete the name of a data set of the catalogue."""
    from transduce.datasets.catalogue import names

    return _starting_with(incomplete, names())


VALUES: dict[str, Complete] = {
    "device": devices,
    "engine": engines,
    "from_": runs,
    "others": runs,
    "preset": presets,
    "quantize": quantizations,
    "recipe": recipes,
    "run": runs,
    "runs": runs,
    "set_": settings,
}
