"""The tokeniser of BLEU follows the target language."""

import pytest
import sacrebleu

from transduce.errors import BadSetting, MissingExtra
from transduce.evaluation import metrics as module
from transduce.evaluation.metrics import counts_characters
from transduce.evaluation.scores import (
    bleu,
    score,
)
from transduce.training.validation import Validation


@pytest.mark.parametrize(
    ("language", "expected"),
    [(None, "13a"), ("de", "13a"), ("zh", "zh"), ("zh-CN", "zh"), ("zh_Hans", "zh")],
)
def test_the_tokeniser_follows_the_target_language(language: str | None, expected: str) -> None:
    (result,) = score(["今日 は"], ["今日 は"], metrics=["bleu"], language=language)
    assert f"|tok:{expected}|" in result.signature


@pytest.mark.parametrize(
    ("language", "name", "library"),
    [
        ("JA", "Japanese", "mecab-python3"),
        ("ja-JP", "Japanese", "mecab-python3"),
        ("ko", "Korean", "mecab-ko"),
    ],
)
def test_japanese_and_korean_without_mecab_are_refused_with_the_extra(
    language: str, name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module._installed("json")
    assert not module._installed("no_such_library")
    monkeypatch.setattr(module, "_installed", lambda library: False)
    extra = language[:2].lower()
    said = rf"^BLEU for {name} needs {library}.*transduce\[{extra}\]', or .* --tokenize char"
    with pytest.raises(MissingExtra, match=said):
        score(["今日 は"], ["今日 は"], language=language)
    (result,) = score(["今日"], ["今日"], metrics=["bleu"], language=language, tokenize="char")
    assert "|tok:char|" in result.signature
    score(["今日"], ["今日"], metrics=["chrf", "ter"], language=language)


def test_validation_counts_characters_and_says_so_without_mecab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_installed", lambda library: False)
    right, wrong = ["今日は天気がいいです"], ["今日は天気が良いです"]
    (by_characters,) = score(wrong, right, metrics=["bleu"], tokenize="char")
    assert bleu(wrong, right, "ja") == by_characters.value
    assert counts_characters("ja")
    assert not counts_characters("de")
    shown = str(Validation(1.0, 1.0, bleu=76.4, characters=True))
    assert shown.endswith("BLEU 76.4 (greedy, of characters)")


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_japanese_and_korean_are_scored_as_sacrebleu_does(language: str) -> None:
    pytest.importorskip({"ja": "MeCab", "ko": "mecab_ko"}[language])
    hypotheses, references = ["今日は天気がいいです。"], ["今日は天気が良いです。"]
    (result,) = score(hypotheses, references, metrics=["bleu"], language=language)
    direct = sacrebleu.BLEU(trg_lang=language)
    assert result.value == direct.corpus_score(hypotheses, [references]).score
    assert result.signature == str(direct.get_signature())


def test_chinese_is_scored_by_characters() -> None:
    by_language = score(["今天天气很好。"], ["今天天气不好。"], language="zh")
    by_words = score(["今天天气很好。"], ["今天天气不好。"])
    assert by_words[0].value == 0
    assert by_language[0].value == bleu(["今天天气很好。"], ["今天天气不好。"], "zh")
    assert by_language[0].value > 30


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "de"])
def test_ter_has_the_defaults_of_sacrebleu_in_every_language(language: str) -> None:
    hypotheses, references = ["今天天气很好。", "a b c"], ["今天天气不好。", "a c"]
    (result,) = score(hypotheses, references, metrics=["ter"], language=language)
    direct = sacrebleu.TER()
    assert result.value == direct.corpus_score(hypotheses, [references]).score
    assert result.signature == str(direct.get_signature())
    assert "|norm:no|" in result.signature
    assert "|asian:no|" in result.signature


def test_a_named_tokeniser_goes_before_the_language() -> None:
    (result,) = score(["a-b"], ["a-c"], metrics=["bleu"], language="zh", tokenize="intl")
    assert "|tok:intl|" in result.signature


def test_a_tokeniser_whose_library_is_missing_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sacrebleu.tokenizers import tokenizer_ja_mecab

    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    with pytest.raises(
        BadSetting, match=r"^the tokeniser ja-mecab .* pip install sacrebleu\[ja\]$"
    ):
        score(["a"], ["a"], tokenize="ja-mecab")
