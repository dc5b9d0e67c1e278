"""Choose the engine that translates."""

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from transduce.errors import BadInput, BadSetting, MissingExtra
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec
from transduce.system.devices import may_have_cuda
from transduce.translation.types import Engine

logger = logging.getLogger("transduce")

ENGINES = ("auto", "torch", "ctranslate2")
UNQUANTIZED = ("auto", "none")  # values of `quantize` that torch accepts


def choose_engine(
    runs: Sequence[Path],
    configs: Sequence[RunConfig],
    codec: Codec,
    *,
    engine: str,
    device: str,
    quantize: str,
) -> Engine:
    """Load an engine; "auto" is the fastest installed one for the device.

    On a GPU that is torch; on a CPU it is CTranslate2 if it is installed and supports the model.
    torch is imported only if it is the engine, or to look for a GPU.
    """
    if engine not in ENGINES:
        raise BadSetting(f"engine = {engine!r}: expected {', '.join(ENGINES)}")

    loading = threading.Lock()

    @functools.cache
    def load_torch() -> Engine:
        from transduce.translation.engines.pytorch import TorchEngine

        return TorchEngine.load(runs, configs, codec.target.forbidden_ids(), device)

    def with_torch() -> Engine:
        if quantize not in UNQUANTIZED:
            raise BadInput(f"quantize = {quantize!r}: only the engine ctranslate2 quantises")
        return load_torch()

    def besides_ctranslate2() -> Engine:
        with loading:  # several threads may need it at the same time
            return load_torch()

    if engine == "torch" or (engine == "auto" and _on_gpu(device)):
        return with_torch()
    try:
        return _with_ctranslate2(
            *(runs, configs, codec, device, quantize),
            load_torch=besides_ctranslate2 if engine == "auto" else None,
        )
    except (MissingExtra, BadInput, OSError) as error:
        if engine == "ctranslate2" or quantize not in UNQUANTIZED:
            raise
        if isinstance(error, OSError):  # the export cannot be written
            logger.warning("the engine ctranslate2 cannot be used (%s): torch translates", error)
        return with_torch()


def _with_ctranslate2(
    runs: Sequence[Path],
    configs: Sequence[RunConfig],
    codec: Codec,
    device: str,
    quantize: str,
    *,
    load_torch: Callable[[], Engine] | None,
) -> Engine:
    from transduce.translation.engines.ctranslate2 import CTranslate2Engine

    if device not in ("auto", "cpu"):
        raise BadSetting(
            f"device = {device!r}: the engine ctranslate2 is for the cpu, torch for others"
        )
    if len(runs) > 1:
        raise BadInput("the engine ctranslate2 searches with one model; use the engine torch")
    engine = CTranslate2Engine.load(runs[0], configs[0], codec, quantize)
    engine.load_torch = load_torch
    return engine


def _on_gpu(device: str) -> bool:
    if device == "cpu" or (device == "auto" and not may_have_cuda()):
        return False
    from transduce.system.devices import choose_device

    return choose_device(device).type != "cpu"
