"""A run folder: its settings, and what lies where in it. Reading it takes no torch.

    config.json            settings and versions, sealed by a checksum
    subwords.json
    start.safetensors      what it began with, where that was another run's weights
    model.safetensors      what translates: the mean of the last checkpoints, or the best
    best.safetensors       the weights with the lowest validation loss
    metrics.jsonl          one object a logged step
    samples.jsonl          how some validation sentences were translated at each validation
    checkpoints/step-0001000/   weights.safetensors, optimizer.safetensors, state.json
    recipe.toml            the recipe that it was begun with, if one
    evaluation.json, test.hyp   what came of the recipe's test text
    lexicon.json           of a parser: which tags a word can have
    corpus/                token files
    distilled/             the texts of a student: what its teacher translated
    trees/                 what a parser learns from: words, and trees as symbols

Nothing here runs code from a file, and every file carries a checksum.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.errors import BadRun, BadSetting
from transduce.settings import types
from transduce.system.files import open_regular, read_checksummed, sha256, write_checksummed

FORMAT = 1
MODEL, BEST, START = "model.safetensors", "best.safetensors", "start.safetensors"
SUBWORDS, LEXICON, RECIPE = "subwords.json", "lexicon.json", "recipe.toml"
PARTS = WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
CHECKPOINTS = "checkpoints"
# Folders inside a run. None may be a link, because old files in them are deleted.
OWN_FOLDERS = (CHECKPOINTS, "corpus", "distilled", "trees", "tensorboard")
WRITTEN_IN = (CHECKPOINTS, "distilled", "distilled/blocks", "trees")  # beside the run itself
LARGEST_HEADER = 1 << 23  # bytes; a thousand layers take 3 MB
KEY = "transduce"  # the one metadata key: with several, equal models would not be equal files

Arrays = dict[str, npt.NDArray[Any]]
Shapes = Mapping[str, tuple[int, ...]]  # of arrays, by name
Task = Literal["translation", "parsing"]  # what a model was trained for
HOLDS: dict[Task, str] = {"translation": "a translator", "parsing": "a parser"}
DOES: dict[Task, str] = {"translation": "translate", "parsing": "parse"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The trained run that another was begun with."""

    run: str
    subwords: str  # the hash of those that it has from there
    weights: str = ""  # in words, those that it has from there; none: the subwords alone
    sha256: str = ""  # of these weights
    more: int = 0  # subwords that were added to those


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """What config.json holds."""

    model: ModelConfig
    train: TrainConfig
    search: SearchConfig = field(default_factory=SearchConfig)
    languages: tuple[str, str] = ("src", "tgt")
    preset: str = "base"
    device: str = "cpu"
    weights: str = "none yet"  # what model.safetensors is, for people
    chosen: str = ""  # by what rule the run itself chose it when it ended
    versions: Mapping[str, str] = field(default_factory=dict)
    origin: Origin | None = None
    task: Task = "translation"
    identity: str = ""  # what the run was begun with, in a hash: its checkpoints have the same
    # The hashes of the files that belong to it; of one that is being replaced, both.
    owns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def save(self, run: Path) -> None:
        """Write config.json."""
        write_checksummed(
            run / "config.json",
            {
                "format": FORMAT,
                "preset": self.preset,
                "languages": list(self.languages),
                "device": self.device,
                "weights": self.weights,
                "chosen": self.chosen,
                "model": self.model.to_json(),
                "train": self.train.to_json(),
                "search": self.search.to_json(),
                "versions": dict(self.versions),
                "task": self.task,
                "origin": dataclasses.asdict(self.origin) if self.origin else None,
                "identity": self.identity,
                "owns": {name: list(hashes) for name, hashes in self.owns.items()},
            },
        )

    @classmethod
    def load(cls, run: Path) -> Self:
        """Read config.json, or say why the folder is no run."""
        path = run / "config.json"
        if not run.exists():
            raise BadRun(f"there is no run folder {run}: `transduce train` makes one")
        if not path.is_file():
            within = sorted(run.glob("*/config.json"))
            hint = f"; one of those in it is {within[0].parent}" if within else ""
            raise BadRun(f"{run} is not a run folder: it has no config.json{hint}")
        value = read_checksummed(path, FORMAT, "settings", FIELDS)
        try:
            return cls(
                model=ModelConfig.from_json(value["model"]),
                train=TrainConfig.from_json(value["train"]),
                search=SearchConfig.from_json(value["search"]),
                languages=(value["languages"][0], value["languages"][1]),
                preset=value["preset"],
                device=value["device"],
                weights=value["weights"],
                chosen=value["chosen"],
                versions=value["versions"],
                origin=_origin(value.get("origin")),
                task=value.get("task") or "translation",
                identity=value.get("identity") or "",
                owns={name: tuple(hashes) for name, hashes in (value.get("owns") or {}).items()},
            )
        except (TypeError, BadSetting) as error:
            raise BadRun(f"{path} is damaged: {error}") from None

    def owning(self, run: Path, *names: str) -> Self:
        """Return the settings that know these files of the run as its own, where they are there."""
        found = {name: (hash_of(run / name),) for name in names if (run / name).exists()}
        return dataclasses.replace(self, owns={**self.owns, **found})

    def own(self, run: Path, name: str) -> Path:
        """Return the path of a file of the run; refuse one that another run's was exchanged with.

        Each file is sealed by itself; this tells whether they belong together.
        """
        path, known = run / name, self.owns.get(name)
        if known and not path.is_file():
            raise BadRun(f"{path} is missing: put it back")
        if known and hash_of(path) not in known:
            raise BadRun(
                f"{path} is damaged or of another run: it is not the one that "
                f"{run / 'config.json'} was written with; put back the right one"
            )
        return path

    def require_subwords(self, source: int, target: int, run: Path) -> None:
        """Refuse subwords of other numbers than the model has words."""
        if (self.model.source_vocabulary, self.model.target_vocabulary) != (source, target):
            raise BadRun(
                f"{run / SUBWORDS} has {source:,} and {target:,} subwords, but the model of "
                f"config.json {self.model.source_vocabulary:,} and "
                f"{self.model.target_vocabulary:,}: they are not of one run"
            )

    def require(self, task: Task, run: Path) -> None:
        """Refuse a model that was trained for something else."""
        if self.task != task:
            raise BadRun(f"{run} holds {HOLDS[self.task]}: `transduce {DOES[self.task]}` uses it")


