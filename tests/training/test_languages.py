"""Several pairs of languages in one run: which languages the corpora have."""

from pathlib import Path

import pytest

from transduce.errors import BadInput
from transduce.text.corpora import CorpusText
from transduce.text.languages import Pair
from transduce.training.languages import in_directions


class Given:
    """Corpora by their file names, and what `in_directions` makes of them."""

    def __init__(self, *texts: str) -> None:
        self.corpora = [CorpusText.parse(text) for text in texts]
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def chosen(
        self,
        *,
        given: str | None = None,
        known: tuple[Pair, ...] = (),
        both: bool = False,
        valid: tuple[str, str | None] | None = None,
    ) -> list[CorpusText]:
        corpora, rest = in_directions(
            *(self.corpora, valid),
            given=given,
            known=known,
            both=both,
            progress=self,  # type: ignore[arg-type]
        )
        several = len({corpus.pair for corpus in corpora}) > 1
        assert rest == (None if several else valid)
        return corpora


def codes(corpora: list[CorpusText]) -> list[str]:
    return ["-".join(corpus.pair or ()) for corpus in corpora]


def test_each_corpus_has_the_languages_of_its_files_or_its_own() -> None:
    texts = Given("a.en,a.de", "b.en-fr.tsv=2", "c.tsv:fr-de=0.5@web", "d.en,d.de:de-gsw")
    assert codes(texts.chosen()) == ["en-de", "en-fr", "fr-de", "de-gsw"]
    assert texts.lines == ["4 directions in one model: en-de, en-fr, fr-de, de-gsw"]
    assert texts.corpora[2].weight == 0.5
    assert texts.corpora[2].tag == "web"
    assert codes(Given("a.en,a.de", "b.en-fr.tsv").chosen(given="en-de")) == ["en-de"] * 2


def test_an_existing_file_may_have_a_name_that_ends_like_languages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a:en-de").touch()
    assert CorpusText.parse("a:en-de").languages is None
    assert CorpusText.parse("a:en-de:en-fr").pair == ("en", "fr")
    with pytest.raises(BadInput, match="expected two codes with a hyphen"):
        CorpusText("a.tsv", languages="en")


def test_one_pair_is_unchanged() -> None:
    texts = Given("a.en,a.de", "news.tsv=2")
    chosen = texts.chosen(valid=("v.en", "v.de"))
    assert codes(chosen) == ["en-de", "en-de"]
    assert [corpus.name for corpus in chosen] == [None, None], "named when they are prepared"
    assert texts.lines == []
    assert codes(Given("news.tsv").chosen()) == ["src-tgt"]
    assert codes(Given("news.tsv").chosen(known=(("en", "de"),))) == ["en-de"]
    other = Given("a.de,a.en")
    assert codes(other.chosen(known=(("en", "de"),))) == ["en-de"]
    assert "but the model translates en-de: is this the right text" in other.lines[0]


def test_both_directions_follow_each_other_with_swapped_languages_and_names() -> None:
    texts = Given("a.en,a.de", "b.en-fr.tsv=3@web", "c.en-fr.tsv")
    chosen = texts.chosen(both=True)
    assert codes(chosen) == ["en-de", "de-en", "en-fr", "fr-en", "en-fr", "fr-en"]
    assert [corpus.reverse for corpus in chosen] == [False, True] * 3
    names = ["en-de", "de-en", "b.en-fr", "b.fr-en", "c.en-fr", "c.fr-en"]
    assert [corpus.name for corpus in chosen] == names
    assert [corpus.weight for corpus in chosen] == [1, 1, 3, 3, 1, 1]
    assert [corpus.tag for corpus in chosen] == [None, None, "web", "web", None, None]


def test_validation_text_goes_to_the_first_corpus_in_its_languages() -> None:
    texts = Given("a.en,a.de", "b.en,b.fr", "c.en,c.fr")
    valid = ("v.en", "v.fr")
    assert [corpus.valid for corpus in texts.chosen(valid=valid)] == [None, valid, None]
    both = [corpus.valid for corpus in texts.chosen(valid=valid, both=True)]
    assert both == [None, None, valid, valid, None, None]
    with pytest.raises(BadInput, match="validation text are fr-en, and those of the corpora en-de"):
        texts.chosen(valid=("v.fr", "v.en"), both=True)


def test_a_corpus_of_unknown_languages_among_several_is_refused() -> None:
    with pytest.raises(BadInput, match="languages of the corpus news are not known"):
        Given("a.en,a.de", "b.en,b.fr", "news.tsv").chosen()
    with pytest.raises(BadInput, match="both directions need the languages of each text"):
        Given("news.tsv").chosen(both=True)
