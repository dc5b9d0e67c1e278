"""`transduce paper memory`: memory networks on generated stories."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import CommandLine

from transduce.datasets.stories import ANSWERS, KINDS, SplitName, stories
from transduce.errors import BadRun, Interrupted
from transduce.experiments import memory as experiment
from transduce.experiments import memory_training
from transduce.experiments.experiment_folder import begin
from transduce.experiments.findings import Finding
from transduce.experiments.memory import MemoryTrial, memory
from transduce.experiments.memory_training import (
    STARTS,
    Task,
    Training,
    attention_weights,
    encode,
    errors_by_kind,
    majority_errors,
    one_thread,
    predict,
    starting_steps,
    strongest,
    total_steps,
    train,
)
from transduce.model.baselines.memory_network import MemoryNetwork
from transduce.system.progress import Silent

pytest.importorskip("matplotlib")

QUICK = ["--steps", "4", "--stories", "70", "--device", "cpu"]


@pytest.fixture(scope="module")
def task() -> Task:
    counts: dict[SplitName, int] = {"train": 1400, "valid": 70, "test": 70}
    texts = {name: stories(count, name) for name, count in counts.items()}
    return encode(texts, torch.device("cpu"))


def ignore(done: int) -> None:
    """Show no progress."""


def test_stories_are_encoded_with_the_last_sentence_first(task: Task) -> None:
    story, split = stories(70, "test")[5], task.splits["test"]
    count = len(story.sentences)
    ids = split.stories[5]
    assert ids[count:].eq(0).all()
    assert ids[:count].ne(0).all()
    words = {number: word for word, number in memory_training.WORD_IDS.items()}
    texts = [" ".join(words[i] for i in task.sentences[n].tolist() if i) for n in ids[:count]]
    assert texts == list(reversed(story.sentences))
    assert [texts[i] for i in split.facts[5].tolist()] == [story.sentences[i] for i in story.facts]
    question = task.sentences[split.questions[5]]
    assert " ".join(words[i] for i in question.tolist() if i) == story.question
    assert (ANSWERS[split.answers[5]], KINDS[split.kinds[5]]) == (story.answer, story.kind)


def test_training_is_reproducible_and_depends_on_the_seed(task: Task) -> None:
    model, loss = train(2, 1, 10, task, ignore)
    again, same = train(2, 1, 10, task, ignore)
    assert same == loss
    torch.testing.assert_close(
        predict(again, task, "test"), predict(model, task, "test"), rtol=0, atol=0
    )
    assert train(2, 2, 10, task, ignore)[1] != loss


def test_the_learning_rate_rises_stays_and_falls_to_0(task: Task) -> None:
    training = Training(1, 1, 1000, task)
    factors = [training.rate_factor(step) for step in (0, 49, 99, 599, 800, 999)]
    assert factors == pytest.approx([0.01, 0.5, 1, 1, 0.5, 0.0025])


def test_the_weights_with_the_lowest_validation_loss_are_trained_further(task: Task) -> None:
    trainings = [Training(1, 7 * STARTS + start, 30, task) for start in range(STARTS)]
    for training in trainings:
        training.continue_to(starting_steps(30), ignore)
    best = min(trainings, key=Training.loss)
    best.continue_to(30, ignore)
    updates: list[int] = []
    _, loss = train(1, 7, 30, task, updates.append)
    assert loss == best.loss()
    assert len(updates) == total_steps(1, 30) == STARTS * 12 + 18


def test_one_hop_learns_what_one_sentence_says_and_nothing_that_takes_three(task: Task) -> None:
    training = Training(1, 1, 600, task)
    with one_thread():
        training.continue_to(600, ignore)
    model, split = training.model, task.splits["test"]
    errors = errors_by_kind(predict(model, task, "test").argmax(-1) != split.answers, split.kinds)
    assert errors["content"] < 20
    assert errors["thing"] > 40
    assert isinstance(model, MemoryNetwork)
    weights = attention_weights(model, task, "test")
    assert strongest(weights, split, "content")[0][0] > 80  # on the sentence that says it


def test_errors_are_counted_by_kind_and_by_number_of_facts() -> None:
    kinds = torch.tensor([KINDS.index(kind) for kind in (*KINDS, "person")])
    wrong = torch.tensor([kind in ("person", "thing") for kind in (*KINDS, "thing")])
    errors = errors_by_kind(wrong, kinds)
    assert errors["person"] == errors["thing"] == 100
    assert errors["content"] == errors["2"] == 0
    assert (errors["all"], errors["1"], errors["3"]) == (37.5, 50, 50)


def test_the_most_frequent_answer_is_that_of_the_training_stories(task: Task) -> None:
    train_split, test = task.splits["train"], task.splits["test"]
    kind = KINDS.index("holding")
    answers = train_split.answers[train_split.kinds == kind].tolist()
    counts = [answers.count(answer) for answer in range(len(ANSWERS))]
    wrong = test.answers[test.kinds == kind] != counts.index(max(counts))
    expected = 100 * float(wrong.double().mean())
    assert majority_errors(task)["holding"] == pytest.approx(expected)


def test_the_strongest_sentence_is_compared_with_each_fact(task: Task) -> None:
    split = task.splits["test"]
    chosen = split.kinds == KINDS.index("thing")
    weights = torch.zeros(len(split.kinds), 2, split.stories.size(1))
    rows = torch.arange(len(split.kinds))[chosen]
    weights[rows, 0, split.facts[rows, 2]] = 1
    weights[rows, 1, split.facts[rows, 0]] = 1
    assert strongest(weights, split, "thing") == [[0, 0, 100], [100, 0, 0]]


def test_the_command_compares_hops_and_continues(cli: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["paper", "memory", *QUICK, "--hops", "2,1", "--out", str(out)]
    first = cli(*arguments, "--seeds", "1")
    assert first.status == 0, first.stderr
    finding = Finding.load(out / "memory.json")
    names = ["most frequent answer", "bag of words", "1 hop", "2 hops"]
    assert [row[0] for row in finding.tables[0].rows] == names
    assert any("One seed" in note for note in finding.notes)
    times = {path: path.stat().st_mtime_ns for path in out.glob("*/result.json")}
    assert {path.parent.name for path in times} == {"bag-seed1", "hops1-seed1", "hops2-seed1"}
    assert (out / "test-stories.txt").read_text().count("?\t") == 70

    more = cli(*arguments, "--seeds", "2")
    assert "3 of 6 models are finished already" in more.stderr
    assert {path: path.stat().st_mtime_ns for path in times} == times
    finding = Finding.load(out / "memory.json")
    assert [table.rows[0][0] for table in finding.tables][1] == "2 hops - 1 hop"
    assert len(finding.pictures) == 2
    errors = [model["errors"]["all"] for model in finding.data["models"] if model["hops"] == 2]
    assert finding.tables[0].rows[3][1].startswith(f"{sum(errors) / 2:.1f} (")
    assert any("with 2 hops, seeds 1, 2: " in note for note in finding.notes)
    changed = cli(*arguments, "--seeds", "1", "--steps", "5")
    assert changed.error == (
        f"{out} was started with steps = 4, not 5: continue with the same, or choose another folder"
    )


def test_what_was_finished_before_an_interruption_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = MemoryTrial(out=tmp_path, hops=[1], seeds=[1], steps=2, stories=70, device="cpu")

    def stop_at_networks(hops: int, *rest: Any) -> tuple[torch.nn.Module, float]:
        if hops:
            raise KeyboardInterrupt
        return train(hops, *rest)

    monkeypatch.setattr(experiment, "train", stop_at_networks)
    with pytest.raises(Interrupted, match="the same command continues"):
        memory(trial, Silent())
    kept = (tmp_path / "bag-seed1" / "result.json").read_bytes()
    assert not (tmp_path / "hops1-seed1" / "result.json").exists()
    monkeypatch.undo()
    finding = memory(trial, Silent())
    assert [model["hops"] for model in finding.data["models"]] == [0, 1]
    assert (tmp_path / "bag-seed1" / "result.json").read_bytes() == kept


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--hops", "0,1"], "--hops 0,1: expected numbers from 1 to 10"),
        (["--hops", "11"], "--hops 11: expected numbers from 1 to 10"),
        (["--hops", "two"], "--hops two: expected numbers such as 1,2,3"),
        (["--device", "gpu"], "device = 'gpu': expected auto, cpu, cuda, mps"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(
    cli: CommandLine, tmp_path: Path, arguments: list[str], error: str
) -> None:
    assert error in cli("paper", "memory", "--out", tmp_path / "out", *arguments).error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "fill"),
    [
        ("config.json", lambda path: path.touch()),
        (
            "experiment.json",
            lambda path: begin(path.parent, {"experiment": "table2"}, []),
        ),
    ],
)
def test_the_folder_of_something_else_is_refused(
    cli: CommandLine, tmp_path: Path, name: str, fill: Callable[[Path], None]
) -> None:
    fill(tmp_path / name)
    error = cli("paper", "memory", "--out", tmp_path, *QUICK).error
    assert error.endswith("choose another folder")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_changed_result_is_refused(tmp_path: Path) -> None:
    trial = MemoryTrial(out=tmp_path, hops=[1], seeds=[1], steps=2, stories=70, device="cpu")
    memory(trial, Silent())
    path = tmp_path / "hops1-seed1" / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hops": 3}))
    with pytest.raises(BadRun, match=r"result\.json"):
        memory(trial, Silent())
