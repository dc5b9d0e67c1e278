"""Translate documents: files and whole folders."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from transduce.documents.base import Document, DocumentOptions, Unit
from transduce.documents.formats import (
    BY_SUFFIX,
    FORMATS,
    MAX_BYTES,
    DocumentFormat,
    find_format,
    read_document,
)
from transduce.errors import BadInput, MissingExtra, TransduceError
from transduce.markup import Inline, Tag
from transduce.system.files import atomic_write
from transduce.system.formatting import pluralize
from transduce.text.reading import STDIN

HEAD = 1 << 16  # bytes from which a format is recognised
SHOWN = 10  # files named in a message

Translate = Callable[[Iterable[Inline]], Iterator[Inline]]


@dataclass(frozen=True, slots=True)
class Job:
    """A file to translate; without a path for its translation, it goes to standard output."""

    source: Path
    target: Path | None
    format: DocumentFormat


@dataclass(slots=True)
class Plan:
    """The files to translate, and those of other kinds."""

    jobs: list[Job] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)


def plan(
    inputs: Sequence[Path],
    out: str | None,
    languages: tuple[str, str],
    *,
    format_name: str | None = None,
    overwrite: bool = False,
) -> Plan:
    """Choose the name of each translation, before anything is translated.

    A folder is translated with its subfolders into the folder `out`.
    """
    planned = Plan()
    target = None if out is None or out == STDIN else Path(out)
    is_folder = target is not None and (
        target.is_dir() or str(out).endswith(("/", "\\")) or len(inputs) > 1 or inputs[0].is_dir()
    )
    if target is not None and is_folder and target.exists() and not target.is_dir():
        raise BadInput(f"--out {out} is a file: several documents need a folder")
    for path in inputs:
        if path.is_dir():
            if target is None:
                raise BadInput(
                    f"{path} is a folder: expected a text file or a document, or the option --out "
                    "with a folder for the translations"
                )
            _plan_folder(planned, path, target, languages, format_name)
            continue
        chosen = find_format(str(path), _head(path), format_name) or FORMATS["text"]
        if target is None and chosen.binary:
            raise BadInput(
                f"{path} is a {chosen.title}, which cannot be written to standard output: "
                f"give a file with --out, such as --out {_inserted(path.name, languages[1])}"
            )
        if target is not None and is_folder:
            planned.jobs.append(Job(path, target / translated_name(path.name, languages), chosen))
        else:
            if target is not None and format_name is None:
                _refuse_conversion(path, target, chosen, languages[1])
            planned.jobs.append(Job(path, target, chosen))
    _check(planned, overwrite=overwrite)
    return planned


def _refuse_conversion(path: Path, target: Path, chosen: DocumentFormat, language: str) -> None:
    """Refuse a name that says another format than the translation has."""
    before, after = path.suffix.lower(), target.suffix.lower()
    suffix = after.removeprefix(".")
    if after in ("", before) or suffix in chosen.suffixes or chosen.name == "text":
        return
    if chosen.binary or suffix in BY_SUFFIX:
        ending = path.suffix or f".{chosen.suffixes[0]}"
        raise BadInput(
            f"--out {target}: documents keep their format: expected a name that ends with "
            f"{ending}, such as {path.stem}.{language}{ending}"
        )


def _plan_folder(
    planned: Plan, folder: Path, out: Path, languages: tuple[str, str], format_name: str | None
) -> None:
    """Add the files of a folder; hidden files and links are left out, and so is the output."""
    inside = out.resolve()
    if inside == folder.resolve():
        raise BadInput(f"--out {out} is the folder to translate: choose another one")
    for parent, folders, names in os.walk(folder):
        path = Path(parent)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and not (path / name).is_symlink()
            and (path / name).resolve() != inside
        )
        for name in sorted(names):
            file = path / name
            if name.startswith(".") or file.is_symlink() or not file.is_file():
                continue
            try:
                chosen = find_format(name, _head(file), format_name)
            except BadInput:
                chosen = None
            if chosen is None:
                planned.skipped.append(file)
                continue
            target = out / file.relative_to(folder).with_name(translated_name(name, languages))
            planned.jobs.append(Job(file, target, chosen))
    if not planned.jobs:
        raise BadInput(f"{folder} has no document that can be translated")


def _head(path: Path) -> bytes:
    if str(path) == STDIN:
        return b""
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except FileNotFoundError:
        raise BadInput(f"{path} does not exist: expected a document") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None


def translated_name(name: str, languages: tuple[str, str]) -> str:
    """Return the name of a translation: guide.de.html for guide.en.html, de.json for en.json."""
    source, target = languages
    return re.sub(rf"(^|[._-]){re.escape(source)}(?=\.[^.]+$)", rf"\g<1>{target}", name, count=1)


def new_name(name: str, languages: tuple[str, str]) -> str:
    """Return another name for a translation: hotel.de.docx for hotel.docx."""
    changed = translated_name(name, languages)
    return _inserted(name, languages[1]) if changed == name else changed


def _inserted(name: str, language: str) -> str:
    path = PurePath(name)
    return f"{path.stem}.{language}{path.suffix}"


def _check(planned: Plan, *, overwrite: bool) -> None:
    """Refuse to overwrite files, and to write two translations to one file."""
    targets: set[Path] = set()
    for job in planned.jobs:
        if job.target is None:
            continue
        if job.target in targets:
            raise BadInput(f"two documents would be written to {job.target}: rename one of them")
        targets.add(job.target)
        if job.target.is_dir():
            raise BadInput(f"{job.target} is a folder: choose another name")
        if not job.target.exists():
            continue
        sources = [other.source for other in planned.jobs if other.source.exists()]
        if any(map(job.target.samefile, sources)):
            raise BadInput(f"{job.target} is a document to translate: write to another file")
        if not overwrite:
            raise BadInput(
                f"{job.target} exists: choose another name, or replace it with --overwrite"
            )


class DocumentTranslator:
    """Translates documents one after the other; equal texts are translated once."""

    def __init__(self, translate: Translate, options: DocumentOptions) -> None:
        self.translate, self.options = translate, options
        self._known: dict[Inline, Inline] = {}

    def convert(
        self, data: bytes, name: str, document_format: DocumentFormat
    ) -> tuple[bytes, Document]:
        """Translate the content of a document; return the new content, and the document."""
        document = read_document(data, name, document_format, self.options)
        self.fill(document.units)
        return document.to_bytes(), document

    def fill(self, units: Sequence[Unit]) -> None:
        """Set the targets of units."""
        new = list(dict.fromkeys(u.source for u in units if u.source not in self._known))
        self._known.update(zip(new, self.translate(new), strict=True))
        set_targets(units, self._known)


def set_targets(units: Iterable[Unit], translations: Mapping[Inline, Inline]) -> None:
    """Set the targets of units from the translations of their sources."""
    for unit in units:
        # Equal texts may have different links, so each keeps the data of its own tags.
        own = {part: part for part in unit.source if isinstance(part, Tag)}
        unit.target = tuple(
            own[part] if isinstance(part, Tag) else part for part in translations[unit.source]
        )


def translate_documents(
    planned: Plan,
    translate: Translate,
    options: DocumentOptions,
    *,
    write: Callable[[bytes], object],
    say: Callable[[str], None],
    read: Callable[[Path], bytes] | None = None,
) -> list[str]:
    """Translate and write the documents of a plan; return an error for each that failed.

    A document that fails does not stop the others. `write` writes to standard output, and `read`
    reads a file, or standard input if its name is "-".
    """
    translator = DocumentTranslator(translate, options)
    failures: list[str] = []
    for job in planned.jobs:
        try:
            data = (read or read_file)(job.source)
            result, document = translator.convert(data, str(job.source), job.format)
            if job.target is None:
                write(result)
            else:
                with atomic_write(job.target.resolve()) as temporary:
                    temporary.write_bytes(result)
        except MissingExtra:
            raise
        except (TransduceError, OSError) as error:
            if len(planned.jobs) == 1:
                raise
            failures.append(str(error))
            say(f"failed: {error}")
            continue
        for note in document.left_alone:
            say(f"{job.source}: not translated: {note}")
        if job.target is not None:
            say(f"wrote {job.target} ({pluralize(len(document.units), 'text')})")
    if planned.skipped:
        names = ", ".join(map(str, planned.skipped[:SHOWN]))
        more = len(planned.skipped) - SHOWN
        say(
            f"skipped {pluralize(len(planned.skipped), 'file')} of other kinds: {names}"
            + (f" and {more:,} more" if more > 0 else "")
        )
    return failures


def read_file(path: Path) -> bytes:
    """Read a document that is not larger than allowed."""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
