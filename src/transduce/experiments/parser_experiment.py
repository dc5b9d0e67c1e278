"""A parser that is trained on trees, chosen on some and scored once on others (paper 6.3).

DIR/
  experiment.json      the trees and the settings
  parser/              the run folder of the parser
  result.json          what came out; where it is, nothing is trained or scored again
  test.gold.trees      what EVALB would be given, to find the same numbers
  test.parsed.trees
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transduce.bench import hardware
from transduce.checkpoints.checkpoint import average_checkpoints, load_tensors, save_model
from transduce.corpus.inputs import InputFile
from transduce.errors import BadInput, BadRun
from transduce.experiments.budget import schedule
from transduce.experiments.experiment_folder import (
    BEGUN,
    require_experiment,
    require_fields,
    require_files,
    require_new,
    require_settings,
)
from transduce.model.architecture import count_parameters
from transduce.parsing.evaluation import CUTOFF, Parseval, score_tree, summarize
from transduce.parsing.parser import Parser
from transduce.parsing.sequences import replace_tags
from transduce.parsing.training import PRESET, train_parser
from transduce.parsing.trees import TOP, Tree, normalize, parse_trees, read_trees
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig, last_checkpoint
from transduce.settings.types import dataclass_from_json
from transduce.system.devices import choose_device
from transduce.system.files import atomic_write, read_checksummed, write_checksummed
from transduce.system.processes import cores
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt
from transduce.training.settings import settled

FORMAT = 1
EXPERIMENT, RESULT, PARSER = "experiment.json", "result.json", "parser"
RATES = frozenset({"warmup", "lr_scale", "cooldown"})
VALIDATIONS, SAVES = 20, 50  # in a training whose steps are set
GOLD, PARSED = "test.gold.trees", "test.parsed.trees"


@dataclass(frozen=True, slots=True)
class Scores:
    """How a parser did on some trees."""

    sentences: int
    words: int
    all: Parseval
    short: Parseval  # sentences of at most 40 words
    tagging: float  # percent of all words, with the tags that the parser gave
    well_formed: int  # trees, read again, over exactly the words that were given
    too_long: int  # for the parser: these got a tree without constituents
    seconds: float

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `asdict` made."""
        scores = dataclass_from_json(cls, value)
        parts: dict[str, Any] = {
            name: dataclass_from_json(Parseval, value[name]) for name in ("all", "short")
        }
        return dataclasses.replace(scores, **parts)


