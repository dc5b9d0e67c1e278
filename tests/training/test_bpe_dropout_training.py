"""Training with BPE dropout: exact resumption, several processes, and no other draws without it."""

from pathlib import Path

import numpy as np
import pytest
from gradient_steps import LENGTHS, SENTENCES, assert_same, limit_memory, make_step, on_path
from small_training import Files, Killed, killing, records, train_small, weights
from torch import Tensor
from torchrun import run, run_alone

from models import pairs_of, part_of
from transduce.corpus.updates import DataPosition
from transduce.errors import BadSetting
from transduce.training.trainer import Trainer

DROPOUT = {"bpe_dropout": "0.3", "steps": "16", "validate_every": "16", "batch_tokens": "600"}


@pytest.fixture(scope="module")
def trained(upper_case_pairs: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_small(upper_case_pairs, tmp_path_factory.mktemp("dropout") / "run", **DROPOUT)


def test_training_uses_it(upper_case_pairs: Files, trained: Path, tmp_path: Path) -> None:
    plain = train_small(upper_case_pairs, tmp_path / "run", **DROPOUT | {"bpe_dropout": "0"})
    assert weights(plain) != weights(trained)
    assert records(trained)[-1]["epoch"] > 2  # the tests below resume in the middle of an epoch


@pytest.mark.parametrize("at", [4, 9, 15])
def test_a_killed_run_ends_with_the_same_bits(
    at: int,
    upper_case_pairs: Files,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(at))
        with pytest.raises(Killed):
            train_small(upper_case_pairs, tmp_path / "run", **DROPOUT)
    train_small(upper_case_pairs, tmp_path / "run", **DROPOUT)
    assert weights(tmp_path / "run") == weights(trained)
    assert records(tmp_path / "run") == records(trained)


def test_it_may_not_change_when_a_run_is_resumed(upper_case_pairs: Files, trained: Path) -> None:
    with pytest.raises(BadSetting, match=r"was started with bpe_dropout = 0\.3, not 0\.2"):
        train_small(upper_case_pairs, trained, **DROPOUT | {"bpe_dropout": "0.2"})


def test_wordpiece_is_refused(upper_case_pairs: Files, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"bpe_dropout = 0.3: expected 0 with subwords = 'wordp"):
        train_small(upper_case_pairs, tmp_path / "run", **DROPOUT, subwords="wordpiece")
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_two_processes_learn_what_one_learns(tiny_files: Files, tmp_path: Path) -> None:
    changes = {"bpe_dropout": "0.3", "validate_every": "20", "save_every": "20"}
    alone = run_alone(tiny_files, tmp_path / "alone", **changes)
    result = run(tiny_files, tmp_path / "pair", 2, **changes)
    assert result.status == 0, result.stderr
    ours, expected = weights(tmp_path / "pair"), weights(alone)
    assert max(np.abs(np.subtract(ours[k], expected[k])).max() for k in ours) < 1e-6


@pytest.mark.parametrize("path", ["packed", "grouped"])
def test_an_update_is_prepared_again_from_the_text_of_its_epoch(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread may have reached the next epoch when memory runs out."""
    on_path(monkeypatch, path)
    epochs = [part_of(pairs_of([(s + more, t) for s, t in LENGTHS])) for more in (1, 2)]

    def sums() -> list[Tensor]:
        step = make_step(say=lambda _: None)
        step.split_in = epochs.__getitem__
        update = step.prepare(SENTENCES, DataPosition(1, 0), 1.0, 0)
        step.prepare(SENTENCES, DataPosition(1, 1), 1.5, 1)
        assert update.part is epochs[0]
        step.compute(update)
        return [step.sums]

    whole = sums()
    sizes = limit_memory(monkeypatch, 250)
    assert_same(sums(), whole)
    assert min(sizes) <= 250 < max(sizes)


def test_capacities_are_the_same_in_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA graphs need batches of one shape."""
    on_path(monkeypatch, "packed")
    step = make_step()
    more = part_of(pairs_of([(s + 2, t) for s, t in LENGTHS]))
    step.split_in = {0: step.part, 1: more}.__getitem__
    shapes = {
        batch.places
        for epoch in (0, 1)
        for sentences in step.deal(epoch, np.random.default_rng(0))
        for batch in step.prepare(sentences, DataPosition(0, 1), 0.5, epoch).batches
    }
    assert len(shapes) == 1
