"""A recipe that trains a tiny model in a second, and its texts."""

from pathlib import Path

from conftest import TINY, tiny_pairs, write_pairs

SETTINGS = "\n".join(
    f"{name} = {value if value.isdecimal() else repr(value)}"
    for name, value in TINY.items()
    if name not in ("steps", "log_every")
)
TEXT = f"""
about = "tiny"
[data]
{{data}}
[train]
preset = "tiny"
steps = {{steps}}
[settings]
{SETTINGS}
[evaluate]
beam = 2
"""
FILES = """source = "train.en"
target = "train.de"
valid = ["valid.en", "valid.de"]
test = ["test.en", "test.de"]"""


def write_texts(folder: Path) -> dict[str, tuple[Path, Path]]:
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"train": (200, 1), "valid": (10, 2), "test": (12, 3)}
    return {
        part: write_pairs(folder, part, tiny_pairs(count, seed))
        for part, (count, seed) in counts.items()
    }
