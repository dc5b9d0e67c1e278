"""The folder of an experiment: begun once, and gone on with by the same alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.corpus.inputs import InputFile
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun
from transduce.settings import types

OTHERWISE = "go on with the same, or choose another folder"
# The types of the fields that every experiment.json has.
BEGUN = {"experiment": str, "settings": dict[str, Any], "inputs": list[dict[str, Any]]}
ENDS = ("steps", "seconds")  # of a budget's settings the budget itself is told first


def require_new(folder: Path) -> None:
    """Refuse a folder that holds something else; what writers left half-done does not count."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {folder} is a file: expected a folder")
    foreign = [one.name for one in folder.glob("*") if not one.name.startswith(".")]
    if foreign:
        raise BadRun(f"{folder} holds something else ({min(foreign)}): choose another folder")


def require_experiment(folder: Path, before: str, now: str) -> None:
    """Refuse the folder of another experiment."""
    if before != now:
        raise BadRun(f"{folder} holds {before}, not {now}: choose another folder")


def require_fields(path: Path, content: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a file with a field of another type than expected."""
    try:
        types.check_fields(content, expected)
    except TypeError as error:
        raise BadRun(f"{path} is damaged: {error}") from None


def require_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with other settings."""
    for name in sorted({*before, *now}, key=lambda name: (name not in ENDS, name)):
        old, new = before.get(name), now.get(name)
        if old != new:
            raise BadRun(f"{folder} {_begun_with(name, old, new)}: {OTHERWISE}")


def _begun_with(name: str, old: object, new: object) -> str:
    """Say how a setting differs from that which a folder was begun with; none: it is not set."""
    if old is None:
        return f"was begun without {name}, which is now {new}"
    now = "which is now not set" if new is None else f"not {new}"
    return f"was begun with {name} = {old}, {now}"


def require_files(
    folder: Path, before: Iterable[Mapping[str, Any]], now: Sequence[InputFile], what: str
) -> None:
    """Refuse to go on with other files; those that only one of the two has are not looked at."""
    for file, one in zip(now, before, strict=False):
        try:
            old = types.dataclass_from_json(InputRecord, one)
        except TypeError as error:
            raise BadRun(f"experiment.json of {folder} is damaged: {error}") from None
        if not file.matches(old):
            raise BadRun(
                f"{file.path} holds other {what} than {old.path}, which {folder} was begun with: "
                f"{OTHERWISE}"
            )
