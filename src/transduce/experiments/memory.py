"""Memory networks: error by the number of hops over the sentences of a story (paper 2).

DIR/
  experiment.json      the settings that all models share
  test-stories.txt     the test stories, with questions, answers and supporting sentences
  hops2-seed1/
    result.json        the errors of one model; a model that has it is not trained again
  bag-seed1/           the baseline: a bag of words
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.bench import hardware
from transduce.datasets.stories import ANSWERS, KINDS, SPLITS, Story, stories
from transduce.errors import BadSetting
from transduce.experiments.experiment_folder import (
    EXPERIMENT,
    RESULT,
    begin,
    read_result,
    require_same,
    save_result,
    write_lines,
)
from transduce.experiments.findings import Finding
from transduce.experiments.memory_finding import Measured, make_finding
from transduce.experiments.memory_training import (
    STARTS,
    Task,
    attention_weights,
    encode,
    errors_by_kind,
    majority_errors,
    predict,
    strongest,
    total_steps,
    train,
)
from transduce.model.baselines.memory_network import PADDING, MemoryNetwork
from transduce.system.devices import choose_device
from transduce.system.formatting import format_duration
from transduce.system.progress import Progress
from transduce.system.signals import signals_as_interrupt

TEST_STORIES = "test-stories.txt"
MOST_HELD_OUT = {"valid": 1050, "test": 2100}  # stories
MOST_HOPS = 10
EXAMPLE_KIND = "thing"  # its questions need a chain of three sentences


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryTrial:
    """The models to train, and what they share."""

    out: Path
    hops: Sequence[int]
    seeds: Sequence[int]
    steps: int
    stories: int
    device: str = "auto"

    def require(self) -> None:
        """Refuse numbers that cannot be used, and a folder that holds something else."""
        listed = f"{','.join(map(str, self.hops)):.60}"
        if not all(1 <= hops <= MOST_HOPS for hops in self.hops):
            raise BadSetting(f"--hops {listed}: expected numbers from 1 to {MOST_HOPS}")
        if len(set(self.hops)) != len(self.hops):
            raise BadSetting(f"--hops {listed}: expected each number once")
        choose_device(self.device)
        if (self.out / EXPERIMENT).exists():
            require_same(self.out, self.shared(), [])

    def shared(self) -> dict[str, Any]:
        """Return what all models of a folder have in common."""
        settings = {"steps": self.steps, "stories": self.stories, "starts": STARTS}
        return {"experiment": "memory", "settings": settings}

    def open(self) -> dict[Any, list[Story]]:
        """Create the folder if it is new; return the stories of each split."""
        counts = {"train": self.stories}
        counts |= {name: min(most, self.stories) for name, most in MOST_HELD_OUT.items()}
        texts: dict[Any, list[Story]] = {name: stories(counts[name], name) for name in SPLITS}
        if not (self.out / EXPERIMENT).exists():
            begin(self.out, self.shared(), [])
        write_lines(self.out / TEST_STORIES, [f"{story}\n" for story in texts["test"]])
        return texts

    def folder(self, hops: int, seed: int) -> Path:
        """Return the folder of one model; without hops, of the bag of words."""
        return self.out / (f"hops{hops}-seed{seed}" if hops else f"bag-seed{seed}")


def memory(trial: MemoryTrial, progress: Progress) -> Finding:
    """Train a memory network for each number of hops and each seed, and measure its test errors."""
    trial.require()
    with signals_as_interrupt():
        texts = trial.open()
        device = choose_device(trial.device)
        task = encode(texts, device)
        models = [(hops, seed) for hops in (0, *sorted(trial.hops)) for seed in trial.seeds]
        finished = [(trial.folder(*model) / RESULT).exists() for model in models]
        if any(finished):
            progress.say(f"{sum(finished)} of {len(models)} models are finished already")
        measured = []
        for hops, seed in models:
            folder = trial.folder(hops, seed)
            if not (folder / RESULT).exists():
                save_result(folder, _train(trial, task, hops, seed, progress))
            measured.append(read_result(folder, Measured))
    example = next(story for story in texts["test"] if story.kind == EXAMPLE_KIND)
    return make_finding(
        measured,
        majority_errors(task),
        example,
        steps=trial.steps,
        stories={name: len(every) for name, every in texts.items()},
    )


def _train(trial: MemoryTrial, task: Task, hops: int, seed: int, progress: Progress) -> Measured:
    """Train and measure one model."""
    name, test = trial.folder(hops, seed).name, task.splits["test"]
    began = time.monotonic()
    with progress.track(name, total_steps(hops, trial.steps), "steps") as advance:
        model, valid_loss = train(hops, seed, trial.steps, task, advance)
    seconds = time.monotonic() - began
    logits = predict(model, task, "test")
    wrong = logits.argmax(-1) != test.answers
    errors = errors_by_kind(wrong, test.kinds)
    first = int((test.kinds == KINDS.index(EXAMPLE_KIND)).nonzero()[0])
    walk: list[list[float]] = []
    attention: list[list[float]] = []
    if isinstance(model, MemoryNetwork):
        weights = attention_weights(model, task, "test")
        walk = strongest(weights, test, EXAMPLE_KIND)
        length = int((test.stories[first] != PADDING).sum())
        attention = weights[first, :, :length].flip(-1).tolist()  # the first sentence first
    progress.say(
        f"{name}: {errors['all']:.1f}% of the test answers are wrong, validation loss "
        f"{valid_loss:.3f}, in {format_duration(seconds)}"
    )
    return Measured(
        hops=hops,
        seed=seed,
        errors=errors,
        valid_loss=valid_loss,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        seconds=seconds,
        walk=walk,
        attention=attention,
        answer=ANSWERS[int(logits[first].argmax())],
        machine=hardware.describe(task.sentences.device.type, 1, ["torch"]),
    )
