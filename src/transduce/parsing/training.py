"""Train a parser on trees, as in the paper: it translates words to symbols (6.3).

RUN/trees/
  manifest.json              the trees that the run was started with
  train.words, train.symbols   line n of one belongs to line n of the other
  automatic.words, automatic.symbols   trees that parsers made, if there are any
  valid.words, valid.symbols
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transduce.config import SearchConfig, TrainConfig
from transduce.corpus.inputs import InputFile, require_rereadable
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadRun, BadSetting
from transduce.parsing.lexicon import Lexicon
from transduce.parsing.sequences import to_symbols
from transduce.parsing.trees import normalize, read_trees
from transduce.presets import find_preset
from transduce.runs.folder import WRITTEN_IN, RunConfig
from transduce.runs.locks import locked_run
from transduce.settings.base import Value
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
from transduce.text.corpora import CorpusText
from transduce.text.reading import read_lines
from transduce.training.settings import configure
from transduce.training.train import merge_settings, train

FORMAT = 1
FOLDER, MANIFEST = "trees", "manifest.json"
PRESET = "parse-small"
SEARCH = SearchConfig(beam=21, alpha=0.3, extra=300)  # (6.3)
PARTS = {"train": "training", "automatic": "automatic", "valid": "validation"}  # kinds of trees
OTHERWISE = "use the same, or choose another folder"


def train_parser(
    trees: str | Path,
    *,
    out: str | Path,
    valid: str | Path | None = None,
    masked: bool = False,
    automatic: str | Path | None = None,
    weight: float = 1.0,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Value] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Path:
    """Train a parser on a file of trees in brackets, and return its run folder.

    Without `valid`, some of the trees are held out. With `masked`, the model predicts constituents
    but not the tags of words. `automatic` is a second file of trees, which parsers made: in an
    epoch, each is seen `weight` times on average, and each tree of the first file once. The other
    arguments are as for `train`. Called again with the same arguments, it resumes an interrupted
    run.

    >>> from transduce import train_parser
    >>> run = train_parser("train.trees", out="runs/new-parser", valid="dev.trees")
    >>> run.name
    'new-parser'
    """
    run, name, progress = Path(out), preset or PRESET, progress or Silent()
    _, config = configure(find_preset(name), merge_settings(settings, steps=steps), None)
    work = _TreeFiles(run, Path(trees), _path(automatic), _path(valid), masked)
    corpora = work.corpora(weight)
    work.require_usable()
    if not work.done():
        if world_size() > 1:
            raise BadSetting(
                "trees are read in one process: run this without torchrun until the parser is "
                "being trained, then stop it and resume with torchrun"
            )
        with signals_as_interrupt(), locked_run(run):
            remove_leftovers(run, *WRITTEN_IN)
            work.write(progress)
    return train(
        corpora=corpora,
        out=run,
        valid=work.pair("valid") if work.valid else None,
        languages="words-trees",
        codec=work.codec(config, progress),
        search=SEARCH,
        task="parsing",
        preset=name,
        steps=steps,
        settings=settings,
        device=device,
        progress=progress,
    )


@dataclasses.dataclass(frozen=True)
class _TreeFiles:
    """The trees to train on, and the folder where they are stored as pairs of lines."""

    run: Path
    trees: Path
    automatic: Path | None
    valid: Path | None
    masked: bool

    @property
    def folder(self) -> Path:
        return self.run / FOLDER

    @property
    def files(self) -> dict[str, InputFile]:
        """The files of trees, by part (train, automatic, valid)."""
        given = {"train": self.trees, "automatic": self.automatic, "valid": self.valid}
        return {part: InputFile(path, str(path.resolve())) for part, path in given.items() if path}

    @property
    def learned_from(self) -> list[str]:
        """The parts that are training text."""
        return [part for part in self.files if part != "valid"]

    def corpora(self, weight: float) -> list[CorpusText]:
        """Return the training text: the trees of the first file, and automatic ones with a weight.

        Differs: the paper does not say in which proportion its parser saw the two kinds of trees.
        """
        if self.automatic is None:
            return [CorpusText(*self.pair("train"))]
        automatic = CorpusText(*self.pair("automatic"), weight=weight, name="automatic")
        return [CorpusText(*self.pair("train"), name="gold"), automatic]

    def pair(self, part: str) -> tuple[Path, Path]:
        return self.folder / f"{part}.words", self.folder / f"{part}.symbols"

    def require_usable(self) -> None:
        """Refuse files that cannot be read again, and folders of runs that are not parsers."""
        require_rereadable((file.path for file in self.files.values()), "a file of trees")
        if (self.run / "config.json").exists():
            RunConfig.load(self.run).require("parsing", self.run)

    def done(self) -> bool:
        """Return whether all trees are written as pairs; refuse arguments that have changed."""
        path = self.folder / MANIFEST
        if not path.exists():
            return False
        expected = {"masked": bool, "inputs": dict[str, dict[str, Any]]}
        before = read_checksummed(path, FORMAT, "the trees of a parser", expected)
        old = {part: InputRecord(**record) for part, record in before["inputs"].items()}
        for name in itertools.chain(*map(self.pair, PARTS)):
            require_regular(name)
        if before["masked"] != self.masked:
            was, now = ("masked", "kept") if before["masked"] else ("kept", "masked")
            raise BadRun(f"{self.run} was started with tags {was}, not {now}: {OTHERWISE}")
        for part, kind in PARTS.items():
            if (part in old) != (part in self.files):
                began = "with" if part in old else "without"
                raise BadRun(f"{self.run} was started {began} {kind} trees: {OTHERWISE}")
        for part, file in self.files.items():
            if not file.matches(old[part]):
                raise BadRun(
                    f"{file.path} holds other trees than {old[part].path}, which {self.run} was "
                    f"started with: {OTHERWISE}"
                )
        return True

    def write(self, progress: Progress) -> None:
        """Write the trees as pairs of lines, then the manifest."""
        for part, file in self.files.items():
            words, symbols = self.pair(part)
            written = empty = 0
            with (
                progress.track(f"reading {file.path}", None, "trees") as advance,
                atomic_write(words) as words_temporary,
                atomic_write(symbols) as symbols_temporary,
                words_temporary.open("w", encoding="utf-8", newline="\n") as sources,
                symbols_temporary.open("w", encoding="utf-8", newline="\n") as targets,
            ):
                for tree in map(normalize, read_trees(file.path)):
                    advance(1)
                    if tree is None:
                        empty += 1
                        continue
                    sources.write(" ".join(tree.words()) + "\n")
                    targets.write(" ".join(to_symbols(tree, masked=self.masked)) + "\n")
                    written += 1
            left_out = f"; {empty:,} without words are left out" if empty else ""
            progress.say(f"{file.path}: {pluralize(written, 'tree')}{left_out}")
        inputs = {part: dataclasses.asdict(file.to_record()) for part, file in self.files.items()}
        write_checksummed(
            self.folder / MANIFEST, {"format": FORMAT, "masked": self.masked, "inputs": inputs}
        )

    def codec(self, config: TrainConfig, progress: Progress) -> Codec:
        """Return the run's subwords (for words) and symbols (for trees); learn them if missing."""
        if (self.run / "subwords.json").exists():
            return Codec.load(self.run / "subwords.json")
        words, symbols = self.pair("train")
        size = config.vocabulary or default_vocabulary_size(sum(map(len, self._lines(0))))
        assert config.subwords != "sentencepiece"  # only imported models use it
        codec = Codec(
            Subwords.learn(self._lines(0), size, config.subwords), Symbols.learn(self._lines(1))
        )
        # The tags of automatic trees were restricted by such a lexicon themselves.
        Lexicon.learn(read_lines(words), read_lines(symbols)).save(self.run / "lexicon.json")
        progress.say(
            f"learned {len(codec.source):,} subwords; trees are written in "
            f"{len(codec.target):,} symbols"
        )
        if self.valid:
            ids = (codec.target.encode(line) for line in read_lines(self.pair("valid")[1]))
            if unknown := sum(line.count(UNK) for line in ids):
                progress.say(
                    f"{unknown:,} symbols of the validation trees are not in the training trees"
                )
        return codec

    def _lines(self, side: int) -> Iterator[str]:
        """Yield the words (side 0) or the symbols (side 1) of all training text."""
        for part in self.learned_from:
            yield from read_lines(self.pair(part)[side])


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
