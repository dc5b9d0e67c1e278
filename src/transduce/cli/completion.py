"""What a shell completes beyond commands and options: the values of options, and run folders.

It is asked at every press of a key, so it imports little and looks at few files.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

from transduce.cli.options import parameters

DEEP = 3  # folders down that runs are looked for
MANY = 2000  # folders that are looked at
# Those of `engines` and `export`, which import too much to be asked; a test compares them.
ENGINES = ("auto", "torch", "ctranslate2")
QUANTIZATIONS = ("auto", "none", "int8", "int8_float32", "int8_float16", "int16", "float16")

Complete = Callable[[str], list[str]]


def attach(app: typer.Typer) -> None:
    """Have every command complete the parameters that have a name of `VALUES`."""
    for name, info in parameters(app):
        if name in VALUES:
            info.autocompletion = VALUES[name]


def presets(incomplete: str) -> list[str]:
    """Complete the name of a preset."""
    from transduce.presets import PRESETS

    return _beginning(incomplete, PRESETS)


def settings(incomplete: str) -> list[str]:
    """Complete a setting: its name, and its value in the base model to be changed."""
    from transduce.presets import find_preset
    from transduce.settings.base import format_value

    base = find_preset("base")
    values = base.model.to_json() | base.train.to_json()
    shown = (
        f"{name}={format_value(value)}"
        for name, value in values.items()
        if not name.endswith("_vocabulary")  # those follow from the subwords
    )
    return _beginning(incomplete, shown)


def setting_names(incomplete: str) -> list[str]:
    """Complete the name of a setting."""
    from transduce.config import all_settings

    return _beginning(incomplete, all_settings())


def devices(incomplete: str) -> list[str]:
    """Complete a device."""
    from transduce.system.devices import DEVICES

    return _beginning(incomplete, DEVICES)


def engines(incomplete: str) -> list[str]:
    """Complete an engine that translates."""
    return _beginning(incomplete, ENGINES)


def quantizations(incomplete: str) -> list[str]:
    """Complete how matrices are held."""
    return _beginning(incomplete, QUANTIZATIONS)


def runs(incomplete: str) -> list[str]:
    """Complete a run folder; where there is none, the shell completes files as ever."""
    typed = Path(incomplete or ".")
    above = typed if incomplete.endswith(("/", "\\")) or not incomplete else typed.parent
    found = itertools.islice(_folders(above, DEEP), MANY)
    return sorted(_beginning(incomplete, (str(one) for one in found if _is_run(one))))


def _folders(above: Path, deep: int) -> Iterator[Path]:
    """Yield the folders below one, the nearest first; none in a run, for those are its own."""
    try:
        here = sorted(
            one for one in above.iterdir() if not one.name.startswith(".") and one.is_dir()
        )
    except OSError:
        return
    yield from here
    if deep > 1:
        for one in here:
            if not _is_run(one):
                yield from _folders(one, deep - 1)


def _is_run(folder: Path) -> bool:
    return (folder / "config.json").is_file() and (folder / "subwords.json").is_file()


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def recipes(incomplete: str) -> list[str]:
    """Complete the name of a recipe that comes along."""
    from transduce.recipes.recipe import names

    return _beginning(incomplete, names())


def data_sets(incomplete: str) -> list[str]:
    """Complete the name of a data set of the catalogue."""
    from transduce.datasets.catalogue import names

    return _beginning(incomplete, names())


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
