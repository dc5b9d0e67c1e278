"""The public API: strings in, strings out, line n for line n."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import transduce
from transduce import Translator
from transduce.config import ModelConfig, TrainConfig
from transduce.engines.pytorch import TorchEngine
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.folder import RunConfig
from transduce.model import Transformer
from transduce.subwords import Codec, Subwords
from transduce.translator import cut

TEXT = [
    "Two dogs run over the wet grass.",
    "A man sleeps; a woman reads a long letter.",
    "Zwei Hunde laufen über das nasse Gras.",
    "Ein Mann schläft, eine Frau liest einen langen Brief.",
] * 30


@pytest.fixture(scope="module")
def translator() -> Translator:
    """An untrained model: what it says is nonsense, how it says it is not."""
    subwords = Subwords.learn(TEXT, 320)
    torch.manual_seed(0)
    model = Transformer(
        ModelConfig(
            N=1,
            d_model=32,
            d_ff=32,
            h=2,
            d_k=16,
            d_v=16,
            max_len=24,
            source_vocabulary=len(subwords),
            target_vocabulary=len(subwords),
        )
    )
    with torch.no_grad():
        model.output.mul_(3)
    config = RunConfig(model=model.config, train=TrainConfig())
    engine = TorchEngine([model], subwords.forbidden())
    return Translator(engine, Codec(subwords, subwords), config)


def test_a_call_translates_one_text(translator: Translator) -> None:
    text = translator("Two dogs run.")
    assert isinstance(text, str)
    assert text == translator.translate(["Two dogs run."])[0].text


def test_order_and_blank_lines_are_kept(translator: Translator) -> None:
    texts = ["A man sleeps.", "", "   ", "Two dogs run over the wet grass.", "\t", "Two"]
    translations = translator.translate(texts, batch=2)
    assert [one.source for one in translations] == texts
    assert [bool(one.text) for one in translations[1:3]] == [False, False]
    assert translations[1].candidates[0].tokens == ()
    for text, one in zip(texts, translations, strict=True):
        if text.strip():
            assert one.text == translator(text)


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_the_batch_changes_no_translation(translator: Translator, batch: int) -> None:
    texts = [" ".join(TEXT[i % 4].split()[: 1 + i % 7]) for i in range(20)]
    expected = [translator(text) for text in texts]
    assert [one.text for one in translator.translate(texts, batch=batch)] == expected


def test_nbest_are_distinct_and_in_order(translator: Translator) -> None:
    (translation,) = translator.translate(["Two dogs run."], beam=5, nbest=5)
    scores = [one.score for one in translation.candidates]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert len({one.tokens for one in translation.candidates}) == 5
    assert translation.score == scores[0]
    assert translation.tokens == translation.candidates[0].tokens


def test_a_text_longer_than_the_limit_is_cut_and_nothing_is_lost(translator: Translator) -> None:
    long = " ".join(TEXT[:12])
    (translation,) = translator.translate([long], nbest=2)
    assert translation.parts > 1
    assert len(translation.candidates) == 2
    short = translator.translate(["Two dogs run."])[0]
    assert short.parts == 1


def test_cutting_keeps_every_token_and_prefers_the_end_of_a_sentence(
    translator: Translator,
) -> None:
    subwords = translator.codec.source
    ids = subwords.encode(" ".join(TEXT[:3]))
    for limit in (8, 15, 23, 1000):
        parts = cut(ids, limit, subwords)
        assert [token for part in parts for token in part] == ids
        assert all(len(part) <= limit for part in parts)
    for part in cut(subwords.encode("x" * 500), 9, subwords):
        assert 1 <= len(part) <= 9
    assert all(len(part) == 1 for part in cut(ids, 1, subwords))
    halves = cut(subwords.encode("One two three. Four five six."), 20, subwords)
    assert subwords.decode(halves[0]).strip() == "One two three."


def test_a_line_of_many_words_is_one_line(translator: Translator) -> None:
    (translation,) = translator.translate(["dogs " * 3000], beam=1)
    assert "\n" not in translation.text
    assert translation.parts > 100


def test_line_breaks_in_a_text_are_spaces(translator: Translator) -> None:
    assert translator("Two dogs\nrun.\r\n") == translator("Two dogs run.")


def test_a_newline_never_comes_out(translator: Translator) -> None:
    many = translator.translate(["Two dogs run."] * 20, sample=True, nbest=5, temperature=5.0)
    for one in many:
        for candidate in one.candidates:
            assert not re.search(r"[\n\r\0]", candidate.text)


def test_a_prefix_begins_the_translation(translator: Translator) -> None:
    first, second = translator.translate(["A man sleeps."] * 2, prefixes=["Ein Mann", "Zwei"])
    assert first.text.startswith("Ein Mann")
    assert second.text.startswith("Zwei")
    with pytest.raises(BadInput, match="the prefix of text 1 has"):
        translator.translate(["A man sleeps."], prefixes=["Mann " * 400])
    with pytest.raises(BadInput, match="characters that the model cannot write"):
        translator.translate(["A man sleeps."], prefixes=["Ein\0Mann"])
    with pytest.raises(BadInput, match="1 prefixes for 2 texts"):
        translator.translate(["A man.", "Two dogs."], prefixes=["Ein"])


def test_given_translations_are_scored_as_the_search_scores_them(translator: Translator) -> None:
    found = translator.translate(["Two dogs run.", "A man."], nbest=3)
    pairs = [(one.source, candidate) for one in found for candidate in one.candidates]
    subwords = translator.codec.target
    for source, candidate in pairs:
        # Several token sequences may spell one text; only the canonical one is scored.
        ids = subwords.encode(candidate.text)
        if tuple(subwords.pieces(ids)) == candidate.tokens:
            (scored,) = translator.score([(source, candidate.text)])
            assert scored.score == pytest.approx(candidate.score, abs=1e-3)


def test_scores_of_pairs_come_in_order_and_refuse_what_is_too_long(translator: Translator) -> None:
    pairs = [("Two dogs run.", "Zwei Hunde."), ("A", "B"), ("A man sleeps.", "Ein Mann schläft.")]
    together = translator.score(pairs)
    for pair, one in zip(pairs, together, strict=True):
        assert one.log_probability == pytest.approx(
            translator.score([pair])[0].log_probability, abs=1e-3
        )
        assert one.text == pair[1]
    with pytest.raises(BadInput, match="pair 2 has"):
        translator.score([("A", "B"), ("dogs " * 100, "B")])


def test_a_stream_is_endless_and_bounded(translator: Translator) -> None:
    import itertools

    endless = itertools.cycle(TEXT[:2])
    first = list(itertools.islice(translator.stream(endless, batch=1, beam=1), 3))
    assert [one.source for one in first] == [TEXT[0], TEXT[1], TEXT[0]]


def test_progress_counts_every_text_once(translator: Translator) -> None:
    texts = ["A man sleeps.", "", " ".join(TEXT[:12]), "Two dogs run."] * 3
    done: list[int] = []
    list(translator.stream(texts, batch=2, window=2, advance=done.append))
    assert sum(done) == len(texts)
    assert len(done) > 4


def test_the_penalty_of_given_translations_can_be_set(translator: Translator) -> None:
    pair = ("Two dogs run.", "Zwei Hunde laufen.")
    (plain,) = translator.score([pair], alpha=0.0)
    assert plain.score == plain.log_probability
    (paper,) = translator.score([pair])
    assert paper.score > plain.score


def test_wrong_settings_are_named(translator: Translator) -> None:
    with pytest.raises(BadSetting, match=r"no setting bean\. Did you mean beam"):
        translator.translate(["A"], bean=3)
    with pytest.raises(BadSetting, match="nbest = 9: expected at most the beam"):
        translator.translate(["A"], nbest=9)
    with pytest.raises(BadInput, match="batch = 0"):
        translator.translate(["A"], batch=0)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="there is no run folder"):
        Translator.load(tmp_path / "nowhere")
    with pytest.raises(BadRun, match="is not a run folder"):
        Translator.load(tmp_path)


def test_public_names_are_there_and_no_others() -> None:
    assert set(transduce.__all__) == {"Candidate", "Translation", "Translator", "train"}
    for name in transduce.__all__:
        assert getattr(transduce, name).__module__.startswith("transduce.")
        assert name in dir(transduce)
    with pytest.raises(AttributeError):
        _ = transduce.nothing


def test_extremes_of_length_give_one_line_each(translator: Translator) -> None:
    """One token, exactly the limit, one more than the limit, and an empty line."""
    subwords = translator.codec.source
    limit = translator.config.model.max_len - 1
    texts = ["."]
    for words in range(1, 40):
        for text in (" ".join(["dogs"] * words), " ".join(["dogs"] * words) + "."):
            texts += [text] if len(subwords.encode(text)) in (limit, limit + 1) else []
    texts.append("")
    translations = translator.translate(texts)
    assert len(translations) == len(texts) >= 4
    assert np.array([one.parts for one in translations]).max() == 2
