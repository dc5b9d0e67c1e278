"""The sides of a comparison of translation: our engines, and peers on the same weights.

Each is made in a process of its own (sides.py) and imports what it needs there alone, so that what
one library costs at its start is not paid by another.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from transduce.bench.hardware import peak_memory, synchronise
from transduce.bench.workers import Work
from transduce.config import SearchConfig


class Text(Protocol):
    """What translates lines."""

    device: str
    path: str  # how it works, in words

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate all lines, as fast as can be."""


class Translated(NamedTuple):
    """What the clock saw of translating all lines at once."""

    seconds: float
    outputs: list[str]
    peak_memory: int  # of the process until now


class Ours:
    """One of our engines."""

    def __init__(
        self,
        run: Path,
        engine: str,
        device: str,
        search: SearchConfig,
        batch: int | None,
        *,
        split: bool = False,
    ) -> None:
        from transduce.translation.translator import Translator

        name, _, quantize = engine.partition(":")
        self.translator = Translator.load(
            run, device=device, engine=name, quantize=quantize or "none"
        )
        self.path = self.translator.engine.name
        self.device = "cuda" if "cuda" in self.path else "cpu"
        self.settings: dict[str, Any] = {"beam": search.beam, "alpha": search.alpha}
        self.batch, self.split = batch, split

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate all lines."""
        found = self.translator.translate(
            lines, batch=self.batch, split=self.split, **self.settings
        )
        return [one.text for one in found]


class HuggingFace:
    """MarianMTModel.generate on sorted batches, in half precision on a GPU."""

    def __init__(self, folder: Path, device: str, search: SearchConfig, batch: int | None) -> None:
        import torch
        from transformers import AutoTokenizer, MarianMTModel
        from transformers.utils.logging import disable_progress_bar

        from transduce.system.devices import choose_device
        from transduce.system.processes import cores

        disable_progress_bar()  # of loading: ours is the only one
        on = choose_device(device, mps=False)
        self.device = on.type
        if on.type == "cpu":
            torch.set_num_threads(cores())
        dtype = torch.float16 if on.type == "cuda" else torch.float32
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = MarianMTModel.from_pretrained(folder, dtype=dtype).to(on).eval()
        self.search, self.batch = search, batch or (256 if on.type == "cuda" else 32)
        self.path = f"MarianMTModel.generate on {on.type}, {str(dtype).removeprefix('torch.')}"

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate all lines, similar lengths side by side."""
        import torch

        ids = self.tokenizer(list(lines))["input_ids"]
        by_length = sorted(range(len(lines)), key=lambda i: -len(ids[i]))
        outputs = [""] * len(lines)
        for begin in range(0, len(lines), self.batch):
            some = by_length[begin : begin + self.batch]
            padded = self.tokenizer.pad({"input_ids": [ids[i] for i in some]}, return_tensors="pt")
            with torch.inference_mode():
                found = self.model.generate(
                    **padded.to(self.device),
                    num_beams=self.search.beam,
                    length_penalty=self.search.alpha,
                    max_new_tokens=min(
                        padded["input_ids"].shape[1] + self.search.extra,
                        self.model.config.max_position_embeddings - 1,
                    ),
                    max_length=None,
                )
            decoded = self.tokenizer.batch_decode(found, skip_special_tokens=True)
            for i, text in zip(some, decoded, strict=True):
                outputs[i] = text.strip()
        return outputs


class CTranslate2:
    """CTranslate2 as its users call it: one call with all lines, which sorts and batches them."""

    BATCH = 32

    def __init__(
        self, folder: Path, compute_type: str, search: SearchConfig, batch: int | None
    ) -> None:
        import ctranslate2
        from tokenizers import Tokenizer

        from transduce.system.processes import cores

        self.device = "cpu"
        self.source, self.target = (
            Tokenizer.from_file(str(own if own.exists() else folder / "tokenizer.json"))
            for own in (folder / "source_tokenizer.json", folder / "target_tokenizer.json")
        )
        self.translator: Any = ctranslate2.Translator(
            str(folder),
            device="cpu",
            compute_type=compute_type,
            inter_threads=cores(),
            intra_threads=1,
        )
        self.ids = self.target.get_vocab()
        self.search, self.batch = search, batch or self.BATCH
        self.path = f"CTranslate2 on cpu, {compute_type}"

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate all lines."""
        encoded = self.source.encode_batch(list(lines), add_special_tokens=False)
        found = self.translator.translate_batch(
            [one.tokens for one in encoded],
            beam_size=self.search.beam,
            length_penalty=self.search.alpha,
            max_batch_size=self.batch,
        )
        ids = [[self.ids[token] for token in one.hypotheses[0]] for one in found]
        return [text.strip() for text in self.target.decode_batch(ids)]


def translating(make: Any, first: str, *arguments: Any) -> tuple[str, Work]:
    """Make a side and translate a first line; it answers lists of lines, and single ones."""
    side: Text = make(*arguments)
    side.translate([first])

    def work(request: tuple[str, Sequence[str]]) -> Any:
        how, lines = request
        if how == "each":
            return _each(side, lines)
        began = time.perf_counter()
        outputs = side.translate(lines)
        synchronise(side.device)
        return Translated(time.perf_counter() - began, outputs, peak_memory(side.device))

    return side.path, work


def _each(side: Text, lines: Sequence[str]) -> list[float]:
    """Translate one line after the other; return the seconds of each."""
    seconds = []
    for line in lines:
        began = time.perf_counter()
        side.translate([line])
        seconds.append(time.perf_counter() - began)
    return seconds
