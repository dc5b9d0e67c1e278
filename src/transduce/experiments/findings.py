"""The finding of an experiment: printed on the terminal, saved as JSON, shown in the report."""

import dataclasses
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from transduce.errors import BadInput, BadRun
from transduce.system.files import (
    MAX_PICTURE_BYTES,
    checksum,
    read_regular,
    refuse_foreign_file,
    write_text_file,
)

FORMAT = 1
NUMBER = re.compile(r"[-+±<>~]?\d")


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; an empty cell is ""."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def is_text(self, column: int) -> bool:
        """Return whether a column contains words: no non-empty cell begins with a number."""
        cells = [row[column] for row in self.rows if row[column]]
        return bool(cells) and not any(map(NUMBER.match, cells))


@dataclass(frozen=True, slots=True)
class Picture:
    """A self-contained SVG and its caption."""

    caption: str
    svg: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One experiment: what the paper claims and what was measured here."""

    name: str  # of the command and the files: table1, figures, positions
    title: str
    said: str  # the paper's claim, in our words
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()  # sentences: the result, and what was scaled down and by how much
    data: dict[str, Any] = field(default_factory=dict)  # the numbers, and the machine

    def save(self, folder: Path) -> list[Path]:
        """Write NAME.json and its pictures; return their paths."""
        refuse_foreign(folder, self.name)
        content = json.loads(json.dumps({"format": FORMAT, **dataclasses.asdict(self)}))
        content = {"sha256": checksum(content), **content}
        texts = {folder / f"{self.name}.json": json.dumps(content, ensure_ascii=False, indent=1)}
        for number, picture in enumerate(self.pictures, start=1):
            suffix = "" if len(self.pictures) == 1 else f"-{number}"
            texts[folder / f"{self.name}{suffix}.svg"] = picture.svg
        for path, text in texts.items():
            # Surrogates, from file names that are not UTF-8, are written as JSON escapes.
            write_text_file(path, text, errors="backslashreplace")
        return list(texts)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote."""
        try:
            content = json.loads(read_regular(path, MAX_PICTURE_BYTES).decode("utf-8"))
            if content.pop("sha256") != checksum(content):
                raise ValueError("its content does not match its checksum")
            if content.pop("format") != FORMAT:
                raise ValueError("its format is another")
            content["tables"] = tuple(
                Table(table["title"], tuple(table["columns"]), tuple(map(tuple, table["rows"])))
                for table in content["tables"]
            )
            content["pictures"] = tuple(Picture(**picture) for picture in content["pictures"])
            content["notes"] = tuple(content["notes"])
            return cls(**content)
        except (OSError, BadRun, ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"it has no {error}" if isinstance(error, KeyError) else error
            raise BadInput(
                f"{path} is not a finding of `transduce paper`, or has another version: {problem}"
            ) from None


def refuse_foreign(folder: Path, name: str) -> None:
    """Refuse a folder where saving this finding would overwrite other files."""
    path = folder / f"{name}.json"
    if os.path.lexists(path):
        Finding.load(path)
    for drawing in [*folder.glob(f"{name}.svg"), *folder.glob(f"{name}-*.svg")]:
        refuse_foreign_file(drawing)
