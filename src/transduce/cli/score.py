"""`transduce score`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from transduce.cli import tables
from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import without_none
from transduce.errors import BadInput
from transduce.system.formatting import pluralize
from transduce.text.languages import guess_languages

if TYPE_CHECKING:
    from transduce.evaluation.comet import Comet
    from transduce.evaluation.significance import Comparison, SystemScore
    from transduce.system.progress import Progress

EXAMPLES = """
transduce score out.de test.de
transduce translate runs/en-de test.en --no-split | transduce score - test.de
transduce score out.de test.de --metric bleu --confidence 1000 --json
transduce score baseline.de ours.de --ref test.de --source test.en --html differences.html
transduce score base=base-1.de,base-2.de,base-3.de ours=ours-1.de,ours-2.de,ours-3.de --ref test.de
transduce score out.de test.de --paper
transduce score --trees parsed.trees gold.trees
"""
COLUMNS = (
    *("metric", "system", "outputs", "score", "mean and 95% interval"),
    *("difference", "p (bootstrap)", "p (randomisation)"),
)
EXPLAINED = {
    "bs": "p (bootstrap): how often other test sentences, drawn from these, give as large a "
    "deviation by chance",
    "ar": "p (randomisation): how often exchanging the outputs of random sentences gives as large "
    "a difference",
}
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
    source: str | None = option(
        "The source text, for --comet and --html.", "--source", metavar="FILE"
    )
    comet: Path | None = option(
        "Also score with a COMET model on disk, with unbabel-comet (×100).", metavar="MODEL"
    )
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
    """Options for the significance tests and the page of differences."""

    paired_bs: bool = flag("Only the paired bootstrap.", "--paired-bs")
    paired_ar: bool = flag("Only approximate randomisation.", "--paired-ar")
    samples: int = option(
        "Samples of each test. Default: 1000 of the bootstrap, 10000 of randomisation.",
        default=0,
        show_default=False,
    )
    html: Path | None = option(
        "Write a page with the sentences that differ most, side by side.", metavar="FILE"
    )

    @property
    def test(self) -> str:
        """The test to run: bs, ar or both."""
        if self.paired_bs and self.paired_ar:
            raise BadInput("--paired-bs and --paired-ar: give neither to run both tests")
        return "bs" if self.paired_bs else "ar" if self.paired_ar else "both"

    @property
    def given(self) -> bool:
        """Whether any of these options is given."""
        return bool(self.paired_bs or self.paired_ar or self.samples or self.html)


@dataclass(frozen=True)
class System:
    """A system: its name, and the files with its outputs."""

    name: str
    files: list[str]

    @classmethod
    def parse(cls, text: str) -> "System":
        """Parse [NAME=]FILE[,FILE…]; the name of an existing file is this file."""
        from transduce.text.reading import path_exists

        if path_exists(text):
            return cls(text, [text])
        name, equals, files = text.partition("=")
        if not equals:
            name, files = text, text
        if not name or not all(files.split(",")):
            raise BadInput(f"{text}: expected FILE, or NAME=FILE,FILE for several outputs")
        return cls(name, files.split(","))


def score(
    files: list[str] = argument(
        "Translations of one or more systems, one per line; - is stdin. Outputs of runs with "
        "different seeds are one system. Without --ref: one system, then its reference.",
        metavar="[NAME=]FILE[,FILE…]",
    ),
    *,
    options: ScoreOptions,
    comparison: ComparisonOptions,
) -> None:
    """Score translations with BLEU, chrF, chrF++ and TER as sacreBLEU does, with signatures.

    Several systems are compared with the first one by two tests, paired bootstrap and approximate
    randomisation; * marks differences with p < 0.05 in both.
    """
    systems, references = _files(files, options.ref)
    chosen, language = options.chosen(), options.language
    if options.trees:
        if chosen or language or options.paper or options.confidence or comparison.given:
            raise BadInput("--trees takes no metric options: expected --trees HYP GOLD")
        outputs = [file for system in systems for file in system.files]
        _score_trees(outputs, references, json=options.json)
        return
    several = len(systems) > 1 or len(systems[0].files) > 1
    if several and (options.confidence or options.paper):
        raise BadInput(
            "--confidence and --paper score one system; for several use --samples, --paired-bs "
            "and --paired-ar"
        )
    if not several and comparison.given:
        raise BadInput(
            "--paired-bs, --paired-ar, --samples and --html compare systems: give two or more, "
            "and --ref"
        )
    if options.paper and (chosen or options.comet):
        raise BadInput("--paper is a metric of its own: it takes no other metric options")
    if options.comet and not options.source:
        raise BadInput("--comet needs the source text too: --source FILE")
    chosen["language"] = language or guess_languages(references[0], references[0])[1]
    if several:
        _compare(systems, references, chosen, options, comparison)
    else:
        _score(systems[0].files[0], references, chosen, options)


def _files(files: Sequence[str], ref: Sequence[str] | None) -> tuple[list[System], list[str]]:
    """Return the systems and the reference files."""
    if ref:
        return [System.parse(text) for text in files], list(ref)
    if len(files) != 2:
        raise typer.BadParameter(
            f"expected a system and its reference, found {pluralize(len(files), 'file')}; "
            "several systems need --ref REF"
        )
    return [System.parse(files[0])], [files[1]]


def _read(
    systems: Sequence[System], references: Sequence[str], source: str | None
) -> tuple[dict[str, list[list[str]]], list[list[str]], list[str] | None]:
    """Read the outputs of each system, the references and the source; refuse other lengths."""
    from transduce.text import reading as text

    outputs = [file for system in systems for file in system.files]
    paths = [*([source] if source else []), *outputs, *references]
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
    sources = read.pop(0) if source else None
    ours = iter(read)
    return {system.name: [next(ours) for _ in system.files] for system in systems}, [*ours], sources


def _load_comet(
    options: ScoreOptions, sources: list[str] | None, progress: "Progress"
) -> "Comet | None":
    if options.comet is None:
        return None
    from transduce.evaluation.comet import Comet

    progress.say(f"loading {options.comet}")
    return Comet(options.comet, sources or [])


def _score(
    system: str, references: Sequence[str], chosen: dict[str, Any], options: ScoreOptions
) -> None:
    """Score one system."""
    from transduce.evaluation import scores as scoring
    from transduce.system.progress import console_progress

    progress = console_progress()
    outputs, several, sources = _read([System(system, [system])], references, options.source)
    (lines,) = outputs[system]
    comet = _load_comet(options, sources, progress)
    chosen |= {"confidence": options.confidence, "progress": progress}
    if options.paper:
        results = [scoring.paper_bleu(lines, several, **chosen)]
    else:
        results = scoring.score(lines, several, **chosen)
    if comet:
        results.append(comet.score(lines, several[0], options.confidence, progress))
    if options.json:
        tables.print_json([result.to_json() for result in results])
    else:
        for result in results:
            typer.echo(str(result))


def _compare(
    systems: Sequence[System],
    references: Sequence[str],
    chosen: dict[str, Any],
    options: ScoreOptions,
    how: ComparisonOptions,
) -> None:
    """Compare systems with the first one."""
    from transduce.evaluation.differences import write_page
    from transduce.evaluation.significance import compare
    from transduce.system.files import refuse_foreign_file
    from transduce.system.progress import console_progress

    names = [system.name for system in systems]
    files = [file for system in systems for file in system.files]
    if len(set(names)) < len(names) or len(set(files)) < len(files):
        raise BadInput(f"a system is given twice: {' '.join(names)}")
    if how.html:
        if len(systems) < 2:
            raise BadInput("--html compares systems: give two or more")
        refuse_foreign_file(how.html, "--html")
    test, progress = how.test, console_progress()
    outputs, several, sources = _read(systems, references, options.source)
    comet = _load_comet(options, sources, progress)
    chosen |= {"test": test, "samples": how.samples, "comet": comet, "progress": progress}
    comparisons = compare(outputs, several, **chosen)
    if options.json:
        tables.print_json([comparison.to_json() for comparison in comparisons])
    else:
        _print_comparisons(comparisons)
    if how.html:
        first = {name: each[0] for name, each in outputs.items()}
        write_page(how.html, first, several, sources, progress)
        progress.say(f"sentences side by side: {how.html}")


def _print_comparisons(comparisons: "Sequence[Comparison]") -> None:
    """Print a row for each metric and system, then the signatures and what p means."""
    rows = [
        (
            comparison.name,
            score.system + " (baseline)" * (index == 0 and len(comparison.systems) > 1),
            *_cells(score, comparison.systems[0]),
        )
        for comparison in comparisons
        for index, score in enumerate(comparison.systems)
    ]
    shown = [column for column in range(len(COLUMNS)) if any(row[column] for row in rows)]
    tables.show("", [COLUMNS[i] for i in shown], [[row[i] for i in shown] for row in rows])
    for comparison in comparisons:
        typer.echo(f"{comparison.name} {comparison.signature}")
    deviations = [
        f"{each.name} {each.seed_deviation:.2f}"
        for each in comparisons
        if each.seed_deviation is not None
    ]
    if deviations:
        typer.echo(f"standard deviation between outputs of one system: {', '.join(deviations)}")
    tests = comparisons[0].samples
    if len(comparisons[0].systems) > 1:
        typer.echo(f"* p < 0.05{' in both tests' if len(tests) > 1 else ''}")
        for test in tests:
            typer.echo(EXPLAINED[test])


def _cells(score: "SystemScore", baseline: "SystemScore") -> tuple[str, ...]:
    """Format the columns from the number of outputs on."""
    sampled = score.mean is not None and score.interval is not None
    difference = f"{score.value - baseline.value:+.2f}{'*' * score.significant}"
    return (
        str(len(score.outputs) or ""),
        f"{score.value:.2f}",
        f"{score.mean:.2f} ± {score.interval:.2f}" if sampled else "",
        "" if score.p is None else difference,
        "" if score.p_bs is None else f"{score.p_bs:.4f}",
        "" if score.p_ar is None else f"{score.p_ar:.4f}",
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
