"""From a teacher to a student that learns what the teacher writes (Kim & Rush 2016).

    STUDENT/distilled/
      manifest.json              the teacher, the search and the texts: what must stay the same
      blocks/0000000.txt, …      translations of some lines each, until all are there
      source.txt, target.txt     what the student learns from

A block is whole or absent and is translated by itself, so that a stop changes no translation.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transduce.config import ModelConfig, SearchConfig
from transduce.corpus.inputs import InputFile
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.presets import find_preset
from transduce.runs.folder import WRITTEN_IN, Origin
from transduce.runs.locks import locked_run
from transduce.settings.base import Value
from transduce.settings.types import dataclass_from_json
from transduce.system.devices import choose_device
from transduce.system.files import (
    atomic_write,
    read_checksummed,
    remove_folder,
    remove_leftovers,
    require_regular,
    write_checksummed,
)
from transduce.system.formatting import pluralize
from transduce.system.processes import world_size
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.reading import STDIN, read_lines, read_pairs
from transduce.training.settings import configure
from transduce.training.start import Start
from transduce.training.train import merge_settings, train
from transduce.translation.translator import Translator

FORMAT = 1
BLOCK = 1_024  # lines; what a stop can cost
FOLDER, MANIFEST, BLOCKS = "distilled", "manifest.json", "blocks"
SOURCE, TARGET = "source.txt", "target.txt"
# The types of the manifest's fields.
FIELDS = {
    "teacher": dict[str, Any],
    "search": dict[str, Any],
    "inputs": list[dict[str, Any]],
    "lines": int,
    "block": int,
}

Texts = tuple[str | Path, str | Path]


def distill(
    teacher: str | Path,
    text: str | Path,
    *,
    out: str | Path,
    pairs: Texts | None = None,
    valid: tuple[str | Path, str | Path | None] | None = None,
    teacher_subwords: bool = False,
    beam: int | None = None,
    alpha: float | None = None,
    batch: int | None = None,
    preset: str | None = None,
    steps: int | None = None,
    settings: Mapping[str, Value] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Path:
    """Train a student in the folder `out` on the translations of `text` by the run `teacher`.

    `pairs`, human translations, are added to them. The student has its own subwords, fewer for a
    smaller model, or the teacher's. The rest is as for `train`.

    >>> run = distill("runs/en-de", "train.en", out="runs/student", preset="tiny")
    """
    told = progress or Silent()
    run, own = Path(out), Start(Path(teacher))
    choose_device(device)
    name = preset or choose_student(own.config.model)
    if not (run / "config.json").exists():  # refused now, not after hours of translating
        basis = Start(own.run, weights=False) if teacher_subwords else None
        configure(find_preset(name), merge_settings(settings, steps=steps), basis)
    changes = {"beam": beam, "alpha": alpha}
    search = own.config.search.replace(**{k: v for k, v in changes.items() if v is not None})
    work = _Work(run, own, Path(text), pairs, search)
    work.require_usable(valid)
    if not work.done():
        if world_size() > 1:
            raise BadSetting(
                "the teacher translates in one process: run this without torchrun until the "
                "student is being trained, then stop it and go on with torchrun"
            )
        with signals_as_interrupt(), locked_run(run):
            remove_leftovers(run, *WRITTEN_IN)
            work.begin(valid)
            work.translate(device, batch, told)
            work.join()
    told.say(f"the student learns from {work.folder / SOURCE} and {work.folder / TARGET}")
    return train(
        work.folder / SOURCE,
        work.folder / TARGET,
        out=run,
        subwords_of=own.run if teacher_subwords else None,
        valid=valid,
        languages="-".join(own.config.languages),
        preset=name,
        steps=steps,
        settings=settings,
        device=device,
        progress=told,
    )


def choose_student(teacher: ModelConfig) -> str:
    """Choose a preset that decodes several times as fast as the teacher and can still learn."""
    return "base-12-1" if teacher.d_model >= 512 else "small-4-1"


@dataclasses.dataclass(frozen=True)
class _Work:
    """What is to be translated, by whom and how, and the folder that holds what is done of it."""

    run: Path
    teacher: Start
    text: Path
    pairs: Texts | None
    search: SearchConfig

    @property
    def folder(self) -> Path:
        return self.run / FOLDER

    @property
    def files(self) -> list[InputFile]:
        given = [self.text, *map(Path, self.pairs or ())]
        return [InputFile(path, str(path.resolve())) for path in given]

    def require_usable(self, valid: tuple[str | Path, str | Path | None] | None) -> None:
        """Refuse what cannot be read again when the work goes on, or what is no student."""
        given = [file.path for file in self.files] + [Path(path) for path in valid or () if path]
        for path in given:
            if str(path) != STDIN and not path.exists():
                raise BadInput(f"{path} does not exist: expected a text file")
            if not path.is_file():
                raise BadInput(
                    f"{path} is no file: expected one, for this goes on after a stop "
                    "and reads it again"
                )
        if self.pairs and not valid:
            raise BadInput(
                "with the pairs of people, validation text is needed (--valid): what would be held "
                "out of them would be learned in the teacher's words"
            )
        if (self.run / "config.json").exists() and not (self.folder / MANIFEST).exists():
            raise BadRun(
                f"{self.run} is a run that had no teacher, for it has no {FOLDER}/{MANIFEST}: "
                "choose another folder"
            )

    def done(self) -> bool:
        """Tell whether all is translated; refuse what was begun with something else."""
        if not (self.folder / MANIFEST).exists():
            return False
        self._require_same(self._manifest())
        for name in (SOURCE, TARGET):
            require_regular(self.folder / name)
        return (self.folder / TARGET).exists()

    def begin(self, valid: tuple[str | Path, str | Path | None] | None) -> None:
        """Read everything once, so that errors come early, and write down what it was."""
        if (self.folder / MANIFEST).exists():
            return
        for both in filter(None, (self.pairs, valid)):
            for _ in read_pairs(*both):
                pass
        lines = blank = 0
        for line in read_lines(self.text):
            lines += 1
            blank += not line.strip()
        if lines == blank:
            found = f"holds nothing but {pluralize(lines, 'blank line')}" if lines else "is empty"
            raise BadInput(f"{self.text} {found}: expected text for the teacher to translate")
        write_checksummed(
            self.folder / MANIFEST,
            {
                "format": FORMAT,
                "teacher": dataclasses.asdict(self.teacher.origin),
                "search": self.search.to_json(),
                "inputs": [dataclasses.asdict(file.to_record()) for file in self.files],
                "lines": lines,
                "block": BLOCK,
            },
        )

    def translate(self, device: str, batch: int | None, progress: Progress) -> None:
        """Translate what is not translated yet, a block at a time."""
        manifest = self._manifest()
        done = [path for _, path in self._blocks(manifest) if path.exists()]
        left = manifest["lines"] - len(done) * manifest["block"]
        if left <= 0:
            return
        translator = Translator.load(self.teacher.run, device=device)
        progress.say(
            f"translating {self.text} with {self.teacher.run} ({translator.weights}), "
            f"beam {self.search.beam}"
            + (f", from line {manifest['lines'] - left + 1:,} on" if done else "")
        )
        with progress.track("translating", left, "lines") as advance:
            lines = read_lines(self.text)
            for size, path in self._blocks(manifest):
                block = list(itertools.islice(lines, size))
                if path.exists():
                    continue
                translations = translator.stream(
                    block,
                    batch=batch,
                    split=False,  # line n of the student's text translates line n of this one
                    advance=advance,
                    **self.search.to_json(),
                )
                _write(path, (one.text for one in translations))

    def join(self) -> None:
        """Write the two texts that the student learns from, the target's last."""
        manifest = self._manifest()
        self._require_same(manifest)  # the text may have changed while it was read
        sources, targets = map(read_lines, self.pairs) if self.pairs else ((), ())
        _write(self.folder / SOURCE, itertools.chain(read_lines(self.text), sources))
        _write(self.folder / TARGET, itertools.chain(self._translations(manifest), targets))
        remove_folder(self.folder / BLOCKS)

    def _blocks(self, manifest: Mapping[str, Any]) -> Iterator[tuple[int, Path]]:
        """Yield how many lines each block has, and its file."""
        lines, size = manifest["lines"], manifest["block"]
        for number, begin in enumerate(range(0, lines, size)):
            yield min(size, lines - begin), self.folder / BLOCKS / f"{number:07}.txt"

    def _translations(self, manifest: Mapping[str, Any]) -> Iterator[str]:
        for size, path in self._blocks(manifest):
            block = list(read_lines(require_regular(path)))
            if len(block) != size:
                raise BadRun(
                    f"{path} is damaged: it has {pluralize(len(block), 'line')}, expected "
                    f"{size:,}; delete it to have them translated anew"
                )
            yield from block

    def _manifest(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        manifest = read_checksummed(path, FORMAT, "a student's texts", FIELDS)
        try:
            teacher = dataclass_from_json(Origin, manifest["teacher"])
            inputs = [dataclass_from_json(InputRecord, one) for one in manifest["inputs"]]
        except TypeError as error:
            raise BadRun(f"{path} is damaged: {error}") from None
        if min(manifest["lines"], manifest["block"]) < 1:
            raise BadRun(f"{path} is damaged: expected at least one line and one line a block")
        return manifest | {"teacher": teacher, "inputs": inputs}

    def _require_same(self, manifest: Mapping[str, Any]) -> None:
        otherwise = "go on with the same, or choose another folder"
        teacher, own = manifest["teacher"], self.teacher.origin
        if (teacher.sha256, teacher.subwords) != (own.sha256, own.subwords):
            raise BadRun(
                f"{self.run} was begun with the teacher {teacher.run} ({teacher.weights}), "
                f"and {self.teacher.run} now has other weights: {otherwise}"
            )
        for name, value in self.search.to_json().items():
            if manifest["search"].get(name) != value:
                raise BadSetting(
                    f"{self.run} was begun with {name} = {manifest['search'].get(name)}, "
                    f"not {value}: {otherwise}"
                )
        files, old = self.files, manifest["inputs"]
        if len(files) != len(old):
            began = "without" if len(files) > len(old) else "with"
            raise BadSetting(f"{self.run} was begun {began} the pairs of people: {otherwise}")
        for file, before in zip(files, old, strict=True):
            if not file.matches(before):
                raise BadRun(
                    f"{file.path} is another text than {before.path}, which {self.run} was begun "
                    f"with: {otherwise}"
                )


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line + "\n")
