"""From trees to a parser: what is trained is what the paper trained, words to symbols (6.3).

RUN/trees/
  manifest.json              which trees these were
  train.words, train.symbols   line n of one is line n of the other
  valid.words, valid.symbols
"""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.config import SearchConfig, TrainConfig
from transduce.corpus.inputs import InputFile
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.parsing.lexicon import Lexicon
from transduce.parsing.sequences import to_symbols
from transduce.parsing.trees import normalize, read_trees
from transduce.presets import find_preset
from transduce.runs.folder import WRITTEN_IN, RunConfig
from transduce.runs.locks import locked_run
from transduce.settings.base import Value
from transduce.settings.types import dataclass_from_json
from transduce.subwords import UNK, Codec, Subwords, Symbols, default_vocabulary_size
from transduce.system.files import (
    atomic_write,
    read_checksummed,
    remove_leftovers,
    require_regular,
    write_checksummed,
)
from transduce.system.formatting import pluralize
from transduce.system.processes import world_size
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.reading import STDIN, read_lines
from transduce.training.settings import configure
from transduce.training.train import merge_settings, train

FORMAT = 1
FOLDER, MANIFEST = "trees", "manifest.json"
PRESET = "parse-small"
SEARCH = SearchConfig(beam=21, alpha=0.3, extra=300)  # (6.3)
OTHERWISE = "go on with the same, or choose another folder"


def train_parser(
    trees: str | Path,
    *,
    out: str | Path,
    valid: str | Path | None = None,
    masked: bool = False,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Value] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Path:
    """Train a parser on a file of trees in brackets, and return its run folder.

    Without `valid`, a part of the trees is held out. With `masked`, the model tells only where
    constituents are, and of a word not its tag. The rest is as for `train`; what was stopped goes
    on when it is called with the same arguments again.

    >>> from transduce import train_parser
    >>> run = train_parser("train.trees", out="runs/new-parser", valid="dev.trees")
    >>> run.name
    'new-parser'
    """
    told, run, name = progress or Silent(), Path(out), preset or PRESET
    _, recipe = configure(find_preset(name), merge_settings(settings, steps=steps), None)
    work = _Work(run, Path(trees), Path(valid) if valid is not None else None, masked)
    work.require_usable()
    if not work.done():
        if world_size() > 1:
            raise BadSetting(
                "trees are read in one process: run this without torchrun until the parser is "
                "being trained, then stop it and go on with torchrun"
            )
        with signals_as_interrupt(), locked_run(run):
            remove_leftovers(run, *WRITTEN_IN)
            work.write(told)
    return train(
        *work.pair("train"),
        out=run,
        valid=work.pair("valid") if work.valid else None,
        languages="words-trees",
        codec=work.codec(recipe, told),
        search=SEARCH,
        task="parsing",
        preset=name,
        steps=steps,
        settings=settings,
        device=device,
        progress=told,
    )


@dataclasses.dataclass(frozen=True)
class _Work:
    """Which trees are learned from, and the folder that holds them as pairs of lines."""

    run: Path
    trees: Path
    valid: Path | None
    masked: bool

    @property
    def folder(self) -> Path:
        return self.run / FOLDER

    @property
    def files(self) -> dict[str, InputFile]:
        """The files of trees, by the part that they are for."""
        given = {"train": self.trees} | ({"valid": self.valid} if self.valid else {})
        return {part: InputFile(path, str(path.resolve())) for part, path in given.items()}

    def pair(self, part: str) -> tuple[Path, Path]:
        return self.folder / f"{part}.words", self.folder / f"{part}.symbols"

    def require_usable(self) -> None:
        """Refuse what cannot be read again when the work goes on, and folders of other runs."""
        for file in self.files.values():
            if str(file.path) != STDIN and not file.path.exists():
                raise BadInput(f"{file.path} does not exist: expected a file of trees")
            if not file.path.is_file():
                raise BadInput(
                    f"{file.path} is no file: expected one, for this goes on after a stop "
                    "and reads it again"
                )
        if (self.run / "config.json").exists():
            RunConfig.load(self.run).require("parsing", self.run)

    def done(self) -> bool:
        """Tell whether all trees are written as pairs; refuse what was begun with others."""
        path = self.folder / MANIFEST
        if not path.exists():
            return False
        expected = {"masked": bool, "inputs": dict[str, dict[str, Any]]}
        before = read_checksummed(path, FORMAT, "what trees these are", expected)
        try:
            old = {
                part: dataclass_from_json(InputRecord, one)
                for part, one in before["inputs"].items()
            }
        except TypeError as error:
            raise BadRun(f"{path} is damaged: {error}") from None
        for name in itertools.chain(self.pair("train"), self.pair("valid")):
            require_regular(name)
        if before["masked"] != self.masked:
            kept, asked = ("masked", "kept") if before["masked"] else ("kept", "masked")
            raise BadRun(f"{self.run} was begun with tags {kept}, not {asked}: {OTHERWISE}")
        if old.keys() != self.files.keys():
            raise BadRun(
                f"{self.run} was begun {'with' if 'valid' in old else 'without'} validation trees: "
                f"{OTHERWISE}"
            )
        for part, file in self.files.items():
            if not file.matches(old[part]):
                raise BadRun(
                    f"{file.path} holds other trees than {old[part].path}, which {self.run} was "
                    f"begun with: {OTHERWISE}"
                )
        return True

    def write(self, progress: Progress) -> None:
        """Write the trees as pairs of lines, and last which trees they were."""
        for part, file in self.files.items():
            words, symbols = self.pair(part)
            kept = empty = 0
            with (
                progress.track(f"reading {file.path}", None, "trees") as advance,
                atomic_write(words) as left,
                atomic_write(symbols) as right,
                left.open("w", encoding="utf-8", newline="\n") as sources,
                right.open("w", encoding="utf-8", newline="\n") as targets,
            ):
                for tree in map(normalize, read_trees(file.path)):
                    advance(1)
                    if tree is None:
                        empty += 1
                        continue
                    sources.write(" ".join(tree.words()) + "\n")
                    targets.write(" ".join(to_symbols(tree, masked=self.masked)) + "\n")
                    kept += 1
            without = f"; {empty:,} without words are left out" if empty else ""
            progress.say(f"{file.path}: {pluralize(kept, 'tree')}{without}")
        inputs = {part: dataclasses.asdict(one.to_record()) for part, one in self.files.items()}
        write_checksummed(
            self.folder / MANIFEST, {"format": FORMAT, "masked": self.masked, "inputs": inputs}
        )

    def codec(self, recipe: TrainConfig, progress: Progress) -> Codec:
        """Return the subwords of the words, and the symbols of the trees: the run's, or new."""
        if (self.run / "subwords.json").exists():
            return Codec.load(self.run / "subwords.json")
        words, symbols = self.pair("train")
        size = recipe.vocabulary or default_vocabulary_size(sum(map(len, read_lines(words))))
        assert recipe.subwords != "sentencepiece"  # which no setting can ask for
        codec = Codec(
            Subwords.learn(read_lines(words), size, recipe.subwords),
            Symbols.learn(read_lines(symbols)),
        )
        Lexicon.learn(read_lines(words), read_lines(symbols)).save(self.run / "lexicon.json")
        progress.say(
            f"learned {len(codec.source):,} subwords; trees are written in "
            f"{len(codec.target):,} symbols"
        )
        if self.valid:
            ids = (codec.target.encode(line) for line in read_lines(self.pair("valid")[1]))
            if unknown := sum(one.count(UNK) for one in ids):
                progress.say(
                    f"{unknown:,} symbols of the validation trees are in none of the training trees"
                )
        return codec
