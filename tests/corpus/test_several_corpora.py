"""Several corpora in one set of token files: order, counts, held-out pairs, reuse."""

import dataclasses
from pathlib import Path

import pytest
from small_corpora import TRAIN, Listener, Pair, decode_pairs, make_pairs, write_tsv

from transduce.corpus.bpe_dropout import BPEDropout
from transduce.corpus.preparation import prepare
from transduce.corpus.scanning import numbers_to_hold_out
from transduce.corpus.token_files import MANIFEST, Corpus, Counts, open_corpus
from transduce.corpus.updates import Mixture
from transduce.errors import BadInput, BadRun
from transduce.system.files import read_json, write_checksummed
from transduce.text.corpora import CorpusText, Files
from transduce.text.languages import UNKNOWN

FIRST, SECOND = make_pairs(250, seed=1), make_pairs(120, seed=2)


@pytest.fixture
def texts(tmp_path: Path) -> list[CorpusText]:
    """Two corpora: the first shares a pair with the second, which has an empty and a long one."""
    long = ("lang " * 150, "lang")
    return [
        CorpusText(write_tsv(tmp_path / "news.tsv", FIRST)),
        CorpusText(write_tsv(tmp_path / "docs.tsv", [*SECOND, ("", "leer"), long]), weight=3),
    ]


def make(corpora: list[CorpusText], folder: Path, valid: Files | None = None) -> Corpus:
    return prepare(corpora, folder, valid=valid, languages=("en", "de"), train=TRAIN, max_len=100)


def lines_of(corpora: list[CorpusText], folder: Path) -> list[str]:
    """Return the lines that are printed while a corpus is made."""
    progress = Listener()
    prepare(*(corpora, folder), languages=UNKNOWN, train=TRAIN, max_len=100, progress=progress)
    return progress.lines


