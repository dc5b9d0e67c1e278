"""`transduce translate`."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.documents import DocumentChoices
from transduce.cli.options import EngineOptions, LanguageOptions, TrainedRun, without_none
from transduce.errors import BadInput, MissingExtra, UnsupportedFormat
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from transduce.translation.translator import Translator

EXAMPLES = """
transduce translate runs/en-de "Two dogs run."
transduce translate runs/en-de test.en > out.de
transduce translate runs/en-de-fr test.en --to fr
cat test.en | transduce translate runs/en-de
transduce translate runs/en-de book.txt.gz --out book.de
transduce translate runs/en-de a.en b.en --out translated/
transduce translate runs/en-de web.en.xz --out web.de --resume
transduce translate runs/en-de web.en.xz --out web.de --shard 3/16
transduce translate runs/en-de letter.docx --out letter.de.docx
transduce translate runs/en-de docs/ --out docs-de/
transduce translate runs/en-de prices.csv --columns name,description --out prices.de.csv
transduce translate runs/en-de test.en --no-split | transduce score - test.de
transduce translate runs/en-de test.en --beam 8 --nbest 3
transduce translate runs/en-de test.en --json --align
transduce translate runs/en-de test.en --align | cut -f 2 > links.txt
transduce translate runs/en-de help.en --glossary terms.tsv --keep "ACME-[0-9]+"
transduce translate runs/en-de help.en --guard retry --json
transduce translate runs/en-de help.en --memory done.tmx --json
transduce translate runs/en-de test.en --sample --top-p 0.9 --seed 7
transduce translate runs/en-de test.en --prefixes prefixes.de
transduce translate runs/en-de test.en --given test.de
transduce translate runs/en-de test.en --engine ctranslate2 --quantize int8
transduce translate runs/seed1 test.en --with runs/seed2 --with runs/seed3
"""


@option_group("Input")
class InputOptions:
    """How to read the input, and files that accompany it."""

    split: bool | None = option(
        "Translate the sentences of a line one by one and join them (default), or each line "
        "as a whole, as for a test set.",
        "--split/--no-split",
        show_default=False,
    )
    as_text: bool = flag(
        "Translate every line of a file, even if it is HTML, subtitles or another document.",
        "--as-text",
    )
    prefix: str | None = option("Words that every translation begins with.")
    prefixes: str | None = option(
        "Words that each translation begins with, line by line.", metavar="FILE"
    )
    tag: str | None = option(
        "Translate like the corpus that was trained on with this tag (`train --corpus …@TAG`)."
    )
    given: str | None = option(
        "Score these translations, line by line, instead of translating: writes the score, a "
        "tab and the text.",
        metavar="FILE",
    )


@option_group("Output")
class OutputOptions:
    """Where and what to write."""

    out: str | None = option(
        "Write here instead of to standard output, completely or not at all. Several files "
        "need a folder, where test.en becomes test.de. Existing files are refused.",
        "--out",
        "-o",
        metavar="FILE",
    )
    overwrite: bool = flag("Let --out replace existing files.", "--overwrite")
    resume: bool = flag(
        "Continue the outputs that the same command began before it was stopped or killed.",
        "--resume",
    )
    shard: str | None = option(
        "Translate one of N parts of each file, such as 3/16, into FILE.03-of-16, and continue it "
        "as --resume does; auto: the part of this process under SLURM or torchrun.",
        metavar="I/N",
    )
    nbest: int | None = option(
        "Write the K best: line number, score and text, separated by tabs.", metavar="K"
    )
    align: bool = flag("Add the word alignment after a tab: 0-0 1-2, source-target.", "--align")
    json: bool = flag(
        "Write one JSON object per line: text, scores, subwords and further results.", "--json"
    )


@option_group("Spans, terms and checks")
class TextOptions:
    """What stays as it is, how terms are translated, and what is checked."""

    protect: bool | None = option(
        "Keep placeholders, tags, URLs, paths, code and numbers with units exactly (default), or "
        "translate them like other text (default with --no-split).",
        "--protect/--no-protect",
        show_default=False,
    )
    keep: list[str] | None = option(
        "Keep what this regular expression matches, too. Repeatable.", metavar="REGEX"
    )
    keep_list: str | None = option(
        "Keep the words and phrases of this file, one per line.", metavar="FILE"
    )
    glossary: str | None = option(
        "Translate terms as in this file: a term, a tab, its translation.", metavar="FILE"
    )
    memory: list[str] | None = option(
        "Use the translations of this file (TMX, XLIFF, TSV) for texts and sentences that it has. "
        "--json says for which. Repeatable: later files take precedence.",
        metavar="FILE",
    )
    guard: Literal["off", "flag", "retry"] = option(
        "Check translations for repetition, copies, lost numbers and so on: flag them, or search "
        "again with other settings. --json has the flags.",
        default="off",
    )

    def chosen(self, languages: tuple[str, str]) -> dict[str, Any]:
        """Return the options as arguments for `Translator.stream`; read the files."""
        from transduce.glossary import Glossary
        from transduce.markup import SpanRules
        from transduce.text.reading import read_lines
        from transduce.translation.memory import Memory

        words = [] if self.keep_list is None else [*filter(None, read_lines(self.keep_list))]
        own = bool(self.keep or words)
        if own and self.protect is False:
            raise BadInput("--keep and --keep-list need --protect: leave out --no-protect")
        rules = SpanRules(self.keep or (), words) if own else self.protect
        glossary = None if self.glossary is None else Glossary.load(self.glossary)
        memory = Memory.load(self.memory, languages) if self.memory else None
        return {"keep": rules, "glossary": glossary, "guard": self.guard, "memory": memory}


@option_group("Search")
class SearchOptions:
    """Search options, and further models for an ensemble."""

    beam: int | None = option("Beam size; 1 is greedy. Default: 4.")
    alpha: float | None = option("Length penalty. Default: 0.6.")
    others: list[Path] | None = option(
        "Another model for an ensemble: probabilities are averaged. Repeatable.",
        "--with",
        metavar="RUN",
    )


@option_group("Sampling")
class SamplingOptions:
    """Sampling instead of a search."""

    sample: bool = flag("Sample at random instead of searching.", "--sample")
    temperature: float | None = option("Sampling temperature. Default: 1.")
    top_k: int | None = option("Sample from the K likeliest tokens.", metavar="K")
    top_p: float | None = option(
        "Nucleus sampling: the smallest set of tokens whose probabilities sum to P.", metavar="P"
    )
    seed: int | None = option("Sampling seed. Default: 1.")

    def chosen(self) -> dict[str, Any]:
        """Return the options that are given, as arguments for `Translator.stream`."""
        chosen = without_none(
            temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, draw=self.seed
        )
        if chosen and not self.sample:
            raise BadInput("--temperature, --top-k, --top-p and --seed need --sample")
        return chosen | ({"sample": True} if self.sample else {})


@option_group("Machine")
class MachineOptions(EngineOptions):
    """The device, the engine and the batch size."""

    batch: int | None = option("Sentences per batch. Default: chosen for the machine.")


def translate(
    run: TrainedRun,
    inputs: list[str] | None = argument(
        "Text files (plain, gz, xz, zst), documents, folders of documents, or text in quotes; "
        "- is standard input. Default: -.",
        default=None,
        metavar="[FILE|TEXT]...",
    ),
    *,
    languages: LanguageOptions,
    reading: InputOptions,
    writing: OutputOptions,
    document: DocumentChoices,
    checks: TextOptions,
    search: SearchOptions,
    sampling: SamplingOptions,
    machine: MachineOptions,
) -> None:
    """Translate text line by line, or documents: Word, HTML, XLIFF, TMX, PO, subtitles and others.

    Line n of the output translates line n of the input. Documents keep their form.
    A line may have several sentences. Lines from a pipe are translated as they arrive.
    The search is the paper's: beam 4, alpha 0.6, output at most 50 subwords longer than the input.
    CTranslate2's stopping rule differs slightly.
    """
    from transduce.cli import documents
    from transduce.system.progress import console_progress

    arguments, progress = inputs or ["-"], console_progress()
    options = sampling.chosen() | without_none(
        beam=search.beam, alpha=search.alpha, nbest=writing.nbest
    )
    _check_options(arguments, {*options, *(["split"] if reading.split else [])}, reading)
    are_documents = documents.are_documents(
        arguments, document, _options_for_lines(reading, writing), as_text=reading.as_text
    )
    options |= {
        "batch": machine.batch,
        "split": _choose_split(reading, progress),
        "tag": reading.tag,
    }
    direction = languages.config(run).languages
    if reading.given is None:
        options |= checks.chosen(direction)
    if writing.shard is not None:
        from transduce.cli.bulk import own_device

        machine = dataclasses.replace(machine, device=own_device(machine.device))
    runs = [run, *(search.others or [])]
    load = partial(_load, runs, languages, machine, sampling, progress)
    if are_documents:
        documents.translate(direction, arguments, document, writing, load, progress, **options)
    elif writing.resume or writing.shard is not None:
        groups = (reading, writing, checks, languages, search, sampling)
        _translate_in_bulk(runs, direction, arguments, groups, load, progress, **options)
    else:
        _translate_lines(direction, arguments, reading, writing, load, progress, **options)


def _translate_lines(
    direction: tuple[str, str],
    arguments: list[str],
    reading: InputOptions,
    writing: OutputOptions,
    load: Callable[[], "Translator"],
    progress: Progress,
    **options: Any,
) -> None:
    from transduce.cli import lines, outputs

    form = lines.form(
        nbest=writing.nbest is not None, given=reading.given is not None, json=writing.json
    )
    with _offering_as_text():
        texts = lines.Texts.read(
            arguments, reading.prefixes, reading.given, as_text=reading.as_text
        )
        paths = outputs.output_paths(
            writing.out, texts.sources, direction, overwrite=writing.overwrite
        )
        translator = load()
        bar = outputs.wants_bar(paths, arguments)
        options["align"] = writing.align
        results = lines.results(translator, texts, reading.prefix, progress, bar=bar, **options)
        outputs.write(results, paths, form, progress)


def _translate_in_bulk(
    runs: Sequence[Path],
    direction: tuple[str, str],
    arguments: list[str],
    groups: "tuple[InputOptions, OutputOptions, TextOptions, *tuple[DataclassInstance, ...]]",
    load: Callable[[], "Translator"],
    progress: Progress,
    **options: Any,
) -> None:
    from transduce.cli import bulk, lines, outputs

    reading, writing, checks, *_ = groups
    if reading.prefixes is not None or reading.given is not None:
        raise BadInput("--shard and --resume exclude --prefixes and --given")
    shard = bulk.Shard.parse(writing.shard or "1/1")
    with _offering_as_text():
        texts = lines.Texts.read(arguments, None, None, as_text=reading.as_text)
        paths = outputs.output_paths(writing.out, texts.sources, direction, overwrite=True)
        files = bulk.check(
            texts.sources, paths, shard, overwrite=writing.overwrite, nbest=writing.nbest
        )
        translator = load()
        form = lines.form(nbest=writing.nbest is not None, given=False, json=writing.json)
        given = {k: v for group in groups for k, v in dataclasses.asdict(group).items()}
        for name in ("out", "overwrite", "resume", "shard"):  # may differ
            del given[name]
        given["split"] = options["split"]  # the default depends on what is installed
        named = (checks.keep_list, checks.glossary, *(checks.memory or ()))
        identity = bulk.identify(runs, translator, named, **given)
        prefixes = None if reading.prefix is None else itertools.repeat(reading.prefix)
        options |= {"align": writing.align, "prefixes": prefixes}
        batch = options.pop("batch")
        bulk.translate_files(
            *(translator, texts.sources, files, shard, form, progress, identity),
            batch=batch,
            **options,
        )


def _check_options(arguments: list[str], options: set[str], reading: InputOptions) -> None:
    """Refuse options that exclude each other."""
    from transduce.text.reading import is_file_argument

    has_prefix = reading.prefix is not None or reading.prefixes is not None
    if reading.given is not None and (options - {"alpha"} or has_prefix):
        raise BadInput("--given scores given translations: of the search options it takes --alpha")
    if reading.prefix is not None and reading.prefixes is not None:
        raise BadInput("--prefix and --prefixes exclude each other: give one of them")
    for name, file in (("--prefixes", reading.prefixes), ("--given", reading.given)):
        if file is not None and (len(arguments) > 1 or not is_file_argument(arguments[0])):
            raise BadInput(f"{name} has one line for each line of a file: give one file to read")


def _options_for_lines(reading: InputOptions, writing: OutputOptions) -> dict[str, object]:
    """Return the options whose input or output has lines."""
    return {
        "--nbest": writing.nbest,
        "--align": writing.align,
        "--json": writing.json,
        "--prefix": reading.prefix,
        "--prefixes": reading.prefixes,
        "--given": reading.given,
    }


def _choose_split(reading: InputOptions, progress: Progress) -> bool:
    """Return whether to split lines; if the splitter is missing, say so or refuse --split."""
    from transduce.text.splitting import MISSING, is_installed

    if reading.split is False or reading.given is not None or is_installed():
        return reading.split is not False
    if reading.split:
        raise MissingExtra("--split", "sentencex", "split")
    progress.say(MISSING)
    return False


@contextlib.contextmanager
def _offering_as_text() -> Iterator[None]:
    """Mention --format or --as-text in the error about a document."""
    try:
        yield
    except UnsupportedFormat as error:
        if error.document:
            raise BadInput(
                f"{str(error).partition(':')[0]}: --format {error.document} translates it as a "
                "document, --as-text its lines"
            ) from None
        if error.binary:
            raise
        raise BadInput(f"{error}; --as-text translates its lines as they are") from None


def _load(
    runs: list[Path],
    languages: LanguageOptions,
    machine: MachineOptions,
    sampling: SamplingOptions,
    progress: Progress,
) -> "Translator":
    """Load the models, and print the engine and the weights."""
    from transduce.cli.remarks import describe_zero_shot
    from transduce.translation.translator import Translator

    # Only torch supports sampling.
    engine = "torch" if sampling.sample and machine.engine == "auto" else machine.engine
    translator = Translator.load(
        runs, device=machine.device, engine=engine, quantize=machine.quantize
    ).directed(to=languages.to, source=languages.from_)
    progress.say(f"engine: {translator.engine.name}")
    if translator.zero_shot:
        progress.say(describe_zero_shot(translator.config))
    if not all((run / "model.safetensors").exists() for run in runs):
        progress.say(f"translating with {translator.weights}")
    return translator
