"""The sides of a translation benchmark: our engines, and peers with the same weights.

Each runs in its own process and imports only its own library there, so that a library's start-up
time counts only for its side.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from transduce.bench.hardware import peak_memory, synchronise
from transduce.config import SearchConfig


class LineTranslator(Protocol):
    """A side that translates lines."""

    device: str
    path: str  # a description of the implementation

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate all lines in batches."""


class TimedTranslation(NamedTuple):
    """A timed translation of all lines."""

    seconds: float
    outputs: list[str]
    peak_memory: int  # bytes of the process so far


class OurEngine:
    """One of our engines."""

    def __init__(
        self,
        run: Path,
        engine: str,
        device: str,
        search: SearchConfig,
        batch: int | None,
        to: str | None = None,
        *,
        split: bool = False,
    ) -> None:
        from transduce.translation.translator import Translator

        name, _, quantize = engine.partition(":")
        self.translator = Translator.load(
            run, device=device, engine=name, quantize=quantize or "none"
        ).directed(to=to)
        self.path = self.translator.engine.name
        self.device = "cuda" if "cuda" in self.path else "cpu"
        self.settings: dict[str, Any] = {"beam": search.beam, "alpha": search.alpha}
        self.batch, self.split = batch, split

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate all lines."""
        translations = self.translator.translate(
            lines, batch=self.batch, split=self.split, **self.settings
        )
        return [translation.text for translation in translations]


class HuggingFace:
    """MarianMTModel.generate on sorted batches, in half precision on a GPU."""

    def __init__(self, folder: Path, device: str, search: SearchConfig, batch: int | None) -> None:
        import torch
        from transformers import AutoTokenizer, MarianMTModel
        from transformers.utils.logging import disable_progress_bar

        from transduce.system.devices import choose_device
        from transduce.system.processes import cores

        disable_progress_bar()  # it would mix with ours
        chosen = choose_device(device, mps=False)
        self.device = chosen.type
        if chosen.type == "cpu":
            torch.set_num_threads(cores())
        dtype = torch.float16 if chosen.type == "cuda" else torch.float32
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = MarianMTModel.from_pretrained(folder, dtype=dtype).to(chosen).eval()
        self.search, self.batch = search, batch or (256 if chosen.type == "cuda" else 32)
        self.path = f"MarianMTModel.generate on {chosen.type}, {str(dtype).removeprefix('torch.')}"

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate all lines in batches of similar length."""
        import torch

        ids = self.tokenizer(list(lines))["input_ids"]
        by_length = sorted(range(len(lines)), key=lambda i: -len(ids[i]))
        outputs = [""] * len(lines)
        for begin in range(0, len(lines), self.batch):
            batch = by_length[begin : begin + self.batch]
            padded = self.tokenizer.pad({"input_ids": [ids[i] for i in batch]}, return_tensors="pt")
            with torch.inference_mode():
                generated = self.model.generate(
                    **padded.to(self.device),
                    num_beams=self.search.beam,
                    length_penalty=self.search.alpha,
                    max_new_tokens=min(
                        padded["input_ids"].shape[1] + self.search.extra,
                        self.model.config.max_position_embeddings - 1,
                    ),
                    max_length=None,
                )
            decoded = self.tokenizer.batch_decode(generated, skip_special_tokens=True)
            for i, text in zip(batch, decoded, strict=True):
                outputs[i] = text.strip()
        return outputs


class CTranslate2:
    """CTranslate2 as its users call it: one call with all lines, which it sorts and batches."""

    BATCH = 32

    def __init__(
        self, folder: Path, compute_type: str, search: SearchConfig, batch: int | None
    ) -> None:
        import ctranslate2
        from tokenizers import Tokenizer

        from transduce.system.processes import cores

        self.device = "cpu"
        self.source, self.target = (
            Tokenizer.from_file(str(path if path.exists() else folder / "tokenizer.json"))
            for path in (folder / "source_tokenizer.json", folder / "target_tokenizer.json")
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
        results = self.translator.translate_batch(
            [encoding.tokens for encoding in encoded],
            beam_size=self.search.beam,
            length_penalty=self.search.alpha,
            max_batch_size=self.batch,
        )
        ids = [[self.ids[token] for token in result.hypotheses[0]] for result in results]
        return [text.strip() for text in self.target.decode_batch(ids)]


def start_translating(make: Any, first: str, *arguments: Any) -> tuple[LineTranslator, str]:
    """Create a side and translate a first line; return the side and its path."""
    side: LineTranslator = make(*arguments)
    side.translate([first])
    return side, side.path


def time_all(side: LineTranslator, lines: Sequence[str]) -> TimedTranslation:
    """Translate all lines at once."""
    start = time.perf_counter()
    outputs = side.translate(lines)
    synchronise(side.device)
    return TimedTranslation(time.perf_counter() - start, outputs, peak_memory(side.device))


def time_each(side: LineTranslator, lines: Sequence[str]) -> list[float]:
    """Translate line by line; return the seconds for each."""
    seconds = []
    for line in lines:
        start = time.perf_counter()
        side.translate([line])
        seconds.append(time.perf_counter() - start)
    return seconds
