"""Train a parser on trees, choose its weights on validation trees, score it once (paper 6.3).

DIR/
  experiment.json      the trees and the settings
  parser/              the run folder of the parser
  result.json          the scores; if it exists, nothing is trained or scored again
  test.gold.trees      for EVALB, which gives the same scores
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
from transduce.errors import BadInput
from transduce.experiments.budget import schedule
from transduce.experiments.experiment_folder import (
    EXPERIMENT,
    RESULT,
    begin,
    read_result,
    require_new,
    require_same,
    save_result,
    write_lines,
)
from transduce.model.architecture import count_parameters
from transduce.parsing.evaluation import CUTOFF, Parseval, score_tree, summarize
from transduce.parsing.parser import Parser
from transduce.parsing.sequences import replace_tags
from transduce.parsing.training import PRESET, train_parser
from transduce.parsing.trees import TOP, Tree, normalize, parse_trees, read_trees
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig, last_checkpoint
from transduce.system.devices import choose_device
from transduce.system.processes import cores
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt
from transduce.training.settings import configure

PARSER, GOLD, PARSED = "parser", "test.gold.trees", "test.parsed.trees"
RATES = frozenset({"warmup", "lr_scale", "cooldown"})
VALIDATIONS, SAVES = 20, 50  # per training run, if its number of steps is set


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a parser on a set of trees."""

    sentences: int
    words: int
    all: Parseval
    short: Parseval  # sentences of at most 40 words
    tagging: float  # accuracy of the parser's own tags, in percent
    well_formed: int  # trees that can be read back and have exactly the given words
    too_long: int  # sentences too long for the parser: scored as trees without constituents
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The result of the experiment."""

    candidates: dict[str, float]  # F1 on the validation trees, by weights
    chosen: str
    valid: Scores
    test: Scores
    trees: int  # number of training trees
    parameters: int
    steps: int
    seconds: float
    model: dict[str, Any]
    recipe: dict[str, Any]  # the settings of training
    machine: dict[str, Any]

    @classmethod
    def from_json(cls, *, valid: dict[str, Any], test: dict[str, Any], **fields: Any) -> Self:
        """Make a result from the fields in result.json."""
        for scores in (valid, test):
            scores |= {name: Parseval(**scores[name]) for name in ("all", "short")}
        return cls(valid=Scores(**valid), test=Scores(**test), **fields)


@dataclass(frozen=True, kw_only=True)
class ParserExperiment:
    """A folder in which one parser is trained, its weights are chosen, and it is scored."""

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
        """The tree files."""
        paths = (self.train, self.valid, self.test)
        return [InputFile(path, str(path.resolve())) for path in paths]

    def open(self, progress: Progress) -> None:
        """Create the folder, or refuse one that was created with a different setup."""
        for file in self.files:
            if not file.path.is_file():
                problem = "is not a file" if file.path.exists() else "does not exist"
                raise BadInput(f"{file.path} {problem}: expected a file of trees")
        if (self.folder / EXPERIMENT).exists():
            require_same(self.folder, self._shared(), self.files)
            return
        configure(find_preset(self.preset), self.settings, None)
        require_new(self.folder)
        choose_device(self.device)
        for file in self.files:  # bad trees are reported before anything is trained
            with progress.track(f"reading {file.path}", None, "trees") as advance:
                for _ in read_trees(file.path):
                    advance(1)
        begin(self.folder, self._shared(), self.files)

    def _shared(self) -> dict[str, Any]:
        return {
            "experiment": "table4",
            "preset": self.preset,
            "masked": self.masked,
            "settings": dict(sorted(self.settings.items())),
        }

    def scheduled_settings(self) -> dict[str, str]:
        """Return the settings; if the number of steps is set, with a schedule that fits it."""
        if "steps" not in self.settings:
            return dict(self.settings)
        _, config = configure(find_preset(self.preset), self.settings, None)
        assert config.steps is not None
        fitting = schedule(config.steps, config, VALIDATIONS, SAVES)
        if RATES & self.settings.keys():
            fitting = {name: value for name, value in fitting.items() if name not in RATES}
        return {**fitting, **self.settings}

    def run(self, progress: Progress) -> Result:
        """Train and score the parser unless that is done already; return the result."""
        if (self.folder / RESULT).exists():
            return read_result(self.folder, Result.from_json)
        run = train_parser(
            self.train,
            out=self.folder / PARSER,
            valid=self.valid,
            masked=self.masked,
            preset=self.preset,
            settings=self.scheduled_settings(),
            device=self.device,
            progress=progress,
        )
        with signals_as_interrupt():
            candidates, chosen, valid = self._choose_weights(run, progress)
            gold = gold_trees(self.test)
            parser = Parser.load(run, device=self.device)
            guesses, test = score_parser(parser, gold, "test", progress)
        write_lines(self.folder / GOLD, gold)
        write_lines(self.folder / PARSED, guesses)
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
        save_result(self.folder, result)
        return result

    def _choose_weights(
        self, run: Path, progress: Progress
    ) -> tuple[dict[str, float], str, Scores]:
        """Make the weights with the best F1 on the validation trees the parser's weights."""
        config, gold = RunConfig.load(run), gold_trees(self.valid)
        best = load_tensors(run / "best.safetensors"), "best validation loss"
        candidates: dict[str, tuple[Any, Scores]] = {}
        for tensors, name in (average_checkpoints(run, config.train.average), best):
            save_model(run, config, tensors, name)
            parser = Parser.load(run, device=self.device)
            _, scores = score_parser(parser, gold, name, progress)
            candidates[name] = tensors, scores
        chosen = max(candidates, key=lambda name: candidates[name][1].all.f1)
        tensors, scores = candidates[chosen]
        save_model(run, config, tensors, chosen)
        return {name: scores.all.f1 for name, (_, scores) in candidates.items()}, chosen, scores


