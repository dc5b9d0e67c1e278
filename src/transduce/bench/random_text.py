"""A corpus of random words: training speed does not depend on the meaning of a text."""

import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from transduce.corpus.token_files import (
    MANIFEST,
    SIDES,
    SUBWORDS,
    TOKEN_FILES,
    Corpus,
    Counts,
    Ints,
    Manifest,
    TokenType,
    open_corpus,
)
from transduce.errors import BadSetting, did_you_mean
from transduce.subwords import EOS, SPECIAL, Codec, Subwords
from transduce.system.files import sha256, write_checksummed

KINDS = ("mixed", "equal")
BATCHES = 60  # of text; longer training repeats them
EQUAL = 30  # tokens, </s> included, here and below
SHORTEST, LONGEST = 4, 150
VALID = 10  # pairs, never used
TOKEN_TYPE: TokenType = "<u4"  # whatever the vocabulary  # noqa: S105


def require(kind: str) -> None:
    """Refuse an unknown kind of text."""
    if kind not in KINDS:
        raise BadSetting(
            f"there is no random text {kind}.{did_you_mean(kind, KINDS)} "
            f"The kinds are: {', '.join(KINDS)}"
        )


def random_corpus(
    folder: Path,
    kind: str,
    *,
    vocabulary: int,
    joint: bool,
    batch_tokens: int,
    max_len: int,
    seed: int,
) -> Corpus:
    """Make a corpus of random words in a new folder.

    `mixed` lengths are distributed like those of sentences, with targets about as long as their
    sources; `equal` lengths need no padding.
    """
    folder.mkdir()
    codec = _codec(vocabulary, joint=joint)
    codec.save(folder / SUBWORDS)
    random = np.random.default_rng(seed)
    counts = {}
    for part, wanted in (("train", BATCHES * batch_tokens), ("valid", VALID * EQUAL)):
        lengths = _lengths(kind, wanted, max_len, random)
        for side, side_lengths in zip(SIDES, lengths, strict=True):
            _write(folder / f"{part}.{side}", side_lengths, vocabulary, random)
        counts[part] = _counts(*lengths)
    manifest = Manifest(
        languages=("src", "tgt"),
        vocabulary=(vocabulary, vocabulary),
        token_type=TOKEN_TYPE,
        train=counts["train"],
        valid=counts["valid"],
        settings={"random": kind, "seed": seed},
        inputs=[],
        files={
            name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
            for name in (SUBWORDS, *TOKEN_FILES)
        },
        versions={"numpy": np.__version__},
    )
    write_checksummed(folder / MANIFEST, manifest.to_json())
    return open_corpus(folder)


def _codec(vocabulary: int, *, joint: bool) -> Codec:
    """Make exactly this many subwords: the bytes, and sequences of bytes without merges."""
    stored = Subwords.learn([], vocabulary).to_json()
    words = stored["model"]["vocab"]
    symbols = [name for name in words if name not in SPECIAL]
    runs = (run for length in (2, 3) for run in itertools.product(symbols, repeat=length))
    for run in itertools.islice(runs, vocabulary - len(words)):
        words["".join(run)] = len(words)
    source = Subwords.from_json(stored)
    return Codec(source, source if joint else Subwords.from_json(stored))


def _lengths(
    kind: str, tokens: int, max_len: int, random: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw the lengths of pairs that have at least `tokens` tokens on each side in total."""
    max_pairs = 1 + tokens // 2
    if kind == "equal":
        source = target = np.full(max_pairs, min(EQUAL, max_len))
    else:
        longest = min(LONGEST, max_len)
        source = _rounded(random.lognormal(3.25, 0.55, max_pairs), longest)
        target = _rounded(source * random.lognormal(0.0, 0.1, max_pairs), longest)
    count = int(np.minimum(source.cumsum(), target.cumsum()).searchsorted(tokens)) + 1
    return source[:count], target[:count]


def _rounded(lengths: npt.NDArray[np.float64], longest: int) -> Ints:
    return lengths.round().astype(np.int64).clip(min(SHORTEST, longest), longest)


def _write(stem: Path, lengths: Ints, vocabulary: int, random: np.random.Generator) -> None:
    ends = lengths.cumsum()
    tokens = random.integers(len(SPECIAL), vocabulary, ends[-1]).astype(TOKEN_TYPE)
    tokens[ends - 1] = EOS
    tokens.tofile(stem.with_name(f"{stem.name}.tokens"))
    np.append(0, ends).astype("<i8").tofile(stem.with_name(f"{stem.name}.offsets"))


def _counts(source: Ints, target: Ints) -> Counts:
    return Counts(
        read=len(source),
        pairs=len(source),
        source_tokens=int(source.sum()),
        target_tokens=int(target.sum()),
        source_longest=int(source.max()),
        target_longest=int(target.max()),
        dropped={},
    )
