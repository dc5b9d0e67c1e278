"""Random damage to every file that is read back: refused by name, or provably harmless.

A run, its corpus, its cached export, a parser and a student are made twice, from different texts.
One file is damaged, or replaced by the other copy's file of the same name, and then read as users
would. The result must equal that of the undamaged files, to the last bit, or be an error.
"""

import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import threads_kept

from faults.artifacts import (
    FOLDERS,
    READERS,
    WRITES,
    Record,
    Use,
    World,
    curves,
    info,
    make,
    uses_of,
    watch,
)
from faults.tally import Tally

COUNT = 6_000
SECONDS = 20  # time limit
MEMORY = 4 << 30  # bytes that reading a file may use
BLOCK = 64  # bytes
LOGS = (".jsonl",)
Damage = Callable[[bytes, random.Random], bytes]


class Timeout(BaseException):
    """The time limit was reached; not an Exception, so that no handler catches it."""


def flip(content: bytes, chance: random.Random, bits: int = 1) -> bytes:
    changed = bytearray(content)
    for _ in range(bits):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def flips(content: bytes, chance: random.Random) -> bytes:
    return flip(content, chance, chance.randint(2, 20))


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def zeros(content: bytes, chance: random.Random) -> bytes:
    begin, size = chance.randrange(len(content)), chance.choice((8, BLOCK, 512))
    zeroed = content[begin : begin + size]
    return content[:begin] + bytes(len(zeroed)) + content[begin + len(zeroed) :]


def longer(content: bytes, chance: random.Random) -> bytes:
    return content + chance.choice((b"\0", b"\n", b"}", b" x", chance.randbytes(BLOCK)))


def swapped(content: bytes, chance: random.Random) -> bytes:
    size = min(BLOCK, len(content) // 2)
    first = chance.randrange(max(1, len(content) - 2 * size + 1))
    second = chance.randint(first + size, len(content) - size)
    return b"".join(
        (
            content[:first],
            content[second : second + size],
            content[first + size : second],
            content[first : first + size],
            content[second + size :],
        )
    )


def emptied(content: bytes, chance: random.Random) -> bytes:
    return b""


DAMAGES: dict[str, Damage] = {
    "one bit": flip,
    "several bits": flips,
    "cut short": cut,
    "zeros": zeros,
    "bytes more": longer,
    "blocks swapped": swapped,
    "emptied": emptied,
}
REPLACEMENTS = ("deleted", "a folder instead", "another run's")  # of the whole file
WEIGHTS = {"one bit": 6, "several bits": 4, "cut short": 4, "zeros": 3, "blocks swapped": 3}


def damage_file(world: World, name: str, kind: str, chance: random.Random) -> bool:
    """Damage a file of the copy; return whether it has changed."""
    path, content = world.damaged / name, (world.whole / name).read_bytes()
    if kind in REPLACEMENTS:
        path.unlink()
        if kind == "a folder instead":
            path.mkdir()
        elif kind == "another run's":
            other = world.other / name
            alone = name.startswith("paper/")  # a finding is independent of other files
            if alone or not other.is_file() or other.read_bytes() == content:
                return False
            shutil.copyfile(other, path)
        return True
    if len(content) < 4:
        return False
    changed = DAMAGES[kind](content, chance)
    path.write_bytes(changed)
    return changed != content


def restore(world: World, name: str) -> None:
    """Restore the undamaged file."""
    path = world.damaged / name
    if path.is_dir():
        path.rmdir()
    shutil.copy2(world.whole / name, path)


@contextmanager
def bounded() -> Iterator[None]:
    """Limit time and memory."""

    def time_out(number: int, frame: Any) -> None:
        raise Timeout

    in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4096
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, time_out)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, hard))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def outcome(world: World, name: str, kind: str, use: Use, expected: Record) -> tuple[str, str]:
    """Return the outcome of reading a damaged file, and what is wrong with it."""
    from transduce.errors import TransduceError

    try:
        with bounded():
            found = use(world)
    except (TransduceError, IsADirectoryError) as error:  # reported in a sentence
        return check_refusal(world, name, kind, str(error))
    except Timeout:
        return "", f"no end within {SECONDS} s"
    except Exception as error:
        return "", f"{type(error).__name__}: {str(error)[-300:]}"
    if found == expected:
        return "harmless: the same to the last bit", ""
    if difference := accepted_difference(name, kind, use, found, expected):
        return difference, ""
    different = [key for key in expected if found.get(key) != expected[key]]
    return "", f"{', '.join(different)} changed silently"


def check_refusal(world: World, name: str, kind: str, sentence: str) -> tuple[str, str]:
    """Check that a refusal names the file."""
    if Path(name).name in sentence or str((world.damaged / name).parent) in sentence:
        return "refused by name", ""
    run = str(world.damaged / name.partition("/")[0])
    if kind in REPLACEMENTS and run in sentence:  # the file is intact but of another run
        return "refused by the run's name", ""
    return "", f"refused without the file's name: {sentence}"


def accepted_difference(name: str, kind: str, use: Use, found: Record, expected: Record) -> str:
    """Return why a difference is acceptable: only in logs, or reported to the user."""
    if name.endswith(LOGS) and use in (info, watch, curves):
        return "harmless: one line of the log"
    if kind in ("deleted", "a folder instead") and found.get("weights") != expected.get("weights"):
        return "reported: the newest checkpoint instead"
    if use is watch and name == "run/config.json":
        return "reported: its config.json is missing or damaged"
    if use is info and name == "run/model.safetensors" and "missing" in found["output"]:
        return "reported: its weights are missing"
    return ""


def expectations(world: World) -> dict[Use, Record]:
    """Return the results of the undamaged files."""
    found: dict[Use, Record] = {}
    for use in dict.fromkeys(use for _, uses in READERS for use in uses):
        for name in FOLDERS:
            world.reset(name)
        found[use] = use(world)
    for name in FOLDERS:
        world.reset(name)
    return found


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Damage files one after the other; see the module docstring."""
    counts = Tally("a damaged file is refused by its name or is harmless", seed)
    with threads_kept():
        world = make((folder / "world").resolve())
        expected = expectations(world)
        files = world.files()
        chance = random.Random(seed)
        kinds = [*DAMAGES, *REPLACEMENTS]
        weights = [WEIGHTS.get(kind, 2) for kind in kinds]
        by_file: dict[str, int] = {}
        while counts.tried < count:
            name = files[counts.tried % len(files)]
            (kind,) = chance.choices(kinds, weights)
            use = chance.choice(uses_of(name))
            if damage_file(world, name, kind, chance):
                result, wrong = outcome(world, name, kind, use, expected[use])
                if wrong:
                    counts.fail(f"{name}, {kind}, {use.__name__} (case {counts.tried}): {wrong}")
                else:
                    counts.hold(result)
                    key = f"{Path(name).name}: {result.partition(':')[0]}"
                    by_file[key] = by_file.get(key, 0) + 1
            if use in WRITES:
                world.reset(name.partition("/")[0])
            else:
                restore(world, name)
    counts.figures |= dict(sorted(by_file.items()))
    return [counts]
