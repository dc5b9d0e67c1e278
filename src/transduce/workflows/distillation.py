"""Distillation: train a student on a teacher's translations (Kim & Rush 2016).

    STUDENT/distilled/
      manifest.json              the teacher, the search and the texts, which must stay the same
      blocks/0000000.txt, …      translations of 1,024 lines each, until all are done
      source.txt, target.txt     the student's training text

A block is complete or absent, and is translated independently of the others, so an interruption
changes no translation.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transduce.config import ModelConfig, SearchConfig
from transduce.corpus.inputs import InputFile, require_rereadable
from transduce.corpus.token_files import InputRecord
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.presets import find_preset
from transduce.runs.folder import WRITTEN_IN, Origin
from transduce.runs.locks import locked_run
from transduce.settings.base import Value
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
from transduce.text.reading import read_lines, read_pairs
from transduce.training.settings import configure
from transduce.training.start import Start
from transduce.training.train import merge_settings, train
from transduce.translation.translator import Translator

FORMAT = 1
BLOCK = 1_024  # lines; at most this many are translated again after an interruption
FOLDER, MANIFEST, BLOCKS = "distilled", "manifest.json", "blocks"
SOURCE, TARGET = "source.txt", "target.txt"
# The types of the manifest's fields.
FIELDS = {
    "teacher": dict[str, Any],
    "search": dict[str, Any],
    "target": str | None,  # the language; None in runs of version 0.2
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
    to: str | None = None,
    source: str | None = None,
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
    """Train a student in the folder `out` on translations of `text` by the run `teacher`.

    `pairs` are two files, sentences and human translations, to train on as well. The student learns
    its own subwords unless `teacher_subwords` is set. `to` is the target language, which a teacher
    of several pairs needs, and `source` that of the text. The other arguments are as for `train`.

    >>> run = distill("runs/en-de", "train.en", out="runs/student", preset="tiny")
    """
    progress = progress or Silent()
    run, start = Path(out), Start(Path(teacher))
    choose_device(device)
    languages = start.config.directed(to, source).languages
    name = preset or choose_student(start.config.model)
    if not (run / "config.json").exists():  # refuse invalid settings now, not after hours
        basis = Start(start.run, weights=False) if teacher_subwords else None
        configure(find_preset(name), merge_settings(settings, steps=steps), basis)
    search = _with_changes(start.config.search, beam=beam, alpha=alpha)
    work = _Distillation(run, start, Path(text), pairs, search, languages)
    work.require_usable(valid)
    if not work.done():
        _require_one_process()
        with signals_as_interrupt(), locked_run(run):
            remove_leftovers(run, *WRITTEN_IN)
            work.begin(valid)
            work.translate(device, batch, progress)
            work.join()
    progress.say(f"the student learns from {work.folder / SOURCE} and {work.folder / TARGET}")
    return train(
        *(work.folder / SOURCE, work.folder / TARGET),
        out=run,
        subwords_of=start.run if teacher_subwords else None,
        valid=valid,
        languages="-".join(languages),
        preset=name,
        steps=steps,
        settings=settings,
        device=device,
        progress=progress,
    )


def _require_one_process() -> None:
    if world_size() > 1:
        raise BadSetting(
            "the teacher translates in one process: run this without torchrun until the "
            "student is being trained, then stop it and resume with torchrun"
        )


def _with_changes(search: SearchConfig, **changes: float | None) -> SearchConfig:
    return search.replace(**{name: value for name, value in changes.items() if value is not None})


def choose_student(teacher: ModelConfig) -> str:
    """Choose a preset that decodes several times as fast as the teacher."""
    return "base-12-1" if teacher.d_model >= 512 else "small-4-1"


@dataclasses.dataclass(frozen=True)
class _Distillation:
    """The teacher, the texts and the search, and the folder of finished translations."""

    run: Path
    teacher: Start
    text: Path
    pairs: Texts | None
    search: SearchConfig
    languages: tuple[str, str]

    @property
    def folder(self) -> Path:
        return self.run / FOLDER

    @property
    def files(self) -> list[InputFile]:
        given = [self.text, *map(Path, self.pairs or ())]
        return [InputFile(path, str(path.resolve())) for path in given]

    def require_usable(self, valid: tuple[str | Path, str | Path | None] | None) -> None:
        """Refuse files that cannot be read again, and folders of runs that are not distilled."""
        paths = [file.path for file in self.files] + [Path(path) for path in valid or () if path]
        require_rereadable(paths, "a text file")
        if self.pairs and not valid:
            raise BadInput(
                "human translations need validation text (--valid): sentences held out of them "
                "would still be learned from the teacher's translations"
            )
        if (self.run / "config.json").exists() and not (self.folder / MANIFEST).exists():
            raise BadRun(
                f"{self.run} is not a distilled run, because it has no {FOLDER}/{MANIFEST}: "
                "choose another folder"
            )

    def done(self) -> bool:
        """Return whether everything is translated; refuse arguments that have changed."""
        if not (self.folder / MANIFEST).exists():
            return False
        self._require_same(self._manifest())
        for name in (SOURCE, TARGET):
            require_regular(self.folder / name)
        return (self.folder / TARGET).exists()

    def begin(self, valid: tuple[str | Path, str | Path | None] | None) -> None:
        """Read everything once, to find errors early, and write the manifest."""
        if (self.folder / MANIFEST).exists():
            return
        for pair in filter(None, (self.pairs, valid)):
            for _ in read_pairs(*pair):
                pass
        lines = blank = 0
        for line in read_lines(self.text):
            lines += 1
            blank += not line.strip()
        if lines == blank:
            content = f"has only {pluralize(lines, 'blank line')}" if lines else "is empty"
            raise BadInput(f"{self.text} {content}: expected text for the teacher to translate")
        write_checksummed(
            self.folder / MANIFEST,
            {
                "format": FORMAT,
                "teacher": dataclasses.asdict(self.teacher.origin),
                "search": self.search.to_json(),
                "target": self.languages[1],
                "inputs": [dataclasses.asdict(file.to_record()) for file in self.files],
                "lines": lines,
                "block": BLOCK,
            },
        )

    def translate(self, device: str, batch: int | None, progress: Progress) -> None:
        """Translate the missing blocks."""
        manifest = self._manifest()
        done = [path for _, path in self._blocks(manifest) if path.exists()]
        remaining = manifest["lines"] - len(done) * manifest["block"]
        if remaining <= 0:
            return
        translator = Translator.load(self.teacher.run, device=device)
        translator = translator.directed(to=self.languages[1])
        progress.say(
            f"translating {self.text} with {self.teacher.run} ({translator.weights}), "
            f"beam {self.search.beam}"
            + (f", from line {manifest['lines'] - remaining + 1:,} on" if done else "")
        )
        with progress.track("translating", remaining, "lines") as advance:
            lines = read_lines(self.text)
            for size, path in self._blocks(manifest):
                block = list(itertools.islice(lines, size))
                if path.exists():
                    continue
                translations = translator.stream(
                    block,
                    batch=batch,
                    split=False,  # line n of the result must translate line n
                    advance=advance,
                    **self.search.to_json(),
                )
                _write(path, (translation.text for translation in translations))

    def join(self) -> None:
        """Write the student's training text, the target side last."""
        manifest = self._manifest()
        self._require_same(manifest)  # the text may have changed meanwhile
        sources, targets = map(read_lines, self.pairs) if self.pairs else ((), ())
        _write(self.folder / SOURCE, itertools.chain(read_lines(self.text), sources))
        _write(self.folder / TARGET, itertools.chain(self._translations(manifest), targets))
        remove_folder(self.folder / BLOCKS)

    def _blocks(self, manifest: Mapping[str, Any]) -> Iterator[tuple[int, Path]]:
        """Yield the number of lines and the file of each block."""
        lines, size = manifest["lines"], manifest["block"]
        for number, begin in enumerate(range(0, lines, size)):
            yield min(size, lines - begin), self.folder / BLOCKS / f"{number:07}.txt"

    def _translations(self, manifest: Mapping[str, Any]) -> Iterator[str]:
        for size, path in self._blocks(manifest):
            block = list(read_lines(require_regular(path)))
            if len(block) != size:
                raise BadRun(
                    f"{path} is damaged: it has {pluralize(len(block), 'line')}, expected "
                    f"{size:,}; delete it to translate them again"
                )
            yield from block

    def _manifest(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        manifest = read_checksummed(path, FORMAT, "a student's texts", FIELDS)
        teacher = Origin(**manifest["teacher"])
        inputs = [InputRecord(**record) for record in manifest["inputs"]]
        return manifest | {"teacher": teacher, "inputs": inputs}

    def _require_same(self, manifest: Mapping[str, Any]) -> None:
        otherwise = "use the same, or choose another folder"
        old, new = manifest["teacher"], self.teacher.origin
        if (old.sha256, old.subwords) != (new.sha256, new.subwords):
            raise BadRun(
                f"{self.run} was started with the teacher {old.run} ({old.weights}), "
                f"and {self.teacher.run} has other weights: {otherwise}"
            )
        for name, value in self.search.to_json().items():
            if manifest["search"].get(name) != value:
                raise BadSetting(
                    f"{self.run} was started with {name} = {manifest['search'].get(name)}, "
                    f"not {value}: {otherwise}"
                )
        target = manifest.get("target") or self.languages[1]
        if target != self.languages[1]:
            raise BadSetting(
                f"{self.run} was started with translations to {target}, not {self.languages[1]}: "
                f"{otherwise}"
            )
        files, records = self.files, manifest["inputs"]
        if len(files) != len(records):
            had = "without" if len(files) > len(records) else "with"
            raise BadSetting(f"{self.run} was started {had} human translations: {otherwise}")
        for file, record in zip(files, records, strict=True):
            if not file.matches(record):
                raise BadRun(
                    f"{file.path} is another text than {record.path}, which {self.run} was started "
                    f"with: {otherwise}"
                )


def _write(path: Path, lines: Iterable[str]) -> None:
    with (
        atomic_write(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for line in lines:
            file.write(line + "\n")
