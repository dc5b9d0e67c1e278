"""`transduce score`."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from transduce.cli import tables
from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import without_none
from transduce.errors import BadInput
from transduce.system.formatting import pluralize
from transduce.text.languages import guess_languages

if TYPE_CHECKING:
    from transduce.evaluation.significance import Comparison, SystemScore

EXAMPLES = """
transduce score out.de test.de
transduce translate runs/en-de test.en --no-split | transduce score - test.de
transduce score out.de test.de --metric bleu --confidence 1000 --json
transduce score baseline.de ours.de --ref test.de --ref test.second.de
transduce score out.de test.de --paper
transduce score --trees parsed.trees gold.trees
"""
TREE_COLUMNS = {  # column title: the field of Parseval, and its format
    "trees": ("sentences", ","),
    "errors": ("errors", ","),
    "skipped": ("skipped", ","),
    "precision": ("precision", ".2f"),
    "recall": ("recall", ".2f"),
    "F1": ("f1", ".2f"),
    "exact match": ("exact", ".2f"),
    "no crossing": ("no_crossing", ".2f"),
    "tags right": ("tagging", ".2f"),
}


@option_group()
class ScoreOptions:
    """Options for scoring and output."""

    ref: list[str] | None = option(
        "A reference, one per line. Repeatable.", "--ref", "-r", metavar="FILE"
    )
    metric: list[str] | None = option(
        "bleu, chrf, chrf++ or ter. Repeatable. Default: all of them."
    )
    language: str | None = option(
        "Target language, for BLEU's tokeniser. Default: the file's ending."
    )
    lowercase: bool = flag("Ignore case.", "--lowercase")
    tokenize: str | None = option("BLEU's tokeniser: 13a, intl, zh, char, …")
    confidence: int = option("Bootstrap samples for a 95% interval; 1000 is usual.", default=0)
    paper: bool = flag("The paper's tokenised, compound-split BLEU.", "--paper")
    trees: bool = flag("Score constituency trees in brackets, as EVALB does.", "--trees")
    json: bool = flag("Write JSON.", "--json")

    def chosen(self) -> dict[str, Any]:
        """Return the metric options that are given, as arguments for `score` and `compare`."""
        return without_none(
            metrics=self.metric or None, lowercase=self.lowercase or None, tokenize=self.tokenize
        )


@option_group("Comparing systems")
class ComparisonOptions:
    """Options for the significance test."""

    paired_ar: bool = flag(
        "Approximate randomisation instead of the paired bootstrap.", "--paired-ar"
    )
    samples: int = option(
        "Samples of the test. Default: 1000; 10000 with --paired-ar.",
        default=0,
        show_default=False,
    )


def score(
    files: list[str] = argument(
        "Translations of one or more systems, one per line; - is stdin. Without --ref: "
        "one system, then its reference.",
        metavar="FILE",
    ),
    *,
    options: ScoreOptions,
    comparison: ComparisonOptions,
) -> None:
    """Score translations with BLEU, chrF, chrF++ and TER as sacreBLEU does, with signatures.

    Several systems are compared with the first one: p is the probability of such a difference by
    chance (paired bootstrap), and * marks p < 0.05.
    """
    systems, references = _files(files, options.ref)
    chosen, language = options.chosen(), options.language
    tested = comparison.paired_ar or comparison.samples
    if options.trees:
        if chosen or language or options.paper or options.confidence or tested:
            raise BadInput("--trees takes no metric options: expected --trees HYP GOLD")
        _score_trees(systems, references, json=options.json)
        return
    if len(systems) > 1 and (options.confidence or options.paper):
        raise BadInput(
            "--confidence and --paper score one system; for several use --samples and --paired-ar"
        )
    if len(systems) == 1 and tested:
        raise BadInput("--paired-ar and --samples compare systems: give two or more, and --ref")
    if options.paper and chosen:
        raise BadInput("--paper is a metric of its own: it takes no other metric options")
    chosen["language"] = language or guess_languages(references[0], references[0])[1]
    if len(systems) > 1:
        test = "ar" if comparison.paired_ar else "bs"
        chosen |= {"test": test, "samples": comparison.samples}
        _compare(systems, references, chosen, json=options.json)
    else:
        chosen["confidence"] = options.confidence
        _score(systems[0], references, chosen, paper=options.paper, json=options.json)


def _files(files: Sequence[str], ref: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the system files and the reference files."""
    if ref:
        return list(files), list(ref)
    if len(files) != 2:
        raise typer.BadParameter(
            f"expected a system and its reference, found {pluralize(len(files), 'file')}; "
            "several systems need --ref REF"
        )
    return [files[0]], [files[1]]


