"""From two text files to a translator: prepare the corpus, begin or resume a run, train."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from transduce.checkpoints.checkpoint import load_tensors, prune, save_tensors
from transduce.config import SearchConfig, alias_notes, canonical_settings
from transduce.corpus.preparation import prepare
from transduce.corpus.token_files import Corpus, open_corpus
from transduce.corpus.updates import Mixture
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.presets import find_preset
from transduce.runs.folder import CONFIG, LEXICON, START, SUBWORDS, WRITTEN_IN, RunConfig, Task
from transduce.runs.locks import locked_run
from transduce.runs.tracking import Callback, Tracking
from transduce.settings.base import Value
from transduce.subwords import Codec
from transduce.system.devices import choose_device
from transduce.system.files import remove_folder, remove_leftovers, write_text_file
from transduce.system.processes import cores
from transduce.system.progress import Progress, Silent
from transduce.system.signals import signals_as_interrupt
from transduce.text.corpora import CorpusText, Files, with_names
from transduce.text.languages import UNKNOWN, Pair
from transduce.training.defaults import Row, rows_for
from transduce.training.distributed.processes import join_processes
from transduce.training.languages import in_directions
from transduce.training.settings import (
    configure,
    new_config,
    resumed_config,
    with_identity,
)
from transduce.training.start import Start, extend_rows
from transduce.training.trainer import Trainer


@dataclass(frozen=True)
class Texts:
    """Training and validation text: each is two parallel files or one TSV."""

    corpora: Sequence[CorpusText]
    valid: Files | None = None
    languages: str | None = None
    both_directions: bool = False

    def in_directions(self, known: Sequence[Pair], progress: Progress) -> "Texts":
        """Return the texts with their languages, in both directions if required."""
        corpora, valid = in_directions(
            *(self.corpora, self.valid),
            given=self.languages,
            known=known,
            both=self.both_directions,
            progress=progress,
        )
        return Texts(corpora, valid, self.languages)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each corpus; empty if all are 1."""
        weights = tuple(float(corpus.weight) for corpus in self.corpora)
        return () if all(weight == 1 for weight in weights) else weights


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The run to train; `train` documents the fields."""

    run: Path
    corpus: Path | None = None
    start: Start | None = None
    codec: Codec | None = None
    search: SearchConfig | None = None
    task: Task = "translation"
    preset: str | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # texts to keep in the run folder

    def __post_init__(self) -> None:
        """Replace aliases with canonical names of settings."""
        object.__setattr__(self, "settings", canonical_settings(self.settings))

    @property
    def corpus_folder(self) -> Path:
        """The folder with the token files."""
        return self.run / "corpus" if self.corpus is None else self.corpus

    @property
    def resumes(self) -> bool:
        """Whether the run already exists."""
        return (self.run / CONFIG).exists()

    def check(self, device: str) -> None:
        """Refuse mistyped settings before anything is written."""
        if self.preset:
            find_preset(self.preset)
        if self.resumes:
            return
        rows = [Row(0, self.preset, {})] if self.preset else rows_for(device)
        problems = [self._problem(row) for row in rows]
        if problems[0] and all(problems):  # without a preset, the data will choose the row
            raise problems[0]
        if self.start:
            self.start.check()

    def _problem(self, row: Row) -> BadSetting | None:
        """Return why the settings do not fit this row of the defaults."""
        try:
            configure(row.adapted_to(self.settings).to_preset(), self.settings, self.start)
        except BadSetting as problem:
            return problem
        return None


def train(
    source: str | Path | None = None,
    target: str | Path | None = None,
    *,
    out: str | Path,
    corpora: Sequence[CorpusText] = (),
    corpus: str | Path | None = None,
    start: str | Path | None = None,
    subwords_of: str | Path | None = None,
    codec: Codec | None = None,
    extend_vocabulary: int = 0,
    search: SearchConfig | None = None,
    task: Task = "translation",
    valid: Files | None = None,
    languages: str | None = None,
    both_directions: bool = False,
    preset: str | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    settings: Mapping[str, Value] | None = None,
    device: str = "auto",
    tensorboard: bool = False,
    callback: Callback | None = None,
    services: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Train a translator from `source` to `target`, two parallel text files (or one TSV).

    The run folder `out` contains everything that `Translator.load` and the commands need; `corpus`
    is another folder for token files, which runs may share. The same call again resumes the run.
    `settings` changes any setting that `transduce settings` lists, with Python values or text as
    for `--set`; `steps`, `epochs`, `seconds` and `seed` are shorthand for settings. Those not given
    are chosen by the size of the data and the machine. `corpora` are further texts with weights, in
    any pairs of languages; `both_directions` uses all texts in both. `start` is a trained run to
    start from: its weights, model, subwords and languages; a preset then sets the training only.
    `extend_vocabulary` adds that many subwords, learned from the new text. `subwords_of` is a run
    whose subwords are used, `codec` the subwords. `search` is stored in the run, `task` is what the
    model learns. `callback(step, metrics)` is called for each logged step and validation; its
    exception is raised after saving. `services` gets them too: `{"wandb": project, "mlflow": uri}`.

    >>> train("train.en", "train.de", out="runs/en-de", settings={"N": 2, "P_drop": 0.3}).name
    'en-de'
    """
    plan = Plan(
        run=Path(out),
        corpus=None if corpus is None else Path(corpus),
        start=Start.of(start, subwords_of, extend_vocabulary),
        codec=codec,
        search=search,
        task=task,
        preset=preset,
        settings=merge_settings(settings, steps=steps, epochs=epochs, seconds=seconds, seed=seed),
    )
    for line in alias_notes(settings or {}):
        (progress or Silent()).say(line)
    texts = Texts(all_corpora(source, target, corpora), valid, languages, both_directions)
    tracking = Tracking(tensorboard=tensorboard, callback=callback, services=services)
    return train_on(lambda: texts, plan, device=device, tracking=tracking, progress=progress)


