"""Damage at random places in every file that is read back: refused by name, or provably harmless.

A run, its corpus, its export, a parser and a student are made twice, from different texts. Of one
of them a file is damaged, or exchanged with the other's of the same name, and what reads it is
called as users would. What it comes to must be what comes of the undamaged files, to the last bit.
"""

import hashlib
import json
import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import threads_kept

from faults.count import Count
from faults.inside import SMALLEST, command, texts
from treebank import trees

COUNT = 6_000
SECONDS = 20  # after which something hangs
MEMORY = 4 << 30  # bytes that a file may cost beyond what is in use
BLOCK = 64  # bytes
LOGS = (".jsonl",)
FOLDERS = ("run", "parser", "student", "paper")
OFTEN = (
    *("run/", "paper/", "student/distilled/", "parser/trees/"),
    *("parser/lexicon.json", "parser/subwords.json", "parser/config.json"),
)
SENTENCE = "the dog sees a tree and every man likes the fish."
MORE = {"steps": "8"}
# Of a checkpoint that is not the newest these are read by nobody.
UNREAD = "checkpoints/step-0000002/optimizer.safetensors"

Record = dict[str, Any]
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


@dataclass(frozen=True)
class World:
    """Two of everything, and a folder to damage a copy of the first in."""

    folder: Path

    @property
    def whole(self) -> Path:
        return self.folder / "one"

    @property
    def other(self) -> Path:
        return self.folder / "two"

    @property
    def damaged(self) -> Path:
        return self.folder / "damaged"

    def reset(self, name: str) -> None:
        """Copy a folder anew."""
        shutil.rmtree(self.damaged / name, ignore_errors=True)
        shutil.copytree(self.whole / name, self.damaged / name)

    def files(self) -> list[str]:
        """Return every file that something reads, with its folder.

        Those of a parser and of a student that any run has come once where others come four times.
        """
        found = [
            str(path.relative_to(self.whole))
            for name in FOLDERS
            for path in sorted((self.whole / name).rglob("*"))
            if path.is_file() and UNREAD not in str(path)
        ]
        often = [name for name in found if name.startswith(OFTEN)]
        return [*found, *often, *often, *often]


def make(folder: Path) -> World:
    """Make two of everything that is damaged."""
    from transduce import train, train_parser
    from transduce.distillation import distill
    from transduce.paper.finding import Finding, Table
    from transduce.translator import Translator

    shutil.rmtree(folder, ignore_errors=True)
    world = World(folder)
    for seed, home in ((1, world.whole), (2, world.other)):
        given = folder / f"texts{seed}"
        files = texts(given, seed=seed)
        settings = SMALLEST | {"seed": str(seed)}
        run = train(*files, out=home / "run", settings=settings, preset="tiny", device="cpu")
        Translator.load(run, device="cpu", engine="ctranslate2")  # which keeps its export
        bank = given / "train.trees"
        bank.write_text("".join(f"{one}\n" for one in trees(40, seed)))
        train_parser(bank, out=home / "parser", settings=PARSING, device="cpu")
        distill(
            *(run, files[0]),
            out=home / "student",
            beam=1,
            preset="tiny",
            settings=SMALLEST,
            device="cpu",
        )
        table = Table("Title", ("a", "b"), (("1", "2"), ("3", str(seed))))
        Finding(name="table1", title="T", said="S", tables=(table,)).save(home / "paper")
    for name in FOLDERS:
        world.reset(name)
    return world


PARSING = SMALLEST | {"max_len": "60", "warmup": "10", "eps_ls": "0", "steps": "4"}


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def translate(world: World) -> Record:
    from transduce.translator import Translator

    loaded = Translator.load(world.damaged / "run", device="cpu", engine="torch")
    return {**_translated(loaded), "said": loaded.weights}


def translate_quickly(world: World) -> Record:
    from transduce.translator import Translator

    run = world.damaged / "run"
    return _translated(Translator.load(run, device="cpu", engine="ctranslate2"))


def _translated(loaded: Any) -> Record:
    (found,) = loaded.translate([SENTENCE], beam=2)
    settings = loaded.config
    return {
        "text": found.text,
        "score": found.score,
        "subwords": loaded.codec.sha256,
        "settings": [one.to_json() for one in (settings.model, settings.search)],
        "languages": settings.languages,
    }


def resume(world: World, **settings: str) -> Record:
    from transduce import train

    run = world.damaged / "run"
    files = [world.folder / "texts1" / f"tiny.{language}" for language in ("en", "de")]
    train(*files, out=run, settings=MORE | settings, device="cpu")
    return {
        name: digest_of(run / name)
        for name in ("model.safetensors", "checkpoints/step-0000008/weights.safetensors")
    } | {"subwords": _subwords(run)}


def resume_best(world: World) -> Record:
    """Go on with nothing but the choice of the best weights."""
    from transduce import train

    run = world.damaged / "run"
    files = [world.folder / "texts1" / f"tiny.{language}" for language in ("en", "de")]
    train(*files, out=run, settings={"select": "best"}, device="cpu")
    return {"model.safetensors": digest_of(run / "model.safetensors")}


def _subwords(run: Path) -> str:
    from transduce.subwords import Codec

    return Codec.load(run / "subwords.json").sha256


def average(world: World) -> Record:
    from transduce.checkpoint import average_checkpoints, tensors_digest

    tensors, words = average_checkpoints(world.damaged / "run", 3)
    return {"digest": tensors_digest(tensors), "words": words}


def info(world: World) -> Record:
    from transduce.errors import BadRun

    run = world.damaged / "run"
    told = command("info", run)
    if told.status == 1:
        raise BadRun(told.stderr)
    if ": missing" in told.stdout:  # so it says of weights
        raise BadRun(f"{run / 'model.safetensors'} is missing")
    if told.status:
        raise RuntimeError(told.stderr)
    return {"told": told.stdout}


def watch(world: World) -> Record:
    from transduce.web.runs import Board

    board = Board([world.damaged / "run"])
    (summary,) = board.summaries()
    data = board.since(summary["name"], "")
    json.dumps([summary, data], allow_nan=False)
    left_out = ("seconds_since_write", "token", "note", "left")
    return {
        "summary": {name: one for name, one in summary.items() if name not in left_out},
        "data": {name: one for name, one in data.items() if name not in left_out},
    }


def curves(world: World) -> Record:
    from transduce.history import read

    return {"rows": read(world.damaged / "run", "run").rows}


def corpus(world: World) -> Record:
    from transduce.corpus import open_corpus

    opened = open_corpus(world.damaged / "run" / "corpus")
    sides = [side for part in (opened.train, opened.valid) for side in (part.source, part.target)]
    arrays = [array for side in sides for array in (side.tokens, side.offsets)]
    return {
        "arrays": [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays],
        "subwords": opened.codec.sha256,
        "languages": opened.languages,
    }


def parse(world: World) -> Record:
    from transduce import Parser

    parser = Parser.load(world.damaged / "parser", device="cpu")
    return {"tree": str(parser("the red dog sees a tree.")), "subwords": parser.codec.sha256}


def parse_further(world: World) -> Record:
    from transduce import train_parser

    run, bank = world.damaged / "parser", world.folder / "texts1" / "train.trees"
    train_parser(bank, out=run, settings={"steps": "5"}, device="cpu")
    return {"model": digest_of(run / "model.safetensors"), "subwords": _subwords(run)}


def distil_further(world: World) -> Record:
    from transduce.distillation import distill

    run = world.damaged / "student"
    distill(
        *(world.whole / "run", world.folder / "texts1" / "tiny.en"),
        out=run,
        beam=1,
        preset="tiny",
        settings=MORE,
        device="cpu",
    )
    return {"model": digest_of(run / "model.safetensors"), "subwords": _subwords(run)}


def report(world: World) -> Record:
    from transduce.paper.finding import Finding

    return {"finding": repr(Finding.load(world.damaged / "paper" / "table1.json"))}


Use = Callable[[World], Record]
WRITES: frozenset[Use] = frozenset(
    {resume, resume_best, translate_quickly, parse_further, distil_further}
)
NEWEST = "checkpoints/step-0000006/"
# What reads a file: the first that fits. A run's own logs and lock come first.
READERS: list[tuple[str, tuple[Use, ...]]] = [
    ("paper/", (report,)),
    ("run/ctranslate2-none/", (translate_quickly,)),
    ("run/corpus/", (corpus, corpus, corpus, corpus, resume)),
    ("run/config.json", (translate, translate, info, watch, resume)),
    ("run/subwords.json", (translate, translate, resume)),
    ("run/model.safetensors", (translate, info)),
    ("run/best.safetensors", (resume_best,)),
    ("run/metrics.jsonl", (info, watch, curves, resume)),
    ("run/samples.jsonl", (watch, resume)),
    ("run/.lock", (watch, resume)),
    (f"run/{NEWEST}optimizer.safetensors", (resume,)),
    (f"run/{NEWEST}", (resume, average)),
    ("run/checkpoints/", (average,)),
    ("parser/trees/", (parse_further,)),
    ("parser/corpus/", (parse_further,)),
    ("parser/checkpoints/", (parse_further,)),
    ("parser/best.safetensors", (parse_further,)),
    ("parser/metrics.jsonl", (parse_further,)),
    ("parser/samples.jsonl", (parse_further,)),
    ("parser/", (parse, parse, parse_further)),
    ("student/", (distil_further,)),
]


def uses_of(name: str) -> tuple[Use, ...]:
    """Return what reads a file."""
    return next(uses for begin, uses in READERS if name.startswith(begin))


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


def inject(count: int, seed: int, folder: Path) -> list[Count]:
    """Damage files one after the other; see the head of this file."""
    counts = Count("a damaged file is refused by its name or is harmless", seed)
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
