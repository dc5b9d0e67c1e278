"""Training pairs with sentinels and shown terms."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from small_corpora import TRAIN, Pair, make, write_tsv

from transduce.config import TrainConfig
from transduce.corpus.augmentation import Augmentation, Dictionary, choose_spans, contains_form
from transduce.corpus.bpe_dropout import BPEDropout
from transduce.corpus.token_files import Corpus, Split
from transduce.errors import BadSetting
from transduce.glossary.extraction import TermPair
from transduce.subwords import SENTINELS, Codec, Coder, Subwords
from transduce.system.files import read_json

WORDS = {"printer": "Drucker", "log file": "Protokolldatei", "table": "Tabelle", "row": "Zeile"}
WORDS |= {"folder": "Ordner", "screen": "Bildschirm", "user": "Person", "window": "Fenster"}


def make_text(count: int) -> list[Pair]:
    """Return different pairs; half of them have a placeholder, a path and a number."""
    draw = random.Random(3)
    pairs = []
    for number in range(count):
        one, two = draw.sample(sorted(WORDS), 2)
        spans = (" {name}", f" /tmp/x{number}", f" {number} MB") if number % 2 else ("", "", "")
        pairs.append(
            (
                f"the{spans[0]} {one} of the{spans[1]} {two} is in the hall{spans[2]}.",
                f"die{spans[1]} {WORDS[two]}s ist in die{spans[2]} von die{spans[0]} {WORDS[one]}.",
            )
        )
    return pairs


TEXT = make_text(400)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_tsv(tmp_path / "text.tsv", TEXT)


def train(**settings: float) -> TrainConfig:
    return TRAIN.replace(vocabulary=600, **settings)


def sides(split: Split, index: int, codec: Codec) -> tuple[list[str | int], list[str | int]]:
    """Return both sides of a pair in parts, without </s>."""
    source, target = (ids[:-1].tolist() for ids in split.pair(index))
    return codec.source.decode_parts(source), codec.target.decode_parts(target)


def written(parts: list[str | int], coder: Coder) -> str:
    return "".join(part if isinstance(part, str) else coder.names[part] for part in parts)


def all_sides(corpus: Corpus) -> list[Pair]:
    codec = corpus.codec
    both = (sides(corpus.train, index, codec) for index in range(len(corpus.train)))
    return [(written(a, codec.source), written(b, codec.target)) for a, b in both]


def words_of(text: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"\w+", text)]


@pytest.mark.parametrize("joint", [True, False])
def test_spans_are_replaced_on_both_sides_by_the_same_sentinels(
    *, joint: bool, text: Path, tmp_path: Path
) -> None:
    corpus = make(text, tmp_path / "c", train=train(spans=1.0, joint=joint))
    source, target = corpus.codec.source, corpus.codec.target
    numbers = Counter[int]()
    for index in range(len(corpus.train)):
        parts = sides(corpus.train, index, corpus.codec)
        ids = [[part for part in side if isinstance(part, int)] for side in parts]
        left = [source.sentinels.index(number) for number in ids[0]]
        right = [target.sentinels.index(number) for number in ids[1]]
        assert sorted(left) == sorted(right)
        assert left == [*range(left[0], left[0] + len(left))] if left else not right
        numbers.update(left)
        for side, part in enumerate(parts):
            pattern = "".join(re.escape(p) if isinstance(p, str) else "(.+)" for p in part)
            assert any(re.fullmatch(pattern, pair[side]) for pair in TEXT)
    assert numbers[0] > 100, "most are numbered from 1"
    assert all(numbers[number] for number in range(len(SENTINELS))), "all are trained"
    assert len(target) == len(source) if joint else source.term_markers is None


def test_the_share_is_that_of_the_pairs_with_spans(text: Path, tmp_path: Path) -> None:
    corpus = make(text, tmp_path / "c", train=train(spans=0.3))
    changed = sum("<|" in source for source, _ in all_sides(corpus))
    eligible = len(corpus.train) // 2
    assert 0.2 * eligible < changed < 0.4 * eligible


def test_validation_text_is_unchanged(text: Path, tmp_path: Path) -> None:
    corpus = make(text, tmp_path / "c", train=train(spans=1.0, terms=1.0), valid=(text, None))
    first = corpus.codec.source.first_tag
    assert (corpus.valid.source.tokens < first).all()
    assert (corpus.valid.target.tokens < first).all()
    assert (corpus.train.source.tokens >= first).any()


def test_terms_are_shown_as_in_the_dictionary(text: Path, tmp_path: Path) -> None:
    corpus = make(text, tmp_path / "c", train=train(terms=1.0))
    assert not corpus.codec.source.sentinels
    shown = 0
    for source, target in all_sides(corpus):
        assert "<|" not in target
        for part in source.split("<|term|> ")[1:]:
            term, _, rest = part.partition("<|is|> ")
            translation, end, _ = rest.partition("<|end|>")
            assert end
            assert contains_form(words_of(target), words_of(translation))
            if term in WORDS:
                shown += 1
                assert translation in (WORDS[term], f"{WORDS[term]}s")
    assert shown > len(corpus.train) / 2


def test_the_text_depends_on_the_seed_alone(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tokens(name: str, seed: int) -> list[int]:
        settings = train(spans=0.5, terms=0.5).replace(seed=seed)
        corpus = make(text, tmp_path / name, train=settings, valid=(text, None))
        return [*corpus.train.source.tokens, *corpus.train.target.tokens]

    expected = tokens("a", 1)
    assert tokens("c", 2) != expected
    monkeypatch.setattr("transduce.corpus.encoding.BATCH_PAIRS", 7)
    assert tokens("b", 1) == expected


def test_without_the_settings_nothing_changes(text: Path, tmp_path: Path) -> None:
    corpus = make(text, tmp_path / "c", train=train())
    assert not corpus.codec.source.markers
    assert not {"spans", "terms"} & corpus.manifest.settings.keys()
    again = make(text, tmp_path / "d", train=train(spans=0.5))
    names = corpus.codec.source.names
    assert again.codec.source.names[: len(names)] == names
    assert again.manifest.settings == corpus.manifest.settings | {"spans": 0.5}
    stored = read_json(tmp_path / "c" / "subwords.json")
    assert len(stored["source"]["added_tokens"]) == 4


def test_other_shares_make_another_corpus(text: Path, tmp_path: Path) -> None:
    first = make(text, tmp_path / "c", train=train(spans=0.2))
    before = (tmp_path / "c" / "train.source.tokens").stat().st_mtime_ns
    make(text, tmp_path / "c", train=train(spans=0.2))
    assert (tmp_path / "c" / "train.source.tokens").stat().st_mtime_ns == before
    second = make(text, tmp_path / "c", train=train(spans=0.4))
    assert second.manifest.files != first.manifest.files


def test_subwords_without_markers_are_refused(text: Path, tmp_path: Path) -> None:
    plain = Subwords.learn([side for pair in TEXT for side in pair], 500)
    codec = Codec(plain, plain)
    with pytest.raises(BadSetting, match=r"spans = 0.1: these subwords were learned without spans"):
        make(text, tmp_path / "c", train=train(spans=0.1), codec=codec)
    marked = codec.with_markers(spans=True, terms=False)
    with pytest.raises(BadSetting, match=r"terms = 0.1: these subwords were learned without terms"):
        make(text, tmp_path / "c", train=train(terms=0.1), codec=marked)
    assert make(text, tmp_path / "c", train=train(spans=0.1), codec=marked).codec is not None


@pytest.mark.parametrize(
    ("name", "value"), [("spans", 1.5), ("spans", -0.1), ("terms", 2.0), ("terms", float("nan"))]
)
def test_impossible_shares_are_refused(name: str, value: float) -> None:
    with pytest.raises(BadSetting, match=name):
        TrainConfig().replace(**{name: value})
    imported = TrainConfig(subwords="sentencepiece")
    with pytest.raises(BadSetting, match="0 with subwords = 'sentencepiece'"):
        imported.replace(**{name: 0.5})


def chosen(source: str, target: str) -> set[tuple[str, str]]:
    """Return the texts that are replaced in any of many draws."""
    draws = (choose_spans((source, target), random.Random(seed)) for seed in range(50))
    return {(source[a:b], target[c:d]) for draw in draws for (a, b), (c, d) in draw}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("open {0} now", "jetzt {0} auf", {"{0}"}),
        ("{0} and {0}", "{0} und {0}", set()),
        ("see {0}", "siehe {1}", set()),
        ("see https://a.b/c.", "siehe https://a.b/c.", {"https://a.b/c"}),
        ("see C:\\a", "siehe C:\\ab", set()),
        ("Bob met X1", "X1 traf Bob", {"Bob", "X1"}),
        ("Bob met Bob", "Bob traf Bob", set()),
        ("Bob met", "Bobs Treffen", set()),
        ("the in", "die in", set()),
        ("a 2,147,483 b", "a 2.147.483 b", set()),
        ("\U000f0001 a", "\U000f0001 a", set()),
        ("See {name}, please", "请看{name}吧", {"{name}"}),
        ("See %s", "请看%s吧", {"%s"}),
    ],
)
def test_candidates_are_once_on_each_side(source: str, target: str, expected: set[str]) -> None:
    assert chosen(source, target) == {(text, text) for text in expected}


def test_at_most_sixteen_spans_are_replaced() -> None:
    text = " ".join(f"{{a{number}}}" for number in range(40))
    spans = choose_spans((text, text), random.Random(1))
    assert len(spans) == len(SENTINELS)


def test_a_term_is_found_with_an_inflected_translation_outside_of_spans() -> None:
    terms = [("log file", "Protokolldatei"), ("log", "Protokoll"), ("is", "ist")]
    dictionary = Dictionary([TermPair(*term, 5, 1.0) for term in terms])

    def find(source: str, target: str, taken: tuple[int, int] = (0, 0)) -> list[str]:
        found = dictionary.find((source, target), [[], [taken]])
        assert all(source[begin:end].casefold() in dict(terms) for begin, end, _ in found)
        return [translation for _, _, translation in found]

    assert find("The log file is here", "Die Protokolldateien sind") == ["Protokolldatei"]
    assert find("The Log is here", "Das ist ein Protokoll") == ["Protokoll", "ist"]
    assert find("the log, file", "Die Protokolldateien") == []
    assert find("the log file", "nichts") == []
    assert find("the log", "das Protokoll", taken=(4, 13)) == []
    assert find("logs", "Protokoll") == []


@pytest.mark.parametrize(
    ("words", "term", "expected"),
    [
        ("die Häuser", "Haus", False),  # an umlaut is another letter
        ("der Tabellen", "Tabelle", True),
        ("der Tabelle", "Tabellen", True),
        ("der Tabellenspalten", "Tabelle", False),
        ("in", "im", False),
        ("neue große Welt", "neuer großer", True),
        ("neue kleine Welt", "neuer großer", False),
    ],
)
def test_forms_begin_alike_and_are_not_much_longer(
    words: str, term: str, *, expected: bool
) -> None:
    assert contains_form(words.split(), term.split()) is expected


def test_bpe_dropout_keeps_markers(text: Path, tmp_path: Path) -> None:
    settings = train(spans=1.0, terms=1.0, bpe_dropout=0.3)
    corpus = make(text, tmp_path / "c", train=settings)
    dropout = BPEDropout(corpus.train, corpus.codec, 0.3, seed=1, longest=500)
    other = dropout(0)
    assert len(other.source.tokens) > len(corpus.train.source.tokens)
    for index in range(len(corpus.train)):
        assert sides(other, index, corpus.codec) == sides(corpus.train, index, corpus.codec)


def test_an_augmentation_needs_a_setting(text: Path, tmp_path: Path) -> None:
    corpus = make(text, tmp_path / "c", train=train(spans=1.0))
    unused = Augmentation(corpus.codec, 0.0, 0.0, 1, Dictionary([]))
    assert unused.apply(0, 0, TEXT[1]) == ([TEXT[1][0]], [TEXT[1][1]])
    used = Augmentation(corpus.codec, 1.0, 0.0, 1, Dictionary([]))
    assert used.apply(0, 0, TEXT[1]) == used.apply(0, 0, TEXT[1]) != ([TEXT[1][0]], [TEXT[1][1]])
    assert any(used.apply(0, 0, TEXT[1]) != used.apply(corpus, 1, TEXT[1]) for corpus in range(9))
