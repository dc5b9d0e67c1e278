"""The folder of an experiment: experiment.json, and the check that its setup is unchanged.

`shared` contains everything that an experiment's training runs have in common: the experiment's
name under "experiment", settings and, for some experiments, preset, search and languages.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from transduce.corpus.inputs import InputFile
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun
from transduce.system.files import read_checksummed, write_checksummed, write_text_file

Result = TypeVar("Result")

FORMAT = 1
EXPERIMENT, RESULT = "experiment.json", "result.json"
ADVICE = "continue with the same, or choose another folder"
BUDGET = ("steps", "seconds")  # settings whose change is reported first


def require_new(folder: Path) -> None:
    """Refuse a folder that contains anything but hidden files, such as unfinished writes."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {folder} is a file: expected a folder")
    foreign = [path.name for path in folder.glob("*") if not path.name.startswith(".")]
    if foreign:
        raise BadRun(f"{folder} holds something else ({min(foreign)}): choose another folder")


def begin(folder: Path, shared: Mapping[str, Any], files: Sequence[InputFile]) -> None:
    """Write experiment.json into a new folder."""
    require_new(folder)
    inputs = [dataclasses.asdict(file.to_record()) for file in files]
    write_checksummed(folder / EXPERIMENT, {"format": FORMAT, **shared, "inputs": inputs})


def require_same(folder: Path, shared: Mapping[str, Any], files: Sequence[InputFile]) -> None:
    """Refuse to continue a folder that was started with a different setup."""
    before = read_checksummed(folder / EXPERIMENT, FORMAT, "an experiment")
    if before["experiment"] != shared["experiment"]:
        name = shared["experiment"]
        raise BadRun(f"{folder} holds {before['experiment']}, not {name}: choose another folder")
    old, new = _settings(before), _settings(shared)
    for name in sorted({*old, *new}, key=lambda name: (name not in BUDGET, name)):
        if old.get(name) != new.get(name):
            change = _change(name, old.get(name), new.get(name))
            raise BadRun(f"{folder} {change}: {ADVICE}")
    for file, content in zip(files, before["inputs"], strict=False):
        recorded = InputRecord(**content)
        if not file.matches(recorded):
            raise BadRun(
                f"{file.path} differs from {recorded.path}, with which {folder} was started: "
                f"{ADVICE}"
            )
    same = all(before.get(name) == shared.get(name) for name in ("parts", "languages"))
    if not same or len(before["inputs"]) != len(files):
        raise BadRun(
            f"{folder} was started with other validation, test or raw text, or other languages: "
            f"{ADVICE}"
        )


def change_options(folder: Path, options: Mapping[str, Any]) -> None:
    """Change options in experiment.json that nothing in the folder depends on yet."""
    before = read_checksummed(folder / EXPERIMENT, FORMAT, "an experiment")
    known = before.get("options", {})
    new = known | {name: value for name, value in options.items() if name in known}
    if new != known:
        write_checksummed(folder / EXPERIMENT, {**before, "options": new})


def save_result(folder: Path, result: Any) -> None:
    """Write a dataclass as result.json."""
    write_checksummed(folder / RESULT, {"format": FORMAT, **dataclasses.asdict(result)})


def read_result(folder: Path, make: Callable[..., Result]) -> Result:
    """Read result.json; `make` takes the fields that `save_result` wrote."""
    fields = read_checksummed(folder / RESULT, FORMAT, "results")
    fields.pop("format")
    try:
        return make(**fields)
    except (KeyError, TypeError) as error:
        raise BadRun(
            f"{folder / RESULT} was written by another version of transduce: {error}"
        ) from None


def write_lines(path: Path, lines: Iterable[object]) -> None:
    """Write a text file, one line per object."""
    write_text_file(path, "".join(f"{line}\n" for line in lines))


def _settings(shared: Mapping[str, Any]) -> dict[str, Any]:
    single = {name: shared[name] for name in ("preset", "masked") if name in shared}
    return {
        **single,
        **shared["settings"],
        **shared.get("search", {}),
        **shared.get("options", {}),
    }


def _change(name: str, old: object, new: object) -> str:
    """Describe how a setting differs from the one that the folder was started with."""
    if old is None:
        return f"was started without {name}, which is now {new}"
    now = "which is now not set" if new is None else f"not {new}"
    return f"was started with {name} = {old}, {now}"
