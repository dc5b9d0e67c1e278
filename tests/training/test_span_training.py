"""A model that was trained with spans copies sentinels."""

import random
from pathlib import Path

import numpy as np
from conftest import ARTICLES, LEARNT, NOUNS, VERBS, threads_kept, write_pairs

from transduce.config import SearchConfig
from transduce.corpus.token_files import open_corpus
from transduce.runs.folder import RunConfig
from transduce.subwords import EOS
from transduce.training.train import train
from transduce.translation.engines.pytorch import TorchEngine
from transduce.translation.types import Job

SETTINGS = LEARNT | {"vocabulary": "500", "spans": "0.5", "steps": "160", "batch_tokens": "600"}


def make_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Return pairs with two numbers, in the same or the other order."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        one, two = draw.sample(range(10_000), 2)
        subject, verb, thing = draw.choice(NOUNS), draw.choice(VERBS), draw.choice(NOUNS)
        article = draw.choice(ARTICLES)
        source = f"{article[0]} {subject[0]} {one} {verb[0]} {article[0]} {thing[0]} {two}"
        pairs.append(
            (source, f"{article[1]} {subject[1]} {one} {verb[1]} {article[1]} {thing[1]} {two}")
        )
    return pairs


def test_sentinels_are_copied_to_their_places(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, "text", make_pairs(1500, seed=1))
    with threads_kept():
        run = train(*files, out=tmp_path / "run", preset="tiny", settings=SETTINGS, device="cpu")
    codec = open_corpus(run / "corpus").codec
    config = RunConfig.load(run)
    engine = TorchEngine.load([run], [config], codec.target.forbidden_ids(), "cpu")
    one, two = codec.source.sentinels[:2]
    texts: list[list[str | int]] = []
    expected: list[list[str | int]] = []
    for noun in NOUNS:
        for verb in VERBS:
            texts.append([f"the {noun[0]} ", one, f" {verb[0]} the {noun[0]} ", two])
            expected.append([f"der {noun[1]} ", one, f" {verb[1]} der {noun[1]} ", two])
    jobs = [Job(np.array([*ids, EOS])) for ids in codec.source.encode_parts(texts)]
    found = dict(engine.search(jobs, SearchConfig(beam=1), engine.batch))
    outputs = [codec.target.decode_parts(found[index][0].tokens) for index in range(len(jobs))]
    correct = sum(output == wanted for output, wanted in zip(outputs, expected, strict=True))
    copied = sum(
        [part for part in output if isinstance(part, int)] == [one, two] for output in outputs
    )
    assert copied >= len(jobs) - 1
    assert correct > len(jobs) / 2
