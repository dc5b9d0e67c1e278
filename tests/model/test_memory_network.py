"""Memory networks (Sukhbaatar et al. 2015): their equations, tying, padding and order."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from transduce.model.baselines.memory_network import MemoryNetwork, position_encoding

D, WORDS, MEMORIES, VOCABULARY, ANSWERS = 6, 4, 5, 9, 3
SENTENCES = torch.tensor([[0] * 4, [1, 2, 3, 4], [3, 2, 1, 0], [5, 6, 0, 0], [7, 8, 2, 1]])
STORIES = torch.tensor([[1, 2, 3, 0, 0], [4, 1, 1, 2, 3]])
QUESTIONS = torch.tensor([3, 4])


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Compute in float64, from the same random weights in each test."""
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)


def network(hops: int) -> MemoryNetwork:
    """Return a network whose weights are large enough to make sharp attention."""
    model = MemoryNetwork(
        hops=hops, d=D, vocabulary=VOCABULARY, words=WORDS, memories=MEMORIES, answers=ANSWERS
    )
    for parameter in model.parameters():
        parameter.mul_(8)
    return model


def sentence(words: Tensor, matrix: Tensor) -> Tensor:
    """Embed a sentence word by word: sum_j l_j * (matrix x_j), l_kj as in the paper."""
    total = torch.zeros(D)
    for j, word in enumerate(words.tolist(), start=1):
        for k in range(1, D + 1) if word else ():
            weight = (1 - j / WORDS) - (k / D) * (1 - 2 * j / WORDS)
            total[k - 1] += weight * matrix[word, k - 1]
    return total


def answered(model: MemoryNetwork, story: Tensor, question: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Compute the logits and the weights of each hop for one story, from the equations."""
    blocks = [slice(k * D, (k + 1) * D) for k in range(model.hops + 1)]
    u = sentence(SENTENCES[question], model.embedding[:, blocks[0]])  # B = A^1
    weights = []
    for hop in range(model.hops):
        A, C = blocks[hop], blocks[hop + 1]  # A^{k+1} = C^k
        memories = [SENTENCES[index] for index in story if index]
        m = [sentence(x, model.embedding[:, A]) + model.age[i, A] for i, x in enumerate(memories)]
        c = [sentence(x, model.embedding[:, C]) + model.age[i, C] for i, x in enumerate(memories)]
        scores = [math.exp(float(u @ key)) for key in m]
        p = [score / sum(scores) for score in scores]
        u = u + sum((share * value for share, value in zip(p, c, strict=True)), torch.zeros(D))
        weights.append(torch.tensor([*p, *[0.0] * (MEMORIES - len(p))]))
    return model.W @ u, weights


@pytest.mark.parametrize("hops", [1, 3])
def test_hops_are_the_equations_in_float64(hops: int) -> None:
    model = network(hops)
    logits = model(STORIES, QUESTIONS, SENTENCES)
    weights = model.weights(STORIES, QUESTIONS, SENTENCES)
    for row in range(len(STORIES)):
        expected, shares = answered(model, STORIES[row], QUESTIONS[row])
        torch.testing.assert_close(logits[row], expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(weights[row], torch.stack(shares), rtol=1e-12, atol=1e-12)


def test_position_weights_are_the_authors() -> None:
    weights = position_encoding(WORDS, D)
    assert weights.shape == (WORDS, D)
    assert float(weights[0, 0]) == pytest.approx((1 - 1 / 4) - (1 / 6) * (1 - 2 / 4))
    assert float(weights[3, 5]) == pytest.approx((1 - 4 / 4) - (6 / 6) * (1 - 8 / 4))


def test_a_memory_of_padding_has_no_weight_and_no_influence() -> None:
    model = network(2)
    weights = model.weights(STORIES, QUESTIONS, SENTENCES)
    assert weights[0, :, 3:].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2))
    before = model(STORIES, QUESTIONS, SENTENCES)
    model.age[3:] += 100
    model.embedding[0] += 100
    after = model(STORIES, QUESTIONS, SENTENCES)
    torch.testing.assert_close(after[0], before[0])
    assert not torch.allclose(after[1], before[1])  # whose story has five sentences


def test_the_order_of_sentences_matters_only_through_their_age() -> None:
    model = network(2)
    shuffled = STORIES[:, [2, 0, 1, 3, 4]]
    before = model(STORIES, QUESTIONS, SENTENCES)
    assert not torch.allclose(model(shuffled, QUESTIONS, SENTENCES), before)
    model.age.zero_()
    before = model(STORIES, QUESTIONS, SENTENCES)
    torch.testing.assert_close(model(shuffled, QUESTIONS, SENTENCES), before)


def test_the_order_of_words_matters() -> None:
    model = network(1)
    one, other = model.embed(torch.tensor([[1, 2, 3, 0], [3, 2, 1, 0]]))
    assert not torch.allclose(one, other)
    model.encoding.fill_(1)
    one, other = model.embed(torch.tensor([[1, 2, 3, 0], [3, 2, 1, 0]]))
    torch.testing.assert_close(one, other)


def test_a_further_hop_adds_one_embedding_of_words_and_of_ages() -> None:
    """Adjacent tying: the values of a hop are the keys of the next."""
    sizes = [sum(p.numel() for p in network(hops).parameters()) for hops in (1, 2, 3)]
    assert sizes[0] == (VOCABULARY + MEMORIES) * 2 * D + ANSWERS * D
    assert [sizes[1] - sizes[0], sizes[2] - sizes[1]] == 2 * [(VOCABULARY + MEMORIES) * D]
