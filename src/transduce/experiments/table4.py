"""Table 4: a parser of ours beside the paper's (6.3)."""

import dataclasses
import itertools

from transduce.experiments.findings import Finding, Picture, Table
from transduce.experiments.paper_numbers import TABLE_4
from transduce.experiments.parser_experiment import GOLD, PARSED, PARSER, Experiment, Result, Scores
from transduce.parsing.drawing import draw
from transduce.parsing.trees import Tree, read_trees, unescape
from transduce.system.formatting import format_duration, pluralize
from transduce.system.progress import Progress

SHOWN = range(8, 15)  # words of the sentence whose tree is drawn
SAID = (
    "A Transformer of 4 layers with d_model 1024, told nothing about trees, parses the Wall Street "
    "Journal with an F1 of 91.3 when trained on its 40,000 sentences alone, and of 92.7 with 17 "
    "million more that other parsers had parsed; beam 21, alpha 0.3, outputs at most 300 symbols "
    "longer than the input."
)


def table4(experiment: Experiment, progress: Progress) -> Finding:
    """Train a parser, choose its weights, score it once, and put it beside the paper's."""
    experiment.open(progress)
    result = experiment.run(progress)
    return Finding(
        name="table4",
        title="Table 4: constituency parsing",
        said=SAID,
        tables=(_beside(experiment, result), _details(result)),
        pictures=_pictures(experiment),
        notes=_notes(experiment, result),
        data=dataclasses.asdict(result),
    )


def _beside(experiment: Experiment, result: Result) -> Table:
    theirs = tuple((one.name, one.training, "WSJ section 23", f"{one.F1}") for one in TABLE_4)
    layers = result.model["N"]
    ours = (
        f"Transformer, {pluralize(layers, 'layer')}, d_model {result.model['d_model']}: here",
        f"{experiment.train.name}, {pluralize(result.trees, 'tree')}",
        experiment.test.name,
        f"{result.test.all.f1:.2f}",
    )
    return Table(
        "Labelled F1, as EVALB counts it with Collins' settings",
        ("parser", "trained on", "scored on", "F1"),
        (*theirs, ours),
    )


def _details(result: Result) -> Table:
    def row(name: str, scores: Scores) -> tuple[str, ...]:
        every, short = scores.all, scores.short
        share = 100 * scores.well_formed / max(1, scores.sentences)
        return (
            name,
            f"{scores.sentences:,}",
            *(f"{one:.2f}" for one in (every.recall, every.precision, every.f1, short.f1)),
            *(f"{one:.2f}" for one in (every.exact, every.no_crossing, scores.tagging)),
            f"{share:.2f}" if scores.well_formed < scores.sentences else "100",
            f"{scores.sentences / max(scores.seconds, 1e-9):,.1f}",
        )

    columns = (
        *("trees", "sentences", "recall", "precision", "F1", "F1 up to 40 words"),
        *("all brackets right", "none crosses", "tags right", "well-formed", "sentences/s"),
    )
    return Table("In percent", columns, (row("validation", result.valid), row("test", result.test)))


def _notes(experiment: Experiment, result: Result) -> tuple[str, ...]:
    tried = "; ".join(f"{words}: {f1:.2f}" for words, f1 in result.candidates.items())
    recipe, test = result.recipe, result.test
    written = "XX, its tag masked" if experiment.masked else "its tag, which the parser predicts"
    both = f"{experiment.folder / GOLD} {experiment.folder / PARSED}"
    notes = [
        (
            f"F1 {test.all.f1:.2f} on {test.sentences:,} test sentences. The trees are not the "
            "paper's, so the numbers stand beside each other and do not compete."
        ),
        (
            f"{pluralize(result.steps, 'step')} of {recipe['batch_tokens']:,} tokens a side in "
            f"{format_duration(result.seconds)}; the paper does not say how long it trained its "
            "parser. "
            f"{result.parameters / 1e6:.1f}M parameters, d_model {result.model['d_model']} (the "
            "paper: 1024)."
        ),
        f"Chosen on the validation trees by F1 ({tried}); the test trees were parsed once.",
        (
            f"Traces and function tags were stripped. A word is written as {written}; scored are "
            "the brackets, over the gold tags, for EVALB leaves punctuation out by tag."
        ),
        f"`evalb -p COLLINS.prm {both}` finds the same numbers.",
        f"`transduce parse {experiment.folder / PARSER}` parses sentences with it.",
    ]
    if test.too_long or result.valid.too_long:
        notes.append(
            f"{result.valid.too_long} validation and {test.too_long} test sentences are longer "
            f"than the model's {result.model['max_len']} subwords: each was scored as a tree "
            "without constituents."
        )
    return tuple(notes)


def _pictures(experiment: Experiment) -> tuple[Picture, ...]:
    """Draw the parse of the first test sentence that is neither short nor long."""
    gold, guesses = (read_trees(experiment.folder / name) for name in (GOLD, PARSED))
    pairs = zip(gold, guesses, strict=True)
    found = next(((a, b) for a, b in pairs if len(a.words()) in SHOWN), None)
    if found is None:
        return ()
    return (Picture(_caption(*found), draw(found[1])),)


def _caption(gold: Tree, guess: Tree) -> str:
    right = "as a person drew it" if gold == guess else "not quite as a person drew it"
    words = " ".join(unescape(word) for word in itertools.islice(guess.words(), 6))
    return f"What the parser made of “{words} …”, {right}"
