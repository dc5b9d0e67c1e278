"""Validation measures the model: perplexity of the references, BLEU of its translations."""

import json
import math
from pathlib import Path

import pytest
import sacrebleu
import torch
from small_training import Files, records, samples, train_small, write_upper_case_pairs
from torch.nn import functional as F

from transduce.batching.packed import make_batch
from transduce.checkpoints.checkpoint import load_tensors, load_weights
from transduce.corpus.token_files import open_corpus
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig, checkpoints
from transduce.runs.metrics import Translated
from transduce.training.validation import SHOWN, Validation, chosen_sentences, spread, translations


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_upper_case_pairs(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def trained(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_small(files, tmp_path_factory.mktemp("trained") / "run")


def last_model(run: Path) -> Transformer:
    """Return the model as it was at the last validation."""
    model = Transformer(RunConfig.load(run).model)
    path = checkpoints(run)[-1].path / "weights.safetensors"
    load_weights(model, load_tensors(path), path)
    return model.eval()


def last_validation(run: Path) -> dict[str, float]:
    return [record for record in records(run) if "valid_loss" in record][-1]


def test_perplexity_is_the_exponential_of_the_unsmoothed_loss(trained: Path) -> None:
    """Perplexity of the references, computed here by softmax, token by token."""
    model, part = last_model(trained), open_corpus(trained / "corpus").valid
    batch = make_batch([part.pair(i) for i in range(len(part))])
    with torch.inference_mode():
        logits = model(batch) @ model.output.T
        nll = F.cross_entropy(logits, batch.labels).item()
    record = last_validation(trained)
    assert record["valid_nll"] == pytest.approx(nll, rel=1e-5)
    assert record["valid_perplexity"] == pytest.approx(math.exp(nll), rel=1e-5)
    assert record["valid_loss"] > record["valid_nll"] + 0.01  # label smoothing
    assert Validation(loss=3.0, nll=2.0).perplexity == math.exp(2.0)


def test_bleu_is_that_of_the_translations(trained: Path) -> None:
    sentences, *_, validation = map(json.loads, samples(trained))
    outputs, references = validation["outputs"], sentences["reference"]
    assert outputs != references
    expected = sacrebleu.corpus_bleu(outputs, [references]).score
    assert last_validation(trained)["valid_bleu"] == round(expected, 2) < 50


def test_bleu_of_perfect_translations_is_100(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the scores above do not compare the references with themselves."""

    def perfect(model: Transformer, corpus: object, count: int) -> Translated:
        found = translations(model, corpus, count)  # type: ignore[arg-type]
        return Translated(found.source, found.reference, found.reference)

    monkeypatch.setattr("transduce.training.validation.translations", perfect)
    assert last_validation(train_small(files, tmp_path / "run", steps="8"))["valid_bleu"] == 100.0


def test_samples_are_sentences_of_the_validation_set_and_their_translations(
    files: Files, trained: Path, tmp_path: Path
) -> None:
    sentences, *validations = map(json.loads, samples(trained))
    assert [validation["step"] for validation in validations] == [8, 16, 24]
    text = [path.read_text(encoding="utf-8").splitlines() for path in files]
    pairs = zip(sentences["source"], sentences["reference"], strict=True)
    assert set(pairs) <= set(zip(*text, strict=True))
    corpus = open_corpus(trained / "corpus")
    last = translations(last_model(trained), corpus, chosen_sentences(corpus, 4))
    assert sentences == {"source": last.source, "reference": last.reference}
    assert validations[-1]["outputs"] == last.outputs
    without_bleu = train_small(files, tmp_path / "run", validate_bleu="0")
    held_out = len(open_corpus(without_bleu / "corpus").valid)
    assert len(samples(without_bleu)) == 4
    assert len(json.loads(samples(without_bleu)[-1])["outputs"]) == min(SHOWN, held_out)
    assert "valid_bleu" not in last_validation(without_bleu)


def test_samples_are_spread_over_all_translations() -> None:
    many = [str(i) for i in range(200)]
    chosen = spread(Translated(many, many, many), 8)
    assert chosen.source == chosen.outputs == ["0", "25", "50", "75", "100", "125", "150", "175"]
    few = Translated(["a"], ["b"], ["c"])
    assert spread(few, 8) == few
