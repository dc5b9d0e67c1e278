"""A recurrent model is trained and used by the command line like any other."""

from pathlib import Path

import pytest
from conftest import TINY, CommandLine, options, threads_kept

from transduce.training.train import train

OWN = {"d_ff": "24", "h": "1", "d_k": "16", "d_v": "16", "N": "2", "validate_bleu": "5"}


@pytest.fixture(scope="module")
def run(tiny_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recurrent run, for looking at only."""
    out = tmp_path_factory.mktemp("recurrent") / "en-de"
    with threads_kept():
        train(*tiny_files, out=out, settings=TINY | OWN, preset="recurrent-small", device="cpu")
    return out


def test_it_trains_and_translates_by_the_command_line(
    tiny_files: tuple[Path, Path], tmp_path: Path, cli: CommandLine
) -> None:
    out = tmp_path / "run"
    settings = options(TINY | OWN)
    trained = cli("train", *tiny_files, "--preset", "recurrent-small", "--out", out, *settings)
    assert trained.status == 0, trained.stderr
    assert "validation loss" in trained.stderr
    translated = cli("translate", out, input="a dog sees the tree.\nevery man likes a fish!\n")
    assert translated.status == 0, translated.stderr
    assert translated.stdout.count("\n") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "{run}", "{out}", "--to", "ctranslate2"),
        ("export", "{run}", "{out}", "--to", "huggingface"),
        ("look", "{run}", "a dog", "--out", "{out}"),
        ("translate", "{run}", "--align"),
    ],
    ids=" ".join,
)
def test_what_only_a_transformer_can_do_is_refused_in_one_sentence(
    arguments: tuple[str, ...], run: Path, tmp_path: Path, cli: CommandLine
) -> None:
    paths = {"run": run, "out": tmp_path / "out.html"}
    result = cli(*(word.format(**paths) for word in arguments), input="a dog\n")
    assert "architecture = 'recurrent'" in result.error
    assert not (tmp_path / "out.html").exists()
