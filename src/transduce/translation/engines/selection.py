"""Choose the engine that translates."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from transduce.config import SearchConfig
from transduce.errors import BadInput, BadSetting, MissingExtra
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec
from transduce.system.devices import may_have_cuda
from transduce.translation.types import Engine, Hypothesis, Ints, Job

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

    That is torch on a GPU, and on a CPU CTranslate2 if it is installed and can represent the model.
    torch is imported only if it is the engine, or to look for a GPU.
    """
    if engine not in ENGINES:
        raise BadSetting(f"engine = {engine!r}: expected {', '.join(ENGINES)}")

    def with_torch() -> Engine:
        from transduce.translation.engines.pytorch import TorchEngine

        if quantize not in UNQUANTIZED:
            raise BadInput(f"quantize = {quantize!r}: only the engine ctranslate2 quantises")
        return TorchEngine.load(runs, configs, codec.target.forbidden_ids(), device)

    if engine == "torch" or (engine == "auto" and _on_gpu(device)):
        return with_torch()
    try:
        fast = _with_ctranslate2(runs, configs, codec, device, quantize)
    except (MissingExtra, BadInput, OSError) as error:
        if engine == "ctranslate2" or quantize not in UNQUANTIZED:
            raise
        if isinstance(error, OSError):  # no folder for the export can be written
            logger.warning("the engine ctranslate2 cannot be used (%s): torch translates", error)
        return with_torch()
    return fast if engine == "ctranslate2" else WithFallback(fast, with_torch)


def _with_ctranslate2(
    runs: Sequence[Path],
    configs: Sequence[RunConfig],
    codec: Codec,
    device: str,
    quantize: str,
) -> Engine:
    from transduce.translation.engines.ctranslate2 import CTranslate2Engine

    if device not in ("auto", "cpu"):
        raise BadSetting(
            f"device = {device!r}: the engine ctranslate2 is for the cpu, torch for others"
        )
    if len(runs) > 1:
        raise BadInput("the engine ctranslate2 searches with one model; use the engine torch")
    return CTranslate2Engine.load(runs[0], configs[0], codec, quantize)


class WithFallback:
    """An engine, and another for what it cannot do, which is loaded when first needed."""

    def __init__(self, engine: Engine, load_fallback: Callable[[], Engine]) -> None:
        self.engine = engine
        self.name, self.batch = engine.name, engine.batch
        self._load_fallback = load_fallback
        self._fallback: Engine | None = None

    @property
    def fallback(self) -> Engine:
        """The engine that can do everything."""
        self._fallback = self._fallback or self._load_fallback()
        return self._fallback

    def search(
        self, jobs: Sequence[Job], config: SearchConfig, batch: int
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield each job's index and its hypotheses."""
        engine = self.fallback if config.sample else self.engine
        return engine.search(jobs, config, batch)

    def lanes(self) -> Sequence[Engine]:
        """Return engines that may search at the same time; none of them samples."""
        return self.engine.lanes()

    def score(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[list[float]]:
        """Return the log-probability of each token of given targets, </s> included."""
        return self.engine.score(pairs)

    def align(self, pairs: Sequence[tuple[Ints, Ints]]) -> list[npt.NDArray[np.float32]]:
        """Return how much each target token attends to each source token."""
        return self.engine.align(pairs)


def _on_gpu(device: str) -> bool:
    if device == "cpu" or (device == "auto" and not may_have_cuda()):
        return False
    from transduce.system.devices import choose_device

    return choose_device(device).type != "cpu"
