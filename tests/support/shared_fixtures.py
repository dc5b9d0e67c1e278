"""Fixtures that several test modules use: small texts, runs, corpora, folders of other toolkits."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from both_libraries import Both
    from small_corpora import Pair
    from small_training import Files

# Imports are late: every test session loads this module, and few need these libraries.


@pytest.fixture(scope="module")
def upper_case_pairs(tmp_path_factory: pytest.TempPathFactory) -> "Files":
    """Two text files; the target is the source in upper case."""
    from small_training import write_upper_case_pairs

    return write_upper_case_pairs(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def uninterrupted_run(upper_case_pairs: "Files", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run that was never stopped."""
    from small_training import train_small

    return train_small(upper_case_pairs, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="session")
def recorded_run(tiny_files: "Files", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 8 steps that recorded each, with four checkpoints; tests do not change it."""
    from conftest import TINY, threads_kept

    from transduce.training.train import train

    run = tmp_path_factory.mktemp("recorded") / "run"
    size = {"d_model": "16", "d_ff": "32", "d_k": "8", "d_v": "8", "warmup_cap": "1"}
    often = {"steps": "8", "log_every": "1", "save_every": "2", "validate_every": "4"}
    rates = {"warmup": "4", "cooldown": "0.5", "lr_scale": "0.5"}
    with threads_kept():
        settings = TINY | size | often | rates
        train(*tiny_files, out=run, preset="tiny", settings=settings, device="cpu")
    return run


@pytest.fixture(scope="module")
def prepared_corpus(tmp_path_factory: pytest.TempPathFactory) -> "tuple[list[Pair], Path]":
    """Three hundred pairs, and the folder of their corpus."""
    from small_corpora import prepare_three_hundred

    return prepare_three_hundred(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="module")
def opus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like those of OPUS-MT; tests do not change it."""
    from opus import write_opus

    return write_opus(tmp_path_factory.mktemp("opus") / "opus-mt-en-de")


@pytest.fixture(scope="module")
def imported_model(opus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Both":
    """A model of OPUS-MT in its own library and as a run."""
    from both_libraries import Both

    from transduce.interop.importing import import_model

    run = tmp_path_factory.mktemp("imported") / "run"
    import_model(opus_folder, run)
    return Both(opus_folder, run)


@pytest.fixture
def opus_copy(opus_folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder that a test may change."""
    return Path(shutil.copytree(opus_folder, tmp_path / "own"))


@pytest.fixture(scope="session")
def two_target_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned English to German and to French; tests do not change it."""
    from conftest import LEARNT, threads_kept
    from three_languages import write_two_pairs

    from transduce.text.corpora import CorpusText
    from transduce.training.train import train

    folder = tmp_path_factory.mktemp("two-targets")
    corpora = [CorpusText(path) for path in write_two_pairs(folder, 200)]
    with threads_kept():
        settings = LEARNT | {"vocabulary": "400", "validate_every": "150", "validate_bleu": "2"}
        run = folder / "run"
        train(corpora=corpora, out=run, preset="tiny", settings=settings, device="cpu")
    return run
