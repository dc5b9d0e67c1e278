"""Documents and folders in `transduce translate`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.cli.declaring import flag, option, option_group
from transduce.documents.base import DocumentOptions
from transduce.documents.formats import find_format
from transduce.documents.translating import HEAD, plan, read_file, translate_documents
from transduce.errors import BadInput, UnsupportedFormat
from transduce.markup import Inline
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text.reading import STDIN, display_name, is_file_argument, path_exists

if TYPE_CHECKING:
    from transduce.cli.translate import OutputOptions
    from transduce.translation.translator import Translator


@option_group("Documents")
class DocumentChoices:
    """How to read documents."""

    format: str | None = option(
        "Format of the documents, if their names do not tell: docx, html, xliff, tmx, po, srt, "
        "vtt, markdown, csv, tsv, json, jsonl or text.",
        metavar="NAME",
    )
    columns: str | None = option(
        "Columns of CSV and TSV to translate in place: names in the first row, or numbers from 1 "
        "if it is no header. Separated by commas.",
        metavar="A,B",
    )
    keys: str | None = option(
        "Translate only what is below these keys of JSON, or paths such as menu.title.",
        metavar="A,B",
    )
    width: int | None = option("Characters in a line of subtitles. Default: 42.")
    overwrite_targets: bool = flag(
        "Also replace translations that PO, XLIFF and TMX files have.", "--overwrite-targets"
    )

    def given(self) -> list[str]:
        """Return the names of the options that are given."""
        values = {
            "--format": self.format,
            "--columns": self.columns,
            "--keys": self.keys,
            "--width": self.width,
            "--overwrite-targets": self.overwrite_targets or None,
        }
        return [name for name, value in values.items() if value is not None]

    def options(self, languages: tuple[str, str]) -> DocumentOptions:
        """Return the options for reading documents."""
        width = 42 if self.width is None else self.width
        if not 10 <= width <= 1000:
            raise BadInput(f"--width {width}: expected 10 to 1000 characters")
        return DocumentOptions(
            languages=languages,
            overwrite=self.overwrite_targets,
            columns=_names(self.columns),
            keys=_names(self.keys),
            width=width,
        )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def are_documents(
    arguments: Sequence[str],
    choices: DocumentChoices,
    for_lines: Mapping[str, object],
    *,
    as_text: bool,
) -> bool:
    """Return whether to translate documents, and refuse options `for_lines` then."""
    given = choices.given()
    if as_text:
        if given:
            raise BadInput(f"--as-text translates lines: it excludes {given[0]}")
        return False
    if choices.format is not None or any(map(_is_document, arguments)):
        texts = [text for text in arguments if not is_file_argument(text)]
        if texts:
            raise BadInput(f"documents and text cannot be translated together: {texts[0]!r:.60}")
        if STDIN in arguments and (choices.format is None or len(arguments) > 1):
            raise BadInput(
                "standard input and documents cannot be translated together: translate one of "
                "them, and give standard input a --format"
            )
        for name, value in for_lines.items():
            if value not in (None, False):
                raise BadInput(
                    f"{name} is for lines of text, and {display_name(arguments[0])} is a document: "
                    "leave the option out, or translate lines with --as-text"
                )
        return True
    if given:
        raise BadInput(f"{given[0]} is for documents: the input is lines of text (see --format)")
    return False


def _is_document(argument: str) -> bool:
    """Return whether an argument is a folder or a document; .txt files are lines."""
    if argument in ("", STDIN) or not path_exists(argument):
        return False
    path = Path(argument)
    if path.is_dir():
        return True
    if not path.is_file():  # a pipe
        return False
    try:
        with path.open("rb") as file:
            found = find_format(argument, file.read(HEAD))
    except (OSError, UnsupportedFormat):  # refused where lines are read
        return False
    return found is not None and found.name != "text"


def translate(
    languages: tuple[str, str],
    arguments: Sequence[str],
    choices: DocumentChoices,
    writing: "OutputOptions",
    load: Callable[[], "Translator"],
    progress: Progress,
    **options: Any,
) -> None:
    """Translate documents and folders; raise an error at the end if any of them failed.

    A shard has some of the documents; translations that exist are kept, like those of --resume.
    """
    from transduce.cli.bulk import Shard
    from transduce.cli.remarks import Remarks

    shard = Shard.parse(writing.shard or "1/1")
    resume = writing.resume or writing.shard is not None
    if resume and writing.out in (None, STDIN):
        raise BadInput("--shard and --resume write files: name one with --out")
    document_options = choices.options(languages)
    planned = plan(
        [Path(argument) for argument in arguments],
        writing.out,
        languages,
        format_name=choices.format,
        overwrite=writing.overwrite or resume,
    )
    planned.jobs = planned.jobs[shard.number - 1 :: shard.count]
    if resume and not writing.overwrite:
        waiting = [job for job in planned.jobs if not (job.target and job.target.exists())]
        if done := len(planned.jobs) - len(waiting):
            progress.say(f"{pluralize(done, 'document')} translated already")
        planned.jobs = waiting
    translator = load()
    remarks = Remarks("text", translator.config.model.max_len, split=options["split"])

    def translate_texts(contents: Iterable[Inline]) -> Iterator[Inline]:
        texts = list(contents)
        with progress.track("translating", len(texts), "texts") as advance:
            for translation in translator.stream(texts, advance=advance, **options):
                remarks.add(translation)
                assert translation.content is not None
                yield translation.content

    failures = translate_documents(
        planned,
        translate_texts,
        document_options,
        write=_write_to_stdout,
        say=progress.say,
        read=_read,
    )
    remarks.report(progress)
    if failures:
        raise BadInput(
            f"{len(failures):,} of {pluralize(len(planned.jobs), 'document')} could not be "
            f"translated; the first: {failures[0]}"
        )


def _read(path: Path) -> bytes:
    return sys.stdin.buffer.read() if str(path) == STDIN else read_file(path)


def _write_to_stdout(content: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
