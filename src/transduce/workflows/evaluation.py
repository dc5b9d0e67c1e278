"""The end of a recipe: the test text translated and scored, kept in the run folder.

    test.hyp           the translations, line n for line n
    evaluation.json    the scores with their signatures, and what they were measured of

What is there is shown again for as long as it belongs to the weights, the test text and the search
of now.
"""

import dataclasses
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transduce.errors import BadRun, MissingExtra
from transduce.evaluation import scores
from transduce.evaluation.scores import Score
from transduce.recipes.recipe import EvaluationSettings, Files
from transduce.runs.arrays import stored_digest
from transduce.runs.folder import MODEL, WRITTEN_IN, RunConfig
from transduce.runs.locks import locked_run
from transduce.settings.types import dataclass_from_json
from transduce.system.files import (
    atomic_write,
    checksum,
    read_checksummed,
    remove_leftovers,
    sha256,
    write_checksummed,
)
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt
from transduce.text.reading import read_pairs
from transduce.translation.translator import Translator

FORMAT = 1
EVALUATION, TRANSLATIONS = "evaluation.json", "test.hyp"
STOPPED = "stopped while the test text was being translated; the model is trained and saved: the "
STOPPED += "same command evaluates it"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What came of a run on its test text."""

    of: str  # a hash of the weights, the text and how it was translated and scored
    test: list[str]  # the files
    sentences: int
    weights: str  # in words
    search: dict[str, Any]
    scores: list[Score]
    missing: str = ""  # why the paper's BLEU was asked for and is not among them
    translations: str  # the hash of TRANSLATIONS

    def lines(self) -> list[str]:
        """Return the scores for people to read, each with its signature."""
        return [*map(str, self.scores), *([self.missing] if self.missing else [])]

    def save(self, run: Path) -> None:
        """Write it into the run folder."""
        write_checksummed(run / EVALUATION, {"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def load(cls, run: Path) -> Self | None:
        """Read what `save` wrote, if it is there and the translations are."""
        if not (run / EVALUATION).exists():
            return None
        value = read_checksummed(run / EVALUATION, FORMAT, "an evaluation")
        try:
            known = dataclass_from_json(
                cls, {name: one for name, one in value.items() if name != "format"}
            )
            scores = [dataclass_from_json(Score, one) for one in value["scores"]]
        except TypeError as error:
            raise BadRun(f"{run / EVALUATION} is damaged: {error}; delete it") from None
        own = run / TRANSLATIONS
        whole = own.is_file() and sha256(own) == known.translations
        return dataclasses.replace(known, scores=scores) if whole else None


def evaluate(
    run: Path, test: Files, measure: EvaluationSettings, *, device: str, progress: Progress
) -> Evaluation:
    """Translate the test text and score it, or return what was found before of the same."""
    config = RunConfig.load(run)
    pairs = list(read_pairs(*test))
    of = checksum(
        {
            "weights": stored_digest(config.verified(run, MODEL)),
            "pairs": [list(pair) for pair in pairs],
            "search": measure.search.to_json(),
            "confidence": measure.confidence,
            "paper": measure.paper and _can_count_as_the_paper(),
        }
    )
    with signals_as_interrupt(STOPPED), locked_run(run):
        remove_leftovers(run, *WRITTEN_IN)
        known = Evaluation.load(run)
        if known and known.of == of:
            return known
        sources, references = [source for source, _ in pairs], [target for _, target in pairs]
        hypotheses = _translated(run, sources, measure, device, progress)
        found, missing = _scored(hypotheses, references, measure, config.languages[1])
        with atomic_write(run / TRANSLATIONS) as beside:
            text = "".join(line + "\n" for line in hypotheses)
            beside.write_text(text, encoding="utf-8", newline="\n")
        evaluation = Evaluation(
            of=of,
            test=[str(path) for path in test if path],
            sentences=len(pairs),
            weights=config.weights,
            search=measure.search.to_json(),
            scores=found,
            missing=missing,
            translations=sha256(run / TRANSLATIONS),
        )
        evaluation.save(run)
    return evaluation


def _translated(
    run: Path, sources: list[str], measure: EvaluationSettings, device: str, progress: Progress
) -> list[str]:
    translator = Translator.load(run, device=device)
    settings = measure.search.to_json()
    with progress.track("translating the test text", len(sources), "sentences") as advance:
        found = translator.stream(sources, split=False, advance=advance, **settings)
        return [one.text for one in found]


def _scored(
    hypotheses: list[str], references: list[str], measure: EvaluationSettings, language: str
) -> tuple[list[Score], str]:
    """Return the scores, and why the paper's is not among them if it should be."""
    samples = measure.confidence
    found = scores.score(hypotheses, references, language=language, confidence=samples)
    if not measure.paper:
        return found, ""
    try:
        own = scores.paper_bleu(hypotheses, references, language, confidence=samples)
    except MissingExtra as error:
        return found, f"{error}; then the same command adds it"
    return [*found, own], ""


def _can_count_as_the_paper() -> bool:
    return importlib.util.find_spec("sacremoses") is not None
