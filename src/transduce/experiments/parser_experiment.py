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
from transduce.config import SearchConfig
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
from transduce.parsing.training import PRESET, SEARCH, train_parser
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


def scores_from_json(fields: dict[str, Any]) -> Scores:
    """Make scores from the fields in a file."""
    return Scores(**fields | {name: Parseval(**fields[name]) for name in ("all", "short")})


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
        return cls(valid=scores_from_json(valid), test=scores_from_json(test), **fields)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights that were chosen on the validation trees."""

    candidates: dict[str, float]  # F1, by weights
    chosen: str
    valid: Scores


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
    beam: int | None = None  # for validation and test trees; None: the paper's
    device: str = "auto"

    @property
    def files(self) -> list[InputFile]:
        """The tree files."""
        paths = (self.train, self.valid, self.test)
        return [InputFile(path, str(path.resolve())) for path in paths]

    def open(self, progress: Progress) -> None:
        """Create the folder, or refuse one that was created with a different setup."""
        self.open_with({}, [], progress)

    def open_with(
        self, options: Mapping[str, Any], more: Sequence[InputFile], progress: Progress
    ) -> None:
        """Create or continue the folder of an experiment with further options and files."""
        for file in self.files:
            if not file.path.is_file():
                problem = "is not a file" if file.path.exists() else "does not exist"
                raise BadInput(f"{file.path} {problem}: expected a file of trees")
        files, shared = [*self.files, *more], self._shared(options)
        if (self.folder / EXPERIMENT).exists():
            require_same(self.folder, shared, files)
            return
        configure(find_preset(self.preset), self.settings, None)
        self.search.check()
        require_new(self.folder)
        choose_device(self.device)
        for file in self.files:  # bad trees are reported before anything is trained
            with progress.track(f"reading {file.path}", None, "trees") as advance:
                for _ in read_trees(file.path):
                    advance(1)
        begin(self.folder, shared, files)

    def _shared(self, options: Mapping[str, Any]) -> dict[str, Any]:
        more = dict(options) | ({} if self.beam is None else {"beam": self.beam})
        return {
            "experiment": "table4",
            "preset": self.preset,
            "masked": self.masked,
            "settings": dict(sorted(self.settings.items())),
            **({"options": more} if more else {}),
        }

    @property
    def search(self) -> SearchConfig:
        """The search for validation and test trees."""
        return SEARCH if self.beam is None else SEARCH.replace(beam=self.beam)

    def scheduled_settings(self, settings: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the settings; if the number of steps is set, with a schedule that fits it."""
        settings = dict(self.settings if settings is None else settings)
        if "steps" not in settings:
            return settings
        _, config = configure(find_preset(self.preset), settings, None)
        assert config.steps is not None
        fitting = schedule(config.steps, config, VALIDATIONS, SAVES)
        if RATES & settings.keys():
            fitting = {name: value for name, value in fitting.items() if name not in RATES}
        return {**fitting, **settings}

    def run(self, progress: Progress) -> Result:
        """Train and score the parser unless that is done already; return the result."""
        if (self.folder / RESULT).exists():
            return read_result(self.folder, Result.from_json)
        run = self.train_run(self.folder / PARSER, self.train, progress)
        with signals_as_interrupt():
            weights = self.choose_weights(run, progress)
            gold = gold_trees(self.test)
            guesses, test = self.score([run], gold, "test", progress)
        write_lines(self.folder / GOLD, gold)
        write_lines(self.folder / PARSED, guesses)
        result = self.describe(run, self.train, weights, test)
        save_result(self.folder, result)
        return result

    def train_run(
        self,
        run: Path,
        trees: Path,
        progress: Progress,
        *,
        settings: Mapping[str, str] | None = None,
        automatic: Path | None = None,
        weight: float = 1.0,
    ) -> Path:
        """Train a parser in a run folder, by default with the settings of the experiment."""
        return train_parser(
            trees,
            out=run,
            valid=self.valid,
            masked=self.masked,
            automatic=automatic,
            weight=weight,
            preset=self.preset,
            settings=self.scheduled_settings(settings),
            device=self.device,
            progress=progress,
        )

    def score(
        self, runs: Sequence[Path], gold: Sequence[Tree], what: str, progress: Progress
    ) -> tuple[list[Tree], Scores]:
        """Score a parser, or an ensemble of parsers that search jointly; see `score_parser`."""
        first, *others = runs
        parser = Parser.load(first, others=others, device=self.device)
        parser.config = dataclasses.replace(parser.config, search=self.search)
        return score_parser(parser, gold, what, progress)

    def describe(self, run: Path, trees: Path, weights: Weights, test: Scores) -> Result:
        """Return the result of a parser that was trained on some trees."""
        config, newest = RunConfig.load(run), last_checkpoint(run)
        assert newest is not None
        state = newest.state()
        return Result(
            candidates=weights.candidates,
            chosen=weights.chosen,
            valid=weights.valid,
            test=test,
            trees=sum(1 for _ in read_trees(trees)),
            parameters=count_parameters(config.model),
            steps=state["step"],
            seconds=state["seconds"],
            model=config.model.to_json(),
            recipe=config.train.to_json(),
            machine=hardware.describe(config.device, cores(), ["torch"]),
        )

    def choose_weights(self, run: Path, progress: Progress) -> Weights:
        """Make the weights with the best F1 on the validation trees the parser's weights."""
        config, gold = RunConfig.load(run), gold_trees(self.valid)
        best = load_tensors(run / "best.safetensors"), "best validation loss"
        candidates: dict[str, tuple[Any, Scores]] = {}
        for tensors, name in (average_checkpoints(run, config.train.average), best):
            save_model(run, config, tensors, name)
            _, scores = self.score([run], gold, name, progress)
            candidates[name] = tensors, scores
        chosen = max(candidates, key=lambda name: candidates[name][1].all.f1)
        tensors, scores = candidates[chosen]
        save_model(run, config, tensors, chosen)
        return Weights(
            {name: each.all.f1 for name, (_, each) in candidates.items()}, chosen, scores
        )


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
