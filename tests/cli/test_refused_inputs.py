"""Texts, folders, settings and search options that cannot be used are refused with one sentence."""

import os
import re
from pathlib import Path

import pytest
import torch
from command_helpers import SENTENCES, SHORT, Files, lines_of, train_command
from conftest import (
    TINY,
    CommandLine,
    snapshot,
    tiny_pairs,
    write_pairs,
)

from transduce.checkpoints.checkpoint import load_tensors
from transduce.config import all_settings
from transduce.runs.folder import RunConfig
from transduce.runs.locks import locked_run


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (b"a\nb\nc\n", b"a\nb\n", ["bad.en has 3 lines but ", "bad.de has 2"]),
        (b"a\nb\n" + b"c\n" * 5000, b"a\n", ["bad.en has 5,002 lines but ", "bad.de has 1"]),
        (b"a\nb\nc\xff\n", b"a\nb\nc\n", ["bad.en, line 3 is not UTF-8"]),
        (b"a\nb\nc\n", b"a\nb\xc3\nc\n", ["bad.de, line 2 is not UTF-8"]),
        (b"", b"", ["bad.en and ", "bad.de are empty"]),
        (b"a\nb\n", b"", ["bad.en has 2 lines but ", "bad.de has 0"]),
        (b"\n\n\n", b"a\nb\nc\n", ["0 pairs with text on both sides"]),
        (b"a\n", b"b\n", ["1 pair with text on both sides"]),
        (b"a\nb\0\nc\n", b"a\nb\nc\n", ["bad.en, line 2 has a NUL byte"]),
        (b"\xff\xfea\0\n\0", b"a\n", ["bad.en", "UTF-16"]),
    ],
    ids=[
        *("unequal", "very unequal", "latin-1", "cut character", "both empty", "one empty"),
        *("blank", "one pair", "NUL", "UTF-16"),
    ],
)
def test_texts_that_cannot_be_used_are_refused(
    source: bytes, target: bytes, expected: list[str], cli: CommandLine, tmp_path: Path
) -> None:
    files = tmp_path / "bad.en", tmp_path / "bad.de"
    files[0].write_bytes(source)
    files[1].write_bytes(target)
    result = cli(*train_command(files, tmp_path / "run"))
    for words in expected:
        assert words in result.error
    assert result.stdout == ""
    assert (files[0].read_bytes(), files[1].read_bytes()) == (source, target)
    assert snapshot(tmp_path / "run") == {}


