"""What a measurement was made on: a number without it says nothing."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from transduce.machine import cores


def describe(device: str, threads: int, libraries: tuple[str, ...]) -> dict[str, Any]:
    """Return the facts of this machine that a speed depends on."""
    return {
        "device": device,
        "gpu": _gpu() if device == "cuda" else None,
        "processor": processor(),
        "cores": cores(),
        "threads": threads,
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in libraries},
    }


def processor(listing: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the processor's model, or at least of its kind."""
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name()
