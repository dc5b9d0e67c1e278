"""Every kind of file that is read back, and the functions that read it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.in_process import SMALLEST, caching_in, command, texts
from treebank import trees

FOLDERS = ("run", "parser", "student", "paper", "cache")
OFTEN = (
    *("run/", "cache/", "paper/", "student/distilled/", "parser/trees/"),
    *("parser/lexicon.json", "parser/subwords.json", "parser/config.json"),
)
SENTENCE = "the dog sees a tree and every man likes the fish."
MORE = {"steps": "8"}
# Nothing reads the optimizer state of old checkpoints.
UNREAD = "checkpoints/step-0000002/optimizer.safetensors"
Record = dict[str, Any]


@dataclass(frozen=True)
class World:
    """Two sets of files, and a copy of the first to damage."""

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
        """Restore a folder of the copy."""
        shutil.rmtree(self.damaged / name, ignore_errors=True)
        shutil.copytree(self.whole / name, self.damaged / name)

    def files(self) -> list[str]:
        """Return every file that is read, with its folder.

        Files of a parser or student that every run has occur once, others four times.
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
    """Create two sets of files."""
    from transduce import train, train_parser
    from transduce.experiments.findings import Finding, Table
    from transduce.translation.translator import Translator
    from transduce.workflows.distillation import distill

    shutil.rmtree(folder, ignore_errors=True)
    world = World(folder)
    for seed, directory in ((1, world.whole), (2, world.other)):
        text_folder = folder / f"texts{seed}"
        files = texts(text_folder, seed=seed)
        settings = SMALLEST | {"seed": str(seed)}
        run = train(*files, out=directory / "run", settings=settings, preset="tiny", device="cpu")
        with caching_in(directory / "cache"):
            Translator.load(run, device="cpu", engine="ctranslate2")
        bank = text_folder / "train.trees"
        bank.write_text("".join(f"{tree}\n" for tree in trees(40, seed)))
        train_parser(bank, out=directory / "parser", settings=PARSING, device="cpu")
        distill(
            *(run, files[0]),
            out=directory / "student",
            beam=1,
            preset="tiny",
            settings=SMALLEST,
            device="cpu",
        )
        table = Table("Title", ("a", "b"), (("1", "2"), ("3", str(seed))))
        Finding(name="table1", title="T", said="S", tables=(table,)).save(directory / "paper")
    for name in FOLDERS:
        world.reset(name)
    return world


PARSING = SMALLEST | {"max_len": "60", "warmup": "10", "eps_ls": "0", "steps": "4"}


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def translate(world: World) -> Record:
    from transduce.translation.translator import Translator

    loaded = Translator.load(world.damaged / "run", device="cpu", engine="torch")
    return {**_translated(loaded), "weights": loaded.weights}


def translate_quickly(world: World) -> Record:
    from transduce.translation.translator import Translator

    run = world.damaged / "run"
    with caching_in(world.damaged / "cache"):
        return _translated(Translator.load(run, device="cpu", engine="ctranslate2"))


def _translated(loaded: Any) -> Record:
    (found,) = loaded.translate([SENTENCE], beam=2)
    settings = loaded.config
    return {
        "text": found.text,
        "score": found.score,
        "subwords": loaded.codec.sha256,
        "settings": [part.to_json() for part in (settings.model, settings.search)],
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
    """Resume only to select the best weights."""
    from transduce import train

    run = world.damaged / "run"
    files = [world.folder / "texts1" / f"tiny.{language}" for language in ("en", "de")]
    train(*files, out=run, settings={"select": "best"}, device="cpu")
    return {"model.safetensors": digest_of(run / "model.safetensors")}


def _subwords(run: Path) -> str:
    from transduce.subwords import Codec

    return Codec.load(run / "subwords.json").sha256


def average(world: World) -> Record:
    from transduce.checkpoints.checkpoint import average_checkpoints, tensors_digest

    tensors, words = average_checkpoints(world.damaged / "run", 3)
    return {"digest": tensors_digest(tensors), "words": words}


def info(world: World) -> Record:
    from transduce.errors import BadRun

    run = world.damaged / "run"
    result = command("info", run)
    if result.status == 1:
        raise BadRun(result.stderr)
    if ": missing" in result.stdout:  # the weights
        raise BadRun(f"{run / 'model.safetensors'} is missing")
    if result.status:
        raise RuntimeError(result.stderr)
    return {"output": result.stdout}


def watch(world: World) -> Record:
    from transduce.serving.runs import Board

    board = Board([world.damaged / "run"])
    (summary,) = board.summaries()
    data = board.since(summary["name"], "")
    json.dumps([summary, data], allow_nan=False)
    left_out = ("seconds_since_write", "token", "note", "left")
    return {
        "summary": {name: value for name, value in summary.items() if name not in left_out},
        "data": {name: value for name, value in data.items() if name not in left_out},
    }


def curves(world: World) -> Record:
    from transduce.runs.history import read_history

    return {"rows": read_history(world.damaged / "run", "run").rows}


def corpus(world: World) -> Record:
    from transduce.corpus.token_files import open_corpus

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
    from transduce.workflows.distillation import distill

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
    from transduce.experiments.findings import Finding

    return {"finding": repr(Finding.load(world.damaged / "paper" / "table1.json"))}


Use = Callable[[World], Record]
WRITES: frozenset[Use] = frozenset(
    {resume, resume_best, translate_quickly, parse_further, distil_further}
)
NEWEST = "checkpoints/step-0000006/"
# The functions that read a file, by the first matching prefix.
READERS: list[tuple[str, tuple[Use, ...]]] = [
    ("paper/", (report,)),
    ("cache/", (translate_quickly,)),
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
    """Return the functions that read a file."""
    return next(uses for begin, uses in READERS if name.startswith(begin))
