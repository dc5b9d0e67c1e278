"""`transduce data check` and `transduce data clean`."""

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from transduce.cli import tables
from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import Device, without_none
from transduce.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from transduce.cleaning.checking import Counts, Settings
    from transduce.cleaning.outputs import CleanFiles
    from transduce.system.progress import Progress

EXAMPLES_CHECK = """
transduce data check train.en train.de --report report.html
transduce data check memory.tmx --languages en-de --json
"""

EXAMPLES_CLEAN = """
transduce data clean train.en train.de --out clean.en clean.de --removed removed.tsv
transduce data clean crawl.en-de.tsv --out-tsv clean.tsv --against test.en --against test.de
transduce data clean train.en train.de --out clean.en clean.de --without numbers,brackets
transduce data clean crawl.tsv --out-tsv best.tsv --score en-de --reverse de-en --keep-best 0.8
"""

SOURCE = "Source text, or one TSV, CSV, TMX or XLIFF file with both sides; - is standard input."
SHOWN = 2  # examples of each rule in the output


@option_group("Rules")
class RuleOptions:
    """Which rules apply, and their limits."""

    rules: list[str] | None = option("Only these rules, with commas between them. Repeatable.")
    without: list[str] | None = option("Not these rules. Repeatable.")
    against: list[Path] | None = option(
        "A text to keep apart, such as a test set: remove its pairs and long sentences. "
        "Repeatable.",
        metavar="FILE",
    )
    max_words: int | None = option("Words of a side. Default: 200.")
    max_characters: int | None = option("Characters of a side. Default: 2000.")
    max_ratio: float | None = option(
        "How much longer than usual a long side may be for the other. Default: 2."
    )
    max_sources: int | None = option("Different sources that a target may have. Default: 10.")
    min_letters: float | None = option("Share of letters in a side. Default: 0.35.")
    foreign_letters: float | None = option(
        "Share of letters in a script that the language does not use. Default: 0.3."
    )
    language_probability: float | None = option(
        "Probability of another language from which a side is removed. Default: 0.6."
    )


@option_group()
class CheckOptions:
    """Languages, columns, the report and the machine."""

    languages: str | None = option(
        "Source and target language. Default: the file name extensions.", metavar="en-de"
    )
    columns: str | None = option(
        "Columns of a table: names in the first row, or numbers.", metavar="SOURCE,TARGET"
    )
    report: Path | None = option("Write an HTML page too.", metavar="FILE.html")
    json: bool = flag("Print JSON.", "--json")
    workers: int | None = option("Processes. Default: the number of cores.", min=1)


@option_group("Scores by models")
class ScoreOptions:
    """Trained models in both directions, and how much to keep."""

    score: Path | None = option(
        "A trained run from source to target: remove pairs that both models find unlikely.",
        metavar="RUN",
    )
    reverse: Path | None = option("A trained run from target to source.", metavar="RUN")
    keep_best: float | None = option(
        "Share of the pairs that pass the rules to keep, by score, such as 0.8.", metavar="SHARE"
    )
    device: Device = "auto"

    def check(self, source: Path) -> bool:
        """Return whether to score; refuse incomplete options and standard input."""
        given = [value is not None for value in (self.score, self.reverse, self.keep_best)]
        if any(given) and not all(given):
            raise BadInput("--score, --reverse and --keep-best go together: give all three")
        if any(given) and not source.is_file():
            raise BadInput("with --score the text is read twice: expected files")
        return all(given)


def check(
    source: Path = argument(SOURCE),
    target: Path | None = argument("Target text.", default=None),
    *,
    options: CheckOptions,
    rules: RuleOptions,
    models: ScoreOptions,
) -> None:
    """Find bad pairs in parallel text: damaged, misaligned, untranslated, repeated, and more.

    Prints how many pairs break each rule, with examples. Nothing is changed.
    """
    _run(source, target, options, rules, models, None)


def clean(
    source: Path = argument(SOURCE),
    target: Path | None = argument("Target text.", default=None),
    *,
    out: tuple[Path, Path] | None = option("The clean text, both sides."),
    out_tsv: Path | None = option("The clean text, one TSV."),
    removed: Path | None = option(
        "Write the removed pairs to a TSV: rule, number of the pair, source, target.",
        metavar="FILE",
    ),
    options: CheckOptions,
    rules: RuleOptions,
    models: ScoreOptions,
) -> None:
    """Remove bad pairs from parallel text. The pairs that stay are not changed.

    The files appear when all is done. `transduce data check` has the same rules.
    """
    from transduce.cleaning.outputs import CleanFiles

    if (out is None) == (out_tsv is None):
        raise BadInput("expected the clean text as --out SOURCE TARGET or as --out-tsv FILE")
    paths = [*out] if out else [out_tsv] if out_tsv else []
    _run(source, target, options, rules, models, CleanFiles(paths, removed))


