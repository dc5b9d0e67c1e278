"""Inspections have the weights of Eq. 1 and the probabilities of the search."""

import base64
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import threads_kept
from torch import Tensor

from models import batch_of, small_model
from opus import write_opus
from transduce import Inspection, Inspector, Translator
from transduce.batching.packed import make_batch
from transduce.checkpoints.checkpoint import load_model
from transduce.errors import BadInput
from transduce.inspection.inspector import MAX_PIECES
from transduce.inspection.matrices import KINDS
from transduce.interop.importing import import_model
from transduce.model.attention_maps import attention_maps
from transduce.model.contexts.selection import self_context
from transduce.subwords import EOS
from transduce.translation.engines.pytorch import transformer

SENTENCE = "the dog sees a tree and every man likes one bird."
GIVEN = "der Hund sieht ein Haus!"


@pytest.fixture(scope="module")
def inspector(tiny_run: Path) -> Iterator[Inspector]:
    with threads_kept():
        yield Inspector.load(tiny_run)


@pytest.fixture(scope="module")
def inspection(inspector: Inspector) -> Inspection:
    return inspector.inspect(SENTENCE, GIVEN)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run that was another library's model: other positions and activations, and biases."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("imported")
    import_model(write_opus(folder / "opus-mt-en-de"), folder / "run")
    with threads_kept():
        yield folder / "run"


# Weights.


def by_hand(
    x: Tensor, y: Tensor, W_Q: Tensor, W_K: Tensor, h: int, *, causal: bool = False
) -> Tensor:
    """Return Eq. 1's softmax(Q K^T / sqrt(d_k)) of each head, in float64. (H, Q, K)."""
    heads = []
    for of_q, of_k in zip(W_Q.double().chunk(h), W_K.double().chunk(h), strict=True):
        scores = (x.double() @ of_q.T) @ (y.double() @ of_k.T).T / math.sqrt(len(of_k))
        if causal:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        heads.append(scores.softmax(-1))
    return torch.stack(heads)


def test_weights_are_those_of_equation_1_in_float64(
    inspector: Inspector, inspection: Inspection, tiny_run: Path
) -> None:
    model = transformer(load_model(tiny_run, inspector.config, torch.device("cpu"))[0])
    h, codec = inspector.config.model.h, inspector.codec
    pair = codec.source.encode(SENTENCE), codec.target.encode(GIVEN)
    batch = make_batch([(np.array([*pair[0], EOS]), np.array([*pair[1], EOS]))])
    (below,), (layer,) = model.encoder, model.decoder
    with torch.inference_mode():
        x = model.source_embedding(batch.source.tokens, batch.source.positions)
        W_Q, W_K = below.self_attention.W_Q, below.self_attention.W_K
        assert inspection.encoder[0] == pytest.approx(by_hand(x, x, W_Q, W_K, h), abs=1e-6)
        memory = model.encode(batch.source)
        x = model.target_embedding(batch.target.tokens, batch.target.positions)
        W_Q, W_K = layer.self_attention.W_Q, layer.self_attention.W_K
        expected = by_hand(x, x, W_Q, W_K, h, causal=True)
        assert inspection.decoder[0] == pytest.approx(expected, abs=1e-6)
        x = layer.after_self(x, layer.self_attention(x, self_context(batch.target, causal=True)))
        W_Q, W_K = layer.cross_attention.W_Q.weight, layer.cross_attention.W_K
        expected = by_hand(x, memory, W_Q, W_K, h)
        assert inspection.cross[0] == pytest.approx(expected, abs=1e-6)


def test_recording_weights_does_not_change_the_output() -> None:
    model, batch = small_model(N_decoder=3), batch_of((5, 7))
    assert torch.equal(attention_maps(model, batch).output, model(batch))


def test_weights_sum_to_1_and_the_decoder_is_causal(inspection: Inspection) -> None:
    for kind in KINDS:
        assert inspection.attention(kind).sum(-1) == pytest.approx(1, abs=1e-5)
    assert np.triu(inspection.decoder, 1).max() == 0


# Pieces and their probabilities.


def test_without_a_target_the_search_translates(inspector: Inspector, tiny_run: Path) -> None:
    translator = Translator.load(tiny_run, device="cpu", engine="torch")
    found = inspector.inspect(SENTENCE)
    assert found.sentences == (SENTENCE, translator(SENTENCE))
    (candidate,) = translator.translate([SENTENCE])[0].candidates
    assert found.target == (*candidate.tokens, "</s>")
    assert np.log(found.probabilities).sum() == pytest.approx(candidate.log_probability, abs=1e-4)


def test_probabilities_are_those_of_scoring_the_given_translation(
    inspector: Inspector, inspection: Inspection, tiny_run: Path
) -> None:
    translator = Translator.load(tiny_run, device="cpu", engine="torch")
    (scored,) = translator.score([(SENTENCE, GIVEN)])
    assert inspection.sentences == (SENTENCE, GIVEN)
    assert np.log(inspection.probabilities).sum() == pytest.approx(scored.log_probability, abs=1e-4)
    assert inspection.target == (*scored.tokens, "</s>")
    assert inspection.inputs == ("<s>", *scored.tokens)