def test_corpora_follow_one_another_and_are_counted_one_by_one(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    corpus = make(texts, tmp_path / "corpus")
    news, docs = corpus.manifest.corpora
    assert (news.name, docs.name) == ("news", "docs")
    assert news.valid
    assert docs.valid
    assert (news.train.pairs, news.valid.pairs) == (248, 2)
    assert (docs.train.pairs, docs.valid.pairs) == (119, 1)
    assert docs.train.dropped == {
        "empty": 1,
        "equal to a held-out pair": 0,
        "over-long": 1,
        "skewed": 0,
    }
    assert sum(news.train.dropped.values()) == 0
    assert corpus.manifest.train == Counts.total([news.train, docs.train])
    trained = decode_pairs(corpus.train, corpus.codec)
    assert {*trained[:248]} < {*FIRST}
    assert {*trained[248:]} < {*SECOND}
    for name, pairs in (("news", FIRST), ("docs", SECOND)):
        held_out = decode_pairs(corpus.valid_parts[name], corpus.codec)
        assert {*held_out} <= {*pairs} - {*trained}
    assert news.train.target_tokens == corpus.train.target.lengths[:248].sum()


def test_a_pair_held_out_of_one_corpus_is_dropped_from_the_others(tmp_path: Path) -> None:
    same = write_tsv(tmp_path / "a.tsv", FIRST), write_tsv(tmp_path / "b.tsv", FIRST[::-1])
    corpus = make([CorpusText(path) for path in same], tmp_path / "corpus")
    held_out = {*decode_pairs(corpus.valid, corpus.codec)}
    assert len(held_out) == 4, "each held out others"
    assert held_out.isdisjoint(decode_pairs(corpus.train, corpus.codec))
    for counts in corpus.manifest.corpora:
        assert counts.valid
        others = len(held_out) - counts.valid.pairs
        assert counts.train.dropped["equal to a held-out pair"] == others
        assert counts.train.read + counts.valid.read == len(FIRST)


def test_only_weights_do_not_change_the_token_files(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    before = make(texts, folder).manifest
    lighter = [CorpusText(text.source, weight=0.5) for text in texts]
    progress = Listener()
    prepare(
        *(lighter, folder),
        languages=("en", "de"),
        train=TRAIN,
        max_len=100,
        may_replace=False,
        progress=progress,
    )
    assert "using the corpus in" in progress.lines[0]
    assert open_corpus(folder).manifest == before
    for changed in (texts[:1], texts[::-1]):
        with pytest.raises(BadRun, match="other text or with other settings"):
            prepare(
                *(changed, folder),
                languages=("en", "de"),
                train=TRAIN,
                max_len=100,
                may_replace=False,
            )


def test_validation_text_replaces_what_corpora_hold_out(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    valid: list[Pair] = make_pairs(7, seed=3)
    path = write_tsv(tmp_path / "valid.tsv", valid)
    corpus = make(texts, tmp_path / "corpus", (path, None))
    assert decode_pairs(corpus.valid, corpus.codec) == valid
    assert corpus.valid_parts == {}
    assert [counts.train.pairs for counts in corpus.manifest.corpora] == [250, 120]
    own = [texts[0], CorpusText(texts[1].source, valid=(path, None))]
    corpus = make(own, tmp_path / "own")
    assert decode_pairs(corpus.valid_parts["docs"], corpus.codec) == valid
    assert len(corpus.valid_parts["news"]) == 2
    assert [counts.train.pairs for counts in corpus.manifest.corpora] == [248, 120]


@pytest.mark.parametrize(
    ("usable", "expected"),
    [
        ([50], [1]),
        ([30_000, 250, 3], [300, 2, 1]),
        ([1_000_000], [2_000]),
        ([1_000_000, 100, 500_000], [1_333, 1, 666]),
    ],
)
def test_each_corpus_holds_out_its_share(usable: list[int], expected: list[int]) -> None:
    assert numbers_to_hold_out(usable) == expected


def test_a_corpus_with_too_few_pairs_is_refused_by_name(tmp_path: Path) -> None:
    texts = [write_tsv(tmp_path / "a.tsv", FIRST), write_tsv(tmp_path / "b.tsv", SECOND[:1])]
    with pytest.raises(BadInput, match=r"b\.tsv has 1 pair .* at least 2 \(1 is held out\)"):
        make([CorpusText(path) for path in texts], tmp_path / "corpus")


def test_weights_that_leave_nothing_to_train_on_are_refused(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    manifest = make(texts, tmp_path / "corpus").manifest
    with pytest.raises(BadInput, match="less than one of each per epoch"):
        Mixture.of(manifest, (0.004, 0.008))
    assert Mixture.of(manifest, ()).weights == (1.0, 1.0)


def test_weights_that_make_an_epoch_too_large_are_refused(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    """The largest weight, 1,000, on a million pairs would need arrays of 8 GB."""
    manifest = make(texts, tmp_path / "corpus").manifest
    with pytest.raises(BadInput, match=r"an epoch of 1,240,000,119 sentences: expected at most"):
        Mixture.of(manifest, (5e6, 1.0))
    assert Mixture.of(manifest, (2e6, 1.0)).weights == (2e6, 1.0)
    corpora = [
        dataclasses.replace(corpus, train=dataclasses.replace(corpus.train, pairs=300_000_000))
        for corpus in manifest.corpora
    ]
    large = dataclasses.replace(manifest, corpora=corpora)
    assert Mixture.of(large, ()).sizes == (300_000_000,) * 2, "weights of 1 are never refused"


def test_a_corpus_with_validation_pairs_of_another_is_reported(tmp_path: Path) -> None:
    valid = make_pairs(20, seed=3), make_pairs(20, seed=4)
    mixed = [*SECOND, *valid[0][:5]]
    texts = {"news": FIRST, "docs": mixed, "v1": valid[0], "v2": valid[1]}
    paths = {name: write_tsv(tmp_path / f"{name}.tsv", pairs) for name, pairs in texts.items()}
    corpora = [
        CorpusText(paths["news"], valid=(paths["v1"], None)),
        CorpusText(paths["docs"], valid=(paths["v2"], None)),
    ]
    (warning,) = [line for line in lines_of(corpora, tmp_path / "corpus") if "warning" in line]
    assert f"5 of 20 validation pairs (25.0%) of {paths['v1']}" in warning
    assert f"also occur in {paths['docs']}, so validation looks better" in warning


def test_only_held_out_pairs_are_reported_as_held_out(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    path = write_tsv(tmp_path / "valid.tsv", make_pairs(7, seed=3))
    own = [texts[0], CorpusText(texts[1].source, valid=(path, None))]
    lines = {line.partition(":")[0]: line for line in lines_of(own, tmp_path / "own")}
    assert lines["valid, news"].endswith(", held out of the same text")
    assert "held out" not in lines["valid, docs"]
    assert lines["valid"].endswith("; 2 of the pairs held out of the training text")
    lines = {line.partition(":")[0]: line for line in lines_of(texts, tmp_path / "all")}
    for name in ("valid", "valid, news", "valid, docs"):
        assert lines[name].endswith(", held out of the same text")


def test_manifests_without_corpora_are_one_corpus(texts: list[CorpusText], tmp_path: Path) -> None:
    corpus = make(texts[:1], tmp_path / "corpus")
    path = tmp_path / "corpus" / MANIFEST
    content = {k: v for k, v in read_json(path).items() if k not in ("corpora", "sha256")}
    write_checksummed(path, content)
    old = open_corpus(tmp_path / "corpus")
    assert old.manifest.corpora == []
    assert old.manifest.files == corpus.manifest.files
    assert Mixture.of(old.manifest, (0.5,)) == Mixture((248,), (0.5,))
    assert make(texts[:1], tmp_path / "corpus").manifest == old.manifest, "not prepared again"


def test_a_manifest_whose_corpora_do_not_add_up_is_refused(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    make(texts, tmp_path / "corpus")
    path = tmp_path / "corpus" / MANIFEST
    content = read_json(path)
    content.pop("sha256")
    write_checksummed(path, content | {"corpora": content["corpora"][:1]})
    with pytest.raises(BadRun, match="its corpora do not have 367 pairs"):
        open_corpus(tmp_path / "corpus")


def test_bpe_dropout_keeps_the_tags(texts: list[CorpusText], tmp_path: Path) -> None:
    tagged = [texts[0], CorpusText(texts[1].source, tag="docs")]
    corpus = make(tagged, tmp_path / "corpus")
    split = BPEDropout(corpus.train, corpus.codec, 0.5, seed=1, longest=100)(0)
    (tag,) = corpus.codec.source.tag_ids("docs")
    begins = split.source.tokens[split.source.offsets[:-1]]
    assert (begins == tag).tolist() == [False] * 248 + [True] * 119
    assert (split.source.tokens == tag).sum() == 119


def test_a_tag_that_given_subwords_lack_is_refused(texts: list[CorpusText], tmp_path: Path) -> None:
    codec = make(texts, tmp_path / "corpus").codec
    tagged = [CorpusText(texts[0].source, tag="docs")]
    with pytest.raises(BadInput, match="no tag 'docs': the model was trained without tags"):
        prepare(
            *(tagged, tmp_path / "other"),
            languages=("en", "de"),
            train=TRAIN,
            max_len=100,
            codec=codec,
        )


def test_a_corpus_may_not_have_validation_text_beside_that_of_all(
    texts: list[CorpusText], tmp_path: Path
) -> None:
    valid = write_tsv(tmp_path / "valid.tsv", make_pairs(5, seed=4)), None
    own = [texts[0], CorpusText(texts[1].source, valid=valid)]
    with pytest.raises(BadInput, match="for all corpora and for docs alone: give one"):
        make(own, tmp_path / "corpus", valid)


def test_standard_input_is_one_text(texts: list[CorpusText], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="standard input is named for two texts"):
        make([texts[0], CorpusText("-"), CorpusText("-")], tmp_path / "corpus")
    with pytest.raises(BadInput, match="standard input is named for two texts"):
        make([CorpusText("-")], tmp_path / "corpus", ("-", None))
