"""The run folder: its layout and its configuration. Imports no torch.

    config.json            settings and versions
    subwords.json
    start.safetensors      the weights that training started from, if taken from a different run
    model.safetensors      the weights for translation: mean of the last checkpoints, or the best
    best.safetensors       the weights with the lowest validation loss
    metrics.jsonl          one object for each logged step
    samples.jsonl          translations of some sentences at each validation
    checkpoints/step-0001000/   weights.safetensors, optimizer.safetensors, state.json
    recipe.toml            the recipe that the run was started with, if any
    evaluation.json, test.hyp   scores and translations of the recipe's test text
    lexicon.json           for parsers: the tags that each word can have
    corpus/                token files
    distilled/             for students: training texts, translated by the teacher
    trees/                 for parsers: training texts, as words and as symbols of trees

Every file has a checksum, and no file contains code that is executed.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.errors import BadRun, BadSetting
from transduce.runs.arrays import hash_of
from transduce.settings import types
from transduce.system.files import read_checksummed, write_checksummed
from transduce.text.languages import UNKNOWN, choose_pair

FORMAT = 1
CONFIG = "config.json"
MODEL, BEST, START = "model.safetensors", "best.safetensors", "start.safetensors"
SUBWORDS, LEXICON, RECIPE = "subwords.json", "lexicon.json", "recipe.toml"
PARTS = WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
CHECKPOINTS = "checkpoints"
# Folders inside a run. They may not be links, because old files in them are deleted.
OWN_FOLDERS = (CHECKPOINTS, "corpus", "distilled", "trees", "tensorboard", "wandb")
# Subfolders in which a killed process can leave temporary folders.
WRITTEN_IN = (CHECKPOINTS, "distilled", "distilled/blocks", "trees")
NO_WEIGHTS = "none yet"
UNKNOWN_SOURCE = UNKNOWN[0]  # the source language if it is not known

Made = TypeVar("Made")
Task = Literal["translation", "parsing"]
KINDS: dict[Task, str] = {"translation": "a translator", "parsing": "a parser"}
COMMANDS: dict[Task, str] = {"translation": "translate", "parsing": "parse"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The trained run from which a run was started."""

    run: str
    subwords: str  # hash of the subwords taken from it
    weights: str = ""  # description of the weights taken from it; empty: only the subwords
    sha256: str = ""  # hash of these weights
    more: int = 0  # number of subwords added