def _run(
    source: Path,
    target: Path | None,
    options: CheckOptions,
    rules: RuleOptions,
    models: ScoreOptions,
    files: "CleanFiles | None",
) -> None:
    from transduce.cleaning import report
    from transduce.cleaning.checking import check_pairs
    from transduce.system.files import refuse_foreign_file, write_text_file
    from transduce.system.processes import cores
    from transduce.system.progress import console_progress
    from transduce.system.signals import signals_as_interrupt
    from transduce.text.reading import display_name, read_pairs

    if options.report is not None:
        refuse_foreign_file(options.report, "--report")
    scored = models.check(source)
    settings = _settings(source, target, options.languages, rules, scored=scored)
    columns = _columns(options.columns)
    progress = console_progress()
    for note in _notes(settings):
        progress.say(note)
    name = " and ".join(display_name(path) for path in (source, target) if path is not None)

    def read() -> Iterator[tuple[str, str]]:
        languages = settings.languages
        return read_pairs(source, target, languages=languages, columns=columns, raw=True)

    how: dict[str, Any] = {
        "against": itertools.chain.from_iterable(map(_sides, rules.against or [])),
        "workers": options.workers or cores(),
        "write": files and files.write,
    }
    with signals_as_interrupt("stopped: nothing was written"), files or nullcontext():
        if scored:
            counts = _scored(read, settings, models, progress, how)
        else:
            with progress.track(f"checking {name}", None, "pairs") as advance:
                counts = check_pairs(read(), settings, advance=advance, **how)
    if options.report is not None:
        write_text_file(options.report, report.to_html(name, settings, counts))
        progress.say(f"wrote {options.report}")
    if options.json:
        tables.print_json(report.to_json(name, settings, counts))
    else:
        _show(settings, counts)


def _scored(
    read: "Callable[[], Iterator[tuple[str, str]]]",
    settings: "Settings",
    models: ScoreOptions,
    progress: "Progress",
    how: dict[str, Any],
) -> "Counts":
    from transduce.cleaning.scoring import check_and_score, dual_scorer
    from transduce.translation.translator import Translator

    assert models.score is not None
    assert models.reverse is not None
    assert models.keep_best is not None
    forward = Translator.load(models.score, device=models.device)
    reverse = Translator.load(models.reverse, device=models.device)
    score = dual_scorer(forward, reverse, settings.languages)
    return check_and_score(read, settings, score, models.keep_best, progress=progress, **how)


def _show(settings: "Settings", counts: "Counts") -> None:
    from transduce.cleaning import report

    tables.show("", ("rule", "pairs", "share", ""), report.rows(settings, counts))
    if lines := report.example_lines(settings, counts, SHOWN):
        typer.echo("\n" + "\n".join(lines))


def _settings(
    source: Path,
    target: Path | None,
    languages: str | None,
    options: RuleOptions,
    *,
    scored: bool,
) -> "Settings":
    from transduce.cleaning.checking import Settings
    from transduce.cleaning.limits import Limits, chosen_rules
    from transduce.text.identification import is_available
    from transduce.text.reading import find_languages

    limits = {name: getattr(options, name) for name in Limits.__slots__}
    return Settings(
        rules=tuple(chosen_rules(options.rules or [], options.without or [])),
        limits=Limits(**without_none(**limits)),
        languages=find_languages(source, target, languages),
        library=is_available(),
        scored=scored,
    )


def _notes(settings: "Settings") -> Iterator[str]:
    """Say what cannot be checked."""
    from transduce.text.languages import UNKNOWN

    if not {"language", "script"} & set(settings.rules):
        return
    if settings.languages == UNKNOWN:
        yield "the languages are unknown, so they are not checked: --languages en-de names them"
    elif "language" in settings.rules and not settings.library:
        yield (
            "languages are recognised by frequent words only; py3langid finds more: "
            "pip install 'transduce[language]'"
        )


def _columns(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise BadInput(f"--columns {text}: expected two, such as --columns en,de")
    return names[0], names[1]


def _sides(path: Path) -> Iterator[str]:
    """Yield the sides of a text to keep apart: its lines, or both sides of its pairs."""
    from transduce.errors import UnsupportedFormat
    from transduce.text.reading import read_lines, read_pairs

    try:
        for line in read_lines(path):
            yield from line.split("\t")
    except UnsupportedFormat:
        for pair in read_pairs(path, None):
            yield from pair
