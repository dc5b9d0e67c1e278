"""Table 4, semi-supervised: a parser that also learned from raw text, beside the paper's (6.3)."""

import dataclasses

from transduce.experiments.findings import Finding, Table
from transduce.experiments.parser_experiment import GOLD, PARSED, Result, Scores
from transduce.experiments.semi_supervised import (
    ENSEMBLE,
    FOLDERS,
    STUDENT,
    SUPERVISED,
    RawOptions,
    SemiResult,
    SemiSupervised,
)
from transduce.experiments.statistics import ResampledF1
from transduce.experiments.table4 import (
    SAID,
    beside_the_papers,
    details,
    name_of,
    note_on_beam,
    note_on_trees,
    pictures,
)
from transduce.parsing.automatic import Summary
from transduce.system.formatting import format_duration, pluralize
from transduce.system.progress import Progress

PAPERS_SENTENCES = 17_000_000
SETS = {"test": "test", "unseen": "unseen articles"}


def table4_semi(experiment: SemiSupervised, progress: Progress) -> Finding:
    """Train both parsers, score each once, and compare them with the paper's."""
    experiment.open(progress)
    result = experiment.run(progress)
    scores = experiment.resampled()
    return Finding(
        name="table4",
        title="Table 4: constituency parsing, supervised and semi-supervised",
        said=SAID,
        tables=(
            _comparison(experiment, result),
            _intervals(result, scores),
            _automatic(result.automatic),
            _details(result),
        ),
        pictures=pictures(experiment.base, STUDENT),
        notes=_notes(experiment, result, scores),
        data=_data(experiment, result, scores),
    )


def _trained(result: SemiResult, name: str) -> Result:
    trained = result.rows[name].result
    assert trained is not None
    return trained


def _sets(result: SemiResult, row: str) -> dict[str, Scores]:
    """Return a row's scores by set of trees."""
    scores = result.rows[row]
    return {"test": scores.test} | ({"unseen": scores.unseen} if scores.unseen else {})


def _comparison(experiment: SemiSupervised, result: SemiResult) -> Table:
    kept = pluralize(result.automatic.kept, "automatic tree")
    gold = f"{experiment.base.train.name}, {_trained(result, SUPERVISED).trees:,} gold trees"
    trained_on = {
        SUPERVISED: gold,
        ENSEMBLE: f"{gold}, with {experiment.raw.parsers} seeds",
        STUDENT: f"{gold} and {kept}: semi-supervised",
    }
    rows = []
    for row, scores in result.rows.items():
        name = name_of(scores.result or _trained(result, SUPERVISED))
        extra = ", an ensemble (no row of the paper is one)" if row == ENSEMBLE else ""
        test = experiment.base.test.name
        rows.append((name + extra, trained_on[row], test, f"{scores.test.all.f1:.2f}"))
    return beside_the_papers(rows)


def _intervals(result: SemiResult, scores: dict[str, ResampledF1]) -> Table:
    """Return each row's F1 with its interval, and its difference from the supervised parser."""
    columns, rows = ["parser"], [[row] for row in result.rows]
    for name, resampled in scores.items():
        columns += [f"{SETS[name]} F1", "minus supervised"]
        for row, cells in zip(result.rows, rows, strict=True):
            cells.append(resampled.estimate(row).show())
            cells.append("" if row == SUPERVISED else _difference(resampled, row))
    return Table(
        "F1 with 95% bootstrap intervals over sentences",
        tuple(columns),
        tuple(map(tuple, rows)),
    )


def _difference(resampled: ResampledF1, row: str) -> str:
    low, high = resampled.difference(row, SUPERVISED)
    value = resampled.whole[row] - resampled.whole[SUPERVISED]
    return f"{value:+.2f} ({low:+.2f} to {high:+.2f})"


def _automatic(summary: Summary) -> Table:
    """Return what became of the raw text, and how good the trees are if that is known."""
    words = {
        "kept": summary.kept_words,
        "discarded": summary.parsed_words - summary.kept_words,
        "all": summary.parsed_words,
    }
    counts = {
        "kept": summary.kept,
        "discarded": summary.parsed - summary.kept,
        "all": summary.parsed,
    }
    rows = []
    for name, count in counts.items():
        quality = summary.quality.get(name)
        scored = (f"{quality.f1:.2f}", f"{quality.sentences:,}") if quality else ("", "")
        rows.append((name, f"{count:,}", f"{words[name] / max(1, count):.1f}", *scored))
    return Table(
        "Automatic trees of the raw text",
        ("trees", "sentences", "words per sentence", "F1", "with gold trees"),
        tuple(rows),
    )


def _details(result: SemiResult) -> Table:
    rows: list[tuple[str, Scores]] = []
    for row, scores in result.rows.items():
        if scores.result:
            rows.append((f"{row}, validation", scores.result.valid))
        rows += [(f"{row}, {SETS[name]}", each) for name, each in _sets(result, row).items()]
    return details(rows)


