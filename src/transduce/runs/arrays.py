"""Safetensors files as numpy arrays, each with a checksum of its content. Imports no torch."""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from transduce.errors import BadRun
from transduce.system.files import open_regular, sha256

KEY = "transduce"  # the only metadata key; with several, equal models would give unequal files
LARGEST_HEADER = 1 << 23  # bytes; a thousand layers need 3 MB

Arrays = dict[str, npt.NDArray[Any]]
Shapes = Mapping[str, tuple[int, ...]]  # of arrays, by name


def load_arrays(path: Path) -> Arrays:
    """Read the arrays in a file and compare them with their checksum."""
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if stored_digest(path) != digest(arrays):
        raise BadRun(f"{path} is damaged: its tensors do not match their own checksum")
    return arrays


def shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays in a file, without reading the arrays."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def count_values(path: Path) -> int:
    """Return the total number of values in the arrays of a file, without reading the arrays."""
    return sum(map(math.prod, shapes_of(path).values()))


def stored_digest(path: Path) -> str:
    """Return the checksum stored in a file of arrays, without reading the arrays."""
    with _opened(path) as file:
        note = json.loads((file.metadata() or {}).get(KEY, "{}"))
    return str(note.get("sha256")) if isinstance(note, dict) else ""


def hash_of(path: Path) -> str:
    """Return a hash of a file's content; for a file of arrays, the checksum stored in it."""
    return stored_digest(path) if path.suffix == ".safetensors" else sha256(path)


def digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return a hash of the names, types, shapes and values of arrays."""
    content = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        # Types have torch's names, because the first files were hashed with them.
        content.update(f"{name} torch.{array.dtype.name} {tuple(array.shape)}\n".encode())
        content.update(array.reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def require_finite(arrays: Arrays, path: Path) -> None:
    """Refuse weights that are infinite or NaN."""
    for name, array in arrays.items():
        with np.errstate(all="ignore"):
            # The sum is the faster test, but it may overflow although all values are finite.
            finite = array.dtype.kind != "f" or np.isfinite(array.sum()) or np.isfinite(array).all()
        if not finite:
            raise BadRun(
                f"{path} cannot be used: the tensor {name} holds values that are not finite "
                "(NaN or infinity); choose an earlier checkpoint, or train again with a lower "
                "lr_scale"
            )


def require_shapes(expected: Shapes, found: Shapes, path: Path) -> None:
    """Refuse arrays whose names or shapes differ from the model's."""
    for name in sorted(expected.keys() ^ found.keys()):
        has = "lacks" if name in expected else "has an unknown tensor"
        raise BadRun(f"{path} does not fit the model of config.json: it {has} {name}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise BadRun(
                f"{path} does not fit the model of config.json: {name} is {found[name]}, "
                f"expected {shape}"
            )


def require_small_header(path: Path) -> None:
    """Refuse a file whose header is longer than a valid one, before reading the header."""
    if not path.is_file():  # a device or a pipe might never end
        raise FileNotFoundError(path)
    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
    if length > min(LARGEST_HEADER, path.stat().st_size):
        raise ValueError(f"its header would have {length:,} bytes")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file of arrays; raise a BadRun that explains the problem if this fails."""
    try:
        require_small_header(path)
        with safe_open(path, framework="numpy") as file:
            yield file
    except (FileNotFoundError, PermissionError):
        # safetensors reports a file without read permission as missing.
        unreadable = "may not be read: change its permissions"
        irregular = unreadable if path.is_file() else "is not a file"
        reason = irregular if path.exists() else "is missing"
        raise BadRun(f"{path} {reason}") from None
    except OSError as error:
        raise BadRun(f"{path} cannot be read: {error.strerror or error}") from None
    except (SafetensorError, ValueError, RecursionError) as error:
        raise BadRun(f"{path} is damaged or not a safetensors file: {error}") from None
    except (TypeError, AttributeError) as error:  # a type that numpy lacks
        raise BadRun(f"{path} has tensors of an unsupported type: {error}") from None
