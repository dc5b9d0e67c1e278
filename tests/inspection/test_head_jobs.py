"""A head with a job is found among heads with uniform attention."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from inspections import make_inspection

from transduce.inspection.head_jobs import find
from transduce.inspection.inspector import Inspection


def inspection_with(
    kind: str, layer: int, head: int, where: Callable[[int], int], text: str
) -> Inspection:
    """Return an inspection in which all heads but one are uniform."""
    found = make_inspection(text, text)
    arrays = {}
    for name in ("encoder", "decoder", "cross"):
        weights = np.ones_like(found.attention(name))
        weights = np.tril(weights) if name == "decoder" else weights
        weights = weights / weights.sum(-1, keepdims=True)
        if name == kind:
            weights[layer - 1, head - 1] = 0
            for query in range(weights.shape[2]):
                weights[layer - 1, head - 1, query, where(query) % weights.shape[3]] = 1
        arrays[name] = weights.astype(np.float32)
    return dataclasses.replace(found, **arrays)


LONG = " if the dog sees the cat , it runs ."


@pytest.mark.parametrize(
    ("kind", "job", "where"),
    [
        ("encoder", "the word before", lambda query: max(0, query - 1)),
        ("encoder", "the word after", lambda query: query + 1),
        ("encoder", "the word itself", lambda query: query),
        ("encoder", "two words before", lambda query: max(0, query - 2)),
        ("encoder", "the first of all", lambda query: 0),
        ("encoder", "the end, </s>", lambda query: -1),
        ("encoder", "commas and full stops", lambda query: 6),
        ("encoder", "the same word elsewhere", lambda query: {1: 4, 4: 1}.get(query, 0)),
        ("encoder", "3 or more words away", lambda query: 9 if query < 5 else 0),
        ("decoder", "the word before", lambda query: query),
        ("decoder", "the first of all", lambda query: 0),
        ("decoder", "the same word elsewhere", lambda query: 2 if query == 4 else query),
        ("cross", "the end, </s>", lambda query: -1),
        ("cross", "the same word elsewhere", lambda query: query),
        ("cross", "the word it translates", lambda query: query),
    ],
)
def test_a_head_that_does_only_one_job_is_found(
    kind: str, job: str, where: Callable[[int], int]
) -> None:
    found = find(
        [inspection_with(kind, 2, 3, where, LONG), inspection_with(kind, 2, 3, where, LONG)]
    )
    (best,) = [head for head in found if (head.job, head.kind) == (job, kind)]
    assert (best.layer, best.head) == (2, 3)
    assert best.share == pytest.approx(1)
    assert 0 < best.baseline < 0.7


def test_the_baseline_is_the_share_of_a_uniform_head() -> None:
    found = find([inspection_with("none", 1, 1, lambda query: query, LONG)])
    assert found
    for head in found:
        assert head.share == pytest.approx(head.baseline, abs=1e-6)


def test_a_moved_word_is_translated_from_a_distant_position() -> None:
    moved = {3: 8, 8: 3}
    found = inspection_with("cross", 2, 3, lambda query: moved.get(query, query), LONG)
    (best,) = [head for head in find([found]) if head.job == "the word it translates, moved"]
    assert (best.layer, best.head, best.share) == (2, 3, 1)
    diagonal = inspection_with("cross", 2, 3, lambda query: query, LONG)
    assert not [head for head in find([diagonal]) if head.job == "the word it translates, moved"]


@pytest.mark.parametrize(
    ("job", "steps"),
    [
        ("the word it has just translated", -1),
        ("the word before that", -1),
        ("the word after that", 1),
    ],
)
def test_heads_can_attend_next_to_the_translated_word(job: str, steps: int) -> None:
    found = inspection_with("cross", 2, 3, lambda query: query, LONG)
    found.cross[0, 1] = np.eye(11, 11, k=steps)
    (best,) = [head for head in find([found]) if head.job == job]
    assert (best.layer, best.head, best.share) == (1, 2, 1)


def test_the_example_is_the_long_sentence_that_shows_the_job_best() -> None:
    inspections = [
        inspection_with("encoder", 1, 1, lambda query: query + 1, text)
        for text in (" a dog", LONG, LONG, " a cat")
    ]
    inspections[1].encoder[0, 0] = inspections[1].encoder[0, 1]
    inspections[2].encoder[0, 0] /= 2  # less than in the short ones
    (best,) = [head for head in find(inspections) if head.job == "the word after"]
    assert best.example == 2
