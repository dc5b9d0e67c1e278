"""Bulk translation: shards of files, and outputs that are continued after a kill.

While a file is translated, its output is in a folder next to it with the ending .partial. After
each block of lines the folder's record says how far it is. The same command continues there. Blocks
begin at the same lines as without an interruption, so the output is the same even on a GPU, where a
translation may depend on the batch.
"""

import contextlib
import itertools
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import transduce
from transduce.cli.lines import Form, Input
from transduce.cli.remarks import Remarks
from transduce.errors import BadInput, BadRun
from transduce.runs.folder import RunConfig
from transduce.settings.types import dataclass_from_json
from transduce.system.files import (
    OWN_NAME,
    read_json,
    remove_folder,
    remove_leftovers,
    require_regular,
    sha256,
    sync,
    write_json,
)
from transduce.system.formatting import pluralize
from transduce.system.locks import LOCK, locked
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt
from transduce.text.reading import read_lines
from transduce.translation.streaming import read_blocks
from transduce.translation.translator import WINDOW, Translator

if TYPE_CHECKING:
    from collections.abc import Generator

SUFFIX = ".partial"
OUTPUT, RECORD = "output", "progress.json"
STOPPED = "stopped; complete blocks of lines are kept: the same command continues after them"

# How launchers tell a process its number, the first number, and the number of processes.
LAUNCHERS = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"),
    ("RANK", None, "WORLD_SIZE"),  # torchrun
    ("SLURM_PROCID", None, "SLURM_NTASKS"),
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of a file: consecutive lines, as many as in the other parts."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> Self:
        """Read "3/16"; "auto" takes the numbers from SLURM or torchrun."""
        if text == "auto":
            return cls._of_launcher(environment)
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise BadInput(
                f"--shard {text}: expected a number from 1 and a count, such as 3/16, or auto"
            )
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def _of_launcher(cls, environment: Mapping[str, str]) -> Self:
        for name, first, total in LAUNCHERS:
            values = [environment.get(key, "0") for key in (name, first, total) if key]
            if name in environment and total in environment and all(map(str.isdecimal, values)):
                number = int(environment[name]) - int(environment.get(first or "", "0"))
                return cls(number + 1, int(environment[total]))
        raise BadInput(
            "--shard auto: neither SLURM nor torchrun started this process: give a shard such as "
            "3/16"
        )

    def lines(self, total: int) -> range:
        """Return the line numbers of the shard, from 0."""
        begin, end = ((self.number - shift) * total // self.count for shift in (1, 0))
        return range(begin, end)

    def path(self, path: Path) -> Path:
        """Return the file for the shard; the names of all shards sort in order."""
        if self.count == 1:
            return path
        width = len(str(self.count))
        return path.with_name(f"{path.name}.{self.number:0{width}}-of-{self.count}")


def own_device(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the GPU of this process if a launcher started several on this machine."""
    number = environment.get("LOCAL_RANK") or environment.get("SLURM_LOCALID") or ""
    if name != "auto" or not number.isdecimal():
        return name
    import torch

    # A process may also see only its own GPU.
    count = torch.cuda.device_count()
    return f"cuda:{int(number) % count}" if count > 1 else name


@dataclass(slots=True)
class Record:
    """How much of an output is complete."""

    made_by: str
    identity: dict[str, Any]  # what must be the same to continue
    lines: int = 0  # of the input
    bytes: int = 0  # of the output
    checksum: int = 0  # of the lines of the input


def identify(
    runs: Sequence[Path], translator: Translator, files: Iterable[str | None], **options: Any
) -> dict[str, Any]:
    """Return what two calls must have in common to write one output.

    `files` are those that the options name: their content must be the same, too.
    """
    hashes = [RunConfig.load(run).hashes.get("model.safetensors", ()) for run in runs]
    return {
        "transduce": transduce.__version__,
        "weights": [translator.weights, *map(list, hashes)],
        "engine": translator.engine.name,
        "search": repr(translator.config.search),
        **{f"content of {name}": sha256(Path(name)) for name in files if name is not None},
        **{name: repr(value) for name, value in sorted(options.items())},
    }


@signals_as_interrupt(STOPPED)
def translate_files(
    translator: Translator,
    sources: Sequence[Input],
    paths: Sequence[Path],
    shard: Shard,
    form: Form,
    progress: Progress,
    identity: dict[str, Any],
    *,
    batch: int | None,
    **options: Any,
) -> None:
    """Translate a shard of each file; continue outputs that were begun before."""
    options["batch"] = translator.engine.batch if batch is None else batch
    for source, path in zip(sources, paths, strict=True):
        folder = partial_folder(path)
        if path.exists() and not folder.exists():  # `check` counted its lines
            progress.say(f"{path} is complete")
            continue
        _refuse_foreign(folder)
        with locked(folder):
            if path.exists():  # killed, or another process: the folder was not deleted yet
                progress.say(f"{path} is complete")
            else:
                lines = shard.lines(source.count or 0)
                own = identity | {"lines": [lines.start, lines.stop], "batch": options["batch"]}
                partial = _Partial(folder, own)
                _translate_file(translator, source, partial, lines, form, progress, **options)
                partial.finish(path)
                progress.say(f"wrote {path}")
        with contextlib.suppress(FileNotFoundError):  # another process has deleted it
            remove_folder(folder)


def _translate_file(
    translator: Translator,
    source: Input,
    partial: "_Partial",
    lines: range,
    form: Form,
    progress: Progress,
    *,
    batch: int,
    **options: Any,
) -> None:
    """Translate the lines of a file that an output lacks."""
    remarks = Remarks("line", translator.config.model.max_len, split=options["split"])
    every = cast("Generator[str]", read_lines(source.argument, as_text=source.as_text))
    with contextlib.closing(every):
        texts = itertools.islice(every, lines.start, lines.stop)
        partial.skip(texts, source.name)
        if partial.record.lines:
            progress.say(f"continuing after {partial.record.lines:,} lines of {source.name}")
        first = lines.start + partial.record.lines
        with progress.track("translating", lines.stop - first, "lines") as advance:
            for block in read_blocks(texts, WINDOW * batch, lambda: True):
                translated = translator.stream(
                    block, batch=batch, first=first, advance=advance, **options
                )
                output: list[str] = []
                for number, translation in enumerate(translated, start=first + 1):
                    remarks.add(translation)
                    output += (f"{line}\n" for line in form(number, translation))
                partial.append(block, "".join(output).encode())
                first += len(block)
    remarks.report(progress)


def partial_folder(path: Path) -> Path:
    """Return the folder of an output that is not complete."""
    return path.with_name(path.name + SUFFIX)


class _Partial:
    """The folder with an output that is not complete, and how far it is.

    The output is longer than its record says if the process was killed between the two.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        remove_leftovers(folder)
        if (folder / RECORD).exists():
            self.record = _read_record(folder)
            if changed := _changed(self.record.identity, identity):
                raise BadInput(
                    f"{folder} was begun with {changed}: repeat that command, or delete the folder"
                )
        else:
            self.record = Record("transduce", identity)
            self._save()
        output = folder / OUTPUT
        size = output.stat().st_size if output.exists() else 0
        if size < self.record.bytes:
            raise BadInput(
                f"{output} has {size:,} bytes, expected {self.record.bytes:,}: delete {folder} to "
                "begin again"
            )
        output.touch()
        os.truncate(output, self.record.bytes)

    def skip(self, texts: Iterator[str], name: str) -> None:
        """Read the lines that are translated; refuse others than those."""
        checksum = 0
        for text in itertools.islice(texts, self.record.lines):
            checksum = zlib.crc32(text.encode() + b"\n", checksum)
        if checksum != self.record.checksum:
            raise BadInput(
                f"{name} has changed since {self.folder} was begun: delete the folder to begin "
                "again"
            )

    def append(self, texts: Iterable[str], output: bytes) -> None:
        """Add the translations of texts."""
        with (self.folder / OUTPUT).open("ab") as file:
            file.write(output)
        sync(self.folder / OUTPUT)
        for text in texts:
            self.record.lines += 1
            self.record.checksum = zlib.crc32(text.encode() + b"\n", self.record.checksum)
        self.record.bytes += len(output)
        self._save()

    def finish(self, path: Path) -> None:
        """Move the output to its place."""
        (self.folder / OUTPUT).replace(path)
        sync(path.parent)

    def _save(self) -> None:
        write_json(self.folder / RECORD, asdict(self.record))


def _read_record(folder: Path) -> Record:
    try:
        return dataclass_from_json(Record, read_json(folder / RECORD))
    except (BadRun, TypeError) as error:
        raise BadInput(
            f"{folder} cannot be continued: delete the folder to begin again ({error})"
        ) from None


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder of the same name that is not ours."""
    if not os.path.lexists(folder):
        return
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else {folder.name}
    if RECORD in names:
        try:
            ours = read_json(folder / RECORD).get("made_by") == "transduce"
        except BadRun:
            ours = False
    else:  # it may have been killed before it wrote the record
        ours = all(name == LOCK or OWN_NAME.fullmatch(name) for name in names)
    if not ours:
        raise BadInput(f"{folder} exists and was not made by --resume: move it away")


def _changed(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return what differs, in words; nothing if nothing does."""
    for name, value in now.items():
        if before.get(name) != value:
            return f"{name} = {_short(before.get(name))}, now {_short(value)}"
    return ""


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def check(
    sources: Sequence[Input],
    paths: Sequence[Path | None],
    shard: Shard,
    *,
    overwrite: bool,
    nbest: int | None,
) -> list[Path]:
    """Return the files to write; refuse inputs that cannot be read twice, and foreign outputs.

    A complete output has one line for each line of the input, or up to `nbest`.
    """
    if overwrite:
        raise BadInput("--resume replaces no files: leave out --overwrite")
    checked = []
    for source, path in zip(sources, paths, strict=True):
        if path is None:
            raise BadInput("--shard and --resume write files: name one with --out")
        if source.count is None or source.is_text:
            raise BadInput(
                f"--shard and --resume read files again: {source.name} cannot be read twice, "
                "write it to a file first"
            )
        own = shard.path(path)
        _refuse_foreign(partial_folder(own))
        wanted = len(shard.lines(source.count))
        if own.exists():
            lines = _count_lines(require_regular(own))
            if not wanted <= lines <= wanted * (nbest or 1):
                raise BadInput(
                    f"{own} exists and has {pluralize(lines, 'line')}, but {wanted:,} are to be "
                    "translated: choose another name"
                )
        checked.append(own)
    return checked


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
