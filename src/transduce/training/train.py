"""From two text files to a translator: prepare, begin or go on, train."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from transduce.checkpoints.checkpoint import (
    load_tensors,
    prune,
    save_tensors,
)
from transduce.config import SearchConfig, alias_notes, canonical_settings
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import Corpus, open_corpus
from transduce.errors import BadRun, BadSetting
from transduce.presets import find_preset
from transduce.runs.folder import (
    LEXICON,
    RECIPE,
    START,
    SUBWORDS,
    WRITTEN_IN,
    RunConfig,
    Task,
)
from transduce.runs.locks import locked_run
from transduce.runs.metrics import require_tensorboard
from transduce.settings.base import Value
from transduce.subwords import Codec
from transduce.system.devices import choose_device
from transduce.system.files import atomic_write, remove_folder, remove_leftovers
from transduce.system.processes import cores
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.training.distributed.processes import together
from transduce.training.extension import added, grown
from transduce.training.settings import (
    Start,
    basis_of,
    begun,
    continued,
    identified,
    languages_of,
    settled,
)
from transduce.training.trainer import Trainer


@dataclass(frozen=True)
class Texts:
    """What a run learns from and is validated on: two files line by line each, or one TSV."""

    source: str | Path
    target: str | Path | None = None
    valid: tuple[str | Path, str | Path | None] | None = None
    languages: str | None = None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a run shall be; `train` tells what each means."""

    run: Path
    corpus: Path | None = None
    basis: Start | None = None
    codec: Codec | None = None
    search: SearchConfig | None = None
    task: Task = "translation"
    preset: str | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    recipe: str | None = None  # its text, which the run folder keeps

    def __post_init__(self) -> None:
        """Replace aliases by the settings' own names."""
        object.__setattr__(self, "settings", canonical_settings(self.settings))

    @property
    def kept(self) -> Path:
        """The folder of the token files."""
        return self.run / "corpus" if self.corpus is None else self.corpus

    @property
    def goes_on(self) -> bool:
        """Whether the run has begun already."""
        return (self.run / "config.json").exists()

    def check(self) -> None:
        """Refuse what is mistyped before anything is written."""
        chosen = find_preset(self.preset or "base")
        if not self.goes_on:
            settled(chosen, self.settings, self.basis)
            if self.basis:
                self.basis.check()


