"""The pocket corpus as text files, in a folder that a later command may write again."""

import contextlib
import hashlib
from pathlib import Path

from transduce.datasets import pocket
from transduce.datasets.folders import RECORD
from transduce.errors import BadInput, BadRun
from transduce.system.files import atomic_write, read_checksummed, sha256, write_checksummed

FORMAT = 1
NAME = "pocket texts"
FIELDS = {"name": str, "files": dict[str, list[str]]}

Paths = dict[str, tuple[Path, Path]]


def write(folder: Path, train: int, held: int, seed: int = 1, *, overwrite: bool = True) -> Paths:
    """Write `train` pairs to train on and `held` pairs of each held-out part; return the files.

    Files of others are never overwritten, and those of this function only with `overwrite`.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: expected a folder for the texts")
    texts: dict[str, bytes] = {}
    paths: Paths = {}
    for part, count in zip(pocket.PARTS, (train, held, held), strict=True):
        pairs = pocket.pairs(count, part, seed)
        names = [f"{part}.{language}" for language in pocket.LANGUAGES]
        for side, name in enumerate(names):
            texts[name] = "".join(f"{pair[side]}\n" for pair in pairs).encode()
        paths[part] = folder / names[0], folder / names[1]
    new = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    known = _known(folder)
    there = _there(folder, new, known)
    changed = [name for name in texts if there.get(name) != new[name]]
    if not overwrite and any(there.get(name, new[name]) != new[name] for name in new):
        raise BadInput(
            f"{folder} holds other texts than these, and a run has begun to learn from them: "
            "go on with the same numbers and the same seed, or choose another folder"
        )
    if changed or known is None:
        # Until all are written, both the old and the new text of each file are ours.
        _save(folder, {name: sorted({new[name], there.get(name, new[name])}) for name in new})
        for name in changed:
            with atomic_write(folder / name) as beside:
                beside.write_bytes(texts[name])
        _save(folder, {name: [one] for name, one in new.items()})
    return paths


def _save(folder: Path, files: dict[str, list[str]]) -> None:
    write_checksummed(folder / RECORD, {"format": FORMAT, "name": NAME, "files": files})


def _known(folder: Path) -> dict[str, list[str]] | None:
    """Return the hashes of the files that this program wrote, if it wrote any."""
    with contextlib.suppress(BadRun):
        record = read_checksummed(folder / RECORD, FORMAT, "texts", FIELDS)
        if record["name"] == NAME:
            files: dict[str, list[str]] = record["files"]
            return files
    return None


def _there(folder: Path, new: dict[str, str], known: dict[str, list[str]] | None) -> dict[str, str]:
    """Return the hashes of the files that are there; refuse what is not ours.

    Older versions kept no record: their files are known by being just what is to be written.
    """
    found = {}
    for path in sorted(folder.glob("*")):
        if path.name.startswith(".") or (known is not None and path.name == RECORD):
            continue
        plain = path.is_file() and not path.is_symlink()
        if path.name in new and plain:
            found[path.name] = sha256(path)
            if found[path.name] in (new[path.name], *(known or {}).get(path.name, ())):
                continue
        elif known is not None and path.name not in new:
            continue  # somebody's own file beside ours
        raise BadInput(
            f"{folder} holds {path.name}, which transduce did not write: choose another folder, "
            "or move it away"
        )
    return found
