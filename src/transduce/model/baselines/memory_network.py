"""End-to-end memory network (Sukhbaatar et al. 2015), a predecessor of the Transformer (paper 2).

B stories, M memories (sentences), W words of a sentence, S different sentences, d channels, K hops,
A answers.

The model answers a question about a story. Each sentence has a key m_i and a value c_i. The state
u, at first the question, is a query. One hop is Eq. 1 with this query, but unscaled:

    p_i = softmax_i(u^T m_i),  o = sum_i p_i c_i,  u <- u + o

The answer is softmax(W u). What is learned by one hop can only be looked up with what the hops
before have found, so the number of hops bounds the length of a chain of facts.

Sentences are sums of their words' embeddings, each weighted by its position in the sentence
(`position_encoding`); a learned vector for the age of a memory is added to its key and to its value
(temporal encoding): nothing else tells the order of memories. Weights are tied as the authors call
it adjacent: the values of a hop are the keys of the next, and the question is embedded like the
keys of the first.

Differs from the authors: W is a matrix of its own, over the answers only, not the transposed
embedding of the last values; there are no empty memories inserted at random.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.attention import attention

PADDING = 0  # id of no word; sentence 0 is the empty one
DEVIATION = 0.1  # of initial weights, as the authors


def position_encoding(words: int, d: int) -> Tensor:
    """Return the weights of the words of a sentence: l_kj = (1 - j/J) - (k/d)(1 - 2j/J). (W, d).

    J is the number of words and j, k count from 1. Differs: J is `words` for all sentences, their
    longest possible length.
    """
    j = torch.arange(1, words + 1)[:, None] / words
    k = torch.arange(1, d + 1) / d
    return (1 - j) - k * (1 - 2 * j)


class MemoryNetwork(nn.Module):
    """Answers questions about stories by attending to their sentences, K times."""

    encoding: Tensor

    def __init__(
        self, *, hops: int, d: int, vocabulary: int, words: int, memories: int, answers: int
    ) -> None:
        super().__init__()
        self.hops, self.d = hops, d
        # Column block k holds the keys of hop k + 1 and the values of hop k (adjacent tying).
        channels = (hops + 1) * d
        self.embedding = nn.Parameter(torch.randn(vocabulary, channels) * DEVIATION)
        self.age = nn.Parameter(torch.randn(memories, channels) * DEVIATION)
        self.W = nn.Parameter(torch.randn(answers, d) * DEVIATION)
        encoding = position_encoding(words, d).repeat(1, hops + 1)
        self.register_buffer("encoding", encoding, persistent=False)

    def forward(self, stories: Tensor, questions: Tensor, sentences: Tensor) -> Tensor:
        """Return the logits of the answers. (B, M), (B,), (S, W) -> (B, A).

        `sentences` lists all different sentences, as word ids; stories, the last sentence first,
        and questions are indices of it. Sentence 0 is empty: padding.
        """
        u, _ = self._read(stories, questions, sentences)
        return u @ self.W.T

    def weights(self, stories: Tensor, questions: Tensor, sentences: Tensor) -> Tensor:
        """Return the attention of each hop over the memories. -> (B, K, M)."""
        return self._read(stories, questions, sentences, keep_weights=True)[1]

    def _read(
        self, stories: Tensor, questions: Tensor, sentences: Tensor, *, keep_weights: bool = False
    ) -> tuple[Tensor, Tensor]:
        embedded = self.embed(sentences)  # each different sentence once: a batch repeats most
        memory = F.embedding(stories, embedded) + self.age[: stories.size(1)]  # (B, M, (K + 1) d)
        blocks = memory.unsqueeze(1).split(self.d, dim=-1)
        allowed = (stories != PADDING)[:, None, None]  # (B, 1, 1, M)
        u = F.embedding(questions, embedded[:, : self.d])[:, None, None]  # (B, 1, 1, d)
        kept = []
        for keys, values in pairwise(blocks):
            q = u * math.sqrt(self.d)  # cancels the scaling of Eq. 1
            if keep_weights:  # the average of unit vectors is the weights
                identity = torch.eye(stories.size(1), dtype=u.dtype, device=u.device)
                kept.append(attention(q, keys, identity, allowed))
            u = u + attention(q, keys, values, allowed)
        weights = torch.cat(kept, dim=2)[:, 0] if kept else u.new_empty(0)
        return u[:, 0, 0], weights

    def embed(self, sentences: Tensor) -> Tensor:
        """Add up the weighted embeddings of the words. (S, W) -> (S, (K + 1) d)."""
        words = F.embedding(sentences, self.embedding)  # (S, W, (K + 1) d)
        present = (sentences != PADDING).unsqueeze(-1)
        return (words * self.encoding * present).sum(dim=1)