def train(
    source: str | Path,
    target: str | Path | None = None,
    *,
    out: str | Path,
    corpus: str | Path | None = None,
    start: str | Path | None = None,
    subwords_of: str | Path | None = None,
    codec: Codec | None = None,
    extend_vocabulary: int = 0,
    search: SearchConfig | None = None,
    task: Task = "translation",
    valid: tuple[str | Path, str | Path | None] | None = None,
    languages: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    settings: Mapping[str, Value] | None = None,
    device: str = "auto",
    tensorboard: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train a translator from `source` to `target`, two files line by line (or one TSV).

    Everything is kept in the folder `out`, which `Translator.load` and every command understand,
    but for the token files if a folder `corpus` is named, which several runs may share.
    Called again with the same arguments it goes on where it was stopped.

    `settings` changes any setting that `transduce settings` lists: `{"N": 2, "P_drop": 0.3}`. The
    values are Python's, or text as for `--set`. `steps`, `epochs`, `seconds` and `seed` are short
    for the settings of those names. What is not set is chosen from the size of the data and the
    machine.

    With `start`, a trained run, it begins with that run's weights, model, subwords and languages,
    and a preset chooses the training alone; `extend_vocabulary` adds so many subwords of the new
    text. With `subwords_of`, it takes that run's subwords; with `codec`, those. `search` is how it
    will be searched, `task` what it does.

    >>> from transduce import train
    >>> run = train("train.en", "train.de", out="runs/en-de", settings={"N": 2, "P_drop": 0.3})
    >>> run.name
    'en-de'
    """
    wanted = Wanted(
        run=Path(out),
        corpus=None if corpus is None else Path(corpus),
        basis=basis_of(start, subwords_of, extend_vocabulary),
        codec=codec,
        search=search,
        task=task,
        preset=preset,
        settings=together_with(settings, steps=steps, epochs=epochs, seconds=seconds, seed=seed),
    )
    for line in alias_notes(settings or {}):
        (progress or Silent()).say(line)
    texts = Texts(source, target, valid, languages)
    return train_on(
        lambda: texts, wanted, device=device, tensorboard=tensorboard, progress=progress
    )


def together_with(
    settings: Mapping[str, Value] | None, **arguments: float | None
) -> dict[str, Value]:
    """Return settings with those that have arguments of their own; refuse what is given twice."""
    try:
        found: dict[str, Value] = canonical_settings(dict(settings or {}))
    except (TypeError, ValueError):
        raise BadSetting(
            f"settings = {settings!r:.60}: expected names and values, such as {{'N': 2}}"
        ) from None
    for name, value in arguments.items():
        if value is not None and name in found:
            raise BadSetting(f"{name} is given as an argument and in settings: give it once")
        found |= {} if value is None else {name: value}
    return found


def train_on(
    texts: Callable[[], Texts],
    wanted: Wanted,
    *,
    device: str = "auto",
    tensorboard: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train on texts that the first process alone asks for, once: it may have to fetch them."""
    told = progress or Silent()
    run, on = wanted.run, choose_device(device, told.say)
    cores()  # an environment that cannot be right is refused before anything is written
    if tensorboard:
        require_tensorboard()
    wanted.check()
    with contextlib.ExitStack() as stack:
        processes, on = stack.enter_context(together(on))
        stack.enter_context(signals_as_interrupt())
        if processes.first:
            stack.enter_context(locked_run(run))
        config = processes.from_first(lambda: begin_or_go_on(texts, wanted, on, told))
        if not processes.first:
            told = Silent()
        corpus = open_corpus(wanted.kept)
        Trainer(
            run, config, corpus, on, told, tensorboard=tensorboard, processes=processes
        ).run_to_end()
    return run


def begin_or_go_on(
    texts: Callable[[], Texts], wanted: Wanted, on: torch.device, told: Progress
) -> RunConfig:
    """Make the corpus and the folder of a run, or see that they are those that it began with."""
    run, basis, goes_on = wanted.run, wanted.basis, wanted.goes_on
    remove_leftovers(run, *WRITTEN_IN)
    if goes_on:
        config = continued(run, wanted.preset, wanted.settings, on, told, basis, wanted.task)
        prune(run, config.train.keep)  # which a kill may have kept from being done
        codec = Codec.load(config.verified(run, SUBWORDS)) if config.origin else wanted.codec
        more = added(config, run, basis)
        known = config.languages if config.origin and config.origin.weights else None
    else:
        model, recipe = settled(find_preset(wanted.preset or "base"), wanted.settings, basis)
        config = RunConfig(model=model, train=recipe)
        codec = basis.codec if basis else wanted.codec
        more = basis.more if basis else 0
        known = basis.config.languages if basis and basis.weights else None
    given, fresh = texts(), not wanted.kept.exists()
    tokens = prepare(
        given.source,
        given.target,
        wanted.kept,
        valid=given.valid,
        languages=languages_of(given.source, given.target, given.languages, known, told),
        train=config.train,
        max_len=config.model.max_len,
        codec=codec,
        more_subwords=more,
        extended_from=config.origin.subwords if config.origin else None,
        may_replace=fresh or (not goes_on and wanted.corpus is None),
        progress=told,
    )
    if not goes_on:
        config = _begun(wanted, tokens, on, told)
    elif fresh:
        _require_same(config, tokens, wanted)
    if wanted.recipe is not None:
        with atomic_write(run / RECIPE) as beside:
            beside.write_text(wanted.recipe, encoding="utf-8", newline="\n")
    config.verified(run, SUBWORDS).stat()  # the folder may have been removed meanwhile
    config.save(run)  # last, for it makes the folder a run
    return config


def _require_same(config: RunConfig, tokens: Corpus, wanted: Wanted) -> None:
    """Refuse a corpus that was made anew, for it had been deleted, and is not what it was."""
    if config.identity and identified(config, tokens).identity != config.identity:
        remove_folder(wanted.kept)
        raise BadRun(
            f"{wanted.run} was begun with other text than this, and its corpus is gone: go on with "
            "the same text, or choose another folder for a new run"
        )


def _begun(wanted: Wanted, tokens: Corpus, on: torch.device, told: Progress) -> RunConfig:
    """Settle what a new run is, and write into its folder what belongs to it."""
    run, basis = wanted.run, wanted.basis
    config = begun(tokens, wanted.preset, wanted.settings, on, told, basis)
    config = dataclasses.replace(config, task=wanted.task, search=wanted.search or config.search)
    tokens.codec.save(run / SUBWORDS)
    if basis and basis.weights:
        tensors = load_tensors(basis.path)
        if basis.more:
            tensors = grown(tensors, basis.codec, tokens.codec, told)
        save_tensors(run / START, tensors)
    return identified(config, tokens).with_hashes(run, SUBWORDS, START, LEXICON)
