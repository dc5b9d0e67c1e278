"""Training on new text with the subwords of a model, or with additional ones."""

import shutil
import unicodedata
from pathlib import Path

import pytest
import torch
from conftest import TINY, CommandLine, options, snapshot, threads_kept, tiny_pairs, write_pairs
from hypothesis import given
from hypothesis import strategies as st

from transduce.checkpoints.checkpoint import load_model, load_tensors, weights_of
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadSetting
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec, SentencePiece, Subwords, decompose_new_pieces, extend_subwords
from transduce.subwords.extending import check_extensible
from transduce.training.distributed.processes import Processes
from transduce.training.gradient import GradientStep
from transduce.training.train import train
from transduce.training.validation import validate
from transduce.translation.translator import Translator

Files = tuple[Path, Path]

OLD = Subwords.learn([text for pair in tiny_pairs(300) for text in pair], 400)
LAW = [
    "Pursuant to Article 12 of the Regulation, the Commission shall adopt measures.",
    "Gemäß Artikel 12 der Verordnung erlässt die Kommission Maßnahmen, 第十二条。",
    "The birdlike dogs' fishing regulations: the dog's 1,212 regulations!",
] * 3
NEW = extend_subwords(OLD, LAW, 80)
PARTS = decompose_new_pieces(NEW, len(OLD))
WORDS = sorted({word for line in LAW for word in line.split()})
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from([*WORDS, "dog", "Hund", " "])).map(" ".join))

SHAPE = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "vocabulary")
TRAINING = {name: value for name, value in TINY.items() if name not in SHAPE} | {"steps": "4"}


def taken_apart(ids: list[int]) -> list[int]:
    """Replace new pieces by the old ones that they consist of."""
    return [
        old for piece in ids for old in ([piece] if piece < len(OLD) else PARTS[piece - len(OLD)])
    ]


def test_old_pieces_keep_their_ids_and_new_ones_follow() -> None:
    assert len(NEW) == len(OLD) + 80
    assert NEW.names[: len(OLD)] == OLD.names
    assert len(set(NEW.names)) == len(NEW)
    assert len(NEW.encode(LAW[0])) < 0.6 * len(OLD.encode(LAW[0]))


@given(TEXTS)
def test_decoding_returns_the_text(text: str) -> None:
    assert NEW.decode(NEW.encode(text)) == unicodedata.normalize("NFC", text)


@given(TEXTS)
def test_decomposed_new_pieces_are_the_old_pieces_of_any_text(text: str) -> None:
    assert taken_apart(NEW.encode(text)) == OLD.encode(text)


def test_text_without_new_merges_is_encoded_as_before() -> None:
    changed = 0
    for text in {text for pair in tiny_pairs(100, seed=5) for text in pair}:
        before, after = OLD.encode(text), NEW.encode(text)
        changed += before != after
        assert (max(after) < len(OLD)) == (before == after)
    assert changed == 0


def test_a_merge_that_gives_an_existing_piece_is_left_out() -> None:
    """Old merges might apply after it, and the piece could consist of others."""
    stored = Subwords.learn([], 260).to_json()
    for left, right in (("a", "b"), ("b", "c"), ("a", "bc"), ("abc", "d")):
        stored["model"]["merges"].append([left, right])
        stored["model"]["vocab"][left + right] = len(stored["model"]["vocab"])
    old = Subwords.from_json(stored)
    assert old.pieces(old.encode("abcd")) == [" ", "ab", "c", "d"]
    new = extend_subwords(old, ["xabcd yabcd zabcx"] * 9, 12)
    merges = [(left, right) for left, right in new.to_json()["model"]["merges"]]
    assert ("ab", "c") not in merges
    assert len(merges) == len(new) - 4 - 256
    parts = decompose_new_pieces(new, len(old))
    for text in ("abcd", "xabcdabcx"):
        cut = [
            [piece] if piece < len(old) else parts[piece - len(old)] for piece in new.encode(text)
        ]
        assert [piece for pieces in cut for piece in pieces] == old.encode(text)


def test_extending_is_deterministic_and_limited_by_the_text() -> None:
    assert extend_subwords(OLD, LAW, 80).to_json() == NEW.to_json()
    assert len(extend_subwords(OLD, ["one line, once"], 80)) < len(OLD) + 80
    assert extend_subwords(OLD, [], 80).to_json() == OLD.to_json()


def test_extended_subwords_can_be_extended_again() -> None:
    third = extend_subwords(NEW, ["Zweitausend Verordnungen"] * 4, 10)
    assert third.names[: len(NEW)] == NEW.names
    assert decompose_new_pieces(third, len(OLD))[:80] == PARTS


@pytest.fixture(scope="module")
def law_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    lines = [f"{text} {number % 7}" for number, text in enumerate(LAW * 5)]
    pairs = [(line, line.swapcase()) for line in lines] + tiny_pairs(40, seed=9)
    return write_pairs(tmp_path_factory.mktemp("law"), "law", pairs)


def tuned(files: Files, out: Path, start: Path, more: int = 0, **changes: str) -> Path:
    with threads_kept():
        return train(
            *files,
            out=out,
            start=start,
            extend_vocabulary=more,
            preset="tiny",
            settings=TRAINING | changes,
            device="cpu",
        )


