"""Helpers for tests of commands: a short training command, damage to a file, lines of output."""

from pathlib import Path

from conftest import TINY, options

SHORT = TINY | {"steps": "2", "validate_bleu": "0"}
SENTENCES = ["the dog sees a man.", "one bird!", "every fish likes the tree today.", "a man finds"]
Files = tuple[Path, Path]


def train_command(files: Files, run: Path, settings: dict[str, str] = TINY) -> list[str]:
    paths = map(str, files)
    return ["train", *paths, "--out", str(run), "--preset", "tiny", *options(settings)]


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    """Leave the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lines_of(output: str) -> list[str]:
    """Cut an output into lines at line feeds only, as `transduce.text` does."""
    *lines, rest = output.split("\n")
    assert rest == ""
    return lines


def numbered(output: str) -> list[tuple[int, float, str]]:
    rows = [line.split("\t") for line in lines_of(output)]
    return [(int(number), float(score), text) for number, score, text in rows]
