"""Training on several corpora: weights, resuming, processes, tags."""

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import torchrun
from small_training import SETTINGS, Files, Killed, Recorder, killing, weights

from transduce.checkpoints.checkpoint import load_tensors
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadInput, BadSetting
from transduce.runs.folder import RunConfig, checkpoints
from transduce.text.corpora import CorpusText
from transduce.training.train import train
from transduce.training.trainer import Trainer
from transduce.translation.translator import Translator

FEW = {"steps": "12", "save_every": "5", "validate_every": "6", "validate_bleu": "4"}


@pytest.fixture(scope="module")
def corpora(upper_case_pairs: Files, tmp_path_factory: pytest.TempPathFactory) -> list[CorpusText]:
    """Two corpora: upper-case pairs with weight 1, and copies with weight 2.5."""
    path = tmp_path_factory.mktemp("corpora") / "copies.tsv"
    lines = upper_case_pairs[0].read_text(encoding="utf-8").splitlines()[:60]
    path.write_text("".join(f"{line} a\t{line} b\n" for line in lines), encoding="utf-8")
    return [CorpusText(*upper_case_pairs), CorpusText(path, weight=2.5)]


def train_on(corpora: list[CorpusText], out: Path, **changes: Any) -> Path:
    options = {"preset": "tiny", "settings": SETTINGS | FEW, "device": "cpu"} | changes
    return train(corpora=corpora, out=out, **options)


