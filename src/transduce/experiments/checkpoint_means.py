"""Single checkpoints of a run against means of its last ones (paper 6.1), by BLEU.

    FOLDER/
      checkpoints.json     what was translated: the text, the run, and a hash of the weights of each
      step-0000500.txt     translations by one checkpoint
      mean-5.txt           translations by the mean of the last five

Finished translations are not made again, and need no checkpoints.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from transduce.checkpoints.checkpoint import mean_of, save_model
from transduce.checkpoints.selection import LENGTHS
from transduce.errors import BadRun
from transduce.experiments.comparison import SEARCH, free_memory
from transduce.experiments.experiment_folder import ADVICE, write_lines
from transduce.experiments.statistics import Estimate, Interval, Resampled
from transduce.runs.arrays import hash_of
from transduce.runs.folder import SUBWORDS, WEIGHTS, Checkpoint, RunConfig, checkpoints
from transduce.system.files import (
    checksum,
    delete,
    read_checksummed,
    require_regular,
    working_folder,
    write_checksummed,
)
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text.reading import read_lines
from transduce.translation.translator import Translator

FORMAT = 1
RECORD = "checkpoints.json"
FIELDS = {"text": str, "run": str, "weights": dict[str, str]}
LEAST = 2  # checkpoints to average

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Averaged:
    """BLEU of single checkpoints, and of the means of the last ones."""

    single: dict[int, Estimate]  # by step
    means: dict[int, Estimate]  # by number of checkpoints
    differences: dict[int, Interval]  # 95% intervals of BLEU, mean minus last checkpoint
    sentences: int

    @property
    def last(self) -> Estimate:
        """BLEU of the last checkpoint."""
        return self.single[max(self.single)]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "single": {step: estimate.value for step, estimate in self.single.items()},
            "means": {count: estimate.value for count, estimate in self.means.items()},
            "differences": self.differences,
            "sentences": self.sentences,
        }


def compare_checkpoints(
    run: Path, pairs: Pairs, folder: Path, device: str, progress: Progress
) -> Averaged | None:
    """Translate with each kept checkpoint and with means of the last ones, and score.

    None if there are fewer than two checkpoints and no finished translations.
    """
    config = RunConfig.load(run)
    saved = [checkpoint for checkpoint in checkpoints(run) if checkpoint.scheduled]
    names = _open(folder, config, saved, pairs)
    if names is None:
        return None
    missing = [name for name in names if not (folder / f"{name}.txt").exists()]
    if len(missing) < len(names):
        progress.say(f"{len(names) - len(missing)} of {len(names)} translations are finished")
    for name in missing:
        weights = _weights(saved, name)
        outputs = _translate(run, config, weights, name, pairs, folder, device, progress)
        write_lines(folder / f"{name}.txt", outputs)
        free_memory()
    lines = {name: list(read_lines(require_regular(folder / f"{name}.txt"))) for name in names}
    references = [reference for _, reference in pairs]
    return _scored(Resampled(lines, references, config.languages[1]), len(pairs))


def _open(
    folder: Path, config: RunConfig, saved: Sequence[Checkpoint], pairs: Pairs
) -> list[str] | None:
    """Return the names of the translations, those without weights only if they are finished."""
    new = _plan(saved)
    text = checksum({"pairs": list(map(list, pairs)), "search": SEARCH.to_json()})
    record = {"text": text, "run": config.identity}
    before: dict[str, Any] = {}
    if (folder / RECORD).exists():
        before = read_checksummed(folder / RECORD, FORMAT, "translations", FIELDS)
        for name, what in (("text", "of another text"), ("run", "by another run")):
            if before[name] != record[name]:
                raise BadRun(f"{folder} holds translations {what}: {ADVICE}")
    earlier: dict[str, str] = before.get("weights", {})
    if not new:
        finished = bool(earlier) and _finished(folder, earlier)
        return list(earlier) if finished else None
    for name, weights in earlier.items():
        if new.get(name) != weights:  # the run was trained further
            delete(folder / f"{name}.txt")
    if earlier != new:
        write_checksummed(folder / RECORD, {"format": FORMAT, **record, "weights": new})
    return list(new)


def _finished(folder: Path, names: Mapping[str, str]) -> bool:
    return all((folder / f"{name}.txt").exists() for name in names)


def _plan(saved: Sequence[Checkpoint]) -> dict[str, str]:
    """Return a hash of the weights of each single checkpoint and of each mean, by name."""
    if len(saved) < LEAST:
        return {}
    hashes = [hash_of(checkpoint.path / WEIGHTS) for checkpoint in saved]
    single = {
        f"step-{checkpoint.step:07}": content
        for checkpoint, content in zip(saved, hashes, strict=True)
    }
    counts = sorted({count for count in LENGTHS if LEAST <= count <= len(saved)} | {len(saved)})
    means = {f"mean-{count}": checksum({"of": hashes[-count:]}) for count in counts}
    return single | means


def _weights(saved: Sequence[Checkpoint], name: str) -> Mapping[str, Tensor]:
    """Return the weights of one of the saved checkpoints, or the mean of the last ones."""
    kind, _, number = name.partition("-")
    if kind == "mean":
        chosen = list(saved[-int(number) :])
    else:
        chosen = [checkpoint for checkpoint in saved if checkpoint.step == int(number)]
    gone = [checkpoint.path for checkpoint in chosen if not checkpoint.path.exists()]
    if gone:
        raise BadRun(
            f"{gone[0]} is gone: the run has saved newer checkpoints meanwhile; run the same "
            "command again to describe those"
        )
    return mean_of(chosen)[0]


def _translate(
    run: Path,
    config: RunConfig,
    weights: Mapping[str, Tensor],
    name: str,
    pairs: Pairs,
    folder: Path,
    device: str,
    progress: Progress,
) -> list[str]:
    """Translate with these weights, in a temporary run folder."""
    with working_folder(folder / name) as scratch:
        (scratch / SUBWORDS).write_bytes(config.verified(run, SUBWORDS).read_bytes())
        hashes = {SUBWORDS: config.hashes[SUBWORDS]} if SUBWORDS in config.hashes else {}
        save_model(scratch, dataclasses.replace(config, hashes=hashes), weights, name)
        translator = Translator.load(scratch, device=device, engine="torch")
    sources = [source for source, _ in pairs]
    with progress.track(f"translating with {name}", len(sources), "sentences") as advance:
        stream = translator.stream(sources, split=False, advance=advance, **SEARCH.to_json())
        return [translation.text for translation in stream]


def _scored(resampled: Resampled, sentences: int) -> Averaged:
    singles = sorted(name for name in resampled.whole if name.startswith("step-"))
    means = {
        int(name.removeprefix("mean-")): name
        for name in resampled.whole
        if name.startswith("mean-")
    }
    return Averaged(
        single={int(name.removeprefix("step-")): resampled.estimate(name) for name in singles},
        means={count: resampled.estimate(means[count]) for count in sorted(means)},
        differences={
            count: resampled.difference(means[count], singles[-1]) for count in sorted(means)
        },
        sentences=sentences,
    )


def describe_gain(name: str, averaged: Averaged) -> str:
    """Say whether the mean of the last 5 checkpoints, or of fewer, is better than the last one."""
    count = max(count for count in averaged.means if count <= 5 or count == min(averaged.means))
    low, high = averaged.differences[count]
    gain = averaged.means[count].value - averaged.last.value
    verdict = (
        "better than" if low > 0 else "worse than" if high < 0 else "not significantly apart from"
    )
    return (
        f"{name}: the mean of the last {pluralize(count, 'checkpoint')} is {verdict} the last "
        f"one alone, {gain:+z.2f} BLEU ({low:+.2f} to {high:+.2f})"
    )