def all_corpora(
    source: str | Path | None, target: str | Path | None, corpora: Sequence[CorpusText]
) -> list[CorpusText]:
    """Return the corpora to train on: `source` and `target` first, with weight 1."""
    first = [] if source is None else [CorpusText(source, target)]
    if not all(isinstance(corpus, CorpusText) for corpus in corpora):
        raise BadInput(
            f"corpora = {corpora!r:.60}: expected a list of CorpusText, such as "
            "CorpusText('news.tsv', weight=2)"
        )
    if not first and (target is not None or not corpora):
        raise BadInput("there is no text to train on: expected source and target, or corpora")
    with_names(all_texts := [*first, *corpora])  # refuses a name that is given twice
    return all_texts


def merge_settings(
    settings: Mapping[str, Value] | None, **arguments: float | None
) -> dict[str, Value]:
    """Add settings that were given as separate arguments; refuse one that is given twice."""
    try:
        merged: dict[str, Value] = canonical_settings(dict(settings or {}))
    except (TypeError, ValueError):
        raise BadSetting(
            f"settings = {settings!r:.60}: expected names and values, such as {{'N': 2}}"
        ) from None
    for name, value in arguments.items():
        if value is not None and name in merged:
            raise BadSetting(f"{name} is given as an argument and in settings: give it once")
        merged |= {} if value is None else {name: value}
    return merged


def train_on(
    texts: Callable[[], Texts],
    plan: Plan,
    *,
    device: str = "auto",
    tracking: Tracking = Tracking(),  # noqa: B008  (frozen)
    progress: Progress | None = None,
) -> Path:
    """Train on `texts()`, which is called once, by the first process only: it may download them."""
    progress = progress or Silent()
    chosen = choose_device(device, progress.say)
    cores()  # refuses invalid environment variables before anything is written
    tracking.check()
    plan.check(chosen.type)
    with contextlib.ExitStack() as stack:
        processes, process_device = stack.enter_context(join_processes(chosen))
        stack.enter_context(signals_as_interrupt())
        if processes.first:
            stack.enter_context(locked_run(plan.run))
        config = processes.from_first(lambda: prepare_run(texts, plan, process_device, progress))
        Trainer(
            plan.run,
            config,
            open_corpus(plan.corpus_folder),
            process_device,
            progress if processes.first else Silent(),
            tracking=tracking,
            processes=processes,
        ).run_to_end()
    return plan.run


