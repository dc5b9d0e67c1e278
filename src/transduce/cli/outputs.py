"""The output of `transduce translate`: standard output, a file, or a folder of files."""

import contextlib
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import IO

from transduce.cli.lines import Form, Input
from transduce.errors import BadInput
from transduce.system.files import atomic_write
from transduce.system.progress import Progress
from transduce.text.compression import COMPRESSIONS
from transduce.text.reading import STDIN
from transduce.translation.translation import Translation


def output_paths(
    out: str | None, inputs: Sequence[Input], languages: tuple[str, str], *, overwrite: bool
) -> list[Path | None]:
    """Return the output file of each input; None is standard output.

    Several inputs need a folder. In a folder, the translation of test.en is test.de.
    """
    if out is None or out == STDIN:
        return [None] * len(inputs)
    path = Path(out)
    if path.is_dir() or out.endswith(("/", "\\")) or len(inputs) > 1:
        if path.exists() and not path.is_dir():
            raise BadInput(f"--out {out} is a file: several inputs need a folder")
        paths = [path / _name(source, languages) for source in inputs]
    else:
        paths = [path]
    for path in paths:
        _check(path, inputs, overwrite=overwrite)
        if paths.count(path) > 1:
            raise BadInput(f"two inputs would be written to {path}: translate them one by one")
    return [*paths]


def _name(source: Input, languages: tuple[str, str]) -> str:
    """Return the file name of a translation in a folder: test.de for test.en.gz."""
    if source.is_text or source.argument == STDIN:
        raise BadInput(f"{source.name} has no file name to use in a folder: give --out a file")
    name = PurePath(source.argument).name
    for ending in COMPRESSIONS:  # output is not compressed
        name = name.removesuffix(f".{ending}")
    source_ending, target_ending = (f".{language}" for language in languages)
    if not name.endswith(source_ending):
        return name
    return name.removesuffix(source_ending) + target_ending


def _check(path: Path, inputs: Sequence[Input], *, overwrite: bool) -> None:
    """Refuse to overwrite a file, and refuse names of compressed files."""
    if path.suffix.removeprefix(".") in COMPRESSIONS:
        raise BadInput(
            f"--out {path}: output is not compressed; choose a name without {path.suffix}"
        )
    if not path.is_file():
        return
    files = [Path(i.argument) for i in inputs if not (i.is_text or i.argument == STDIN)]
    if any(path.samefile(file) for file in files):
        raise BadInput(f"{path} is the text to translate: write to another file")
    if not overwrite:
        raise BadInput(f"{path} exists: choose another name, or replace it with --overwrite")


def wants_bar(paths: Sequence[Path | None], arguments: Sequence[str]) -> bool:
    """Return whether to show a progress bar: not if lines are typed or printed on the terminal."""
    typed = STDIN in arguments and sys.stdin.isatty()
    return not typed and (None not in paths or not sys.stdout.isatty())


def write(
    results: Iterable[Iterable[Translation]],
    paths: Sequence[Path | None],
    form: Form,
    progress: Progress,
) -> None:
    """Write the translations of each input to its file, each translation immediately.

    On standard output, all inputs are numbered as one text.
    """
    numbers = itertools.count(1)
    for translations, path in zip(results, paths, strict=True):
        if path is not None:
            numbers = itertools.count(1)
        with _open(path) as stream:
            for translation, number in zip(translations, numbers, strict=False):
                stream.writelines(f"{line}\n" for line in form(number, translation))
                stream.flush()
        if path is not None:
            progress.say(f"wrote {path}")


@contextlib.contextmanager
def _open(path: Path | None) -> Iterator[IO[str]]:
    """Open an output. A file appears only when it is complete; on an error, it does not appear."""
    if path is None:
        yield sys.stdout
        return
    if path.exists() and not path.is_file():  # a pipe or a device
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    with (
        atomic_write(path.resolve()) as temporary,  # resolved, so that a link stays a link
        temporary.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream
