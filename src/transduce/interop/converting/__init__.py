"""Convert configurations of fairseq, OpenNMT-py and JoeyNMT to recipes.

Each key of a foreign configuration is taken, changed or not taken, and the recipe says which and
why. Weights are not converted: checkpoints of those toolkits are pickles, which are never opened.

In reading order: `reading` (YAML and shell scripts), `keys` (values and outcomes of keys), `draft`
(steps that all toolkits share), `fairseq`, `opennmt` and `joeynmt`, each with a TOML file of the
keys that are not converted, and `recipe` (the draft as TOML).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import BadInput
from transduce.interop.converting import fairseq, joeynmt, opennmt, recipe
from transduce.interop.converting.draft import Draft, Pair, Toolkit
from transduce.interop.converting.keys import Entry, Given, Keys, read_notes
from transduce.interop.converting.reading import read_commands, read_yaml

__all__ = ["Conversion", "convert"]
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".pkl")
TOOLKITS = (joeynmt.TOOLKIT, fairseq.TOOLKIT, opennmt.TOOLKIT)  # tried in this order


@dataclass(frozen=True, slots=True)
class Conversion:
    """A recipe, and the outcome of each key."""

    toolkit: str
    text: str
    entries: list[Entry]
    to_do: list[str]

    def count(self, outcome: str) -> int:
        """Count the keys with an outcome."""
        return sum(entry.outcome == outcome for entry in self.entries)


def convert(
    files: Sequence[Path],
    folder: Path,
    *,
    text: Mapping[str, Pair] | None = None,
    dictionaries: Sequence[Path] = (),
    gpus: int | None = None,
) -> Conversion:
    """Convert a configuration in one or more files to a recipe for a folder."""
    toolkit, given = _read_all(files)
    draft = Draft(
        keys=Keys(toolkit.name, given),
        folder=files[0].parent,
        gpus=gpus,
        dictionaries=dictionaries,
        text=dict(text or {}),
    )
    toolkit.convert(draft)
    draft.keep_one_rate()
    draft.check()
    notes = read_notes(toolkit.notes)
    entries = draft.keys.finish(notes)
    if "train" not in draft.text and not draft.names_text:
        draft.to_do.insert(0, "name your raw text as source and target, or with --text")
    written = recipe.write(draft, notes.departures, entries, files, folder)
    return Conversion(toolkit.name, written, entries, draft.to_do)


def _read_all(files: Sequence[Path]) -> tuple[Toolkit, dict[str, Given]]:
    """Return the toolkit of the files, and all their keys."""
    read = [(path, *_read(path)) for path in files]
    toolkits = {toolkit.name: toolkit for _, toolkit, _ in read}
    if len(toolkits) != 1:
        raise BadInput(f"the files are of {' and '.join(toolkits)}: expected those of one toolkit")
    keys: dict[str, Given] = {}
    for path, _, given in read:
        for name in given.keys() & keys.keys():
            raise BadInput(
                f"{path} sets {given[name].key}, which another file sets too: give one of them"
            )
        keys |= given
    return next(iter(toolkits.values())), keys


def _read(path: Path) -> tuple[Toolkit, dict[str, Given]]:
    if path.suffix in CHECKPOINTS:
        raise BadInput(
            f"{path} is a checkpoint, a pickle, which is never opened because reading one can run "
            "code: give the configuration; docs/converting.md says how to convert weights"
        )
    if path.suffix in (".yaml", ".yml"):
        tree = read_yaml(path)
        for toolkit in TOOLKITS:
            if given := toolkit.keys_of_yaml(tree):
                return toolkit, given
    elif given := fairseq.keys_of_commands(read_commands(path)):
        return fairseq.TOOLKIT, given
    raise BadInput(
        f"{path} is not a known configuration: expected a script with a fairseq-train "
        "command, or the YAML (.yaml, .yml) of fairseq-hydra-train, onmt_train or JoeyNMT"
    )
