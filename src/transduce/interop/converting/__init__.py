"""Configurations of fairseq, OpenNMT-py and JoeyNMT as recipes.

Each key of a foreign configuration ends as taken, as changed or as not taken, with the reason, and
the recipe says so; nothing is dropped in silence. Weights are not converted here: checkpoints of
those toolkits are pickles, which are never opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.errors import BadInput
from transduce.interop.converting import fairseq, joeynmt, opennmt, recipe
from transduce.interop.converting.draft import Draft, Hints, Pair
from transduce.interop.converting.fairseq_keys import LEFT as FAIRSEQ_LEFT
from transduce.interop.converting.fairseq_keys import PREFIXES as FAIRSEQ_PREFIXES
from transduce.interop.converting.ledger import Entry, Given, Ledger
from transduce.interop.converting.reading import read_commands, read_yaml

__all__ = ["Conversion", "convert"]
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".pkl")
OF_YAML: tuple[Any, ...] = (joeynmt, fairseq, opennmt)
REASONS: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    fairseq.NAME: (FAIRSEQ_LEFT, FAIRSEQ_PREFIXES),
    opennmt.NAME: (opennmt.LEFT, opennmt.PREFIXES),
    joeynmt.NAME: (joeynmt.LEFT, joeynmt.PREFIXES),
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """A recipe, and what became of each key."""

    toolkit: str
    text: str
    entries: list[Entry]
    to_do: list[str]

    def count(self, fate: str) -> int:
        """Count the keys that ended so."""
        return sum(entry.fate == fate for entry in self.entries)


def convert(
    files: Sequence[Path],
    folder: Path,
    *,
    text: Mapping[str, Pair] | None = None,
    dictionaries: Sequence[Path] = (),
    gpus: int | None = None,
) -> Conversion:
    """Make a recipe that lies in a folder of a configuration in one file or several."""
    toolkit, given = _recognised(files)
    hints = Hints(folder=files[0].parent, gpus=gpus, dictionaries=tuple(dictionaries))
    draft = Draft(Ledger(toolkit.NAME, given), hints, text=dict(text or {}))
    toolkit.convert(draft)
    draft.ledger.check()
    entries = draft.ledger.finish(*REASONS[toolkit.NAME])
    told = any(note.startswith(("give the raw", "join")) for note in draft.to_do)
    if "train" not in draft.text and not told:
        draft.to_do.insert(0, "name your raw text as source and target, or with --text")
    written = recipe.write(draft, entries, files, folder)
    return Conversion(toolkit.NAME, written, entries, draft.to_do)


def _recognised(files: Sequence[Path]) -> tuple[Any, dict[str, Given]]:
    """Tell whose configuration the files hold, and return its keys."""
    found: dict[str, tuple[Any, dict[str, Given]]] = {}
    for path in files:
        toolkit, given = _read(path)
        keys = found.setdefault(toolkit.NAME, (toolkit, {}))[1]
        for name in given.keys() & keys.keys():
            raise BadInput(
                f"{path} sets {given[name].key}, which another file sets too: give one of them"
            )
        keys |= given
    if len(found) != 1:
        raise BadInput(f"the files are of {' and '.join(found)}: expected those of one toolkit")
    return next(iter(found.values()))


def _read(path: Path) -> tuple[Any, dict[str, Given]]:
    if path.suffix in CHECKPOINTS:
        raise BadInput(
            f"{path} is a checkpoint, a pickle, which is never opened here, for reading one can "
            "run code: give the configuration; docs/converting.md says how weights may come along"
        )
    if path.suffix in (".yaml", ".yml"):
        tree = read_yaml(path)
        for toolkit in OF_YAML:
            if given := toolkit.of_yaml(tree):
                return toolkit, given
    elif given := fairseq.of_commands(read_commands(path)):
        return fairseq, given
    raise BadInput(
        f"{path} is no configuration that is known: expected a script with a fairseq-train "
        "command, or the YAML (.yaml, .yml) of fairseq-hydra-train, onmt_train or JoeyNMT"
    )