@dataclass(frozen=True, slots=True)
class Result:
    """What came out."""

    candidates: dict[str, float]  # weights in words, and their F1 on the validation trees
    chosen: str
    valid: Scores
    test: Scores
    trees: int  # trained on
    parameters: int
    steps: int
    seconds: float
    model: dict[str, Any]
    recipe: dict[str, Any]
    machine: dict[str, Any]

    def save(self, folder: Path) -> None:
        """Write result.json."""
        write_checksummed(folder / RESULT, {"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        value = read_checksummed(folder / RESULT, FORMAT, "results")
        value.pop("format")
        try:
            result = dataclass_from_json(cls, value)
            parts: dict[str, Any] = {
                name: Scores.of_json(value[name]) for name in ("valid", "test")
            }
            return dataclasses.replace(result, **parts)
        except TypeError as error:
            raise BadRun(f"{folder / RESULT} is of another version: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A folder in which one parser is trained, chosen and scored."""

    folder: Path
    train: Path
    valid: Path
    test: Path
    preset: str = PRESET
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    masked: bool = False
    device: str = "auto"

    @property
    def files(self) -> list[InputFile]:
        """The files of trees."""
        given = (self.train, self.valid, self.test)
        return [InputFile(path, str(path.resolve())) for path in given]

    def open(self, progress: Progress) -> None:
        """Begin the folder, or refuse one that was begun with something else."""
        for file in self.files:
            if not file.path.is_file():
                found = "is no file" if file.path.exists() else "does not exist"
                raise BadInput(f"{file.path} {found}: expected a file of trees")
        path = self.folder / EXPERIMENT
        if path.exists():
            self._require_same(read_checksummed(path, FORMAT, "an experiment", BEGUN))
            return
        settled(find_preset(self.preset), self.settings, None)
        require_new(self.folder)
        choose_device(self.device)
        for file in self.files:  # what is wrong with trees is said before anything is trained
            with progress.track(f"reading {file.path}", None, "trees") as advance:
                for _ in read_trees(file.path):
                    advance(1)
        inputs = [dataclasses.asdict(file.to_record()) for file in self.files]
        write_checksummed(path, {"format": FORMAT, **self._shared(), "inputs": inputs})

    def _shared(self) -> dict[str, Any]:
        return {
            "experiment": "table4",
            "preset": self.preset,
            "masked": self.masked,
            "settings": dict(sorted(self.settings.items())),
        }

    def _require_same(self, before: Mapping[str, Any]) -> None:
        now = self._shared()
        require_experiment(self.folder, before["experiment"], now["experiment"])
        require_fields(self.folder / EXPERIMENT, before, {"preset": str, "masked": bool})
        old, new = (
            {"preset": one["preset"], "masked": one["masked"], **one["settings"]}
            for one in (before, now)
        )
        require_settings(self.folder, old, new)
        require_files(self.folder, before["inputs"], self.files, "trees")

    def paced(self) -> dict[str, str]:
        """Return the settings, with a schedule that fits the steps where those are set."""
        if "steps" not in self.settings:
            return dict(self.settings)
        _, recipe = settled(find_preset(self.preset), self.settings, None)
        assert recipe.steps is not None
        fitting = schedule(recipe.steps, recipe, VALIDATIONS, SAVES)
        if RATES & self.settings.keys():
            fitting = {name: value for name, value in fitting.items() if name not in RATES}
        return {**fitting, **self.settings}

    def run(self, progress: Progress) -> Result:
        """Do what is not done yet."""
        if (self.folder / RESULT).exists():
            return Result.load(self.folder)
        run = train_parser(
            self.train,
            out=self.folder / PARSER,
            valid=self.valid,
            masked=self.masked,
            preset=self.preset,
            settings=self.paced(),
            device=self.device,
            progress=progress,
        )
        with signals_as_interrupt():
            candidates, chosen, valid = self._choose(run, progress)
            gold = trees_of(self.test)
            guesses, test = scored(Parser.load(run, device=self.device), gold, "test", progress)
        write_trees(self.folder / GOLD, gold)
        write_trees(self.folder / PARSED, guesses)
        config, newest = RunConfig.load(run), last_checkpoint(run)
        assert newest is not None
        state = newest.state()
        result = Result(
            candidates=candidates,
            chosen=chosen,
            valid=valid,
            test=test,
            trees=sum(1 for _ in read_trees(self.train)),
            parameters=count_parameters(config.model),
            steps=state["step"],
            seconds=state["seconds"],
            model=config.model.to_json(),
            recipe=config.train.to_json(),
            machine=hardware.describe(config.device, cores(), ["torch"]),
        )
        result.save(self.folder)
        return result

    def _choose(self, run: Path, progress: Progress) -> tuple[dict[str, float], str, Scores]:
        """Make those weights the parser's that do best on the validation trees."""
        config, gold = RunConfig.load(run), trees_of(self.valid)
        best = load_tensors(run / "best.safetensors"), "best validation loss"
        found: dict[str, tuple[Any, Scores]] = {}
        for tensors, words in (average_checkpoints(run, config.train.average), best):
            save_model(run, config, tensors, words)
            _, scores = scored(Parser.load(run, device=self.device), gold, words, progress)
            found[words] = tensors, scores
        chosen = max(found, key=lambda words: found[words][1].all.f1)
        save_model(run, config, found[chosen][0], chosen)
        candidates = {words: scores.all.f1 for words, (_, scores) in found.items()}
        return candidates, chosen, found[chosen][1]


def trees_of(path: Path) -> list[Tree]:
    """Read trees as parsers are scored on them; those without words are left out."""
    return [tree for tree in map(normalize, read_trees(path)) if tree is not None]


def write_trees(path: Path, trees: Sequence[Tree]) -> None:
    """Write one tree a line."""
    with atomic_write(path) as beside:
        beside.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8", newline="\n")


def scored(
    parser: Parser, gold: Sequence[Tree], what: str, progress: Progress
) -> tuple[list[Tree], Scores]:
    """Parse the words of trees and compare; return the parses with the gold tags, and the scores.

    EVALB leaves punctuation out by its tags, so both trees must have the same: the gold ones.
    """
    words = [tree.words() for tree in gold]
    short = [parser.fits(one) for one in words]
    began = time.monotonic()
    with progress.track(f"parsing ({what})", len(gold), "sentences") as advance:
        found = iter(
            parser.parse_words(
                [one for one, fits in zip(words, short, strict=True) if fits], advance=advance
            )
        )
    seconds = time.monotonic() - began
    guesses, tags, right = [], 0, 0
    for tree, fits in zip(gold, short, strict=True):
        leaves = tree.leaves()
        guess = next(found) if fits else Tree(TOP, tuple(leaves))
        assert guess is not None
        tags += len(leaves)
        right += sum(
            fits and one.label == other.label
            for one, other in zip(leaves, guess.leaves(), strict=True)
        )
        guesses.append(replace_tags(guess, [leaf.label for leaf in leaves]))
    marks = [score_tree(one, other) for one, other in zip(gold, guesses, strict=True)]
    again = parse_trees(map(str, guesses), what)
    return guesses, Scores(
        sentences=len(gold),
        words=tags,
        all=summarize(marks),
        short=summarize(marks, CUTOFF),
        tagging=100 * right / max(1, tags),
        well_formed=sum(one == other.words() for one, other in zip(words, again, strict=True)),
        too_long=short.count(False),
        seconds=seconds,
    )
