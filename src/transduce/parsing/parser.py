"""`Parser`: the public class that parses sentences with a trained model."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from transduce.errors import BadInput, BadRun
from transduce.parsing.constraint import well_formed
from transduce.parsing.lexicon import Lexicon
from transduce.parsing.sequences import to_symbols, to_tree
from transduce.parsing.trees import Tree
from transduce.parsing.words import split_words, tokenize
from transduce.runs.folder import LEXICON, SUBWORDS, RunConfig, weights_file
from transduce.subwords import EOS, Codec
from transduce.translation.engines.pytorch import TorchEngine
from transduce.translation.streaming import read_blocks
from transduce.translation.types import Engine, Ints, Job

WINDOW = 20  # batches to read ahead, so that sentences of similar length are searched together
HYPHEN = "HYPH"  # a tag in treebanks that split compounds at hyphens


class Parser:
    """A trained parser: returns a tree over exactly the words of a sentence.

    >>> parser = Parser.load("runs/parser")
    >>> parser("Annexin binds calcium.")
    (TOP (S (NP (NN Annexin)) (VP (VBZ binds) (NP (NN calcium))) (. .)))
    """

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        config: RunConfig,
        lexicon: Lexicon,
        weights: str = "",
    ) -> None:
        self.engine, self.codec, self.config, self.lexicon = engine, codec, config, lexicon
        self.weights = weights  # a description of the weights
        self.hyphens = HYPHEN in codec.target.names

    @classmethod
    def load(
        cls, run: str | Path, *, others: Sequence[str | Path] = (), device: str = "auto"
    ) -> Self:
        """Load the parser from a run folder; with `others`, an ensemble that searches jointly.

        The parsers of an ensemble must have the same subwords and symbols. The probabilities of
        their symbols are averaged.
        """
        run = Path(run)
        if not run.exists():
            raise BadRun(f"there is no parser {run}: `transduce paper table4` trains one")
        config = RunConfig.load(run)
        config.require("parsing", run)
        codec = Codec.load(config.verified(run, SUBWORDS))
        config.require_subwords(len(codec.source), len(codec.target), run)
        lexicon = Lexicon.load(config.verified(run, LEXICON))
        runs = [run, *map(Path, others)]
        engine = TorchEngine.load(
            runs,
            [config, *(_config_of_another(other, codec, run) for other in runs[1:])],
            codec.target.forbidden_ids(),
            device,
            constrain=well_formed(codec.target, lexicon),
        )
        return cls(engine, codec, config, lexicon, weights_file(run, config)[1])

    def __call__(self, sentence: str) -> Tree:
        """Parse one sentence of plain text."""
        if not isinstance(sentence, str):
            raise BadInput(f"expected one sentence, found {sentence!r:.60}: parse() takes several")
        (tree,) = self.parse([sentence])
        if tree is None:
            raise BadInput("there are no words to parse: expected a sentence")
        return tree

    def words(self, sentence: str, *, cut: bool = False) -> list[str]:
        """Return the words of a sentence; with `cut`, they are already separated by spaces."""
        return split_words(sentence) if cut else tokenize(sentence, hyphens=self.hyphens)

    def parse(
        self, sentences: Sequence[str], *, cut: bool = False, **settings: Any
    ) -> list[Tree | None]:
        """Parse many sentences; a blank one has no tree. `settings` are fields of SearchConfig."""
        return list(self.stream(sentences, cut=cut, **settings))

    def stream(
        self,
        sentences: Iterable[str],
        *,
        cut: bool = False,
        ready: Callable[[], bool] = lambda: True,
        advance: Callable[[int], None] = lambda done: None,
        **settings: Any,
    ) -> Iterator[Tree | None]:
        """Parse any number of sentences, in order, holding a window of them in memory.

        `ready` returns whether the next sentence can be read without waiting; if not, those read so
        far are parsed at once. `advance` is called with the number of finished sentences.
        """
        first = 1
        for block in read_blocks(sentences, WINDOW * self.engine.batch, ready):
            words = [self.words(sentence, cut=cut) for sentence in block]
            yield from self.parse_words(words, first=first, advance=advance, **settings)
            first += len(block)

    def parse_words(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        first: int = 1,
        advance: Callable[[int], None] = lambda done: None,
        **settings: Any,
    ) -> list[Tree | None]:
        """Return a tree over the words of each sentence; `first` is the first sentence's number."""
        config = self.config.search.replace(**{"nbest": 1, **settings})
        jobs: list[tuple[int, Job]] = []
        for index, words in enumerate(sentences):
            source = self._ids(words)
            if len(source) > self.config.model.max_len:
                raise BadInput(
                    f"sentence {first + index:,} has {len(words):,} words in {len(source):,} "
                    f"subwords: the parser reads at most {self.config.model.max_len:,}"
                )
            if words:
                classes = [self.lexicon.of(word) for word in words]
                jobs.append((index, Job(source, number=(first + index,), classes=classes)))
        trees: list[Tree | None] = [None] * len(sentences)
        advance(len(sentences) - len(jobs))
        searched = self.engine.search([job for _, job in jobs], config, self.engine.batch)
        for number, (best, *_) in searched:
            index = jobs[number][0]
            symbols = [self.codec.target.names[token] for token in best.tokens]
            trees[index] = to_tree(symbols, sentences[index])
            advance(1)
        return trees

    def confidences(self, sentences: Sequence[Sequence[str]], trees: Sequence[Tree]) -> list[float]:
        """Return the mean log-probability of the symbols of each sentence's tree, </s> included.

        The mean is over the symbols because the sum depends mostly on the length.
        """
        pairs = []
        for words, tree in zip(sentences, trees, strict=True):
            symbols = self.codec.target.encode(" ".join(to_symbols(tree)))
            pairs.append((self._ids(words), np.array([*symbols, EOS])))
        means = [0.0] * len(pairs)
        # Sentences of similar length are scored together.
        order = sorted(range(len(pairs)), key=lambda index: (len(pairs[index][1]), index))
        for begin in range(0, len(order), self.engine.batch):
            batch = order[begin : begin + self.engine.batch]
            scores = self.engine.score([pairs[index] for index in batch])
            for index, log_p in zip(batch, scores, strict=True):
                means[index] = math.fsum(log_p) / len(log_p)
        return means

    def fits(self, words: Sequence[str]) -> bool:
        """Return whether a sentence is short enough to be parsed."""
        return len(self._ids(words)) <= self.config.model.max_len

    def _ids(self, words: Sequence[str]) -> Ints:
        return np.array([*self.codec.source.encode(" ".join(words)), EOS])


def _config_of_another(run: Path, codec: Codec, first: Path) -> RunConfig:
    """Return the settings of another parser of an ensemble; refuse one with other subwords."""
    config = RunConfig.load(run)
    config.require("parsing", run)
    if Codec.load(config.verified(run, SUBWORDS)).sha256 != codec.sha256:
        raise BadRun(
            f"{run} and {first} have different subwords or symbols of trees: the parsers of an "
            "ensemble must be trained on the same trees"
        )
    return config
