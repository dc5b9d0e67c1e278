"""Save, load and average the weights and checkpoints of a run."""

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
    Checkpoint,
    RunConfig,
    checkpoints,
    weights_file,
)
from transduce.system.files import atomic_folder, atomic_write, remove_folder, write_checksummed

GENERATORS: dict[str, Any] = {"cuda": torch.cuda, "mps": torch.mps}  # with random states


def save_tensors(path: Path, tensors: Mapping[str, Tensor], checksum: str | None = None) -> str:
    """Write tensors with a checksum of their content in the metadata; return the checksum."""
    on_cpu = _on_cpu(tensors)
    checksum = checksum or tensors_digest(on_cpu)
    write_tensors(path, on_cpu, {KEY: json.dumps({"format": FORMAT, "sha256": checksum})})
    return checksum


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of the names, types, shapes and values of tensors."""
    return digest({name: tensor.numpy() for name, tensor in _on_cpu(tensors).items()})


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file with the permissions set by the umask."""
    with atomic_write(path) as temporary:
        temporary.touch()
        mode = stat.S_IMODE(temporary.stat().st_mode)
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # it gives the system's error number only in its text
            match = re.search(r"os error (\d+)", str(error))
            number = int(match[1]) if match else errno.EIO
            raise OSError(number, os.strerror(number), str(path)) from None
        temporary.chmod(mode)  # save_file makes the file private


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors and compare them with their checksum."""
    return {name: torch.from_numpy(array) for name, array in load_arrays(path).items()}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's weights by name; tied matrices appear once."""
    return dict(model.named_parameters())


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights into a model; names and shapes must match exactly."""
    load_tensors_into(weights_of(model), tensors, path)


def load_tensors_into(
    expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path
) -> None:
    """Copy tensors of a file into existing ones; names and shapes must match exactly."""
    require_shapes(_shapes(expected), _shapes(tensors), path)
    require_finite({name: tensors[name].numpy() for name in expected}, path)
    with torch.no_grad():
        for name, parameter in expected.items():
            parameter.copy_(tensors[name])


def require_fit(config: ModelConfig, path: Path) -> None:
    """Refuse weights that do not fit a model, before allocating a model of that size."""
    shapes = shapes_of(path)
    layers = config.N + config.decoder_layers
    if layers > len(shapes):
        raise BadRun(
            f"{path} does not fit the model of config.json: it has {len(shapes):,} tensors for "
            f"{layers:,} layers"
        )
    with torch.device("meta"):
        expected = weights_of(build(config))
    require_shapes(_shapes(expected), shapes, path)


def _shapes(tensors: Mapping[str, Tensor]) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the random number generators on the CPU and on a device."""
    generator = GENERATORS.get(device.type)
    on_device = {f"random.{device.type}": generator.get_rng_state()} if generator else {}
    return {"random": torch.get_rng_state()} | on_device


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states that `random_states` returned."""
    torch.set_rng_state(states["random"])
    generator, name = GENERATORS.get(device.type), f"random.{device.type}"
    if generator and name in states:
        generator.set_rng_state(states[name])


def set_random_states(
    tensors: Mapping[str, Tensor], device: torch.device, path: Path
) -> dict[str, Tensor]:
    """Restore the random states contained in the tensors of a file; return the other tensors."""
    try:
        restore_random_states(tensors, device)
    except (KeyError, RuntimeError, TypeError) as error:
        raise BadRun(f"{path} is damaged: it has no valid random state ({error})") from None
    return {name: tensor for name, tensor in tensors.items() if name.partition(".")[0] != "random"}


def optimizer_state(
    optimizer: torch.optim.Optimizer, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the optimizer's state for each weight, by the weight's name."""
    names = {id(weight): name for name, weight in weights.items()}
    return {
        f"{key}.{names[id(weight)]}": value
        for weight, values in optimizer.state.items()
        for key, value in values.items()
    }


def load_optimizer_state(
    optimizer: torch.optim.Optimizer,
    weights: Mapping[str, Tensor],
    moments: Mapping[str, Tensor],
    path: Path,
) -> None:
    """Restore what `optimizer_state` returned."""
    for key, value in moments.items():
        kind, _, name = key.partition(".")
        if name not in weights:
            raise BadRun(f"{path} does not fit the model: it has an unknown tensor {key}")
        weight = weights[name]
        expected = optimizer.state[weight].get(kind)
        if expected is None:
            raise BadRun(f"{path} does not fit the optimizer: it has an unknown tensor {key}")
        if expected.shape != value.shape:
            raise BadRun(
                f"{path} does not fit the model: {key} is {tuple(value.shape)}, expected "
                f"{tuple(expected.shape)}"
            )
        expected.copy_(value)