@pytest.fixture(scope="module")
def mixed(corpora: list[CorpusText], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_on(corpora, tmp_path_factory.mktemp("mixed") / "run")


@pytest.mark.parametrize("at", [3, 8])
def test_a_killed_mixture_ends_with_the_same_bits(
    at: int,
    corpora: list[CorpusText],
    mixed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(at))
        with pytest.raises(Killed):
            train_on(corpora, tmp_path / "run")
    train_on(corpora, tmp_path / "run")
    model = "model.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (mixed / model).read_bytes()


def test_a_killed_run_in_several_languages_ends_with_the_same_bits(
    corpora: list[CorpusText], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both directions of two pairs, sampled with a temperature."""
    texts = [
        CorpusText(corpora[0].source, corpora[0].target, languages="de-up"),
        CorpusText(corpora[1].source, languages="de-ab"),
    ]
    options = {"settings": SETTINGS | FEW | {"temperature": 3}, "both_directions": True}
    whole = train_on(texts, tmp_path / "whole", **options)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", killing(8))
        with pytest.raises(Killed):
            train_on(texts, tmp_path / "run", **options)
    train_on(texts, tmp_path / "run", **options)
    model = "model.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (whole / model).read_bytes()
    lines = map(json.loads, (whole / "metrics.jsonl").read_text().splitlines())
    (last,) = [line for line in lines if "valid_loss" in line and line["step"] == 12]
    pairs = ["de-up", "up-de", "de-ab", "ab-de"]
    assert {f"valid_loss/{pair}" for pair in pairs} < last.keys()
    scores = [last[f"valid_bleu/{pair}"] for pair in pairs]
    assert last["valid_bleu"] == pytest.approx(np.mean(scores), abs=0.01)


def test_each_corpus_has_its_validation_loss(mixed: Path) -> None:
    lines = map(json.loads, (mixed / "metrics.jsonl").read_text().splitlines())
    validations = [line for line in lines if "valid_loss" in line]
    assert [line["step"] for line in validations] == [6, 12]
    parts = open_corpus(mixed / "corpus").valid_parts
    tokens = [int(part.target.lengths.sum()) for part in parts.values()]
    for line in validations:
        for kind in ("valid_loss", "valid_nll"):
            losses = [line[f"{kind}/{name}"] for name in ("train", "copies")]
            assert losses[0] != losses[1]
            assert line[kind] == pytest.approx(np.average(losses, weights=tokens))


def test_other_weights_reuse_the_token_files_but_are_another_run(
    corpora: list[CorpusText], mixed: Path, tmp_path: Path
) -> None:
    others = [corpora[0], CorpusText(corpora[1].source, weight=3)]
    with pytest.raises(BadSetting, match=r"started with corpora of weight 1, 2\.5, not 1, 3"):
        train_on(others, mixed)
    recorder = Recorder()
    run = train_on(others, tmp_path / "run", corpus=mixed / "corpus", progress=recorder)
    assert any(line.startswith("using the corpus in") for line in recorder.lines)
    config, before = RunConfig.load(run), RunConfig.load(mixed)
    assert config.corpus_weights == (1.0, 3.0)
    assert config.identity != before.identity
    assert weights(run) != weights(mixed)


def test_weights_1_are_the_same_as_one_text(upper_case_pairs: Files, tmp_path: Path) -> None:
    """Not one random draw changes."""
    settings = SETTINGS | FEW
    one = train(
        *upper_case_pairs, out=tmp_path / "one", preset="tiny", settings=settings, device="cpu"
    )
    mixed = train_on([CorpusText(*upper_case_pairs)], tmp_path / "mixed")
    for name in ("model.safetensors", "config.json"):
        assert (one / name).read_bytes() == (mixed / name).read_bytes()
    assert RunConfig.load(mixed).corpus_weights == ()


def test_no_text_and_names_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no text to train on"):
        train_on([], tmp_path / "run")
    with pytest.raises(BadInput, match=r"corpora = \['a.tsv'\]: expected a list of CorpusText"):
        train_on(cast("list[CorpusText]", ["a.tsv"]), tmp_path / "run")


def test_weights_that_leave_nothing_are_refused_before_the_run_begins(
    corpora: list[CorpusText], tmp_path: Path
) -> None:
    light = [dataclasses.replace(corpus, weight=0.001) for corpus in corpora]
    with pytest.raises(BadInput, match="less than one of each per epoch"):
        train_on(light, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.long
def test_two_processes_learn_a_mixture_as_one_does(
    corpora: list[CorpusText], tmp_path: Path
) -> None:
    alone = train_on(corpora, tmp_path / "alone", settings=torchrun.SETTINGS)
    source, target = corpora[0].files
    given = [f"--corpus={source},{target}", f"--corpus={corpora[1].source}=2.5"]
    result = torchrun.run(cast("Files", tuple(given)), tmp_path / "pair", 2)
    assert result.status == 0, result.stderr
    one, two = (
        checkpoints(run)[-1].path / "weights.safetensors" for run in (alone, tmp_path / "pair")
    )
    expected = load_tensors(one)
    for name, tensor in load_tensors(two).items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("joint", ["true", "false"])
def test_a_tag_is_seen_in_training_and_translation_and_never_written(
    joint: str, corpora: list[CorpusText], tmp_path: Path
) -> None:
    tagged = [corpora[0], CorpusText(corpora[1].source, weight=2.5, tag="copy")]
    settings = SETTINGS | FEW | {"joint": joint, "tie": "none"}
    run = train_on(tagged, tmp_path / "run", settings=settings)
    corpus = open_corpus(run / "corpus")
    (tag,) = corpus.codec.source.tag_ids("copy")
    assert tag == len(corpus.codec.source) - 1
    first = corpus.manifest.corpora[0].train.pairs
    begins = np.array([corpus.train.source[i][0] for i in range(len(corpus.train))])
    assert (begins[:first] != tag).all()
    assert (begins[first:] == tag).all()
    if joint == "true":
        assert not (corpus.train.target.tokens == tag).any()
    assert corpus.valid_parts["copies"].source[0][0] == tag
    translator = Translator.load(run, device="cpu", engine="torch")
    assert RunConfig.load(run).model.source_vocabulary == len(corpus.codec.source)
    pair = ("ein Hund läuft", "EIN HUND")
    scores = [translator.score([pair], tag=tag)[0].score for tag in (None, "copy")]
    assert scores[0] != scores[1]
    texts = ["ein Hund. zwei Katzen <copy> 5.", "drei " * 200]
    for translation in translator.translate(texts, tag="copy", nbest=2, align=True, extra=20):
        for candidate in translation.candidates:
            assert "<copy>" not in candidate.tokens
    with pytest.raises(BadInput, match="no tag 'news': the model knows copy"):
        translator.translate(texts, tag="news")
