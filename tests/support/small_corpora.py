"""Small texts and the corpora made of them."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transduce.config import TrainConfig
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import (
    Corpus,
    Split,
)
from transduce.subwords import EOS, Codec
from transduce.system.progress import Advance, Silent
from transduce.text.corpora import CorpusText

Pair = tuple[str, str]


TRAIN = TrainConfig(vocabulary=400)


class Listener(Silent):
    """Records the lines printed and the progress of each task."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done: dict[str, int] = {}

    def say(self, text: str) -> None:
        self.lines.append(text)

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        assert unit == "pairs"
        self.done[what] = 0

        def advance(units: int) -> None:
            self.done[what] += units

        yield advance
        assert total in (None, self.done[what])


def make_pairs(number: int, seed: int = 0) -> list[Pair]:
    """Return different pairs of short sentences."""
    rng = random.Random(seed)
    words = ["der", "die", "das", "Hund", "Katze", "Straße", "läuft", "sieht", "漢字", "grün"]
    return [
        (
            f"{n} " + " ".join(rng.choices(words, k=5)),
            " ".join(rng.choices(words, k=6)) + f" {n}",
        )
        for n in range(number)
    ]


def write_tsv(path: Path, pairs: list[Pair]) -> Path:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8", newline="\n")
    return path


def make(text: Path | str, folder: Path, **changes: Any) -> Corpus:
    """Prepare a corpus from one TSV with settings for small texts."""
    arguments = {"languages": ("en", "de"), "train": TRAIN, "max_len": 100, **changes}
    return prepare([CorpusText(text, arguments.pop("target", None))], folder, **arguments)


def decode_pairs(split: Split, codec: Codec) -> list[Pair]:
    pairs = [split.pair(index) for index in range(len(split))]
    for sentences in pairs:
        for ids in sentences:
            assert ids[-1] == EOS
            assert EOS not in ids[:-1]
    return [(codec.source.decode(source), codec.target.decode(target)) for source, target in pairs]


def prepare_three_hundred(folder: Path) -> tuple[list[Pair], Path]:
    """Return pairs and the folder of their corpus, which tests must not change."""
    pairs = make_pairs(300)
    make(write_tsv(folder / "text.tsv", pairs), folder / "corpus")
    return pairs, folder / "corpus"
