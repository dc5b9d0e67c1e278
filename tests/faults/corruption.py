"""Damage at random places in every file that is read back: refused by name, or provably harmless.

A run, its corpus, its cached export, a parser and a student are made twice, from different texts.
Of one of them a file is damaged, or exchanged with the other's of the same name, and what reads it
is called as users would. What it comes to must be what comes of the undamaged files, to the last
bit.
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
SECONDS = 20  # after which something hangs
MEMORY = 4 << 30  # bytes that a file may cost beyond what is in use
BLOCK = 64  # bytes
LOGS = (".jsonl",)
Damage = Callable[[bytes, random.Random], bytes]


class Hangs(BaseException):
    """Something takes too long; no handler of errors may take this for one."""


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
PLACES = ("deleted", "a folder instead", "another run's")  # what becomes of the file as a whole
WEIGHTS = {"one bit": 6, "several bits": 4, "cut short": 4, "zeros": 3, "blocks swapped": 3}


def spoil(world: World, name: str, kind: str, chance: random.Random) -> bool:
    """Damage a file of the copy; tell whether it is another one now."""
    path, content = world.damaged / name, (world.whole / name).read_bytes()
    if kind in PLACES:
        path.unlink()
        if kind == "a folder instead":
            path.mkdir()
        elif kind == "another run's":
            other = world.other / name
            alone = name.startswith("paper/")  # a finding belongs to nothing
            if alone or not other.is_file() or other.read_bytes() == content:
                return False
            shutil.copyfile(other, path)
        return True
    if len(content) < 4:
        return False
    changed = DAMAGES[kind](content, chance)
    path.write_bytes(changed)
    return changed != content


def mend(world: World, name: str) -> None:
    """Put the whole file back."""
    path = world.damaged / name
    if path.is_dir():
        path.rmdir()
    shutil.copy2(world.whole / name, path)


@contextmanager
def bounded() -> Iterator[None]:
    """Let what is called take neither long nor much memory."""

    def hang(number: int, frame: Any) -> None:
        raise Hangs

    in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4096
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, hang)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, hard))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def outcome(world: World, name: str, kind: str, use: Use, expected: Record) -> tuple[str, str]:
    """Return what comes of a damaged file, and what is wrong with that."""
    from transduce.errors import TransduceError

    try:
        with bounded():
            found = use(world)
    except (TransduceError, IsADirectoryError) as error:  # each is told in a sentence
        return refusal(world, name, kind, str(error))
    except Hangs:
        return "", f"no end within {SECONDS} s"
    except Exception as error:
        return "", f"{type(error).__name__}: {str(error)[-300:]}"
    if found == expected:
        return "harmless: the same to the last bit", ""
    if told := said(name, kind, use, found, expected):
        return told, ""
    different = [key for key in expected if found.get(key) != expected[key]]
    return "", f"another {', '.join(different)} in silence"


def refusal(world: World, name: str, kind: str, sentence: str) -> tuple[str, str]:
    """Judge the sentence that a file was refused with."""
    if Path(name).name in sentence or str((world.damaged / name).parent) in sentence:
        return "refused by name", ""
    run = str(world.damaged / name.partition("/")[0])
    if kind in PLACES and run in sentence:  # it is whole, and tells of another beginning
        return "refused by the run's name", ""
    return "", f"refused without the file's name: {sentence}"


def said(name: str, kind: str, use: Use, found: Record, expected: Record) -> str:
    """Return in what way a difference is none of the model, or is told to whoever asked."""
    if name.endswith(LOGS) and use in (info, watch, curves):
        return "harmless: of the log one line alone"
    if kind in ("deleted", "a folder instead") and found.get("said") != expected.get("said"):
        return "said: the newest checkpoint instead"
    if use is watch and name == "run/config.json":
        return "said: its config.json is missing or damaged"
    if use is info and name == "run/model.safetensors" and "missing" in found["told"]:
        return "said: its weights are missing"
    return ""


def expectations(world: World) -> dict[Use, Record]:
    """Return what comes of the undamaged files."""
    found: dict[Use, Record] = {}
    for use in dict.fromkeys(use for _, uses in READERS for use in uses):
        for name in FOLDERS:
            world.reset(name)
        found[use] = use(world)
    for name in FOLDERS:
        world.reset(name)
    return found


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Damage files one after the other; see the head of this file."""
    counts = Tally("a damaged file is refused by its name or is harmless", seed)
    with threads_kept():
        world = make((folder / "world").resolve())
        expected = expectations(world)
        files = world.files()
        chance = random.Random(seed)
        kinds = [*DAMAGES, *PLACES]
        weights = [WEIGHTS.get(kind, 2) for kind in kinds]
        by_file: dict[str, int] = {}
        while counts.tried < count:
            name = files[counts.tried % len(files)]
            (kind,) = chance.choices(kinds, weights)
            use = chance.choice(uses_of(name))
            if spoil(world, name, kind, chance):
                came, wrong = outcome(world, name, kind, use, expected[use])
                if wrong:
                    counts.fail(f"{name}, {kind}, {use.__name__} (case {counts.tried}): {wrong}")
                else:
                    counts.hold(came)
                    key = f"{Path(name).name}: {came.partition(':')[0]}"
                    by_file[key] = by_file.get(key, 0) + 1
            if use in WRITES:
                world.reset(name.partition("/")[0])
            else:
                mend(world, name)
    counts.figures |= dict(sorted(by_file.items()))
    return [counts]