def _notes(
    experiment: SemiSupervised, result: SemiResult, scores: dict[str, ResampledF1]
) -> tuple[str, ...]:
    student, teacher = _trained(result, STUDENT), _trained(result, SUPERVISED)
    gains = [
        f"{_difference(resampled, STUDENT)} on the {SETS[name]}"
        + (" trees" if name == "test" else "")
        for name, resampled in scores.items()
    ]
    notes = [
        (
            f"Semi-supervised minus supervised: {' and '.join(gains)} (the paper: 92.7 - 91.3 = "
            "+1.4). The intervals do not include the variation between seeds. The trees are not "
            "the paper's, so the numbers are not directly comparable."
        ),
        _raw_text(experiment, result.automatic),
        _selection(experiment.raw, result.automatic),
        *_quality(result.automatic),
        _mixture(experiment, result),
        (
            f"Supervised: {_training(teacher)}. Semi-supervised: {_training(student)}. The paper "
            "does not say how long it trained its parsers."
        ),
        _chosen({SUPERVISED: teacher, STUDENT: student}),
        note_on_trees(experiment.base),
        _not_in_the_paper(experiment),
        *note_on_beam(experiment.base),
        *_unseen(experiment, result),
    ]
    folder = experiment.folder
    parsed = folder / FOLDERS[STUDENT] / PARSED
    notes.append(f"`evalb -p COLLINS.prm {folder / GOLD} {parsed}` finds the same numbers.")
    notes.append(f"`transduce parse {folder / FOLDERS[STUDENT]}` parses sentences with it.")
    return tuple(notes)


def _not_in_the_paper(experiment: SemiSupervised) -> str:
    search = "The search is restricted to trees over exactly the words of the sentence"
    if experiment.base.masked:
        return f"{search}, which the paper does not mention."
    return (
        f"Two things are not in the paper. {search}, and a word that is frequent in the gold trees "
        "gets only tags that it has there."
    )


def _raw_text(experiment: SemiSupervised, summary: Summary) -> str:
    raw = experiment.raw
    sources = []
    if raw.gold is not None:
        sources.append("the words of other trees of the same file, whose brackets were not used")
    if raw.unlabelled:
        names = ", ".join(path.name for path in raw.unlabelled)
        sources.append(
            f"{names}, which is out of domain if it is not of the same kind of text as the trees"
        )
    left_out = ", ".join(
        f"{count:,} {what}"
        for count, what in (
            (summary.blank, "blank"),
            (summary.too_long, "too long"),
            (summary.held_out, "equal to a held-out sentence"),
        )
        if count
    )
    scale = PAPERS_SENTENCES / max(1, summary.kept)
    return (
        f"Raw text: {'; '.join(sources)}. {pluralize(summary.parsed, 'sentence')} of "
        f"{pluralize(summary.lines, 'line')} parsed"
        + (f" (left out: {left_out})" if left_out else "")
        + f"; {summary.kept:,} trees are used. The paper's 17 million sentences are {scale:,.0f} "
        "times as many."
    )


def _selection(raw: RawOptions, summary: Summary) -> str:
    several = (
        f"{raw.parsers} parsers, which differ in their seed, agree on "
        f"{pluralize(summary.agreed, 'sentence')} "
        f"(F1 of at least {100 * raw.agreement:g}% between them)"
        if raw.parsers > 1
        else "One parser made the trees"
    )
    return (
        f"{several}; kept is the most confident {raw.keep:.0%} of these: a geometric mean "
        f"probability of at least {summary.confidence:.3f} per symbol. Beam {raw.raw_beam}. The "
        "paper used trees that other kinds of parsers made."
    )


def _quality(summary: Summary) -> tuple[str, ...]:
    quality = summary.quality
    if not quality:
        return ()
    listed = ", ".join(f"{name} {each.f1:.2f}" for name, each in quality.items())
    return (
        f"F1 of the automatic trees where gold trees are known: {listed}. It chose no setting.",
    )


def _mixture(experiment: SemiSupervised, result: SemiResult) -> str:
    weight, kept = experiment.raw.weight, result.automatic.kept
    gold, student = _trained(result, STUDENT).trees, _trained(result, STUDENT).model
    automatic = round(weight * kept)
    share = automatic / max(1, automatic + gold)
    return (
        f"Weight of the automatic trees {weight:g}: an epoch has {pluralize(gold, 'gold tree')} "
        f"and about {pluralize(automatic, 'automatic tree')}, {share:.0%} of all. The "
        f"semi-supervised parser's {student['source_vocabulary']:,} subwords were learned from "
        f"both, the supervised one's {_trained(result, SUPERVISED).model['source_vocabulary']:,} "
        "from the gold trees (the paper: 32,000 and 16,000)."
    )


def _training(result: Result) -> str:
    return (
        f"{pluralize(result.steps, 'step')} of {result.recipe['batch_tokens']:,} tokens per side "
        f"in {format_duration(result.seconds)}, {result.parameters / 1e6:.1f}M parameters, d_model "
        f"{result.model['d_model']} (the paper: 1024)"
    )


def _chosen(rows: dict[str, Result]) -> str:
    listed = ". ".join(
        f"{name.capitalize()}: "
        + "; ".join(f"{weights}: {f1:.2f}" for weights, f1 in result.candidates.items())
        for name, result in rows.items()
    )
    return (
        f"Weights were chosen on the validation trees by F1. {listed}. Test trees were parsed once."
    )


def _unseen(experiment: SemiSupervised, result: SemiResult) -> tuple[str, ...]:
    unseen = result.rows[STUDENT].unseen
    if unseen is None:
        return ()
    return (
        (
            f"The unseen articles are {pluralize(unseen.sentences, 'tree')} at the end of "
            f"{experiment.base.train.name}: no parser saw them, neither as trees nor as raw text. "
            "An article in which a cut lies is on both sides of it, and sentences that also occur "
            "among the trees to learn from were left out."
        ),
    )


def _data(
    experiment: SemiSupervised, result: SemiResult, scores: dict[str, ResampledF1]
) -> dict[str, object]:
    estimates = {
        name: {
            row: {
                **dataclasses.asdict(resampled.estimate(row)),
                "minus_supervised": resampled.difference(row, SUPERVISED),
            }
            for row in result.rows
        }
        for name, resampled in scores.items()
    }
    options = experiment.raw.to_json()
    return {**dataclasses.asdict(result), "estimates": estimates, "options": options}
