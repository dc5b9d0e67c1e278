"""The sides of `transduce bench translate`: our engines and peers."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import threads_kept, write_pairs

from transduce.bench import translation, translators
from transduce.bench.translation import compare
from transduce.bench.translators import start_translating, time_all, time_each
from transduce.bench.workers import Worker
from transduce.config import SearchConfig
from transduce.errors import BadInput, MissingExtra

TEXT = ["a dog sees the man.", "every bird likes one tree!", "the fish finds a dog today."]


PEOPLE = ["ein Hund sieht der Mann.", "jeder Vogel mag jener Baum!", "der Fisch findet ihn."]


PAIRS = list(zip(TEXT, PEOPLE, strict=True))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A text and its reference translation."""
    return write_pairs(tmp_path, "text", PAIRS)


def test_a_missing_library_in_a_worker_is_reported() -> None:
    missing = MissingExtra("the engine ctranslate2", "CTranslate2", "fast")
    again = pickle.loads(pickle.dumps(missing))
    assert (type(again), str(again)) == (MissingExtra, str(missing))
    assert "needs CTranslate2, which is not installed" in str(again)


class Echo:
    """A side that returns its input."""

    device, path = "cpu", "by echo"

    def __init__(self, ending: str) -> None:
        self.ending = ending

    def translate(self, lines: Sequence[str]) -> list[str]:
        if lines[0] == "refused":
            raise BadInput("there is nothing to say")
        return [line + self.ending for line in lines]


def test_a_process_translates_all_lines_or_each_by_itself() -> None:
    with Worker("echo", Echo, "first", "!", begin=start_translating) as worker:
        assert worker.started() == "by echo"
        result = worker.call(time_all, TEXT)
        assert result.outputs == [line + "!" for line in TEXT]
        assert result.seconds > 0
        assert result.peak_memory > 2**20
        each = worker.call(time_each, TEXT[:2])
        assert len(each) == 2
        assert min(each) > 0
        assert worker.call(time_each, []) == []


def test_an_error_in_the_first_line_reaches_the_parent() -> None:
    with (
        Worker("echo", Echo, "refused", "!", begin=start_translating) as worker,
        pytest.raises(BadInput, match="there is nothing to say"),
    ):
        worker.started()


@pytest.mark.filterwarnings("ignore:::transformers")
def test_the_sides_translate_alike(tiny_run: Path, tmp_path: Path) -> None:
    """Every side in this process, with the weights of one run."""
    search = SearchConfig(beam=1, alpha=0.0)
    sides_of: list[tuple[Any, tuple[Any, ...]]] = [
        (translators.OurEngine, (tiny_run, "torch", "cpu", search, None)),
        (translators.OurEngine, (tiny_run, "ctranslate2", "cpu", search, 2)),
        translation._export_for_peer("huggingface", tiny_run, tmp_path, "cpu", search, 2),
        translation._export_for_peer("ctranslate2", tiny_run, tmp_path, "cpu", search, 2),
    ]
    with threads_kept():
        each = [make(*arguments) for make, arguments in sides_of]
        outputs = [[text.strip() for text in item.translate(TEXT)] for item in each]
    assert outputs[0] == outputs[1]
    assert [len(item) for item in outputs] == [3] * 4
    assert [item.device for item in each] == ["cpu"] * 4
    assert [item.path for item in each][2:] == [
        "MarianMTModel.generate on cpu, float32",
        "CTranslate2 on cpu, float32",
    ]


def test_an_unsupported_peer_is_skipped_unless_given(
    tiny_run: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BadInput("Marian cannot represent this model: positions = 'learned'")

    monkeypatch.setattr("transduce.interop.export.huggingface.export", refuse)
    result = compare(tiny_run, str(files[0]), engines=["torch"], lines=1, rounds=1, single=0)
    assert [item.name for item in result.sides] == ["torch"]
    assert result.peers == 0
    with pytest.raises(BadInput, match="--peer none measures without"):
        compare(tiny_run, str(files[0]), engines=["torch"], peers=["huggingface"], lines=1)
