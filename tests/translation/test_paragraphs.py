"""Texts of several sentences are translated sentence by sentence."""

import sys

import numpy as np
import pytest
from untrained_translator import TEXT, untrained_translator

from transduce import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return untrained_translator()


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
    assert np.array([translation.parts for translation in translations]).max() == 2


def test_a_paragraph_is_its_sentences_with_the_same_white_space(translator: Translator) -> None:
    sentences = ["A man sleeps.", "Two dogs run.", "A woman reads!"]
    (whole,) = translator.translate(["A man sleeps.  Two dogs run.\tA woman reads!"], split=True)
    first, second, third = (
        translation.text.strip() for translation in translator.translate(sentences)
    )
    assert whole.text == f"{first}  {second}\t{third}"
    assert (whole.parts, whole.cut) == (3, False)
    (together,) = translator.translate([" ".join(sentences)], split=False)
    assert together.text != whole.text
    assert translator("A man sleeps.  Two dogs run.\tA woman reads!") == whole.text


def test_single_sentences_and_blank_texts_are_the_same_without_splitting(
    translator: Translator,
) -> None:
    texts = ["A man sleeps.", "", " \t ", "  A man sleeps. ", "Two dogs", "Dr. A runs 3.5 miles."]
    assert translator.translate(texts) == translator.translate(texts, split=False)


def test_the_translation_of_a_paragraph_has_no_line_breaks(translator: Translator) -> None:
    paragraph = "A man sleeps.\n\nTwo dogs run.\u2028A woman.\x85Two.\rA man sleeps."
    (found,) = translator.translate([paragraph], split=True)
    assert found.parts > 3
    assert len(found.text.splitlines()) == 1


def test_an_over_long_sentence_of_a_paragraph_is_cut(translator: Translator) -> None:
    paragraph = "A man sleeps. " + "dogs and " * 40 + "dogs. Two dogs run."
    (found,) = translator.translate([paragraph], split=True, nbest=2)
    assert found.cut
    assert found.parts > 3
    assert found.text.startswith(translator("A man sleeps.").strip())
    assert found.text.endswith(translator("Two dogs run.").strip())


def test_a_prefix_begins_the_paragraph_and_not_each_sentence(translator: Translator) -> None:
    (plain,) = translator.translate(["A man sleeps. Two dogs run."], split=True)
    (found,) = translator.translate(
        ["A man sleeps. Two dogs run."], prefixes=["Ein Mann"], split=True
    )
    assert found.text.startswith("Ein Mann")
    assert found.text.endswith(plain.text.split(" ")[-1])
    assert found.text.count("Ein Mann") == 1


def test_with_a_prefix_of_several_sentences_a_text_is_not_split(translator: Translator) -> None:
    """Such a prefix translates several sentences of the text, so the text is not split."""
    text, prefix = "A man sleeps. Two dogs run.", "Ein Mann. Zwei"
    prefixes = [prefix, "Ein Mann."]
    whole, split = translator.translate([text, text], prefixes=prefixes, beam=1)
    assert (whole.parts, split.parts) == (1, 2)
    assert whole.text.startswith(prefix)
    together = translator.translate([text, text], prefixes=prefixes, beam=1, split=False)
    assert whole == together[0]


def test_candidates_of_several_sentences_join_those_of_the_same_rank(
    translator: Translator,
) -> None:
    sentences = ["A man sleeps.", "Two dogs run."]
    (whole,) = translator.translate([" ".join(sentences)], nbest=3)
    first, second = translator.translate(sentences, nbest=3)
    ranks = zip(whole.candidates, first.candidates, second.candidates, strict=True)
    for joined, left, right in ranks:
        assert joined.text == f"{left.text.strip()} {right.text.strip()}"
        assert joined.score == pytest.approx(left.score + right.score, abs=1e-4)


def test_given_translations_are_scored_without_splitting(translator: Translator) -> None:
    pair = ("A man sleeps. Two dogs run.", "Ein Mann. Zwei Hunde.")
    (whole,) = translator.score([pair], alpha=0.0)
    parts = translator.score(
        [("A man sleeps.", "Ein Mann."), ("Two dogs run.", "Zwei Hunde.")], alpha=0.0
    )
    assert whole.text == pair[1]
    assert whole.log_probability != pytest.approx(sum(part.log_probability for part in parts))


def test_without_the_splitter_lines_are_not_split_and_a_warning_says_so(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["A man sleeps. Two dogs run."]
    expected = translator.translate(texts, split=False)
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.warns(UserWarning, match="sentencex is not installed"):
        assert translator.translate(texts) == expected
    assert translator.translate(texts, split=False) == expected


@pytest.mark.parametrize("split", [False, True])
def test_alignments_are_within_the_words_of_both_texts(translator: Translator, split: bool) -> None:
    texts = ["A man sleeps.  Two dogs run.", "", "Two", " ".join(TEXT[:12]), "我爱你。你呢？"]
    for translation in translator.translate(texts, split=split, align=True, nbest=3):
        for candidate in translation.candidates:
            assert candidate.alignment is not None
            targets = [target for _, target in candidate.alignment]
            assert targets == sorted(targets)
            if translation.source.strip():
                assert {*targets} == set(range(len(candidate.text.split())))
            words = len(translation.source.split())
            assert all(0 <= source < words for source, _ in candidate.alignment)


def test_alignments_of_a_paragraph_are_those_of_its_sentences_with_offsets(
    translator: Translator,
) -> None:
    sentences = ["A man sleeps.", "Two dogs run over the grass.", "A woman."]
    (whole,) = translator.translate([" ".join(sentences)], split=True, align=True)
    expected = []
    source = target = 0
    for translation in translator.translate(sentences, align=True):
        assert translation.alignment is not None
        expected += [(source + s, target + t) for s, t in translation.alignment]
        source += len(translation.source.split())
        target += len(translation.text.split())
    assert whole.alignment == tuple(expected)


def test_alignments_follow_the_attention(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If every token attends to the last word, all words are aligned to it."""

    def attend_to_last_word(pairs: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
        found = [np.zeros((len(target), len(source)), np.float32) for source, target in pairs]
        for weights in found:
            weights[:, -2] = 1  # the token before </s>
        return found

    monkeypatch.setattr(translator.engine, "align", attend_to_last_word)
    (found,) = translator.translate(["Two dogs run"], align=True)
    assert found.alignment is not None
    assert {source for source, _ in found.alignment} == {2}
    (scored,) = translator.score([("Two dogs run", "Zwei Hunde")], align=True)
    assert scored.alignment == ((2, 0), (2, 1))