# The types of the fields of config.json; older runs lack those that may be None.
FIELDS = {
    **dict.fromkeys(("preset", "device", "weights", "chosen"), str),
    **dict.fromkeys(("model", "train", "search"), dict[str, Any]),
    "languages": tuple[str, str],
    "versions": dict[str, str],
    "origin": dict[str, str | int] | None,
    "task": Task | None,
    "identity": str | None,
    "owns": dict[str, list[str]] | None,
}


def _origin(value: dict[str, Any] | None) -> Origin | None:
    if not value:
        return None
    origin = types.dataclass_from_json(Origin, value)
    if origin.more < 0:
        raise TypeError(f"more is {origin.more}: expected a number of subwords")
    return origin


def require_own_folders(run: Path) -> None:
    """Refuse a run with a link in the place of one of its folders."""
    for name in OWN_FOLDERS:
        if (run / name).is_symlink():
            raise BadRun(
                f"{run / name} is a link: expected a folder of the run itself; "
                "move the folder that it leads to there"
            )


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """A folder from which training goes on."""

    step: int
    scheduled: bool  # those written on interruption are for resuming, not for averaging
    path: Path

    def state(self) -> dict[str, Any]:
        """Read what is neither weight nor optimizer."""
        expected = {"owns": dict[str, str] | None}
        return read_checksummed(self.path / STATE, FORMAT, "training state", expected)

    def own(self, name: str) -> Path:
        """Return the path of a file of tensors; refuse one that is of another checkpoint."""
        owns = self.state().get("owns") or {}  # older ones do not have it
        path, known = self.path / name, owns.get(name)
        if known and path.is_file() and hash_of(path) != known:
            raise BadRun(f"{path} is damaged or of another checkpoint than {self.path / STATE}")
        return path


def checkpoints(run: Path) -> list[Checkpoint]:
    """Return the checkpoints of a run, oldest first; refuse links, which lead out of the run."""
    folder = run / CHECKPOINTS
    if folder.is_symlink():
        require_own_folders(run)
    found = []
    for path in folder.glob("step-*"):
        if match := re.fullmatch(r"step-([0-9]{1,18})(-interrupted)?", path.name):
            if path.is_symlink() or not path.is_dir():
                kind = "a link" if path.is_symlink() else "not a folder"
                raise BadRun(f"{path} is {kind}: expected a checkpoint of the run itself")
            found.append(Checkpoint(int(match[1]), match[2] is None, path))
    return sorted(found)


