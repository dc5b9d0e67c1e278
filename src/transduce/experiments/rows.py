"""One training of an experiment: its texts, its settings, and what came of it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transduce.corpus.inputs import InputFile
from transduce.errors import BadInput, BadRun
from transduce.settings.types import dataclass_from_json
from transduce.system.files import checksum, read_checksummed, write_checksummed
from transduce.text import reading as text
from transduce.text.reading import STDIN

FORMAT = 1
RESULT = "result.json"

Text = tuple[str | Path, str | Path | None]  # two files, or a TSV


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """The texts of an experiment."""

    train: Text
    valid: Text | None = None  # none: held out of the training text
    test: Text | None = None  # none: the validation set
    languages: str | None = None

    @property
    def files(self) -> list[InputFile]:
        """The files, in an order that tells what each is for."""
        given = [one for both in (self.train, self.valid, self.test) if both for one in both if one]
        return [InputFile(Path(path), str(Path(path).resolve())) for path in given]

    def require(self) -> None:
        """Refuse what cannot be read again, for several trainings and after a stop."""
        for file in self.files:
            if str(file.path) != STDIN and not file.path.exists():
                raise BadInput(f"{file.path} does not exist: expected a text file")
            if not file.path.is_file():
                raise BadInput(
                    f"{file.path} is no file: expected one, for several trainings read it"
                )
        self.pair()  # refuses languages that cannot be read

    def pair(self) -> tuple[str, str]:
        """Return the two languages."""
        return text.guess_languages(*self.train, self.languages)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One training of an experiment."""

    name: str
    preset: str
    settings: Mapping[str, str]  # of this row, the shared ones included

    @property
    def fingerprint(self) -> str:
        """What tells its settings from others."""
        return checksum({"preset": self.preset, "settings": dict(self.settings)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What came out of a row."""

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
    tokens_per_second: float  # of the target, the median of what was logged
    flops: float  # of training, counted from the layers
    model: dict[str, Any]
    recipe: dict[str, Any]
    curve: list[dict[str, float]]  # step, seconds, valid_perplexity, valid_bleu where measured
    machine: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        value = read_checksummed(folder / RESULT, FORMAT, "results")
        value.pop("format")
        try:
            return dataclass_from_json(cls, value)
        except TypeError as error:
            raise BadRun(f"{folder / RESULT} is of another version: {error}") from None

    @property
    def brief(self) -> dict[str, Any]:
        """The numbers, without what they were measured with."""
        left_out = ("name", "preset", "model", "recipe", "curve", "machine")
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in left_out}

    def save(self, folder: Path) -> None:
        """Write result.json."""
        write_checksummed(folder / RESULT, {"format": FORMAT, **dataclasses.asdict(self)})
