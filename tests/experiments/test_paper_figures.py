"""Figures 3 to 5: heads are chosen by how strongly they show a phenomenon."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import CommandLine

from transduce.experiments import phenomena
from transduce.experiments.phenomena import (
    is_content_word,
    is_pronoun,
    is_word,
    may_be_antecedent,
)
from transduce.inspection.attention_drawing import Panel, panels
from transduce.inspection.head_jobs import jobs_of
from transduce.inspection.inspector import Inspector
from transduce.inspection.matrices import AttentionMatrices
from transduce.inspection.style import COLOURS
from transduce.runs.folder import RunConfig

SENTENCE = "every dog likes the tree and the man finds every bird and the fish sees it today."


def attention_of(words: str, *heads: np.ndarray, layers: int = 1) -> AttentionMatrices:
    """Return attention within one sentence, with the same heads in every layer."""
    labels = tuple(words.split())
    weights = np.stack(heads).astype(np.float32)
    return AttentionMatrices(
        kind="encoder",
        weights=np.stack([weights] * layers),
        queries=labels,
        keys=labels,
    )


def uniform(words: int) -> np.ndarray:
    """Return the weights of a uniform head."""
    return np.full((words, words), 1 / words)


def looking(words: int, query: int, key: int, share: float) -> np.ndarray:
    """Return the weights of a head that is uniform except for one word."""
    weights = uniform(words)
    weights[query] = (1 - share) / (words - 1)
    weights[query, key] = share
    return weights


LONG = "governments passed laws making the whole voting process difficult . </s>"


def test_a_long_distance_link_is_found_where_heads_attend_far() -> None:
    heads = [looking(11, 3, 8, share) for share in (0.9, 0.5, 0.4)]
    found = phenomena.long_distance(attention_of(LONG, *heads, uniform(11)), [1], "en")
    assert found is not None
    assert (found.word, found.at) == (3, (8,))
    assert found.heads == (1, 2, 3)
    assert found.shares == pytest.approx((0.9, 0.5, 0.4))
    assert found.alike == pytest.approx(1 / 11)
    assert found.others == pytest.approx(1 / 11)
    assert found.median == pytest.approx(0.45)
    assert found.strength == pytest.approx(0.6 - 1 / 11)


def test_neighbours_with_enough_weight_belong_to_the_link() -> None:
    weights = uniform(11)
    weights[0] = 0
    weights[0, 6:8] = 0.3, 0.7
    found = phenomena.long_distance(attention_of(LONG, weights), [1], "en")
    assert found is not None
    assert (found.word, found.at) == (0, (6, 7))
    assert found.shares == pytest.approx((1.0,))


@pytest.mark.parametrize(("query", "key"), [(3, 6), (0, 9), (0, 10), (4, 10), (4, 0)])
def test_near_words_punctuation_and_function_words_are_not_long_distance(
    query: int, key: int
) -> None:
    found = phenomena.long_distance(attention_of(LONG, looking(11, query, key, 0.9)), [1], "en")
    assert found is not None
    assert (found.word, *found.at) != (query, key)
    assert found.strength < 0.05


def test_a_word_that_all_words_attend_to_is_not_a_dependency() -> None:
    sink = np.full((11, 11), 0.01)
    sink[:, 8] = 0.9
    found = phenomena.long_distance(attention_of(LONG, sink), [1], "en")
    assert found is not None
    assert found.strength == pytest.approx(0, abs=1e-6)


def test_a_short_sentence_has_no_long_distance() -> None:
    assert phenomena.long_distance(attention_of("dogs run . </s>", uniform(4)), [1], "en") is None


ITS = "The law will never work but its application is fine . </s>"


def test_anaphora_is_found_from_a_pronoun_to_an_earlier_noun() -> None:
    heads = [looking(12, 6, 1, 0.6), uniform(12), looking(12, 6, 1, 0.8)]
    found = phenomena.anaphora(attention_of(ITS, *heads), [1], "en")
    assert found is not None
    assert (found.word, found.at, found.heads) == (6, (1,), (3, 1))
    assert found.shares == pytest.approx((0.8, 0.6))
    assert found.strength == pytest.approx(0.7 - 1 / 12)


def test_a_later_word_is_not_an_antecedent() -> None:
    found = phenomena.anaphora(attention_of(ITS, looking(12, 6, 7, 0.9)), [1], "en")
    assert found is not None
    assert found.at != (7,)


def test_without_a_pronoun_there_is_no_anaphora() -> None:
    assert phenomena.anaphora(attention_of(LONG, uniform(11)), [1], "en") is None
    assert phenomena.anaphora(attention_of(ITS, uniform(12)), [1], "xx") is None


def test_heads_with_different_jobs_attend_sharply_to_different_words() -> None:
    before = np.eye(5, k=-1)
    before[0, 0] = 1
    after = np.eye(5, k=1)
    after[4, 4] = 1
    attention = attention_of(
        "dogs like old men </s>", uniform(5), before, np.full((5, 5), 0.2), after
    )
    found = phenomena.different_jobs(attention, [1])
    assert found is not None
    assert found.heads == (2, 4)
    assert found.apart == pytest.approx(1.0)
    assert found.sharpness == pytest.approx((1.0, 1.0))
    assert found.typical == pytest.approx(0.8)


def test_a_head_that_attends_to_the_end_has_no_job() -> None:
    end = np.zeros((5, 5))
    end[:, 4] = 1
    before = np.eye(5, k=-1)
    before[0, 0] = 1
    vague = 0.7 * np.eye(5) + 0.06
    found = phenomena.different_jobs(
        attention_of("dogs like old men </s>", end, before, vague), [1]
    )
    assert found is not None
    assert found.heads == (2, 3)


def test_one_head_alone_has_no_other_to_differ_from() -> None:
    assert phenomena.different_jobs(attention_of(LONG, uniform(11)), [1]) is None


def test_the_layers_above_the_middle_are_searched() -> None:
    assert phenomena.upper_layers(6, None) == [4, 5, 6]
    assert phenomena.upper_layers(3, None) == [2, 3]
    assert phenomena.upper_layers(1, None) == [1]
    assert phenomena.upper_layers(6, 5) == [5]


def test_a_head_is_named_by_the_job_with_the_largest_share() -> None:
    before = np.eye(5, k=-1)
    before[0, 0] = 1
    shares = jobs_of([attention_of("dogs like old men </s>", uniform(5), before)], 1, 2)
    assert shares["the word before"] == pytest.approx((1.0, 0.2))
    assert max(shares, key=lambda job: shares[job][0] - shares[job][1]) == "the word before"


def test_words_are_classified() -> None:
    assert is_word("2009")
    assert not is_word(",")
    assert not is_word("</s>")
    assert is_pronoun("Its", "en")
    assert is_pronoun("ihre", "de")
    assert is_pronoun("leur", "fr")
    assert not is_pronoun("its", "de")
    assert is_content_word("difficult", "en")
    assert not is_content_word("because", "en")
    assert may_be_antecedent("Hund", "de")
    assert not may_be_antecedent("läuft", "de")
    assert not may_be_antecedent("running", "en")


def test_a_head_has_one_colour_in_all_drawings(learnt_run: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_hex

    attention = AttentionMatrices.of(
        Inspector.load(learnt_run).read(SENTENCE), "encoder", words=True
    )
    figure = panels(attention, 2, [Panel([2], None, "one"), Panel([1, 2], [3], "two")], "Title")
    assert len(figure.axes) == 2
    of_head_2 = figure.axes[0].collections[0], figure.axes[1].collections[2]  # lines, then squares
    for lines in of_head_2:
        assert to_hex(np.asarray(lines.get_edgecolor())[-1]) == COLOURS[0].lower()
    texts = [text.get_text() for text in figure.texts]
    assert {"one", "two", "Title"} <= set(texts)


def test_reading_gives_the_encoder_attention_of_translating(learnt_run: Path) -> None:
    inspector = Inspector.load(learnt_run)
    np.testing.assert_allclose(
        inspector.read(SENTENCE).encoder, inspector.inspect(SENTENCE).encoder, atol=1e-6
    )


def test_the_figures_are_drawn_with_their_strength(
    cli: CommandLine, learnt_run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    result = cli("paper", "figures", learnt_run, SENTENCE, "--out", tmp_path)
    assert result.status == 0, result.stderr
    assert "3, long distance" in result.stdout
    assert "it → " in result.stdout
    assert "Chosen, not typical: the strongest of layer 2 of 2" in result.stdout
    found = json.loads((tmp_path / "figures.json").read_text())
    assert [picture["caption"][:8] for picture in found["pictures"]] == [
        *("Figure 3", "Figure 4", "Figure 5")
    ]
    for number in (1, 2, 3):
        assert (tmp_path / f"figures-{number}.svg").read_text().startswith("<?xml")
    assert found["data"]["3"]["layer"] == 2


def test_sentences_are_found_in_a_text(cli: CommandLine, learnt_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = tmp_path / "text.en"
    text.write_text(f"a dog.\n\n{SENTENCE}\n{'dog ' * 500}\n", encoding="utf-8")
    result = cli("paper", "figures", learnt_run, "--text", text)
    assert result.status == 0, result.stderr
    assert "in 1 sentence;" in result.stdout  # the others are too short, empty and too long
    few = cli("paper", "figures", learnt_run, "--text", text, "--lines", "2")
    assert "Figure 3 is missing" in few.stdout
    assert "Figure 4 is missing" in few.stdout


def test_the_sentences_of_the_paper_are_the_default(cli: CommandLine, learnt_run: Path) -> None:
    pytest.importorskip("matplotlib")
    result = cli("paper", "figures", learnt_run, "--layer", "1")
    assert result.status == 0, result.stderr
    assert "in 1 sentence;" in result.stdout  # the other sentence has too many pieces
    assert "its → " in result.stdout


def test_a_model_of_several_languages_needs_the_target(
    cli: CommandLine, two_target_run: Path
) -> None:
    pytest.importorskip("matplotlib")
    command = ("paper", "figures", two_target_run, SENTENCE)
    assert "such as --to de" in cli(*command).error
    assert cli(*command, "--to", "de").status == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["dog " * 500], "at most 128 can be inspected"),
        ([" "], "the sentence is empty"),
        (["A dog.", "--text", "x.en"], "expected sentences or --text FILE"),
        ([SENTENCE, "--layer", "3"], "--layer 3: the encoder has layers 1 to 2"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence_by_figures(
    cli: CommandLine, learnt_run: Path, arguments: list[str], error: str
) -> None:
    assert error in cli("paper", "figures", learnt_run, *arguments).error


def test_a_model_of_another_language_needs_sentences(cli: CommandLine, own_run: Path) -> None:
    dataclasses.replace(RunConfig.load(own_run), languages=("sv", "de")).save(own_run)
    assert "give a sentence of your own, or --text FILE" in cli("paper", "figures", own_run).error


def test_a_model_without_heads_is_refused(
    cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    from transduce.training.train import train

    small = {"N": "1", "d_model": "16", "d_ff": "16", "vocabulary": "300", "batch_tokens": "400"}
    run = train(
        *tiny_files,
        out=tmp_path / "run",
        preset="recurrent-small",
        settings=small | {"steps": "1", "threads": "1"},
        device="cpu",
    )
    error = cli("paper", "figures", run, SENTENCE).error
    assert "only a Transformer has attention layers and heads to inspect" in error
