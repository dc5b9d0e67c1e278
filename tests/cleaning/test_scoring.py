"""Pairs that models in both directions find unlikely are removed."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import TINY, CommandLine
from small_corpora import make_pairs
from small_training import train_small

from transduce import Translator
from transduce.cleaning.checking import Settings
from transduce.cleaning.limits import Limits
from transduce.cleaning.scoring import UNSCORED, check_and_score, cross_entropies, dual_scorer
from transduce.errors import BadInput
from transduce.system.progress import Silent
from transduce.text.corpora import CorpusText
from transduce.training.train import train

Pair = tuple[str, str]
SETTINGS = Settings(("blank", "duplicate"), Limits(), ("en", "de"), library=False, scored=True)


def by_length(pairs: Sequence[Pair]) -> list[float]:
    return [float(len(target)) for _, target in pairs]


def test_the_best_share_of_the_pairs_that_pass_the_rules_is_kept() -> None:
    pairs = [("a", "1"), ("b", "333"), ("c", ""), ("d", "22"), ("a", "1"), ("e", "22")]
    found: list[str] = []
    counts = check_and_score(
        *(lambda: iter(pairs), SETTINGS, by_length, 0.5),
        write=lambda _, rules, first: found.extend(rules),
        progress=Silent(),
    )
    assert found == ["", "score", "blank", "", "duplicate", "score"]  # of equals, the first stays
    assert counts.removed == {"score": 2, "blank": 1, "duplicate": 1}
    assert counts.kept == 2
    assert counts.histograms.sum() == 18


def test_a_text_that_changes_is_refused() -> None:
    texts = [make_pairs(20), make_pairs(10), make_pairs(20), make_pairs(30)]
    for _ in range(2):
        with pytest.raises(BadInput, match="changed while it was being read"):
            check_and_score(
                *(lambda: iter(texts.pop(0)), SETTINGS, by_length, 0.5), progress=Silent()
            )
    with pytest.raises(BadInput, match="--keep-best 0: expected a number above 0"):
        check_and_score(list, SETTINGS, by_length, 0, progress=Silent())


def test_the_score_is_the_dual_cross_entropy(tiny_run: Path) -> None:
    model = Translator.load(tiny_run, device="cpu", engine="torch")
    pairs = [("the dog sees a man .", "der hund sieht einen mann ."), ("x" * 5000, "y")]
    first, second = cross_entropies(model, pairs)
    (candidate,) = model.score(pairs[:1])
    assert first == pytest.approx(-candidate.log_probability / (len(candidate.tokens) + 1))
    assert second == UNSCORED
    with pytest.raises(BadInput, match="expected models of both directions"):
        dual_scorer(model, model)


def test_models_of_both_directions_clean_a_text(
    cli: CommandLine, tiny_run: Path, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    source, target = tiny_files
    back = train_small((target, source), tmp_path / "de-en")
    options: list[str | Path] = ["--score", tiny_run, "--reverse", back, "--device", "cpu"]
    texts: list[str | Path] = [
        "data",
        "clean",
        source,
        target,
        "--out",
        tmp_path / "a.en",
        tmp_path / "a.de",
    ]
    refused = cli(*texts, *options)
    assert "--score, --reverse and --keep-best go together" in refused.error
    done = cli(*texts, *options, "--keep-best", "0.25", "--json", "--rules", "blank")
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kept"] == round(0.25 * found["pairs"])
    assert (tmp_path / "a.en").read_text(encoding="utf-8").count("\n") == found["kept"]


def test_a_model_of_both_directions_scores_in_both(
    cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    run = train(
        corpora=[CorpusText(*tiny_files)],
        both_directions=True,
        out=tmp_path / "both",
        preset="tiny",
        settings=TINY | {"steps": "2"},
        device="cpu",
    )
    models: list[str | Path] = ["--score", run, "--reverse", run, "--keep-best", "0.5"]
    done = cli("data", "check", *tiny_files, *models, "--device", "cpu", "--json")
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)["kept"] > 0
    unknown = tmp_path / "pairs.tsv"
    unknown.write_text("a dog\tein Hund\n", encoding="utf-8")
    refused = cli("data", "check", unknown, *models, "--device", "cpu")
    assert "--languages en-de names them" in refused.stderr
    assert "does not translate from src to tgt: it translates en to de, de to en" in refused.error