def _read(systems: Sequence[str], references: Sequence[str]) -> list[list[str]]:
    """Read all files; refuse files of different lengths."""
    from transduce.text import reading as text

    paths = [*systems, *references]
    if paths.count(text.STDIN) > 1:
        raise BadInput("- is given twice: standard input can be read only once")
    read = [list(text.read_lines(path)) for path in paths]
    last = text.display_name(paths[-1])
    for path, lines in zip(paths, read, strict=True):
        if len(lines) != len(read[-1]):
            many = pluralize(len(lines), "line")
            raise BadInput(
                f"{text.display_name(path)} has {many} but {last} has {len(read[-1]):,}: "
                "line n of one must translate line n of the other"
            )
    if not read[-1]:
        names = " and ".join(map(text.display_name, paths))
        raise BadInput(f"{names} are empty: expected one sentence per line")
    return read


def _score(
    system: str, references: Sequence[str], options: dict[str, Any], *, paper: bool, json: bool
) -> None:
    """Score one system."""
    from transduce.evaluation import scores as scoring
    from transduce.system.progress import console_progress

    lines, *several = _read([system], references)
    options["progress"] = console_progress()
    if paper:
        results = [scoring.paper_bleu(lines, several, **options)]
    else:
        results = scoring.score(lines, several, **options)
    if json:
        tables.print_json([result.to_json() for result in results])
    else:
        for result in results:
            typer.echo(str(result))


def _compare(
    systems: Sequence[str], references: Sequence[str], options: dict[str, Any], *, json: bool
) -> None:
    """Compare systems with the first one."""
    from transduce.evaluation.significance import compare
    from transduce.system.progress import console_progress

    if len(set(systems)) < len(systems):
        raise BadInput(f"a system is given twice: {' '.join(systems)}")
    read = _read(systems, references)
    named = dict(zip(systems, read, strict=False))
    comparisons = compare(named, read[len(systems) :], progress=console_progress(), **options)
    if json:
        tables.print_json([comparison.to_json() for comparison in comparisons])
    else:
        _print_comparisons(comparisons)


def _print_comparisons(comparisons: "Sequence[Comparison]") -> None:
    """Print a row for each metric and system, then the signatures."""
    rows = [
        (comparison.name, score.system + " (baseline)" * (index == 0), *_cells(score))
        for comparison in comparisons
        for index, score in enumerate(comparison.systems)
    ]
    columns = ("metric", "system", "score", "mean and 95% interval", "p")
    shown = [column for column in range(5) if any(row[column] for row in rows)]
    tables.show("", [columns[i] for i in shown], [[row[i] for i in shown] for row in rows])
    for comparison in comparisons:
        typer.echo(f"{comparison.name} {comparison.signature}")


def _cells(score: "SystemScore") -> tuple[str, str, str]:
    """Format the score, the mean and 95% interval of the samples, and p."""
    sampled = score.mean is not None and score.interval is not None
    return (
        f"{score.value:.2f}",
        f"{score.mean:.2f} ± {score.interval:.2f}" if sampled else "",
        "" if score.p is None else f"{score.p:.4f}{'*' * score.significant}",
    )


def _score_trees(systems: Sequence[str], references: Sequence[str], *, json: bool) -> None:
    """Score trees as EVALB does with Collins' settings; errors are sentences whose words differ."""
    from transduce.parsing.evaluation import CUTOFF, score_files, summarize

    if len(systems) != 1 or len(references) != 1:
        raise BadInput("--trees scores one file of trees against one: expected --trees HYP GOLD")
    scores = score_files(systems[0], references[0])
    parts = {"all": summarize(scores), f"up to {CUTOFF} words": summarize(scores, CUTOFF)}
    if json:
        tables.print_json({name: dataclasses.asdict(part) for name, part in parts.items()})
        return
    rows = [
        [name, *(f"{getattr(part, column):{style}}" for column, style in TREE_COLUMNS.values())]
        for name, part in parts.items()
    ]
    tables.show("", ["in percent", *TREE_COLUMNS], rows)
