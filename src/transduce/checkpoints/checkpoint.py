"""What lies in a run folder: save, load, average its weights and checkpoints."""

import contextlib
import dataclasses
import errno
import itertools
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.errors import BadRun
from transduce.model.architecture import build
from transduce.model.base import Transducer
from transduce.runs.arrays import (
    KEY,
    Shapes,
    digest,
    load_arrays,
    require_finite,
    require_shapes,
    shapes_of,
)
from transduce.runs.folder import (
    CHECKPOINTS,
    FORMAT,
    MODEL,
    OPTIMIZER,
    PARTS,
    STATE,
    WEIGHTS,
    RunConfig,
    checkpoints,
    weights_file,
)
from transduce.system.files import atomic_folder, atomic_write, remove_folder, write_checksummed

GENERATORS: dict[str, Any] = {"cuda": torch.cuda, "mps": torch.mps}  # of random numbers, on devices


def save_tensors(path: Path, tensors: Mapping[str, Tensor], checksum: str | None = None) -> str:
    """Write tensors, with a digest of all of them in the file's metadata; return the digest."""
    on_cpu = _on_cpu(tensors)
    checksum = checksum or tensors_digest(on_cpu)
    write_tensors(path, on_cpu, {KEY: json.dumps({"format": FORMAT, "sha256": checksum})})
    return checksum


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of the names, types, shapes and numbers of tensors."""
    return digest({name: tensor.numpy() for name, tensor in _on_cpu(tensors).items()})


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, str]) -> None:
    """Write a file of safetensors, with the permissions that the umask gives."""
    with atomic_write(path) as beside:
        beside.touch()
        mode = stat.S_IMODE(beside.stat().st_mode)
        try:
            save_file(tensors, beside, metadata=note)
        except SafetensorError as error:  # it tells the system's error in words only
            found = re.search(r"os error (\d+)", str(error))
            number = int(found[1]) if found else errno.EIO
            raise OSError(number, os.strerror(number), str(path)) from None
        beside.chmod(mode)  # the library replaces the file by one that is private


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors and check that they are what was written."""
    return {name: torch.from_numpy(array) for name, array in load_arrays(path).items()}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's weights; a tied matrix is one tensor and stands once."""
    return dict(model.named_parameters())


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights into a model that must have exactly these."""
    own = weights_of(model)
    require_shapes(_shapes(own), _shapes(tensors), path)
    require_finite({name: tensors[name].numpy() for name in own}, path)
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def require_fit(config: ModelConfig, path: Path) -> None:
    """Refuse weights that are not those of a model, before anything is made as large as it says."""
    shapes = shapes_of(path)
    layers = config.N + config.decoder_layers
    if layers > len(shapes):
        raise BadRun(
            f"{path} does not fit the model of config.json: it has {len(shapes):,} tensors for "
            f"{layers:,} layers"
        )
    with torch.device("meta"):
        own = weights_of(build(config))
    require_shapes(_shapes(own), shapes, path)


def _shapes(tensors: Mapping[str, Tensor]) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states that what is drawn from now on depends on."""
    own = GENERATORS.get(device.type)
    on_gpu = {f"random.{device.type}": own.get_rng_state()} if own else {}
    return {"random": torch.get_rng_state()} | on_gpu


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Continue the random numbers from what `random_states` returned."""
    torch.set_rng_state(states["random"])
    own, name = GENERATORS.get(device.type), f"random.{device.type}"
    if own and name in states:
        own.set_rng_state(states[name])


def set_random_states(
    tensors: Mapping[str, Tensor], device: torch.device, path: Path
) -> dict[str, Tensor]:
    """Draw from now on as `random_states` says; return the other tensors."""
    try:
        restore_random_states(tensors, device)
    except (KeyError, RuntimeError, TypeError) as error:
        raise BadRun(f"{path} is damaged: it holds no random state ({error})") from None
    return {name: one for name, one in tensors.items() if name.partition(".")[0] != "random"}


def moments_of(
    optimizer: torch.optim.Optimizer, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return what an optimizer remembers of each weight, by the weight's name."""
    names = {id(weight): name for name, weight in weights.items()}
    return {
        f"{key}.{names[id(weight)]}": value
        for weight, values in optimizer.state.items()
        for key, value in values.items()
    }


