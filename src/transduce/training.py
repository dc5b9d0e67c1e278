"""From two text files to a translator: prepare, begin or go on, train."""

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path

from transduce.checkpoint import (
    load_tensors,
    prune,
    save_tensors,
)
from transduce.config import SearchConfig
from transduce.corpus import open_corpus
from transduce.files import remove_leftovers
from transduce.folder import (
    LEXICON,
    START,
    SUBWORDS,
    RunConfig,
    Task,
)
from transduce.machine import (
    choose_device,
    locked,
    terminated_as_interrupted,
)
from transduce.metrics import require_tensorboard
from transduce.plan import basis_of, begun, continued, identified, languages_of, settled
from transduce.preparation import prepare
from transduce.presets import preset as find_preset
from transduce.processes import together
from transduce.progress import Progress, Silent
from transduce.subwords import Codec
from transduce.trainer import Trainer


def train(
    source: str | Path,
    target: str | Path | None = None,
    *,
    out: str | Path,
    corpus: str | Path | None = None,
    start: str | Path | None = None,
    subwords_of: str | Path | None = None,
    codec: Codec | None = None,
    search: SearchConfig | None = None,
    task: Task = "translation",
    valid: tuple[str | Path, str | Path | None] | None = None,
    languages: str | None = None,
    preset: str | None = None,
    settings: Mapping[str, str] | None = None,
    device: str = "auto",
    tensorboard: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train a translator from `source` to `target`, two files line by line (or one TSV).

    Everything is kept in the folder `out`, which `Translator.load` and every command understand,
    but for the token files if a folder `corpus` is named, which several runs may share.
    Called again with the same arguments it goes on where it was stopped. `settings` are names and
    values as for `--set` on the command line; what is not set is chosen from the size of the data
    and the machine.

    With `start`, a trained run, it begins with that run's weights, model, subwords and languages,
    and a preset chooses the training alone; with `subwords_of`, it takes that run's subwords; with
    `codec`, those. `search` is how it will be searched, `task` what it does.
    """
    told = progress or Silent()
    run, settings = Path(out), dict(settings or {})
    kept = run / "corpus" if corpus is None else Path(corpus)
    on = choose_device(device, told.say)
    if tensorboard:
        require_tensorboard()
    basis = basis_of(start, subwords_of)
    # What is mistyped is refused before anything is written.
    chosen = find_preset(preset or "base")
    if not (run / "config.json").exists():
        settled(chosen, settings, basis)
        if basis:
            basis.origin  # noqa: B018  (a run without weights or subwords is refused)

    def begin_or_go_on() -> RunConfig:
        remove_leftovers(run)
        goes_on = (run / "config.json").exists()
        if goes_on:
            config = continued(run, preset, settings, on, told, basis, task)
            prune(run, config.train.keep)  # which a kill may have kept from being done
            known_codec = Codec.load(config.own(run, SUBWORDS)) if config.origin else codec
            known = config.languages if config.origin and config.origin.weights else None
        else:
            model, recipe = settled(chosen, settings, basis)
            config = RunConfig(model=model, train=recipe)
            known_codec = basis.codec if basis else codec
            known = basis.config.languages if basis and basis.weights else None
        tokens = prepare(
            source,
            target,
            kept,
            valid=valid,
            languages=languages_of(source, target, languages, known, told),
            train=config.train,
            max_len=config.model.max_len,
            codec=known_codec,
            anew=not goes_on and (corpus is None or not kept.exists()),
            progress=told,
        )
        if not goes_on:
            config = begun(tokens, preset, settings, on, told, basis)
            config = dataclasses.replace(config, task=task, search=search or config.search)
            tokens.codec.save(run / SUBWORDS)
            if basis and basis.weights:
                save_tensors(run / START, load_tensors(basis.path))
            config = identified(config, tokens).owning(run, SUBWORDS, START, LEXICON)
        config.own(run, SUBWORDS)
        config.save(run)  # last, for it makes the folder a run
        return config

    with contextlib.ExitStack() as stack:
        processes, on = stack.enter_context(together(on))
        stack.enter_context(terminated_as_interrupted())
        if processes.first:
            stack.enter_context(locked(run))
        config = processes.from_first(begin_or_go_on)
        if not processes.first:
            told = Silent()
        Trainer(
            run, config, open_corpus(kept), on, told, tensorboard=tensorboard, processes=processes
        ).run_to_end()
    return run
