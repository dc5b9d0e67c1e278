"""Learn subwords from the training texts, or add some to existing ones."""

import random
from collections.abc import Callable, Iterator, Sequence

from transduce.config import TrainConfig
from transduce.corpus.encoding import REASONS, drop_unusable, pair_key
from transduce.corpus.scanning import ScannedText
from transduce.subwords import Codec, Coder, Subwords, default_vocabulary_size, extend_subwords
from transduce.system.progress import Progress

# Subwords are learned from a random sample of about this size. With all 180 million characters of
# Europarl, held-out text had only 0.01% fewer tokens.
LEARN_CHARACTERS = 100_000_000

Sample = Callable[[tuple[int, ...]], Iterator[str]]  # lines from one side or both


def sample_lines(
    corpora: Sequence[ScannedText],
    wanted: Sequence[int],
    progress: Progress,
    sides: tuple[int, ...],
) -> Iterator[str]:
    """Yield lines to learn subwords from, from one side or both.

    A line of a corpus whose frequency is 2.5 is read two or three times.
    """
    rng = random.Random(0)  # not the run's seed, so that all runs on a text get the same subwords
    read = sum(
        corpus.frequency * corpus.scan.characters[side]
        for corpus in _different(corpora, sides)
        for side in sides
    )
    share = LEARN_CHARACTERS / read
    held_out = {
        pair_key(*pair)
        for corpus, number in zip(corpora, wanted, strict=True)
        for pair in corpus.scan.candidates[:number]
    }
    for corpus in _different(corpora, sides):
        pairs = corpus.pairs("learning subwords", progress)
        times, more = divmod(corpus.frequency * min(1, share), 1)
        for pair in drop_unusable(pairs, held_out, dict.fromkeys(REASONS, 0)):
            for _ in range(int(times) + (rng.random() < more)):
                yield from (pair[side] for side in sides)


def _characters(corpora: Sequence[ScannedText], sides: tuple[int, ...]) -> int:
    return sum(c.scan.characters[side] for c in _different(corpora, sides) for side in sides)


def _different(corpora: Sequence[ScannedText], sides: tuple[int, ...]) -> list[ScannedText]:
    """Leave out texts that come once more in the other direction, if both sides are read."""
    return [corpus for corpus in corpora if not corpus.reverse or len(sides) == 1]


def learn(corpora: Sequence[ScannedText], sample: Sample, train: TrainConfig) -> Codec:
    """Learn subwords from both sides together, or separately from each side."""

    def learn_from(*sides: int) -> Subwords:
        size = train.vocabulary or default_vocabulary_size(_characters(corpora, sides))
        assert train.subwords != "sentencepiece"  # for imported models only
        return Subwords.learn(sample(sides), size, train.subwords)

    source = learn_from(0, 1) if train.joint else learn_from(0)
    codec = Codec(source, source if train.joint else learn_from(1))
    tagged = codec.with_tags(sorted({tag for corpus in corpora for tag in corpus.tags}))
    return tagged.with_markers(spans=train.spans > 0, terms=train.terms > 0)


def extend(codec: Codec, more: int, sample: Sample) -> Codec:
    """Add subwords learned from a text: from both sides together, or separately from each side."""

    def extend_from(subwords: Coder, *sides: int) -> Subwords:
        assert isinstance(subwords, Subwords)  # `check_extensible` was called before
        return extend_subwords(subwords, sample(sides), more)

    source = extend_from(codec.source, *((0, 1) if codec.joint else (0,)))
    return Codec(source, source if codec.joint else extend_from(codec.target, 1))
