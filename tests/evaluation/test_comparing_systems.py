"""What the tests conclude about systems whose quality is known."""

import random
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from transduce.errors import BadInput, BadSetting
from transduce.evaluation.comet import Comet
from transduce.evaluation.resampling import (
    Outputs,
    bootstrap_p,
    bootstrap_scores,
    randomisation_p,
    shuffled_differences,
)
from transduce.evaluation.significance import Comparison, compare
from transduce.system.progress import Silent

WORDS = [f"w{number}" for number in range(300)]


def text(lines: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 25))) for _ in range(lines)]


def corrupted(lines: Sequence[str], rate: float, seed: int) -> list[str]:
    """Return the output of a system that gets a known share of the words wrong."""
    draw = random.Random(seed)
    return [
        " ".join(word if draw.random() >= rate else draw.choice(WORDS) for word in line.split())
        for line in lines
    ]


def bleu(systems: dict[str, list[str] | list[list[str]]], reference: list[str]) -> Comparison:
    (comparison,) = compare(systems, reference, metrics=["bleu"], samples=1000)
    return comparison


def test_equal_systems_are_not_different_and_a_worse_one_is() -> None:
    reference = text(500)
    systems: dict[str, list[str] | list[list[str]]] = {
        "base": corrupted(reference, 0.3, 1),
        "base again": corrupted(reference, 0.3, 2),
        "worse": corrupted(reference, 0.36, 3),
    }
    base, again, worse = bleu(systems, reference).systems
    assert base.p is None
    assert not again.significant
    assert worse.significant
    assert worse.value < base.value - 3
    assert worse.p == max(worse.p_bs or 0, worse.p_ar or 0)


def test_a_system_is_not_different_from_itself_or_in_one_line() -> None:
    """sacrebleu gives both the smallest possible p: it counts only larger differences."""
    reference = text(100)
    base = corrupted(reference, 0.3, 1)
    one_line = [reference[0], *base[1:]]
    _, itself, nearly = bleu({"a": base, "b": base[:], "c": one_line}, reference).systems
    assert (itself.p_bs, itself.p_ar) == (1, 1)
    assert nearly.p_ar == 1
    assert not nearly.significant


class Sums:
    """A metric whose score is the mean of one number per line."""

    def __init__(self, values: np.ndarray) -> None:
        self.matrix = np.stack([values, np.ones(len(values))], axis=1)

    def score_sums(self, sums: np.ndarray) -> float:
        return float(sums[0] / sums[1])


def test_randomisation_has_the_right_size_and_the_bootstrap_is_one_sided() -> None:
    """Of 400 pairs of equally good systems, 5% have p < 0.05; by the bootstrap about 10%.

    The bounds are four standard errors from 5% and 10%.
    """
    random_numbers = np.random.default_rng(7)
    randomised, bootstrapped = [], []
    for _ in range(400):
        quality = random_numbers.normal(0, 2, 80)  # how hard each sentence is
        a, b = (Outputs.of([Sums(quality + random_numbers.normal(0, 1, 80))]) for _ in range(2))
        observed = a.scores()[0] - b.scores()[0]
        randomised.append(randomisation_p(shuffled_differences(a, b, 200), observed))
        base, other = bootstrap_scores([a, b], 100)
        bootstrapped.append(bootstrap_p(other - base, observed))
    size = np.mean(np.array(randomised) < 0.05)
    assert 0.05 - 0.044 < size < 0.05 + 0.044
    assert 0.2 < np.mean(np.array(randomised) < 0.25) < 0.3
    assert 0.1 - 0.06 < np.mean(np.array(bootstrapped) < 0.05) < 0.1 + 0.06


def test_a_difference_smaller_than_that_between_seeds_is_not_significant() -> None:
    """One seed of each would be declared different: their quality varies from run to run."""
    reference = text(600)
    rates = {"base": (0.26, 0.34, 0.30), "ours": (0.24, 0.31, 0.28)}
    outputs = {
        name: [corrupted(reference, rate, round(1000 * rate)) for rate in each]
        for name, each in rates.items()
    }
    first_seeds = bleu({"base": outputs["base"][1], "ours": outputs["ours"][0]}, reference)
    assert first_seeds.systems[1].significant
    comparison = bleu(dict(outputs), reference)
    base, ours = comparison.systems
    assert not ours.significant
    assert comparison.seed_deviation is not None
    assert comparison.seed_deviation > 2
    assert len(base.outputs) == 3
    assert base.value == pytest.approx(sum(base.outputs) / 3)
    alone = bleu({"base": outputs["base"][0], "ours": outputs["ours"][0]}, reference)
    assert (base.interval or 0) > 2 * (alone.systems[0].interval or 0)
    steady = [corrupted(reference, 0.36, seed) for seed in (7, 8, 9)]
    better = [corrupted(reference, 0.25, seed) for seed in (17, 18)]
    assert bleu({"steady": steady, "better": better}, reference).systems[1].significant


@pytest.fixture
def comet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A module with COMET's interface; its model counts words that the reference has too."""

    class Model:
        def predict(self, samples: list[dict[str, str]], **options: object) -> object:
            assert options == {"batch_size": 8, "gpus": 0, "progress_bar": False}
            assert {*samples[0]} == {"src", "mt", "ref"}
            pairs = [({*each["mt"].split()}, {*each["ref"].split()}) for each in samples]
            scores = [len(mt & ref) / len(ref) for mt, ref in pairs]
            return types.SimpleNamespace(scores=scores, system_score=sum(scores) / len(scores))

    module = types.ModuleType("comet")
    module.load_from_checkpoint = (  # type: ignore[attr-defined]
        lambda path, local_files_only: Model()
    )
    monkeypatch.setitem(sys.modules, "comet", module)
    checkpoint = tmp_path / "wmt-da" / "checkpoints" / "model.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"weights")
    return tmp_path / "wmt-da"


def test_comet_scores_and_compares_with_a_model_on_disk(comet: Path) -> None:
    reference = text(60)
    model = Comet(comet, reference, device="cpu")
    assert Comet(comet / "checkpoints" / "model.ckpt", reference).name == model.name == "wmt-da"
    result = model.score(reference, reference, 100, Silent())
    assert (result.name, result.value, result.low, result.high) == ("COMET", 100, 100, 100)
    assert result.signature.startswith("model:wmt-da|scale:100|version:")
    systems = {"a": corrupted(reference, 0.2, 1), "b": corrupted(reference, 0.5, 2)}
    *_, comparison = compare(
        systems, reference, metrics=["bleu"], comet=model, test="ar", samples=99
    )
    assert comparison.name == "COMET"
    assert comparison.signature.endswith("|ar:99|seed:12345")
    assert comparison.systems[1].p_ar == pytest.approx(0.01)
    assert 70 < comparison.systems[0].value < 90
    with pytest.raises(BadInput, match="there are 60 sources but 59 translations"):
        model.score(reference[1:], reference[1:], 0, Silent())


def test_without_comet_or_its_model_one_sentence_says_what_is_missing(
    comet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=r"there is no COMET model missing: expected a file"):
        Comet("missing", ["a"])
    monkeypatch.setitem(sys.modules, "comet", types.ModuleType("comet"))
    with pytest.raises(
        BadSetting, match=r"COMET needs unbabel-comet, .* pip install unbabel-comet"
    ):
        Comet(comet, ["a"])

    def fail(path: str, local_files_only: bool) -> None:
        raise KeyError("state_dict")

    sys.modules["comet"].load_from_checkpoint = fail  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match=r"model.ckpt cannot be loaded as a COMET model: KeyError"):
        Comet(comet, ["a"])