def last_checkpoint(run: Path) -> Checkpoint | None:
    """Return the checkpoint to go on from."""
    found = checkpoints(run)
    return found[-1] if found else None


def weights_file(run: Path, config: RunConfig) -> tuple[Path, str]:
    """Return the file of the weights that translate, and in words which these are.

    A run that has never ended has no model.safetensors yet: its newest checkpoint is taken. For one
    that has lost it that would be another model.
    """
    if (run / MODEL).exists():
        return config.own(run, MODEL), config.weights
    if (run / "result.json").exists():
        raise BadRun(
            f"{run} has no weights: `transduce paper` deletes those of what is finished unless "
            "--keep-weights is given"
        )
    if MODEL in config.owns:
        raise BadRun(
            f"{run / MODEL} is missing: put it back, or make it anew with `transduce average {run}`"
        )
    newest = last_checkpoint(run)
    if newest is None:
        raise BadRun(f"{run} has no weights yet: train it further with `transduce train`")
    words = f"step {newest.step:,} of a run that has not ended"
    return newest.own(WEIGHTS), words


def load_arrays(path: Path) -> Arrays:
    """Read arrays and check that they are what was written."""
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if stored_digest(path) != digest(arrays):
        raise BadRun(f"{path} is damaged: its tensors do not match their own checksum")
    return arrays


def require_finite(arrays: Arrays, path: Path) -> None:
    """Refuse weights that are infinite or NaN."""
    for name, array in arrays.items():
        with np.errstate(all="ignore"):
            # The sum is the faster test; that of finite values may overflow.
            fine = array.dtype.kind != "f" or np.isfinite(array.sum()) or np.isfinite(array).all()
        if not fine:
            raise BadRun(
                f"{path} cannot be used: the tensor {name} holds values that are not finite "
                "(NaN or infinity); choose an earlier checkpoint, or train again with a lower "
                "lr_scale"
            )


def require_alike(expected: Shapes, found: Shapes, path: Path) -> None:
    """Refuse arrays that are not just those of a model."""
    for name in sorted(expected.keys() ^ found.keys()):
        has = "lacks" if name in expected else "has an unknown tensor"
        raise BadRun(f"{path} does not fit the model of config.json: it {has} {name}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise BadRun(
                f"{path} does not fit the model of config.json: {name} is {found[name]}, "
                f"expected {shape}"
            )


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a file, reading none of them."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def stored_digest(path: Path) -> str:
    """Return the hash that a file of arrays was given when it was written, reading no array."""
    with _opened(path) as file:
        note = json.loads((file.metadata() or {}).get(KEY, "{}"))
    return str(note.get("sha256")) if isinstance(note, dict) else ""


def hash_of(path: Path) -> str:
    """Return a hash of what a file holds; one of arrays knows its own."""
    return stored_digest(path) if path.suffix == ".safetensors" else sha256(path)


def count_numbers(path: Path) -> int:
    """Return how many numbers the arrays of a file have, reading none of them."""
    return sum(map(math.prod, shapes_of(path).values()))


def require_small_header(path: Path) -> None:
    """Refuse what is no safetensors file by its length, before more of it is read."""
    if not path.is_file():  # a device or a pipe might never end
        raise FileNotFoundError(path)
    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
    if length > min(LARGEST_HEADER, path.stat().st_size):
        raise ValueError(f"its header would have {length:,} bytes")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file of arrays, or say what is wrong with it."""
    try:
        require_small_header(path)
        with safe_open(path, framework="numpy") as file:
            yield file
    except (FileNotFoundError, PermissionError):
        # The library takes what it may not open for what is not there.
        may = "may not be read: change its permissions" if path.is_file() else "is no file"
        reason = may if path.exists() else "is missing"
        raise BadRun(f"{path} {reason}") from None
    except OSError as error:
        raise BadRun(f"{path} cannot be read: {error.strerror or error}") from None
    except (SafetensorError, ValueError, RecursionError) as error:
        raise BadRun(f"{path} is damaged or no safetensors file: {error}") from None
    except (TypeError, AttributeError) as error:  # of a type that numpy has not
        raise BadRun(f"{path} holds numbers that are not ours: {error}") from None


def digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return a hash of the names, types, shapes and numbers of arrays."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        # The types have torch's names: that is how the first files were made.
        found.update(f"{name} torch.{array.dtype.name} {tuple(array.shape)}\n".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()