@dataclass(frozen=True, slots=True)
class Selection:
    """The rule by which a run selected its final weights, and the step at which it did."""

    rule: str
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """The content of config.json."""

    model: ModelConfig
    train: TrainConfig
    search: SearchConfig = field(default_factory=SearchConfig)
    languages: tuple[str, str] = ("src", "tgt")
    pairs: tuple[tuple[str, str], ...] = ()  # all pairs of languages, if there are several
    preset: str = "base"
    device: str = "cpu"
    weights: str = NO_WEIGHTS  # description of model.safetensors
    selection: Selection | None = None  # None: the run has not ended
    versions: Mapping[str, str] = field(default_factory=dict)
    origin: Origin | None = None
    task: Task = "translation"
    corpus_weights: tuple[float, ...] = ()  # of each corpus, in order; empty: all are 1
    identity: str = ""  # hash of the settings and the corpus; checkpoints contain the same hash
    # Hashes of the files that belong to this run; two while a file is being replaced.
    hashes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def all_pairs(self) -> tuple[tuple[str, str], ...]:
        """All pairs of languages that the model was trained on."""
        return self.pairs or (self.languages,)

    @property
    def targets(self) -> tuple[str, ...]:
        """The languages that the model writes."""
        return tuple(dict.fromkeys(target for _, target in self.all_pairs))

    def directed(self, to: str | None, source: str | None) -> Self:
        """Return the configuration with the languages of one direction as `languages`.

        Only models of several pairs need them to be chosen. The source language may remain unknown.
        """
        return dataclasses.replace(self, languages=choose_pair(self.all_pairs, source, to))

    def save(self, run: Path) -> None:
        """Write config.json."""
        selection = self.selection
        write_checksummed(
            run / CONFIG,
            {
                "format": FORMAT,
                "preset": self.preset,
                "languages": list(self.languages),
                "pairs": [list(pair) for pair in self.pairs],
                "device": self.device,
                "weights": self.weights,
                # For version 0.1, which reads only this text.
                "chosen": f"{selection.rule} at step {selection.step}" if selection else "",
                "selection": dataclasses.asdict(selection) if selection else None,
                "model": self.model.to_json(),
                "train": self.train.to_json(),
                "search": self.search.to_json(),
                "versions": dict(self.versions),
                "task": self.task,
                "origin": dataclasses.asdict(self.origin) if self.origin else None,
                "corpus_weights": list(self.corpus_weights),
                "identity": self.identity,
                "owns": {name: list(hashes) for name, hashes in self.hashes.items()},
            },
        )

    @classmethod
    def load(cls, run: Path) -> Self:
        """Read config.json; raise a BadRun that says why if the folder is not a run."""
        path = run / CONFIG
        if not run.exists():
            raise BadRun(f"there is no run folder {run}: `transduce train` makes one")
        if not path.is_file():
            inner = sorted(run.glob(f"*/{CONFIG}"))
            hint = f"; did you mean {inner[0].parent}?" if inner else ""
            raise BadRun(f"{run} is not a run folder: it has no config.json{hint}")
        value = read_checksummed(path, FORMAT, "settings", FIELDS)
        try:
            return cls(
                model=ModelConfig.from_json(value["model"]),
                train=TrainConfig.from_json(value["train"]),
                search=SearchConfig.from_json(value["search"]),
                languages=(value["languages"][0], value["languages"][1]),
                pairs=tuple((pair[0], pair[1]) for pair in value.get("pairs") or ()),
                preset=value["preset"],
                device=value["device"],
                weights=value["weights"],
                selection=_selection(value),
                versions=value["versions"],
                origin=types.dataclass_from_json(Origin, value["origin"])
                if value.get("origin")
                else None,
                task=value.get("task") or "translation",
                corpus_weights=tuple(value.get("corpus_weights") or ()),
                identity=value.get("identity") or "",
                hashes={name: tuple(hashes) for name, hashes in (value.get("owns") or {}).items()},
            )
        except (TypeError, BadSetting) as error:
            raise BadRun(f"{path} is damaged: {error}") from None

    def ended_at(self, step: int) -> bool:
        """Return whether the run ended and selected its weights at this step."""
        return self.selection is not None and self.selection.step == step

    def with_hashes(self, run: Path, *names: str) -> Self:
        """Return the configuration with the hashes of these files added, if they exist."""
        hashes = {name: (hash_of(run / name),) for name in names if (run / name).exists()}
        return dataclasses.replace(self, hashes={**self.hashes, **hashes})

    def verified(self, run: Path, name: str) -> Path:
        """Return the path of a file in the run; refuse a file that belongs to a different run.

        Each file has its own checksum; this checks that the files belong together.
        """
        path, expected = run / name, self.hashes.get(name)
        if expected and not path.is_file():
            raise BadRun(f"{path} is missing: put it back")
        if expected and hash_of(path) not in expected:
            raise BadRun(
                f"{path} is damaged or belongs to another run: it is not the file that "
                f"{run / CONFIG} was written with; put back the right one"
            )
        return path

    def require_subwords(self, source: int, target: int, run: Path) -> None:
        """Refuse vocabularies whose sizes differ from the model's."""
        if (self.model.source_vocabulary, self.model.target_vocabulary) != (source, target):
            raise BadRun(
                f"{run / SUBWORDS} has {source:,} and {target:,} subwords, but the model of "
                f"config.json has {self.model.source_vocabulary:,} and "
                f"{self.model.target_vocabulary:,}: the two files belong to different runs"
            )

    def require(self, task: Task, run: Path) -> None:
        """Refuse a model that was trained for a different task."""
        if self.task != task:
            command = COMMANDS[self.task]
            raise BadRun(f"{run} holds {KINDS[self.task]}: use it with `transduce {command}`")


# The types of the fields in config.json; older runs lack those that may be None.
FIELDS = {
    **dict.fromkeys(("preset", "device", "weights", "chosen"), str),
    **dict.fromkeys(("model", "train", "search"), dict[str, Any]),
    "languages": tuple[str, str],
    "pairs": list[tuple[str, str]] | None,
    "versions": dict[str, str],
    "selection": dict[str, str | int] | None,
    "origin": dict[str, str | int] | None,
    "task": Task | None,
    "corpus_weights": list[float] | None,
    "identity": str | None,
    "owns": dict[str, list[str]] | None,
}