def gold_trees(path: Path) -> list[Tree]:
    """Read trees and normalize them for scoring; trees without words are left out."""
    return [tree for tree in map(normalize, read_trees(path)) if tree is not None]


def score_parser(
    parser: Parser, gold: Sequence[Tree], what: str, progress: Progress
) -> tuple[list[Tree], Scores]:
    """Parse the words of trees and score the parses; return parses with gold tags, and scores.

    EVALB excludes punctuation by its tag, so both trees must have the same tags: the gold ones.
    """
    words = [tree.words() for tree in gold]
    fits = [parser.fits(sentence) for sentence in words]
    fitting = [sentence for sentence, fit in zip(words, fits, strict=True) if fit]
    start = time.monotonic()
    with progress.track(f"parsing ({what})", len(gold), "sentences") as advance:
        parses = iter(parser.parse_words(fitting, advance=advance))
    seconds = time.monotonic() - start
    guesses, tags, correct_tags = [], 0, 0
    for tree, fit in zip(gold, fits, strict=True):
        leaves = tree.leaves()
        guess = next(parses) if fit else Tree(TOP, tuple(leaves))
        assert guess is not None
        tags += len(leaves)
        if fit:
            pairs = zip(leaves, guess.leaves(), strict=True)
            correct_tags += sum(leaf.label == guessed.label for leaf, guessed in pairs)
        guesses.append(replace_tags(guess, [leaf.label for leaf in leaves]))
    scores = [score_tree(tree, guess) for tree, guess in zip(gold, guesses, strict=True)]
    read_back = parse_trees(map(str, guesses), what)
    return guesses, Scores(
        sentences=len(gold),
        words=tags,
        all=summarize(scores),
        short=summarize(scores, CUTOFF),
        tagging=100 * correct_tags / max(1, tags),
        well_formed=sum(
            sentence == tree.words() for sentence, tree in zip(words, read_back, strict=True)
        ),
        too_long=fits.count(False),
        seconds=seconds,
    )
