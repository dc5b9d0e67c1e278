"""Table 4: our parser compared with the paper's (6.3)."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

from transduce.experiments.findings import Finding, Picture, Table
from transduce.experiments.paper_numbers import TABLE_4
from transduce.experiments.parser_experiment import (
    GOLD,
    PARSED,
    PARSER,
    ParserExperiment,
    Result,
    Scores,
)
from transduce.parsing.drawing import draw
from transduce.parsing.trees import Tree, read_trees, unescape
from transduce.system.formatting import format_duration, pluralize
from transduce.system.progress import Progress

DRAWN_LENGTHS = range(8, 15)  # words of a sentence whose tree is drawn
SAID = (
    "A Transformer of 4 layers with d_model 1024, with no knowledge of trees built in, parses the "
    "Wall Street Journal with an F1 of 91.3 when trained on its 40,000 sentences alone, and of "
    "92.7 with 17 million more that other parsers had parsed; beam 21, alpha 0.3, outputs at most "
    "300 symbols longer than the input."
)


def table4(experiment: ParserExperiment, progress: Progress) -> Finding:
    """Train a parser, choose its weights, score it once, and compare it with the paper's."""
    experiment.open(progress)
    result = experiment.run(progress)
    return Finding(
        name="table4",
        title="Table 4: constituency parsing",
        said=SAID,
        tables=(_comparison(experiment, result), _details(result)),
        pictures=pictures(experiment),
        notes=_notes(experiment, result),
        data=dataclasses.asdict(result),
    )


def _comparison(experiment: ParserExperiment, result: Result) -> Table:
    ours = (
        name_of(result),
        f"{experiment.train.name}, {pluralize(result.trees, 'tree')}",
        experiment.test.name,
        f"{result.test.all.f1:.2f}",
    )
    return beside_the_papers([ours])


def name_of(result: Result) -> str:
    """Return the name of a parser in the table."""
    layers = pluralize(result.model["N"], "layer")
    return f"Transformer, {layers}, d_model {result.model['d_model']}: here"


def beside_the_papers(ours: Sequence[tuple[str, str, str, str]]) -> Table:
    """Return the rows of the paper's Table 4, and rows of our own."""
    theirs = tuple(
        (parser.name, parser.training, "WSJ section 23", f"{parser.F1}") for parser in TABLE_4
    )
    return Table(
        "Labelled F1, as EVALB counts it with Collins' settings",
        ("parser", "trained on", "scored on", "F1"),
        (*theirs, *ours),
    )


def _details(result: Result) -> Table:
    return details([("validation", result.valid), ("test", result.test)])


def details(rows: Sequence[tuple[str, Scores]]) -> Table:
    """Return all scores of parsers on sets of trees."""

    def row(name: str, scores: Scores) -> tuple[str, ...]:
        every, short = scores.all, scores.short
        percentages = (
            *(every.recall, every.precision, every.f1, short.f1),
            *(every.exact, every.no_crossing, scores.tagging),
        )
        well_formed = 100 * scores.well_formed / max(1, scores.sentences)
        return (
            *(name, f"{scores.sentences:,}", *(f"{value:.2f}" for value in percentages)),
            f"{well_formed:.2f}" if scores.well_formed < scores.sentences else "100",
            f"{scores.sentences / max(scores.seconds, 1e-9):,.1f}",
        )

    columns = (
        *("trees", "sentences", "recall", "precision", "F1", "F1 up to 40 words"),
        *("all brackets right", "none crosses", "tags right", "well-formed", "sentences/s"),
    )
    return Table("In percent", columns, tuple(row(*each) for each in rows))


def _notes(experiment: ParserExperiment, result: Result) -> tuple[str, ...]:
    candidates = "; ".join(f"{name}: {f1:.2f}" for name, f1 in result.candidates.items())
    recipe, test = result.recipe, result.test
    tree_files = f"{experiment.folder / GOLD} {experiment.folder / PARSED}"
    notes = [
        (
            f"F1 {test.all.f1:.2f} on {test.sentences:,} test sentences. The trees are not the "
            "paper's, so the numbers are not directly comparable."
        ),
        (
            f"{pluralize(result.steps, 'step')} of {recipe['batch_tokens']:,} tokens per side in "
            f"{format_duration(result.seconds)}; the paper does not say how long it trained its "
            f"parser. {result.parameters / 1e6:.1f}M parameters, d_model "
            f"{result.model['d_model']} (the paper: 1024)."
        ),
        f"Chosen on the validation trees by F1 ({candidates}); the test trees were parsed once.",
        note_on_trees(experiment),
        *note_on_beam(experiment),
        f"`evalb -p COLLINS.prm {tree_files}` finds the same numbers.",
        f"`transduce parse {experiment.folder / PARSER}` parses sentences with it.",
    ]
    if test.too_long or result.valid.too_long:
        notes.append(
            f"{result.valid.too_long} validation and {test.too_long} test sentences are longer "
            f"than the model's {result.model['max_len']} subwords: each was scored as a tree "
            "without constituents."
        )
    return tuple(notes)


def note_on_trees(experiment: ParserExperiment) -> str:
    """Describe how trees were written and scored."""
    written = "XX, its tag masked" if experiment.masked else "its tag, which the parser predicts"
    return (
        f"Traces and function tags were stripped. A word is written as {written}; brackets are "
        "scored with the gold tags, because EVALB excludes punctuation by tag."
    )


def note_on_beam(experiment: ParserExperiment) -> tuple[str, ...]:
    """Say so if the beam is not the paper's."""
    if experiment.beam is None:
        return ()
    return (f"Validation and test trees were parsed with beam {experiment.beam} (the paper: 21).",)


def pictures(experiment: ParserExperiment, row: str = "") -> tuple[Picture, ...]:
    """Draw the parse of the first test sentence of medium length; `row` is a folder of parses."""
    names = (Path(GOLD), Path(row) / PARSED)
    gold_trees, guesses = (read_trees(experiment.folder / name) for name in names)
    for gold, guess in zip(gold_trees, guesses, strict=True):
        if len(gold.words()) in DRAWN_LENGTHS:
            return (Picture(_caption(gold, guess), draw(guess)),)
    return ()


def _caption(gold: Tree, guess: Tree) -> str:
    verdict = "equal to the gold tree" if gold == guess else "not equal to the gold tree"
    words = " ".join(unescape(word) for word in itertools.islice(guess.words(), 6))
    return f"The parser's tree of “{words} …”, {verdict}"