def _dataclass(kind: type[Made], value: dict[str, Any] | None) -> Made | None:
    return types.dataclass_from_json(kind, value) if value else None


def _selection(value: dict[str, Any]) -> Selection | None:
    """Read the field `selection`, or `chosen` from version 0.1: "RULE at step N"."""
    if value.get("selection"):
        return _dataclass(Selection, value["selection"])
    old = re.fullmatch(r"(.+) at step ([0-9]{1,18})", value["chosen"])
    return Selection(old[1], int(old[2])) if old else None


def require_own_folders(run: Path) -> None:
    """Refuse a run if one of its folders is a link."""
    for name in OWN_FOLDERS:
        if (run / name).is_symlink():
            raise BadRun(
                f"{run / name} is a link: expected a folder inside the run; "
                "move the folder that it points to there"
            )


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """A folder from which training resumes."""

    step: int
    scheduled: bool  # False: written on interruption, for resuming only, not for averaging
    path: Path

    def state(self) -> dict[str, Any]:
        """Read state.json: everything except weights and optimizer state."""
        return read_checksummed(self.path / STATE, FORMAT, "training state", STATE_FIELDS)

    def verified(self, name: str) -> Path:
        """Return the path of a tensor file; refuse a file from a different checkpoint."""
        state = read_checksummed(self.path / STATE, FORMAT, "training state", HASHES)
        hashes = state.get("owns") or {}
        path, expected = self.path / name, hashes.get(name)
        if expected and path.is_file() and hash_of(path) != expected:
            raise BadRun(
                f"{path} is damaged or belongs to another checkpoint than {self.path / STATE}"
            )
        return path


HASHES = {"owns": dict[str, str] | None}
# The types of the fields in state.json; older checkpoints lack those that may be None.
STATE_FIELDS = {
    **HASHES,
    **dict.fromkeys(("step", "best_step", "worse", "validated"), int),
    **dict.fromkeys(("seconds", "epochs"), float),
    "best_loss": float | None,
    "place": dict[str, int],
    "window": dict[str, float],
    **dict.fromkeys(("run", "best_hash"), str | None),
}


def checkpoints(run: Path) -> list[Checkpoint]:
    """Return the checkpoints of a run, oldest first; refuse links, which lead outside the run."""
    folder = run / CHECKPOINTS
    if folder.is_symlink():
        require_own_folders(run)
    saved = []
    for path in folder.glob("step-*"):
        if match := re.fullmatch(r"step-([0-9]{1,18})(-interrupted)?", path.name):
            if path.is_symlink() or not path.is_dir():
                kind = "a link" if path.is_symlink() else "not a folder"
                raise BadRun(f"{path} is {kind}: expected a checkpoint inside the run")
            saved.append(Checkpoint(int(match[1]), match[2] is None, path))
    return sorted(saved)


def last_checkpoint(run: Path) -> Checkpoint | None:
    """Return the checkpoint to resume from, if there is one."""
    saved = checkpoints(run)
    return saved[-1] if saved else None


def delete_weights(run: Path, reason: str) -> None:
    """Delete model.safetensors, and record why it is missing."""
    config = RunConfig.load(run)
    hashes = {name: known for name, known in config.hashes.items() if name != MODEL}
    dataclasses.replace(config, weights=reason, hashes=hashes).save(run)
    (run / MODEL).unlink(missing_ok=True)


def weights_file(run: Path, config: RunConfig) -> tuple[Path, str]:
    """Return the file with the weights for translation, and a description of them.

    A run that has not ended has no model.safetensors yet: its newest checkpoint is used.
    """
    if (run / MODEL).exists():
        return config.verified(run, MODEL), config.weights
    newest = last_checkpoint(run)
    if MODEL in config.hashes:
        hint = f"make it again with `transduce average {run}`" if newest else "train again"
        raise BadRun(f"{run / MODEL} is missing: put it back, or {hint}")
    if newest is not None:
        return newest.verified(WEIGHTS), f"step {newest.step:,} of a run that has not ended"
    if config.weights == NO_WEIGHTS:
        raise BadRun(f"{run} has no weights yet: train it further with `transduce train`")
    raise BadRun(f"{run} has no weights: {config.weights}")
