"""The built-in corpus as text files, in a folder that a later command may overwrite."""

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from transduce.datasets import pocket
from transduce.errors import BadInput, BadRun
from transduce.system.files import read_checksummed, sha256, write_checksummed, write_text_file

FORMAT = 1
RECORD = "data.json"
NAME = "pocket texts"
FIELDS = {"name": str, "files": dict[str, list[str]]}

Paths = dict[str, tuple[Path, Path]]


def write_pairs(
    folder: Path, stem: str, pairs: Iterable[tuple[str, str]], languages: Sequence[str]
) -> tuple[Path, Path]:
    """Write pairs as two text files."""
    pairs = list(pairs)
    paths = folder / f"{stem}.{languages[0]}", folder / f"{stem}.{languages[1]}"
    for side, path in enumerate(paths):
        write_text_file(path, _lines(pairs, side))
    return paths


def write(
    folder: Path, train: int, held_out: int, seed: int = 1, *, overwrite: bool = True
) -> Paths:
    """Write `train` training pairs and `held_out` pairs for each other split; return the files.

    Existing files are overwritten only if this function wrote them and `overwrite` is set.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: expected a folder for the texts")
    texts: dict[str, str] = {}
    paths: Paths = {}
    for split, count in zip(pocket.SPLITS, (train, held_out, held_out), strict=True):
        pairs = pocket.pairs(count, split, seed)
        names = [f"{split}.{language}" for language in pocket.LANGUAGES]
        texts |= {name: _lines(pairs, side) for side, name in enumerate(names)}
        paths[split] = folder / names[0], folder / names[1]
    new = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    record = _read_record(folder)
    existing = _existing_hashes(folder, new, record)
    changed = [name for name in texts if existing.get(name) != new[name]]
    if not overwrite and any(name in existing for name in changed):
        raise BadInput(
            f"{folder} holds other texts than these, and a run was trained on them: "
            "continue with the same numbers and the same seed, or choose another folder"
        )
    if changed or record is None:
        # Record old and new hashes: an interrupted write leaves a mixture of both.
        _write_record(
            folder, {name: sorted({new[name], existing.get(name, new[name])}) for name in new}
        )
        for name in changed:
            write_text_file(folder / name, texts[name])
        _write_record(folder, {name: [digest] for name, digest in new.items()})
    return paths


def _lines(pairs: Sequence[tuple[str, str]], side: int) -> str:
    return "".join(f"{pair[side]}\n" for pair in pairs)


def _write_record(folder: Path, files: dict[str, list[str]]) -> None:
    write_checksummed(folder / RECORD, {"format": FORMAT, "name": NAME, "files": files})


def _read_record(folder: Path) -> dict[str, list[str]] | None:
    """Return the hashes of the files that transduce wrote, or None."""
    with contextlib.suppress(BadRun):
        record = read_checksummed(folder / RECORD, FORMAT, "texts", FIELDS)
        if record["name"] == NAME:
            files: dict[str, list[str]] = record["files"]
            return files
    return None


def _existing_hashes(
    folder: Path, new: dict[str, str], record: dict[str, list[str]] | None
) -> dict[str, str]:
    """Return the hashes of our files in a folder; refuse files that are not ours.

    Older versions wrote no record: their files are ours if they are equal to the new ones.
    """
    hashes = {}
    for path in sorted(folder.glob("*")):
        if path.name.startswith(".") or (record is not None and path.name == RECORD):
            continue
        if path.name in new and path.is_file() and not path.is_symlink():
            hashes[path.name] = sha256(path)
            if hashes[path.name] in (new[path.name], *(record or {}).get(path.name, ())):
                continue
        elif record is not None and path.name not in new:
            continue  # an unrelated file
        raise BadInput(
            f"{folder} holds {path.name}, which transduce did not write: choose another folder, "
            "or move it away"
        )
    return hashes
