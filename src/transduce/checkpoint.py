"""A run folder: its settings, its weights, its checkpoints. Save, load, average.

    config.json            settings and versions, sealed by a checksum
    subwords.json
    start.safetensors      what it began with, where that was another run's weights
    model.safetensors      what translates: the mean of the last checkpoints, or the best
    best.safetensors       the weights with the lowest validation loss
    metrics.jsonl          one object a logged step
    checkpoints/step-0001000/   weights.safetensors, optimizer.safetensors, state.json
    corpus/                token files
    distilled/             the texts of a student: what its teacher translated

Nothing here runs code from a file, and every file carries a checksum.
"""

import dataclasses
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from transduce.config import ModelConfig, SearchConfig, TrainConfig
from transduce.errors import BadRun, BadSetting
from transduce.files import read_sealed, replacing, replacing_folder, write_sealed
from transduce.model import Transformer

FORMAT = 1
START = "start.safetensors"
KEY = "transduce"  # the one metadata key: with several, equal models would not be equal files


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The trained run that another was begun with."""

    run: str
    subwords: str  # the hash of those that it has from there
    weights: str = ""  # in words, those that it has from there; none: the subwords alone
    sha256: str = ""  # of these weights


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

    def save(self, run: Path) -> None:
        """Write config.json."""
        write_sealed(
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
                "origin": dataclasses.asdict(self.origin) if self.origin else None,
            },
        )

    @classmethod
    def load(cls, run: Path) -> Self:
        """Read config.json, or say why the folder is no run."""
        path = run / "config.json"
        if not run.exists():
            raise BadRun(f"there is no run folder {run}: `transduce train` makes one")
        if not path.is_file():
            raise BadRun(f"{run} is not a run folder: it has no config.json")
        value = read_sealed(path, FORMAT, "settings")
        origin = value.get("origin")  # older runs say nothing of it
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
                origin=Origin(**origin) if origin else None,
            )
        except (KeyError, IndexError, TypeError, BadSetting) as error:
            raise BadRun(f"{path} is damaged: {error}") from None


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, with a digest of all of them in the file's metadata."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    note = json.dumps({"format": FORMAT, "sha256": _digest(on_cpu)})
    with replacing(path) as beside:
        try:
            save_file(on_cpu, beside, metadata={KEY: note})
        except SafetensorError as error:  # it tells the system's error in words only
            found = re.search(r"os error (\d+)", str(error))
            number = int(found[1]) if found else errno.EIO
            raise OSError(number, os.strerror(number), str(path)) from None
        beside.chmod(path.parent.stat().st_mode & 0o666)  # the library makes it private


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors and check that they are what was written."""
    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads((file.metadata() or {}).get(KEY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise BadRun(f"{path} is missing") from None
    except OSError as error:
        raise BadRun(f"{path} cannot be read: {error.strerror or error}") from None
    except (SafetensorError, ValueError, UnicodeDecodeError) as error:
        raise BadRun(f"{path} is damaged or no safetensors file: {error}") from None
    if not isinstance(note, dict) or note.get("sha256") != _digest(tensors):
        raise BadRun(f"{path} is damaged: its tensors do not match their own checksum")
    return tensors


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's weights; a tied matrix is one tensor and stands once."""
    return dict(model.named_parameters())


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights into a model that must have exactly these."""
    own = weights_of(model)
    for name in sorted(own.keys() ^ tensors.keys()):
        found = "lacks" if name in own else "has an unknown tensor"
        raise BadRun(f"{path} does not fit the model of config.json: it {found} {name}")
    with torch.no_grad():
        for name, parameter in own.items():
            if parameter.shape != tensors[name].shape:
                raise BadRun(
                    f"{path} does not fit the model of config.json: {name} is "
                    f"{tuple(tensors[name].shape)}, expected {tuple(parameter.shape)}"
                )
            parameter.copy_(tensors[name])


def weights_that_translate(run: Path, config: RunConfig) -> tuple[Path, str]:
    """Return the file of the weights that translate, and in words which they are.

    A run that has never ended has no model.safetensors yet: its newest checkpoint is taken.
    """
    path = run / "model.safetensors"
    if path.exists():
        return path, config.weights
    newest = last_checkpoint(run)
    if newest is None:
        raise BadRun(f"{run} has no weights yet: train it further with `transduce train`")
    which = f"step {newest.step:,} of a run that has not ended"
    return newest.path / "weights.safetensors", which


def load_model(run: Path, config: RunConfig, device: torch.device) -> tuple[Transformer, str]:
    """Return the model that translates, and in words which weights it has."""
    path, which = weights_that_translate(run, config)
    tensors = load_tensors(path)
    model = Transformer(config.model)
    load_weights(model, tensors, path)
    return model.to(device).eval(), which


def save_model(run: Path, config: RunConfig, tensors: Mapping[str, Tensor], words: str) -> None:
    """Make these the weights that translate, and say in `words` what they are."""
    save_tensors(run / "model.safetensors", tensors)
    dataclasses.replace(config, weights=words).save(run)


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """A folder from which training goes on."""

    step: int
    scheduled: bool  # those written on interruption are for resuming, not for averaging
    path: Path

    def state(self) -> dict[str, Any]:
        """Read what is neither weight nor optimizer."""
        return read_sealed(self.path / "state.json", FORMAT, "training state")


def checkpoints(run: Path) -> list[Checkpoint]:
    """Return the checkpoints of a run, oldest first."""
    return sorted(
        Checkpoint(int(match[1]), match[2] is None, path)
        for path in (run / "checkpoints").glob("step-*")
        if (match := re.fullmatch(r"step-(\d+)(-interrupted)?", path.name))
    )


def last_checkpoint(run: Path) -> Checkpoint | None:
    """Return the checkpoint to go on from."""
    found = checkpoints(run)
    return found[-1] if found else None


def save_checkpoint(
    run: Path,
    step: int,
    *,
    scheduled: bool,
    weights: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    state: dict[str, Any],
) -> None:
    """Write a checkpoint, whole or not at all."""
    name = f"step-{step:07}" + ("" if scheduled else "-interrupted")
    with replacing_folder(run / "checkpoints" / name) as folder:
        save_tensors(folder / "weights.safetensors", weights)
        save_tensors(folder / "optimizer.safetensors", optimizer)
        write_sealed(folder / "state.json", {"format": FORMAT, **state})


def prune(run: Path, keep: int) -> None:
    """Delete all but the last `keep` scheduled checkpoints and one written on interruption."""
    found = checkpoints(run)
    scheduled = [one for one in found if one.scheduled]
    old = set(scheduled[:-keep])
    # What was written on interruption has served once a scheduled checkpoint follows it.
    old |= {one for one in found if not one.scheduled and one != found[-1]}
    for one in old:
        shutil.rmtree(one.path, ignore_errors=True)


def average(tensors: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several models' weights (paper 6.1).

    In float32 whatever the weights are kept in; what is no floating-point number is the last one's.
    """
    last = tensors[-1]
    mean = {}
    for name, tensor in last.items():
        if tensor.is_floating_point():
            total = torch.zeros_like(tensor, dtype=torch.float32)
            for one in tensors:
                total += one[name].float()
            mean[name] = (total / len(tensors)).to(tensor.dtype)
        else:
            mean[name] = tensor
    return mean


def average_checkpoints(run: Path, last: int) -> tuple[dict[str, Tensor], str]:
    """Return the mean of the last scheduled checkpoints, and in words what it is the mean of."""
    chosen = [one for one in checkpoints(run) if one.scheduled][-last:]
    if not chosen:
        raise BadRun(f"{run} has no checkpoints to average")
    tensors = [load_tensors(one.path / "weights.safetensors") for one in chosen]
    names = {frozenset((n, t.shape) for n, t in one.items()) for one in tensors}
    if len(names) > 1:
        raise BadRun(f"the checkpoints of {run} are of different models: they have no mean")
    if len(chosen) == 1:
        return tensors[0], f"checkpoint at step {chosen[0].step:,}"
    steps = ", ".join(f"{one.step:,}" for one in chosen)
    return average(tensors), f"mean of the checkpoints at steps {steps}"


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