def load_moments(
    optimizer: torch.optim.Optimizer,
    weights: Mapping[str, Tensor],
    moments: Mapping[str, Tensor],
    path: Path,
) -> None:
    """Give an optimizer back what `moments_of` returned."""
    for key, value in moments.items():
        kind, _, name = key.partition(".")
        if name not in weights:
            raise BadRun(f"{path} does not fit the model: it has an unknown tensor {key}")
        weight = weights[name]
        own = optimizer.state[weight].get(kind)
        if own is not None and own.shape != value.shape:
            raise BadRun(
                f"{path} does not fit the model: {key} is {tuple(value.shape)}, expected "
                f"{tuple(own.shape)}"
            )
        optimizer.state[weight][kind] = value.to(weight.device, copy=True)


def load_model(run: Path, config: RunConfig, device: torch.device) -> tuple[Transducer, str]:
    """Return the model that translates, and in words which weights it has."""
    path, which = weights_file(run, config)
    require_fit(config.model, path)
    tensors = load_tensors(path)
    model = build(config.model)
    load_weights(model, tensors, path)
    return model.to(device).eval(), which


def save_model(run: Path, config: RunConfig, tensors: Mapping[str, Tensor], words: str) -> None:
    """Make these the weights that translate, and say in `words` what they are."""
    checksum = tensors_digest(tensors)
    if (run / "config.json").exists() and MODEL in (before := RunConfig.load(run)).hashes:
        # Between the two writes the old weights and the new are both the run's own.
        both = (*before.hashes[MODEL], checksum)
        dataclasses.replace(before, hashes={**before.hashes, MODEL: both}).save(run)
    save_tensors(run / MODEL, tensors, checksum)
    (run / MODEL).stat()  # the folder may have been removed meanwhile
    dataclasses.replace(config, weights=words).with_hashes(run, MODEL).save(run)


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
    with atomic_folder(run / CHECKPOINTS / name, PARTS) as folder:
        given = {WEIGHTS: weights, OPTIMIZER: optimizer}
        owns = {name: save_tensors(folder / name, tensors) for name, tensors in given.items()}
        write_checksummed(folder / STATE, {"format": FORMAT, "owns": owns, **state})


def prune(run: Path, keep: int) -> None:
    """Delete all but the last `keep` scheduled checkpoints and one written on interruption."""
    found = checkpoints(run)
    scheduled = [one for one in found if one.scheduled]
    old = set(scheduled[:-keep])
    # What was written on interruption has served once a scheduled checkpoint follows it.
    old |= {one for one in found if not one.scheduled and one != found[-1]}
    for one in old:
        with contextlib.suppress(OSError):  # it takes room, and does no other harm
            remove_folder(one.path)


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
        raise BadRun(f"{run} has no checkpoints to average: `transduce train` writes them")
    tensors = [load_tensors(one.verified(WEIGHTS)) for one in chosen]
    names = {frozenset((n, t.shape) for n, t in one.items()) for one in tensors}
    if len(names) > 1:
        raise BadRun(f"the checkpoints of {run} are of different models: they have no mean")
    if len(chosen) == 1:
        return tensors[0], f"checkpoint at step {chosen[0].step:,}"
    steps = _listed([one.step for one in chosen])
    return average(tensors), f"mean of the checkpoints at steps {steps}"


def _listed(steps: Sequence[int]) -> str:
    """Name some steps, many that are equally far apart in short."""
    gaps = {after - before for before, after in itertools.pairwise(steps)}
    if len(steps) > 4 and len(gaps) == 1:
        return f"{steps[0]:,} to {steps[-1]:,}, every {gaps.pop():,}"
    return ", ".join(f"{step:,}" for step in steps)