def load_model(run: Path, config: RunConfig, device: torch.device) -> tuple[Transducer, str]:
    """Return the model for translation, and a description of its weights."""
    path, description = weights_file(run, config)
    require_fit(config.model, path)
    tensors = load_tensors(path)
    model = build(config.model)
    load_weights(model, tensors, path)
    return model.to(device).eval(), description


def save_model(
    run: Path, config: RunConfig, tensors: Mapping[str, Tensor], description: str
) -> None:
    """Write model.safetensors, and its description into config.json."""
    checksum = tensors_digest(tensors)
    if (run / "config.json").exists() and MODEL in (before := RunConfig.load(run)).hashes:
        # Until both files are written, the old and the new weights belong to the run.
        both = (*before.hashes[MODEL], checksum)
        dataclasses.replace(before, hashes={**before.hashes, MODEL: both}).save(run)
    save_tensors(run / MODEL, tensors, checksum)
    (run / MODEL).stat()  # the folder may have been removed meanwhile
    dataclasses.replace(config, weights=description).with_hashes(run, MODEL).save(run)


def save_checkpoint(
    run: Path,
    step: int,
    *,
    scheduled: bool,
    weights: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    state: dict[str, Any],
) -> None:
    """Write a checkpoint: all of its files, or none of them."""
    name = f"step-{step:07}" + ("" if scheduled else "-interrupted")
    with atomic_folder(run / CHECKPOINTS / name, PARTS) as folder:
        given = {WEIGHTS: weights, OPTIMIZER: optimizer}
        owns = {name: save_tensors(folder / name, tensors) for name, tensors in given.items()}
        write_checksummed(folder / STATE, {"format": FORMAT, "owns": owns, **state})


def prune(run: Path, keep: int) -> None:
    """Delete all but the last `keep` scheduled checkpoints.

    A checkpoint written on interruption is deleted as soon as there is a newer one.
    """
    saved = checkpoints(run)
    scheduled = [checkpoint for checkpoint in saved if checkpoint.scheduled]
    interrupted = [checkpoint for checkpoint in saved[:-1] if not checkpoint.scheduled]
    for checkpoint in scheduled[:-keep] + interrupted:
        with contextlib.suppress(OSError):  # a leftover checkpoint only takes space
            remove_folder(checkpoint.path)


def average(models: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several models' weights (paper 6.1).

    Sums are computed in float32 for all types of weights. Tensors that are not floating-point are
    taken from the last model.
    """
    mean = {}
    for name, tensor in models[-1].items():
        if tensor.is_floating_point():
            total = torch.zeros_like(tensor, dtype=torch.float32)
            for model in models:
                total += model[name].float()
            mean[name] = (total / len(models)).to(tensor.dtype)
        else:
            mean[name] = tensor
    return mean


def average_checkpoints(run: Path, last: int) -> tuple[dict[str, Tensor], str]:
    """Return the mean of the last scheduled checkpoints, and a description of it."""
    chosen = [checkpoint for checkpoint in checkpoints(run) if checkpoint.scheduled][-last:]
    if not chosen:
        raise BadRun(f"{run} has no checkpoints to average: `transduce train` writes them")
    return mean_of(chosen)


def mean_of(chosen: Sequence[Checkpoint]) -> tuple[dict[str, Tensor], str]:
    """Return the mean of some checkpoints of one run, and a description of it."""
    models = [load_tensors(checkpoint.verified(WEIGHTS)) for checkpoint in chosen]
    if any(_shapes(model) != _shapes(models[0]) for model in models):
        run = chosen[0].path.parent.parent
        raise BadRun(f"the checkpoints of {run} are of different models: they have no mean")
    if len(chosen) == 1:
        return models[0], f"checkpoint at step {chosen[0].step:,}"
    steps = _format_steps([checkpoint.step for checkpoint in chosen])
    return average(models), f"mean of the checkpoints at steps {steps}"


def _format_steps(steps: Sequence[int]) -> str:
    """Format a list of steps, briefly if they are equally far apart."""
    gaps = {after - before for before, after in itertools.pairwise(steps)}
    if len(steps) > 4 and len(gaps) == 1:
        return f"{steps[0]:,} to {steps[-1]:,}, every {gaps.pop():,}"
    return ", ".join(f"{step:,}" for step in steps)