@pytest.fixture(scope="module")
def longer(law_files: Files, tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned(law_files, tmp_path_factory.mktemp("longer") / "run", tiny_run, 60)


def loss_of(run: Path, weights: Path, corpus: Path) -> float:
    """Return the loss of some weights on the validation text of a corpus."""
    config = RunConfig.load(run)
    tokens = open_corpus(corpus)
    with threads_kept():
        model = load_model(run, config, torch.device("cpu"))[0]
        own = weights_of(model)
        with torch.no_grad():
            for name, tensor in load_tensors(weights).items():
                own[name].copy_(tensor)
        gradient_step = GradientStep(model, config.train, tokens.train, Processes(), lambda _: None)
        return validate(gradient_step, tokens, 0).loss


def test_with_unchanged_subwords_training_starts_at_the_old_loss(
    law_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    out = tuned(law_files, tmp_path / "run", tiny_run, steps="1", lr_scale="1e-30")
    before = loss_of(tiny_run, tiny_run / "model.safetensors", out / "corpus")
    assert loss_of(out, out / "start.safetensors", out / "corpus") == before
    assert loss_of(out, out / "model.safetensors", out / "corpus") == before


def test_new_embeddings_start_as_the_mean_of_their_parts(longer: Path, tiny_run: Path) -> None:
    old, new = (Codec.load(run / "subwords.json") for run in (tiny_run, longer))
    assert isinstance(new.source, Subwords)
    assert new.source is new.target
    assert new.source.names[: len(old.source)] == old.source.names
    assert len(new.source) == len(old.source) + 60
    config = RunConfig.load(longer)
    assert config.model.source_vocabulary == config.model.target_vocabulary == len(new.source)
    before = load_tensors(tiny_run / "model.safetensors")
    after = load_tensors(longer / "start.safetensors")
    assert before.keys() == after.keys()
    matrix = "output"  # the one that all three are
    for name, tensor in after.items():
        assert torch.equal(tensor[: len(before[name])], before[name])
        assert (name == matrix) == (len(tensor) > len(before[name]))
    for row, parts in zip(
        after[matrix][len(old.source) :],
        decompose_new_pieces(new.source, len(old.source)),
        strict=True,
    ):
        torch.testing.assert_close(row, before[matrix][parts].mean(0))


def test_a_run_with_extended_subwords_trains_and_translates(
    longer: Path, law_files: Files, tmp_path: Path
) -> None:
    assert Translator.load(longer, device="cpu")("Article 12") is not None
    again = tuned(law_files, tmp_path / "again", longer)
    assert RunConfig.load(again).model == RunConfig.load(longer).model


def test_separate_vocabularies_are_extended_separately(
    law_files: Files, tiny_files: Files, tmp_path: Path
) -> None:
    with threads_kept():
        train(
            *tiny_files,
            out=tmp_path / "old",
            preset="tiny",
            settings=TINY | {"joint": "false", "steps": "1"},
            device="cpu",
        )
    out = tuned(law_files, tmp_path / "new", tmp_path / "old", 20)
    old, new = (Codec.load(tmp_path / name / "subwords.json") for name in ("old", "new"))
    assert not new.joint
    assert len(new.source) == len(old.source) + 20
    assert len(new.target) == len(old.target) + 20
    assert RunConfig.load(out).model.tie == "decoder"


def test_only_the_same_command_resumes(
    longer: Path, law_files: Files, tiny_run: Path, cli: CommandLine
) -> None:
    before = snapshot(longer)
    own: list[str | Path] = ["--out", longer, "--preset", "tiny", "--device", "cpu"]
    command = ["train", *law_files, *own, *options(TRAINING)]
    same = cli(*command, "--from", tiny_run, "--extend-vocabulary", "60")
    assert same.status == 0, same.stderr
    assert cli(*command).status == 0  # options that are not given are recorded
    assert snapshot(longer) == before
    other = cli(*command, "--from", tiny_run, "--extend-vocabulary", "70").error
    assert "was started with 60 more subwords, not with 70" in other
    assert "was started with 60 more subwords" in cli(*command, "--from", tiny_run).error


@pytest.mark.parametrize("named", [True, False])
def test_a_run_resumes_after_its_corpus_was_deleted(
    longer: Path, law_files: Files, tiny_run: Path, tmp_path: Path, cli: CommandLine, named: bool
) -> None:
    run = shutil.copytree(longer, tmp_path / "run")
    shutil.rmtree(run / "corpus")
    own: list[str | Path] = ["--out", run, "--preset", "tiny", "--device", "cpu"]
    command = ["train", *law_files, *own, *options(TRAINING)]
    start: list[str | Path] = ["--from", tiny_run, "--extend-vocabulary", "60"] if named else []
    gone_on = cli(*command, *start)
    assert gone_on.status == 0, gone_on.stderr
    assert (
        open_corpus(run / "corpus").manifest.files == open_corpus(longer / "corpus").manifest.files
    )
    assert cli(*command, "--from", tiny_run, "--extend-vocabulary", "60").status == 0


def test_only_learned_bpe_subwords_can_be_extended(
    law_files: Files, tmp_path: Path, cli: CommandLine
) -> None:
    wordpiece = Subwords.learn(LAW, 700, "wordpiece")
    names = ["<pad>", "<s>", "</s>", "<unk>", "▁a"]
    theirs = SentencePiece(names, [("▁a", -1.0, 1)], charsmap=b"", prefix=True, squeeze=True)
    for subwords in (wordpiece, theirs):
        with pytest.raises(
            BadSetting, match=f"of runs/x are {subwords.kind}, which cannot be extended"
        ):
            check_extensible(Codec(subwords, subwords), "runs/x")
    result = cli("train", *law_files, "--out", tmp_path / "run", "--extend-vocabulary", "9")
    assert "name it (--from RUN)" in result.error
    assert not (tmp_path / "run").exists()
