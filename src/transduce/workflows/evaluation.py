"""The last step of a recipe: translate and score the test set.

The results are written to the run folder:

    test.hyp           the translations, line by line
    evaluation.json    the scores with their signatures, the test set and the settings

A stored result is reused if the weights, the test set and the settings are unchanged.
"""

import dataclasses
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transduce.errors import MissingExtra
from transduce.evaluation import scores
from transduce.evaluation.scores import Score
from transduce.recipes.recipe import EvaluationSettings, Files
from transduce.runs.arrays import stored_digest
from transduce.runs.folder import MODEL, WRITTEN_IN, RunConfig
from transduce.runs.locks import locked_run
from transduce.system.files import (
    checksum,
    read_checksummed,
    remove_leftovers,
    sha256,
    write_checksummed,
    write_text_file,
)
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt
from transduce.text.languages import Pair
from transduce.text.reading import read_pairs
from transduce.translation.translator import Translator

FORMAT = 1
EVALUATION, TRANSLATIONS = "evaluation.json", "test.hyp"
STOPPED = (
    "stopped while translating the test set; the model is trained and saved: run the same command "
    "to evaluate it"
)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of a run on its test set."""

    of: str  # a hash of the weights, the test set and the settings
    test: list[str]  # the files
    sentences: int
    weights: str  # a description of the weights
    search: dict[str, Any]
    scores: list[Score]
    missing: str = ""  # the reason, if the paper's BLEU was requested but is missing
    translations: str  # the hash of TRANSLATIONS

    def lines(self) -> list[str]:
        """Return the scores as text, each with its signature."""
        return [*map(str, self.scores), *([self.missing] if self.missing else [])]

    def save(self, run: Path) -> None:
        """Write evaluation.json to the run folder."""
        write_checksummed(run / EVALUATION, {"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def load(cls, run: Path) -> Self | None:
        """Return the stored evaluation; None if it or its translations are missing or changed."""
        if not (run / EVALUATION).exists():
            return None
        value = read_checksummed(run / EVALUATION, FORMAT, "an evaluation")
        names = {field.name for field in dataclasses.fields(cls)}
        fields = {name: value[name] for name in value if name in names}
        stored = cls(**fields | {"scores": [Score(**score) for score in value["scores"]]})
        path = run / TRANSLATIONS
        return stored if path.is_file() and sha256(path) == stored.translations else None


def evaluate(
    run: Path,
    test: Files,
    settings: EvaluationSettings,
    *,
    languages: Pair,
    device: str,
    progress: Progress,
) -> Evaluation:
    """Translate and score the test set; return the stored result if nothing has changed.

    `languages` are those of the test set, of a model of several pairs.
    """
    config = RunConfig.load(run)
    direction = languages if config.pairs else config.languages
    pairs = list(read_pairs(*test, languages=direction))
    fingerprint = checksum(
        {
            "weights": stored_digest(config.verified(run, MODEL)),
            "pairs": [list(pair) for pair in pairs],
            **dataclasses.asdict(settings),
            "paper": settings.paper and _has_sacremoses(),
        }
    )
    with signals_as_interrupt(STOPPED), locked_run(run):
        remove_leftovers(run, *WRITTEN_IN)
        stored = Evaluation.load(run)
        if stored and stored.of == fingerprint:
            return stored
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        hypotheses = _translate(run, sources, settings, direction, device, progress)
        results, missing = _score(hypotheses, references, settings, direction[1])
        write_text_file(run / TRANSLATIONS, "".join(line + "\n" for line in hypotheses))
        evaluation = Evaluation(
            of=fingerprint,
            test=[str(path) for path in test if path],
            sentences=len(pairs),
            weights=config.weights,
            search=settings.search.to_json(),
            scores=results,
            missing=missing,
            translations=sha256(run / TRANSLATIONS),
        )
        evaluation.save(run)
    return evaluation


def _translate(
    run: Path,
    sources: list[str],
    settings: EvaluationSettings,
    direction: Pair,
    device: str,
    progress: Progress,
) -> list[str]:
    source, target = direction
    translator = Translator.load(run, device=device).directed(to=target, source=source)
    search = settings.search.to_json()
    with progress.track("translating the test set", len(sources), "sentences") as advance:
        translations = translator.stream(sources, split=False, advance=advance, **search)
        return [translation.text for translation in translations]


def _score(
    hypotheses: list[str], references: list[str], settings: EvaluationSettings, language: str
) -> tuple[list[Score], str]:
    """Return the scores, and why the paper's BLEU is missing if it was requested."""
    samples = settings.confidence
    results = scores.score(hypotheses, references, language=language, confidence=samples)
    if not settings.paper:
        return results, ""
    try:
        paper = scores.paper_bleu(hypotheses, references, language, confidence=samples)
    except MissingExtra as error:
        return results, f"{error}; then run the same command to add it"
    return [*results, paper], ""


def _has_sacremoses() -> bool:
    return importlib.util.find_spec("sacremoses") is not None
