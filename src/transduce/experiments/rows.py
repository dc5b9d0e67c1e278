"""One training run of an experiment: its texts, its settings and its result."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.corpus.inputs import InputFile
from transduce.errors import BadInput
from transduce.system.files import checksum
from transduce.text.languages import guess_languages
from transduce.text.reading import STDIN

Text = tuple[str | Path, str | Path | None]  # two files, or one TSV file


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """The texts of an experiment."""

    train: Text
    valid: Text | None = None  # None: held out from the training text
    test: Text | None = None  # None: the validation set
    languages: str | None = None

    @property
    def files(self) -> list[InputFile]:
        """The files: training, validation, test."""
        texts = [text for text in (self.train, self.valid, self.test) if text]
        paths = [Path(path) for text in texts for path in text if path]
        return [InputFile(path, str(path.resolve())) for path in paths]

    def require(self) -> None:
        """Refuse texts that cannot be read several times."""
        for file in self.files:
            if str(file.path) != STDIN and not file.path.exists():
                raise BadInput(f"{file.path} does not exist: expected a text file")
            if not file.path.is_file():
                raise BadInput(
                    f"{file.path} is not a file: expected one, because several trainings read it"
                )
        self.pair()  # refuses unknown languages

    def pair(self) -> tuple[str, str]:
        """Return the two languages."""
        return guess_languages(*self.train, self.languages)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One training run of an experiment."""

    name: str
    preset: str
    settings: Mapping[str, str]  # including the shared ones

    @property
    def fingerprint(self) -> str:
        """A checksum of its settings."""
        return checksum({"preset": self.preset, "settings": dict(self.settings)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The result of a row."""

    name: str
    preset: str
    fingerprint: str  # of its settings
    bleu: float
    low: float
    high: float
    signature: str
    perplexity: float  # per subword of the validation set, at the last step
    parameters: int
    steps: int
    epochs: float
    seconds: float
    tokens_per_second: float  # target tokens, median of the logged values
    flops: float  # of training, counted from the layers
    model: dict[str, Any]
    recipe: dict[str, Any]  # the settings of training
    curve: list[dict[str, float]]  # step, seconds, valid_perplexity, valid_bleu if measured
    machine: dict[str, Any]

    @property
    def brief(self) -> dict[str, Any]:
        """The measured numbers, without settings, curve and machine."""
        left_out = ("name", "preset", "model", "recipe", "curve", "machine")
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in left_out}
