"""Dictionary files of other toolkits: one word per line, often with its count."""

from pathlib import Path

from transduce.errors import BadInput

MAX_SIZE = 1 << 26  # bytes


def require_dictionary(path: Path) -> None:
    """Refuse a file that is missing or too large to be a dictionary."""
    if not path.is_file():
        problem = "is not a regular file" if path.exists() else "is missing"
        raise BadInput(f"the dictionary {path} {problem}")
    if path.stat().st_size > MAX_SIZE:
        raise BadInput(
            f"{path} is larger than {MAX_SIZE >> 20} MiB: expected a dictionary, "
            "a word and a count on each line"
        )
