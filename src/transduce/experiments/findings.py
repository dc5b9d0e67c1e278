"""What an experiment has found: for the terminal, for a file, and for the report."""

import dataclasses
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from transduce.errors import BadInput, BadRun
from transduce.settings.types import dataclass_from_json
from transduce.system.files import (
    MAX_PICTURE_BYTES,
    atomic_write,
    checksum,
    read_regular,
    refuse_foreign_file,
)

FORMAT = 1
NUMBER = re.compile(r"[-+±<>~]?\d")


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers as text, in columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # "" where there is nothing to say

    def is_of_words(self, column: int) -> bool:
        """Tell whether no cell of a column, of those that say something, begins with a number."""
        cells = [row[column] for row in self.rows if row[column]]
        return bool(cells) and not any(map(NUMBER.match, cells))


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing that stands by itself."""

    caption: str
    svg: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One experiment: what the paper says, and what came out here."""

    name: str  # of the command, and of the files: table1, figures, positions
    title: str
    said: str  # by the paper, in our words
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()  # sentences: what it comes to, what was scaled down and by how much
    data: dict[str, Any] = field(default_factory=dict)  # the figures themselves, and the machine

    def save(self, folder: Path) -> list[Path]:
        """Write NAME.json, and the pictures beside it; return what was written."""
        refuse_foreign(folder, self.name)
        written = [folder / f"{self.name}.json"]
        content = json.loads(json.dumps({"format": FORMAT, **dataclasses.asdict(self)}))
        content = {"sha256": checksum(content), **content}
        texts = [json.dumps(content, ensure_ascii=False, indent=1)]
        for number, picture in enumerate(self.pictures, start=1):
            more = "" if len(self.pictures) == 1 else f"-{number}"
            written.append(folder / f"{self.name}{more}.svg")
            texts.append(picture.svg)
        for path, text in zip(written, texts, strict=True):
            with atomic_write(path) as beside:
                # A file name that is not UTF-8 has surrogates; JSON reads back their escapes.
                beside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        return written

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote, or say why it is not that."""
        try:
            content = json.loads(read_regular(path, MAX_PICTURE_BYTES).decode("utf-8"))
            seal = content.pop("sha256", None)  # older ones have none
            if seal is not None and seal != checksum(content):
                raise ValueError("its content does not agree with its checksum")
            if content.pop("format") != FORMAT:
                raise KeyError("format")
            finding = dataclass_from_json(cls, content)
            tables = [
                Table(one.title, tuple(one.columns), tuple(map(tuple, one.rows)))
                for one in (dataclass_from_json(Table, one) for one in content["tables"])
            ]
            pictures = tuple(dataclass_from_json(Picture, one) for one in content["pictures"])
            notes = tuple(content["notes"])
            return dataclasses.replace(
                finding, tables=tuple(tables), pictures=pictures, notes=notes
            )
        except (OSError, BadRun, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{path} holds no finding of `transduce paper`, or one of another version: {error}"
            ) from None


def refuse_foreign(folder: Path, name: str) -> None:
    """Refuse a folder in which a finding of this name would overwrite somebody else's files."""
    path = folder / f"{name}.json"
    before = Finding.load(path).pictures if os.path.lexists(path) else ()
    known = {picture.svg for picture in before}  # older versions did not mark their pictures
    for drawn in [*folder.glob(f"{name}.svg"), *folder.glob(f"{name}-*.svg")]:
        if drawn.is_symlink() or not drawn.is_file() or _text(drawn) not in known:
            refuse_foreign_file(drawn)


def _text(path: Path) -> str:
    try:
        return read_regular(path, MAX_PICTURE_BYTES).decode("utf-8", "replace")
    except (OSError, BadRun):
        return ""