def prepare_run(
    texts: Callable[[], Texts], plan: Plan, device: torch.device, progress: Progress
) -> RunConfig:
    """Make the corpus and the folder for a new run, or check those of a run to resume."""
    run, start, resumes = plan.run, plan.start, plan.resumes
    remove_leftovers(run, *WRITTEN_IN)
    if resumes:
        config = resumed_config(run, plan.preset, plan.settings, device, progress, start, plan.task)
        prune(run, config.train.keep)  # a killed process may not have done it
        origin = config.origin
        codec = Codec.load(config.verified(run, SUBWORDS)) if origin else plan.codec
        more = origin.more if origin else 0
        trained = config if origin and origin.weights else None
    else:
        model, train = configure(find_preset(plan.preset or "base"), plan.settings, start)
        config = RunConfig(model=model, train=train)
        codec = start.codec if start else plan.codec
        more = start.more if start else 0
        trained = start.config if start and start.weights else None
    known = trained.all_pairs if trained else ()
    given, missing = texts().in_directions(known, progress), not plan.corpus_folder.exists()
    if resumes:
        _require_same_weights(config, given, run)
    corpus = prepare(
        given.corpora,
        plan.corpus_folder,
        valid=given.valid,
        languages=given.corpora[0].pair or UNKNOWN,
        train=config.train,
        max_len=config.model.max_len,
        codec=codec,
        more_subwords=more,
        extended_from=config.origin.subwords if config.origin else None,
        may_replace=missing or (not resumes and plan.corpus is None),
        shared=plan.corpus is not None,
        progress=progress,
    )
    if not resumes:
        config = _new_run(plan, corpus, given.weights, device, progress)
    elif missing:
        _require_same(config, corpus, plan)
    for name, content in plan.files.items():
        write_text_file(run / name, content)
    config.verified(run, SUBWORDS).stat()  # the folder may have been removed meanwhile
    config.save(run)  # last, because config.json makes the folder a run
    return config


def _require_same_weights(config: RunConfig, given: Texts, run: Path) -> None:
    """Refuse other weights of the corpora than those that the run was started with."""
    if given.weights != config.corpus_weights:
        before = config.corpus_weights or (1.0,) * len(given.corpora)
        weights = ", ".join(f"{weight:g}" for weight in before)
        raise BadSetting(
            f"{run} was started with corpora of weight {weights}, not "
            + ", ".join(f"{corpus.weight:g}" for corpus in given.corpora)
            + ": continue with the same weights, or choose another folder"
        )


def _require_same(config: RunConfig, corpus: Corpus, plan: Plan) -> None:
    """Refuse different text in place of a corpus that was deleted."""
    if config.identity and with_identity(config, corpus).identity != config.identity:
        remove_folder(plan.corpus_folder)
        raise BadRun(
            f"{plan.run} was started with other text than this, and its corpus is gone: "
            "continue with the same text, or choose another folder for a new run"
        )


def _new_run(
    plan: Plan,
    corpus: Corpus,
    weights: tuple[float, ...],
    device: torch.device,
    progress: Progress,
) -> RunConfig:
    """Choose the settings for a new run, and write its subwords and initial weights."""
    run, start = plan.run, plan.start
    config = new_config(corpus, plan.preset, plan.settings, device, progress, start)
    # This refuses weights that leave nothing to train on.
    Mixture.of(corpus.manifest, weights, config.train.data_temperature)
    config = dataclasses.replace(
        config,
        task=plan.task,
        search=plan.search or config.search,
        corpus_weights=weights,
    )
    corpus.codec.save(run / SUBWORDS)
    if start and start.weights:
        tensors = load_tensors(start.path)
        if start.more:
            tensors = extend_rows(tensors, start.codec, corpus.codec, progress)
        save_tensors(run / START, tensors)
    return with_identity(config, corpus).with_hashes(run, SUBWORDS, START, LEXICON)
