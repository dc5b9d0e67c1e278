"""Train a memory network, or a bag of words, on generated stories (Sukhbaatar et al. 2015).

B stories in a batch, M memories, W words of a sentence, S different sentences, A answers.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.datasets.stories import (
    ANSWERS,
    FACTS,
    KINDS,
    LONGEST,
    MOST_WORDS,
    VOCABULARY,
    SplitName,
    Story,
)
from transduce.errors import Diverged
from transduce.model.baselines.memory_network import PADDING, MemoryNetwork
from transduce.system.devices import deterministic_kernels
from transduce.system.progress import Advance

D = 32  # channels
BATCH = 64  # stories of an update
RATE, WARMUP, CLIP = 0.01, 100, 10.0
COOLDOWN = 0.4  # share of the steps over which the rate falls to 0
STARTS = 3  # initial weights of a model, of which one is kept
STARTING = 0.4  # share of the steps after which it is chosen
HIDDEN = 64  # units of the bag of words
TOGETHER = 1024  # stories of a batch in evaluation
WORD_IDS = {word: number for number, word in enumerate(VOCABULARY, start=PADDING + 1)}


@dataclass(frozen=True, slots=True)
class Split:
    """Stories as tensors: indices of sentences, answers and kinds of questions."""

    stories: Tensor  # (N, M), the last sentence first, padded with the empty sentence
    questions: Tensor  # (N,)
    answers: Tensor  # (N,)
    kinds: Tensor  # (N,)
    facts: Tensor  # (N, 3) the memories that hold the supporting sentences; -1 for none


@dataclass(frozen=True, slots=True)
class Task:
    """All stories, and the words of their sentences and questions."""

    sentences: Tensor  # (S, W)
    splits: dict[SplitName, Split]


def encode(texts: dict[SplitName, list[Story]], device: torch.device) -> Task:
    """Turn stories into tensors."""
    numbers = {"": PADDING}
    splits = {}
    for name, stories in texts.items():
        memories = torch.full((len(stories), LONGEST), PADDING)
        facts = torch.full((len(stories), max(FACTS.values())), -1)
        questions, answers, kinds = [], [], []
        for row, story in enumerate(stories):
            ids = [numbers.setdefault(text, len(numbers)) for text in reversed(story.sentences)]
            memories[row, : len(ids)] = torch.tensor(ids)
            ages = [len(ids) - 1 - fact for fact in story.facts]
            facts[row, : len(ages)] = torch.tensor(ages)
            questions.append(numbers.setdefault(story.question, len(numbers)))
            answers.append(ANSWERS.index(story.answer))
            kinds.append(KINDS.index(story.kind))
        columns = (memories, *map(torch.tensor, (questions, answers, kinds)), facts)
        splits[name] = Split(*(column.to(device) for column in columns))
    sentences = torch.full((len(numbers), MOST_WORDS), PADDING)
    for text, number in numbers.items():
        words = [WORD_IDS[word] for word in text.split()]
        sentences[number, : len(words)] = torch.tensor(words, dtype=torch.long)
    return Task(sentences.to(device), splits)


class WordBag(nn.Module):
    """A baseline that sees which words occur, in the question and in the story, and how often."""

    def __init__(self) -> None:
        super().__init__()
        words = len(VOCABULARY) + 1
        self.layers = nn.Sequential(
            nn.Linear(2 * words, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, len(ANSWERS))
        )

    def forward(self, stories: Tensor, questions: Tensor, sentences: Tensor) -> Tensor:
        """Return the logits of the answers. (B, M), (B,), (S, W) -> (B, A)."""
        counts = F.one_hot(sentences, len(VOCABULARY) + 1).sum(1).to(torch.get_default_dtype())
        counts[:, PADDING] = 0  # (S, words)
        return self.layers(torch.cat([counts[stories].sum(1), counts[questions]], dim=-1))  # type: ignore[no-any-return]


def make_model(hops: int) -> nn.Module:
    """Return a memory network with this many hops; without any, a bag of words."""
    if not hops:
        return WordBag()
    return MemoryNetwork(
        hops=hops,
        d=D,
        vocabulary=len(VOCABULARY) + 1,
        words=MOST_WORDS,
        memories=LONGEST,
        answers=len(ANSWERS),
    )


class Training:
    """One model in training; the seed decides its initial weights and its batches."""

    def __init__(self, hops: int, seed: int, steps: int, task: Task) -> None:
        self.task, self.steps, self.done = task, steps, 0
        split = task.splits["train"]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # Drawn first, so that models with other numbers of hops see the same batches.
            rows = torch.randint(len(split.answers), (steps, BATCH))
            self.model = make_model(hops).to(task.sentences.device)
        self.batches = rows.to(task.sentences.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE)

    def continue_to(self, step: int, advance: Advance) -> None:
        """Make updates until this many are done."""
        split = self.task.splits["train"]
        self.model.train()
        for number in range(self.done, step):
            for group in self.optimizer.param_groups:
                group["lr"] = RATE * self.rate_factor(number)
            rows = self.batches[number]
            logits = self.model(split.stories[rows], split.questions[rows], self.task.sentences)
            self.optimizer.zero_grad()
            F.cross_entropy(logits, split.answers[rows]).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimizer.step()
            advance(1)
        self.done = step

    def rate_factor(self, step: int) -> float:
        """Return the factor on the learning rate: warm-up, constant, linear cooldown."""
        left = (self.steps - step) / (COOLDOWN * self.steps)
        return min(1.0, (step + 1) / WARMUP, left)

    def loss(self) -> float:
        """Return the validation loss."""
        split = self.task.splits["valid"]
        value = float(F.cross_entropy(predict(self.model, self.task, "valid"), split.answers))
        if not math.isfinite(value):
            raise Diverged(f"the validation loss is not finite after step {self.done:,}")
        return value


def train(
    hops: int, seed: int, steps: int, task: Task, advance: Advance
) -> tuple[nn.Module, float]:
    """Train a model; return it with its validation loss.

    Which memory a hop looks up is decided early, and some initial weights never find a use for the
    last hop. Several are tried for part of the steps, and the one with the lowest validation
    loss goes on. Sukhbaatar et al. train ten models to the end and keep that with the lowest
    training error.
    """
    with one_thread(), deterministic_kernels(on=task.sentences.device.type == "cuda"):
        best: tuple[float, Training] | None = None
        for start in range(starts(hops)):
            training = Training(hops, seed * STARTS + start, steps, task)
            training.continue_to(starting_steps(steps), advance)
            loss = training.loss()
            if best is None or loss < best[0]:
                best = loss, training
        assert best is not None
        _, chosen = best
        chosen.continue_to(steps, advance)
        return chosen.model, chosen.loss()


def starts(hops: int) -> int:
    """Return the number of initial weights that are tried."""
    return STARTS if hops else 1


def starting_steps(steps: int) -> int:
    """Return the number of steps after which one of several trainings is chosen."""
    return max(1, round(STARTING * steps))


def total_steps(hops: int, steps: int) -> int:
    """Return the number of updates that `train` makes."""
    return steps + (starts(hops) - 1) * starting_steps(steps)


@torch.no_grad()
def predict(model: nn.Module, task: Task, split: SplitName) -> Tensor:
    """Return the logits of all answers of a split. -> (N, A)."""
    model.eval()
    return torch.cat(
        [model(stories, questions, task.sentences) for stories, questions in _parts(task, split)]
    )


@torch.no_grad()
def attention_weights(model: MemoryNetwork, task: Task, split: SplitName) -> Tensor:
    """Return the attention of each hop over the memories of a split. -> (N, K, M)."""
    model.eval()
    return torch.cat(
        [
            model.weights(stories, question, task.sentences)
            for stories, question in _parts(task, split)
        ]
    )


def _parts(task: Task, split: SplitName) -> Iterator[tuple[Tensor, Tensor]]:
    data = task.splits[split]
    yield from zip(data.stories.split(TOGETHER), data.questions.split(TOGETHER), strict=True)


def errors_by_kind(wrong: Tensor, kinds: Tensor) -> dict[str, float]:
    """Return the share of wrong answers in percent: of all questions, by facts and by kind."""
    by_kind = {kind: wrong[kinds == number] for number, kind in enumerate(KINDS)}
    groups: dict[str, Sequence[Tensor]] = {"all": [wrong]}
    for count in sorted(set(FACTS.values())):
        groups[f"{count}"] = [by_kind[kind] for kind in KINDS if FACTS[kind] == count]
    groups |= {kind: [values] for kind, values in by_kind.items()}
    return {
        name: 100 * float(torch.cat([*parts]).double().mean()) for name, parts in groups.items()
    }


def majority_errors(task: Task) -> dict[str, float]:
    """Return the test errors of always giving the most frequent answer to each kind of question."""
    train, test = task.splits["train"], task.splits["test"]
    counts = torch.zeros(len(KINDS), len(ANSWERS), dtype=torch.long)
    for kind, answer in zip(train.kinds.tolist(), train.answers.tolist(), strict=True):
        counts[kind, answer] += 1
    given = counts.argmax(-1)[test.kinds.cpu()]
    return errors_by_kind(given != test.answers.cpu(), test.kinds.cpu())


def strongest(weights: Tensor, split: Split, kind: str) -> list[list[float]]:
    """Return how often each hop attends most to each supporting sentence, in percent. -> [K][3]."""
    chosen = split.kinds == KINDS.index(kind)
    top = weights[chosen].argmax(-1)  # (n, K)
    same = top[:, :, None] == split.facts[chosen][:, None]  # (n, K, 3)
    shares: list[list[float]] = (100 * same.double().mean(0)).tolist()
    return shares


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside the block: faster for tensors as small as these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