def test_a_folder_or_a_missing_path_instead_of_a_text_is_refused(
    cli: CommandLine, tiny_run: Path, tiny_files: Files, tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing.en"
    for path, complaint in ((tmp_path, "is a folder"), (nothing, "does not exist")):
        for arguments in (
            train_command((path, tiny_files[1]), tmp_path / "run"),
            train_command((tiny_files[0], path), tmp_path / "run"),
            [*train_command(tiny_files, tmp_path / "run"), "--valid", str(path), str(path)],
            ["translate", str(tiny_run), str(path)],
            ["score", str(path), str(tiny_files[1])],
        ):
            assert f"{path} {complaint}: expected a text file" in cli(*arguments).error
    assert not nothing.exists()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a dog\nb\xe4d\n", "line 2 is not UTF-8"),
        (b"a\0dog\n", "line 1 has a NUL byte"),
        (b"", "is empty"),
    ],
)
def test_a_text_that_cannot_be_translated_is_refused(
    content: bytes, expected: str, cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(content)
    error = cli("translate", tiny_run, path).error
    assert str(path) in error
    assert expected in error
    if content:
        assert expected in cli("translate", tiny_run, input=content).error


def test_a_line_of_100_000_words_is_dropped_and_counted_in_training(
    cli: CommandLine, tmp_path: Path
) -> None:
    pairs = [*tiny_pairs(50), (" ".join(["dog"] * 100_000), "Hund"), *tiny_pairs(50, seed=2)]
    result = cli(*train_command(write_pairs(tmp_path, "long", pairs), tmp_path / "run", SHORT))
    assert result.status == 0, result.stderr
    assert "1 over-long" in result.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_line_of_100_000_words_is_cut_and_reported_in_translation(
    cli: CommandLine, own_run: Path
) -> None:
    end_at_once(own_run)
    text = f"{SENTENCES[0]}\n{' '.join(['dog'] * 100_000)}\n{SENTENCES[1]}\n"
    result = cli("translate", own_run, "--nbest", "1", "--batch", "500", input=text)
    assert result.status == 0, result.stderr
    assert [line.split("\t")[0] for line in lines_of(result.stdout)] == ["1", "2", "3"]
    assert re.search(r"\b1 lines? (was|were) longer than the model's 256 subwords", result.stderr)


def end_at_once(run: Path) -> None:
    """Make the model of a run end every sentence at once, which is quick."""
    from transduce.checkpoints.checkpoint import save_model
    from transduce.subwords import EOS

    tensors = load_tensors(run / "model.safetensors")
    norm = "decoder.0.after_feed.norm"
    tensors[f"{norm}.weight"] = torch.zeros_like(tensors[f"{norm}.weight"])
    tensors[f"{norm}.bias"] = 1000 * tensors["output"][EOS]
    save_model(run, RunConfig.load(run), tensors, "of a model that ends at once")


@pytest.mark.parametrize("command", ["translate", "info", "average"])
def test_a_folder_that_is_not_a_run_is_refused(
    command: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    file = tmp_path / "thesis.tex"
    assert f"there is no run folder {tmp_path / 'run'}" in cli(command, tmp_path / "run").error
    assert f"{tmp_path} is not a run folder" in cli(command, tmp_path).error
    assert str(file) in cli(command, file).error
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    assert "config.json is not a file of settings" in cli(command, tmp_path).error


def test_training_into_a_folder_of_something_else_is_refused(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    file = tmp_path / "thesis.tex"
    file.write_text("mine")
    error = cli(*train_command(tiny_files, tmp_path)).error
    assert f"{tmp_path} holds something else (thesis.tex)" in error
    assert f"{file} is a file" in cli(*train_command(tiny_files, file)).error
    assert str(file) in cli(*train_command(tiny_files, file / "run")).error
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--preset", "bse"], "there is no preset bse. Did you mean base?"),
        (["--set", "d_modl=64"], "there is no setting d_modl. Did you mean d_model?"),
        (["--set", "d_ff=many"], "d_ff = 'many': expected a whole number"),
        (["--set", "P_drop=1.5"], "P_drop = 1.5: expected a number from 0 up to"),
        (["--set", "joint=perhaps"], "joint = 'perhaps': expected true or false"),
        (["--set", "tie=some"], "tie = 'some': expected 'all' or 'decoder' or 'none'"),
        (["--set", "d_model=33"], "d_model = 33: expected an even number"),
        (["--set", "d_model"], "--set d_model: expected NAME=VALUE"),
        (["--set", "=3"], "--set =3: expected NAME=VALUE"),
        (["--set", "vocabulary=10"], "vocabulary = 10: expected at least 260"),
        (["--set", "seconds=inf"], "seconds = inf: expected"),
        (
            ["--set", f"seed={10**22}"],
            f"seed = {10**22}: expected at most 9,223,372,036,854,775,807",
        ),
        (["--set", f"warmup={10**400}"], "warmup = 1000000"),
        (["--set", f"epochs={10**400}"], "epochs = 1000000"),
        (["--steps", "0"], "steps = 0: expected more than 0"),
        (["--time", "soon"], "--time soon: expected a length of time such as"),
        (["--time", "0s"], "--time 0s: expected a length of time such as"),
        (["--device", "tpu"], "device = 'tpu': expected auto, cpu, cuda, mps, or cuda:1"),
        (["--languages", "german"], "languages 'german': expected two codes"),
        (["--valid", "a", "b", "--valid-tsv", "c"], "--valid and --valid-tsv name two"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_setting_is_refused(
    arguments: list[str], expected: str, cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    settings = {name: value for name, value in TINY.items() if f"{name}=" not in str(arguments)}
    command = train_command(tiny_files, tmp_path / "run", settings)
    if "--preset" in arguments:
        command.remove("--preset")
        command.remove("tiny")
    assert cli(*command, *arguments).error.startswith(expected)
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--beam", "0"], "beam = 0: expected at least 1"),
        (["--nbest", "5"], "nbest = 5: expected at most the beam, which is 4"),
        (["--alpha", "-1"], "alpha = -1.0: expected at least 0"),
        (["--alpha", "11"], "alpha = 11.0: expected at most 10"),
        (["--alpha", "1e308"], "alpha = 1e+308: expected at most 10"),
        (["--batch", "0"], "batch = 0: expected at least 1"),
        (["--sample", "--temperature", "0"], "temperature = 0.0: expected at least 1e-06"),
        (["--sample", "--temperature", "1e-40"], "temperature = 1e-40: expected at least 1e-06"),
        (["--sample", "--top-p", "1.5"], "top_p = 1.5: expected"),
        (["--device", "tpu"], "device = 'tpu': expected auto, cpu, cuda, mps, or cuda:1"),
        (["--prefix", "Hund " * 1000], "the prefix of text 1 has"),
        (["--given", "nothing.de"], "nothing.de does not exist"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_invalid_search_options_are_refused(
    arguments: list[str], expected: str, cli: CommandLine, tiny_run: Path
) -> None:
    assert cli("translate", tiny_run, *arguments, input="a dog\n").error.startswith(expected)


def test_a_run_in_use_is_refused(cli: CommandLine, tiny_files: Files, own_run: Path) -> None:
    before = snapshot(own_run)
    with locked_run(own_run):
        for arguments in (train_command(tiny_files, own_run), ["average", str(own_run)]):
            error = cli(*arguments).error
            assert error.startswith(f"{own_run} is in use by process {os.getpid()}")
    assert snapshot(own_run) == before


def test_an_alias_in_set_is_reported_in_one_line(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    result = cli("train", *tiny_files, "--out", tmp_path / "run", "--set", "dropout=2")
    assert result.status == 1
    note, error = lines_of(result.stderr)[0], lines_of(result.stderr)[-1]
    assert note == f"--set dropout is called P_drop here: {all_settings()['P_drop'].meaning}"
    assert error.startswith("error: P_drop = 2.0: expected")
    assert not (tmp_path / "run").exists()
