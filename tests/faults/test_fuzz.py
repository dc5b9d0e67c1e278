"""The short form of fuzzing: the same readers with inputs from hypothesis, without atheris."""

import importlib.util
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.fuzz import fuzz
from faults.reader import Material, Reader
from faults.readers import READERS
from opus import write_opus

EXAMPLES = {"importing": 25, "rules": 25, "weights": 40, "http": 100, "tokens": 60, "logs": 60}
USUAL = 150


@pytest.fixture(scope="module")
def material(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Real files."""
    marian = write_opus(tmp_path_factory.mktemp("theirs") / "marian")
    return Material(tiny_run, marian)


def damaged(reader: Reader, place: int, seed: int, other: bytes) -> bytes:
    """Derive an input from a valid one: changed as JSON, truncated, overwritten, or random."""
    draw = random.Random(seed)
    whole = reader.seeds[place % len(reader.seeds)]
    if reader.is_json and seed % 4:
        return reader.mutated(whole, draw) or whole
    begin = draw.randrange(len(whole) + 1)
    match seed % 5:
        case 0:
            return whole[:begin]
        case 1:
            return other
        case _:
            return whole[:begin] + other + whole[begin + draw.choice((0, len(other))) :]


@pytest.mark.parametrize("name", READERS)
def test_external_data_is_accepted_or_refused_in_one_sentence(
    name: str, material: Material, tmp_path: Path
) -> None:
    reader = READERS[name][0](material, tmp_path)
    outcomes = Counter(reader.outcome(seed) for seed in reader.seeds)
    assert outcomes["taken"], "no valid input is accepted"

    @settings(
        max_examples=EXAMPLES.get(name, USUAL),
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 99), st.integers(0, 2**32), st.binary(max_size=64))
    def read(place: int, seed: int, other: bytes) -> None:
        reader.outcome(damaged(reader, place, seed, other))

    read()


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_the_coverage_guided_fuzzer_runs(tmp_path: Path) -> None:
    (tmp_path / "material").mkdir()
    stats = fuzz("pairs", 300, 1, tmp_path)
    assert stats["done"] == sum(stats["outcomes"].values()) == 300
    assert not stats["broken"]
