"""`Translator`: texts in, translations out, in the same order."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from untrained_translator import TEXT, untrained_translator

import transduce
from transduce import Translator
from transduce.errors import BadInput, BadRun, BadSetting
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec, Subwords
from transduce.translation.segments import cut


@pytest.fixture(scope="module")
def translator() -> Translator:
    return untrained_translator()


def test_a_call_translates_one_text(translator: Translator) -> None:
    text = translator("Two dogs run.")
    assert isinstance(text, str)
    assert text == translator.translate(["Two dogs run."])[0].text


def test_order_and_blank_lines_are_kept(translator: Translator) -> None:
    texts = ["A man sleeps.", "", "   ", "Two dogs run over the wet grass.", "\t", "Two"]
    translations = translator.translate(texts, batch=2)
    assert [translation.source for translation in translations] == texts
    assert [bool(translation.text) for translation in translations[1:3]] == [False, False]
    assert translations[1].candidates[0].tokens == ()
    for text, translation in zip(texts, translations, strict=True):
        if text.strip():
            assert translation.text == translator(text)


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_translations_do_not_depend_on_the_batch_size(translator: Translator, batch: int) -> None:
    texts = [" ".join(TEXT[i % 4].split()[: 1 + i % 7]) for i in range(20)]
    expected = [translator(text) for text in texts]
    assert [
        translation.text for translation in translator.translate(texts, batch=batch)
    ] == expected


def test_nbest_are_distinct_and_in_order(translator: Translator) -> None:
    (translation,) = translator.translate(["Two dogs run."], beam=5, nbest=5)
    scores = [candidate.score for candidate in translation.candidates]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert len({candidate.tokens for candidate in translation.candidates}) == 5
    assert translation.score == scores[0]
    assert translation.tokens == translation.candidates[0].tokens


def test_a_text_longer_than_the_limit_is_cut_and_nothing_is_lost(translator: Translator) -> None:
    long = " ".join(TEXT[:12])
    (translation,) = translator.translate([long], nbest=2, split=False)
    assert translation.cut
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


def test_a_translation_never_has_a_newline(translator: Translator) -> None:
    many = translator.translate(["Two dogs run."] * 20, sample=True, nbest=5, temperature=5.0)
    for translation in many:
        for candidate in translation.candidates:
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
    texts, beginning = ["Two dogs run.", "A man."], "Zwei Hunde"
    found = translator.translate(texts, prefixes=[beginning] * 2, nbest=3, extra=6)
    pairs = [
        (translation.source, candidate)
        for translation in found
        for candidate in translation.candidates
    ]
    subwords, compared = translator.codec.target, 0
    for source, candidate in pairs:
        # Several token sequences may spell one text; only the canonical one is scored.
        ids = subwords.encode(candidate.text)
        if tuple(subwords.pieces(ids)) == candidate.tokens:
            (scored,) = translator.score([(source, candidate.text)])
            assert scored.score == pytest.approx(candidate.score, abs=1e-3)
            compared += 1
    assert compared


def test_pairs_are_scored_in_order_and_too_long_ones_are_refused(translator: Translator) -> None:
    pairs = [("Two dogs run.", "Zwei Hunde."), ("A", "B"), ("A man sleeps.", "Ein Mann schläft.")]
    together = translator.score(pairs)
    for pair, scored in zip(pairs, together, strict=True):
        assert scored.log_probability == pytest.approx(
            translator.score([pair])[0].log_probability, abs=1e-3
        )
        assert scored.text == pair[1]
    with pytest.raises(BadInput, match="pair 2 has"):
        translator.score([("A", "B"), ("dogs " * 100, "B")])


def test_a_stream_of_endless_input_reads_a_bounded_number_ahead(translator: Translator) -> None:
    import itertools

    endless = itertools.cycle(TEXT[:2])
    first = list(itertools.islice(translator.stream(endless, batch=1, window=2, beam=1), 3))
    assert [translation.source for translation in first] == [TEXT[0], TEXT[1], TEXT[0]]


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


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="there is no run folder"):
        Translator.load(tmp_path / "nowhere")
    with pytest.raises(BadRun, match="is not a run folder"):
        Translator.load(tmp_path)


def test_a_translation_is_written_as_json(translator: Translator) -> None:
    (translation,) = translator.translate(["Two dogs run."], nbest=2)
    value = translation.to_json()
    assert json.loads(json.dumps(value)) == value
    assert list(value) == ["source", "text", "score", "log_probability", "tokens"]
    assert value["text"] == translation.text
    assert (value["score"], value["log_probability"]) == (
        translation.score,
        translation.log_probability,
    )
    texts = [candidate["text"] for candidate in translation.to_json(candidates=True)["candidates"]]
    assert texts == [candidate.text for candidate in translation.candidates]
    (whole,) = translator.translate(["A man. Two dogs run."], split=True, align=True)
    assert whole.to_json()["parts"] == 2
    assert [tuple(link) for link in whole.to_json()["alignment"]] == list(whole.alignment or ())


def test_texts_are_translated_at_once_when_no_other_is_ready(translator: Translator) -> None:
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(5):
            taken.append(number)
            yield TEXT[number]

    stream = translator.stream(texts(), ready=lambda: len(taken) not in (1, 3), beam=1)
    taken_before = []
    for _ in range(5):
        next(stream)
        taken_before.append(len(taken))
    assert taken_before == [1, 3, 3, 5, 5]


def test_long_texts_are_not_all_held_in_memory(translator: Translator) -> None:
    """2 MB of blank lines, 100 lines at a time."""
    import tracemalloc

    blank = b" " * 100
    texts = (str(blank, "ascii") for _ in range(20_000))
    tracemalloc.start()
    try:
        count = sum(1 for _ in translator.stream(texts, batch=1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 500_000


def test_few_long_texts_are_read_ahead(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.translation.streaming.MAX_CHARACTERS", 100)
    taken: list[int] = []
    texts = (taken.append(number) or " " * 60 for number in range(10))  # type: ignore[func-returns-value]
    next(translator.stream(texts))
    assert len(taken) == 2


def test_prefixes_that_run_out_are_an_error(translator: Translator) -> None:
    with pytest.raises(BadInput, match="there are 1 prefixes but more texts"):
        list(translator.stream(["A", "B"], prefixes=iter(["Ein"])))


def test_several_runs_are_loaded_as_one_translator(tiny_run: Path, own_run: Path) -> None:
    texts = ["the dog sees a man.", "one bird!"]
    alone = Translator.load(tiny_run, device="cpu", engine="torch").translate(texts)
    both = Translator.load([tiny_run, str(own_run)], device="cpu").translate(texts)
    assert [translation.text for translation in both] == [translation.text for translation in alone]
    for together, single in zip(both, alone, strict=True):
        assert together.score == pytest.approx(single.score, abs=1e-4)


def test_runs_of_different_subwords_do_not_translate_together(
    tiny_run: Path, own_run: Path
) -> None:
    subwords = Subwords.learn(TEXT, 300)
    Codec(subwords, subwords).save(own_run / "subwords.json")
    RunConfig.load(own_run).with_hashes(own_run, "subwords.json").save(own_run)
    with pytest.raises(BadRun, match=r"own_run and .*tiny have different subwords"):
        Translator.load([tiny_run, own_run])
    with pytest.raises(BadInput, match="there is no run to load"):
        Translator.load([])


def test_arguments_that_are_not_lists_of_texts_are_refused(translator: Translator) -> None:
    with pytest.raises(BadInput, match=r"expected a list of texts, found 'Two dogs run\.'"):
        translator.translate("Two dogs run.")
    with pytest.raises(BadInput, match="expected a list of texts"):
        translator.translate([3])  # type: ignore[list-item]
    with pytest.raises(BadInput, match="expected one text, found"):
        translator(["Two dogs run."])  # type: ignore[arg-type]


def test_sampling_settings_need_sampling(translator: Translator) -> None:
    with pytest.raises(BadInput, match="they need sample=True"):
        translator.translate(["Two dogs run."], top_k=3)


def test_every_call_in_the_package_passes_split() -> None:
    """The default suits users; texts that are scored line by line must choose explicitly.

    The command `translate` passes what the user chose.
    """
    root = Path(transduce.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and re.fullmatch(
                r"(\w+\.)*translator\.(stream|translate)", ast.unparse(node.func)
            ):
                found.append(path.stem)
                names = {keyword.arg for keyword in node.keywords}
                assert "split" in names or path.stem in ("bulk", "lines", "documents"), ast.unparse(
                    node
                )
    assert {"distillation", "evaluation", "demo", "lines"} <= {*found}