def test_alternatives_are_the_most_likely_allowed_pieces(
    inspector: Inspector, inspection: Inspection
) -> None:
    forbidden = set(inspector.codec.target.pieces(inspector.codec.target.forbidden_ids()))
    assert {"<pad>", "<s>", "<unk>"} <= forbidden
    for step, written, probability in zip(
        inspection.alternatives, inspection.target, inspection.probabilities, strict=True
    ):
        values = [value for _, value in step]
        assert len(step) == 5
        assert values == sorted(values, reverse=True)
        assert values[-1] > 0
        assert sum(values) <= 1
        assert not forbidden & dict(step).keys()
        listed = dict(step).get(written)
        assert probability <= values[-1] if listed is None else listed == pytest.approx(probability)


def test_many_sentences_are_inspected_in_order_as_each_alone(inspector: Inspector) -> None:
    texts = ["a dog sees a fish.", SENTENCE, "one bird!"]
    for text, found in zip(texts, inspector.inspect_all(texts), strict=True):
        alone = inspector.inspect(text)
        assert found.sentences == alone.sentences
        assert found.cross == pytest.approx(alone.cross, abs=1e-5)
    given = [GIVEN, "ja", "nein"]
    assert [found.sentences[1] for found in inspector.inspect_all(texts, given)] == given


# Words.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the dog sees.", ["the", "dog", "sees", "."]),
        ("Don't stop, (please)!", ["Don't", "stop", ",", "(", "please", ")!"]),
        ("  two   spaces ", ["two", "spaces"]),
        ("... -- well-known U.S.", ["...", "--", "well-known", "U.S", "."]),
        ("ein 狗 ❤️😀 cafe\N{COMBINING ACUTE ACCENT}.", ["ein", "狗", "❤️😀", "café", "."]),
        ("我喜欢狗。", ["我喜欢狗", "。"]),
        ("a\nb </s> <0xE2>", ["a", "b", "</", "s", ">", "<", "0xE2", ">"]),
        ("$x_1$", ["$", "x_1", "$"]),
        ("x" * 50, ["x" * 50]),
    ],
)
def test_pieces_belong_to_words_and_punctuation_is_a_word(
    text: str, expected: list[str], inspector: Inspector
) -> None:
    found = inspector.inspect(text, text)
    for spelled, words, pieces in (
        (found.spelled[0], found.source_words, found.source),
        (found.spelled[1], found.target_words, found.target),
    ):
        assert list(spelled) == [*expected, "</s>"]
        assert len(words) == len(pieces)
        assert sorted(set(words)) == list(range(len(spelled)))
        assert list(words) == sorted(words)


# JSON.


def test_json_has_all_fields_and_16_bit_weights(inspection: Inspection) -> None:
    value = json.loads(json.dumps(inspection.to_json()))
    assert value["model"] == "tiny"
    assert value["languages"] == ["en", "de"]
    assert tuple(value["source"]) == inspection.source
    assert tuple(value["words"]["target"]) == inspection.target_words
    assert value["probabilities"] == pytest.approx(inspection.probabilities.tolist(), rel=1e-3)
    assert [len(step) for step in value["alternatives"]] == [5] * len(inspection.target)
    for kind in KINDS:
        shape, data = value["attention"][kind]["shape"], value["attention"][kind]["data"]
        weights = np.frombuffer(base64.b64decode(data), "<u2").reshape(shape) / 65_535
        assert weights == pytest.approx(inspection.attention(kind), abs=0.51 / 65_535)


# Models of other libraries.


def test_an_imported_model_can_be_inspected(imported: Path) -> None:
    inspector = Inspector.load(imported)
    translator = Translator.load(imported, device="cpu", engine="torch")
    source, target = "The dog ☃ sleeps.", "Der Hund schläft."
    found = inspector.inspect(source, target)
    assert found.encoder.shape[:2] == (2, 4)
    assert found.cross.shape[:2] == found.decoder.shape[:2] == (1, 4)
    assert "<unk>" in found.source
    assert len(found.spelled[0]) == 6
    (scored,) = translator.score([(source, target)])
    assert np.log(found.probabilities).sum() == pytest.approx(scored.log_probability, abs=1e-4)
    assert "<unk>" not in {piece for step in found.alternatives for piece, _ in step}
    assert inspector.inspect(source).sentences[1] == translator(source)


# Refused sentences.


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("", None, "the sentence is empty: expected some words"),
        (" \n\t", "ja", "the sentence is empty"),
        ("yes", " ", "the given translation is empty"),
        ("z " * MAX_PIECES, None, "the sentence has .* subwords, including </s>: at most 128 can"),
        ("yes", "z " * MAX_PIECES, "the given translation has .* subwords.*: at most 128"),
    ],
)
def test_an_empty_or_long_sentence_is_refused(
    source: str, target: str | None, expected: str, inspector: Inspector
) -> None:
    with pytest.raises(BadInput, match=expected):
        inspector.inspect(source, target)


def test_a_sentence_that_fits_can_be_inspected(inspector: Inspector) -> None:
    longest = "z" * 200
    while not inspector.fits(longest):
        longest = longest[:-1]
    assert len(inspector.inspect(longest, "ja").source) == MAX_PIECES
    assert not inspector.fits(" ")
    with pytest.raises(BadInput, match="the sentence has 129 subwords"):
        inspector.inspect(longest + "z", "ja")
