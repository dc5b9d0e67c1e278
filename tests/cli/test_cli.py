"""The command line: what it takes, what it refuses and how, and that nothing is ever lost."""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from conftest import (
    COMMAND,
    TINY,
    CommandLine,
    environment,
    options,
    snapshot,
    tiny_pairs,
    write_pairs,
)
from interrupted_writes import leave_unfinished

from models import SMALL
from transduce.checkpoints.checkpoint import average, load_tensors, weights_of
from transduce.cli import interrupt
from transduce.cli.options import command as written
from transduce.cli.options import parse_time
from transduce.config import ModelConfig, TrainConfig, all_settings
from transduce.errors import BadInput
from transduce.model.transformer import Transformer
from transduce.runs.folder import RunConfig, checkpoints
from transduce.runs.locks import locked_run
from transduce.training.trainer import Trainer
from transduce.translation.translator import Translator

SHORT = TINY | {"steps": "2", "validate_bleu": "0"}
LONG = TINY | {
    "steps": "119",
    "save_every": "7",
    "validate_every": "20",  # never at a step that is saved, so that interruptions are seen
    "log_every": "10",
    "validate_bleu": "2",
}
SENTENCES = ["the dog sees a man.", "one bird!", "every fish likes the tree today.", "a man finds"]

Files = tuple[Path, Path]


def train_command(files: Files, run: Path, settings: dict[str, str] = TINY) -> list[str]:
    paths = map(str, files)
    return ["train", *paths, "--out", str(run), "--preset", "tiny", *options(settings)]


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    """Leave the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


# What is refused, and how.


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
        (b"a\nb\0\nc\n", b"a\nb\nc\n", ["bad.en, line 2 holds a NUL byte"]),
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


def test_a_folder_or_nothing_in_the_place_of_a_text_is_refused(
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
        (b"a\0dog\n", "line 1 holds a NUL byte"),
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
    from transduce.runs.folder import RunConfig
    from transduce.subwords import EOS

    tensors = load_tensors(run / "model.safetensors")
    norm = "decoder.0.after_feed.norm"
    tensors[f"{norm}.weight"] = torch.zeros_like(tensors[f"{norm}.weight"])
    tensors[f"{norm}.bias"] = 1000 * tensors["output"][EOS]
    save_model(run, RunConfig.load(run), tensors, "of a model that ends at once")


@pytest.mark.parametrize("command", ["translate", "info", "average"])
def test_a_run_that_is_none_is_refused(command: str, cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    file = tmp_path / "thesis.tex"
    assert f"there is no run folder {tmp_path / 'run'}" in cli(command, tmp_path / "run").error
    assert f"{tmp_path} is not a run folder" in cli(command, tmp_path).error
    assert str(file) in cli(command, file).error
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    assert "config.json is no file of settings" in cli(command, tmp_path).error


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
        (["--set", "P_drop=1.5"], "P_drop = 1.5: expected a number from 0 up to but not 1"),
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
def test_a_setting_that_does_not_fit_is_refused(
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
        (["--alpha", "-1"], "alpha = -1.0: expected 0 or more"),
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
def test_a_search_that_cannot_be_made_is_refused(
    arguments: list[str], expected: str, cli: CommandLine, tiny_run: Path
) -> None:
    assert cli("translate", tiny_run, *arguments, input="a dog\n").error.startswith(expected)


# Damage.


@pytest.mark.parametrize("damage", [flip, truncate])
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("info", "config.json"),
        ("translate", "config.json"),
        ("translate", "subwords.json"),
        ("translate", "model.safetensors"),
        ("average", "config.json"),
        ("average", "checkpoints/step-0000020/weights.safetensors"),
        ("train", "config.json"),
        ("train", "checkpoints/step-0000020/weights.safetensors"),
        ("train", "checkpoints/step-0000020/optimizer.safetensors"),
        ("train", "checkpoints/step-0000020/state.json"),
        ("train", "corpus/manifest.json"),
        ("train", "corpus/subwords.json"),
        ("train", "corpus/train.source.tokens"),
        ("train", "corpus/valid.target.offsets"),
    ],
)
def test_a_damaged_file_is_named_and_nothing_is_changed(
    command: str,
    name: str,
    damage: Callable[[Path], None],
    cli: CommandLine,
    tiny_files: Files,
    own_run: Path,
) -> None:
    damage(own_run / name)
    before = snapshot(own_run)
    arguments = train_command(tiny_files, own_run) if command == "train" else [command, own_run]
    if command == "translate":  # another engine may have an export that is whole
        arguments += ["--engine", "torch"]
    error = cli(*arguments, input="a dog\n").error
    assert error.startswith(f"{own_run / name} is damaged")
    assert snapshot(own_run) == before


def test_after_a_damaged_checkpoint_is_deleted_training_goes_on_from_the_one_before(
    cli: CommandLine, tiny_files: Files, own_run: Path, tiny_run: Path
) -> None:
    newest = own_run / "checkpoints" / "step-0000020"
    truncate(newest / "weights.safetensors")
    assert f"delete {newest} to go on" in cli(*train_command(tiny_files, own_run)).error
    shutil.rmtree(newest)
    result = cli(*train_command(tiny_files, own_run))
    assert result.status == 0, result.stderr
    assert "going on from step 15" in result.stderr
    assert (own_run / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 3, "loss": 1.5, "qerplexity": 4.5, "target_tokens_per_second": 1}',
        '{"step": 3, "loss": "1.5", "perplexity": 4.5, "target_tokens_per_second": 1}',
        '{"step": 3, "valid_loss": null}',
        '{"step": 3, "valid_loss": NaN}',
    ],
)
def test_a_damaged_record_is_not_told(line: str, cli: CommandLine, own_run: Path) -> None:
    before = cli("info", own_run)
    with (own_run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert cli("info", own_run) == before


@pytest.mark.parametrize(
    "name", ["subwords.json", "checkpoints/step-0000020/weights.safetensors", "model.safetensors"]
)
def test_a_missing_file_is_named(
    name: str, cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    (own_run / name).unlink()
    if name in ("subwords.json", "model.safetensors"):  # a checkpoint would be another model
        error = cli("translate", own_run, input="a dog\n").error
        assert error.startswith(f"{own_run / name} is missing")
    else:
        error = cli(*train_command(tiny_files, own_run)).error
        assert error.startswith(f"{own_run / name} is missing")


def test_the_traceback_is_shown_if_asked_wherever_the_option_stands(
    cli: CommandLine, tmp_path: Path
) -> None:
    run = str(tmp_path)
    for arguments in (["--debug", "info", run], ["info", run, "--debug"]):
        result = cli(*arguments)
        assert result.status == 1
        assert "Traceback (most recent call last)" in result.stderr
        assert result.stderr.splitlines()[-1].startswith(f"error: {tmp_path} is not a run folder")


INTERRUPTS = "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n"
SWALLOWS = """
import signal
from transduce.cli import interrupt
signal.signal(signal.SIGINT, interrupt)
try:
    import interrupting
except BaseException:
    print("gone on")
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "transduce", "--help"],
        ["-c", SWALLOWS],
    ],
    ids=["before the command", "in a library that takes it for a missing module"],
)
def test_ctrl_c_among_imports_ends_at_once_and_shows_no_traceback(
    arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "interrupting.py").write_text(INTERRUPTS, encoding="utf-8")
    if "-m" in arguments:  # what the command line imports first
        (tmp_path / "typer.py").write_text(INTERRUPTS, encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        env=environment() | {"PYTHONPATH": paths},
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_ctrl_c_in_work_is_an_exception() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


# The machine says no.

LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    "from transduce.cli import main; main()"
)
WITHOUT_PRIVILEGES = """
import ctypes, os, sys
if os.geteuid() == 0:  # root may do everything unless it gives up these two rights for good
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if ctypes.CDLL(None).prctl(24, right, 0, 0, 0):  # PR_CAPBSET_DROP
            sys.exit(77)
os.execv(sys.executable, [sys.executable, "-m", "transduce", *sys.argv[1:]])
"""


def in_own_process(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        # Not measured: the limits set here would stop coverage from writing its own file.
        env={name: value for name, value in environment().items() if "COVERAGE" not in name},
        check=False,
        timeout=120,
    )


def test_a_file_that_may_not_grow_ends_training_clearly_and_it_goes_on_later(
    cli: CommandLine, tiny_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    arguments = train_command(tiny_files, tmp_path / "run")
    done = in_own_process(LIMITED, *arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "safetensors" in done.stderr.splitlines()[-1]
    leftovers = [path.name for path in (tmp_path / "run").rglob("*writing*")]
    assert leftovers == []
    result = cli(*arguments)
    assert result.status == 0, result.stderr
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("at", [1, 4, 20, 40])
def test_a_full_disk_ends_training_clearly_and_it_goes_on_later(
    at: int,
    cli: CommandLine,
    tiny_files: Files,
    tiny_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fsync, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    arguments = train_command(tiny_files, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        error = cli(*arguments).error
    assert error.startswith("no space is left to write")
    assert "run the same command again" in error
    result = cli(*arguments)
    assert result.status == 0, result.stderr
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_results_that_cannot_be_written_are_an_error(tiny_files: Files) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "score", *map(str, (tiny_files[1], tiny_files[1]))],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: no space is left to write")
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_what_may_not_be_read_or_written_is_named(tiny_files: Files, tmp_path: Path) -> None:
    secret, closed = tmp_path / "secret.de", tmp_path / "closed"
    shutil.copy(tiny_files[1], secret)
    secret.chmod(0o000)
    closed.mkdir(mode=0o555)
    read = in_own_process(WITHOUT_PRIVILEGES, "score", secret, tiny_files[1])
    if read.returncode == 77:
        pytest.skip("this root cannot give up its rights")
    assert read.returncode == 1
    assert read.stderr == f"error: {secret} may not be read: permission denied\n"
    write = in_own_process(WITHOUT_PRIVILEGES, *train_command(tiny_files, closed / "run"))
    closed.chmod(0o755)
    assert write.returncode == 1
    assert write.stderr.startswith(f"error: no permission to use {closed / 'run'}: ")
    assert len(write.stderr.splitlines()) == 1
    assert list(closed.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 12800000000000 bytes. Error code 12 (Cannot allocate "
            "memory)"
        ),
    ],
    ids=["python", "cuda", "cpu"],
)
def test_too_little_memory_is_said_in_one_sentence(
    error: Exception,
    cli: CommandLine,
    tiny_files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("transduce.training.trainer.build", fail)
    assert cli(*train_command(tiny_files, tmp_path / "run")).error.startswith("out of memory")


def test_a_file_whose_name_is_no_unicode_can_be_trained_on(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    source = tmp_path / os.fsdecode(b"\xff.en")
    shutil.copy(tiny_files[0], source)
    result = cli(*train_command((source, tiny_files[1]), tmp_path / "run", SHORT))
    assert result.status == 0, result.stderr


def test_a_run_in_use_is_refused(cli: CommandLine, tiny_files: Files, own_run: Path) -> None:
    before = snapshot(own_run)
    with locked_run(own_run):
        for arguments in (train_command(tiny_files, own_run), ["average", str(own_run)]):
            error = cli(*arguments).error
            assert error.startswith(f"{own_run} is in use by process {os.getpid()}")
    assert snapshot(own_run) == before


# How it is called.


@pytest.mark.parametrize(
    "arguments",
    [
        ["trian"],
        ["train"],
        ["train", "a", "b"],
        ["train", "a", "b", "--out"],
        ["train", "a", "b", "--out", "run", "--steps", "many"],
        ["train", "a", "b", "--out", "run", "--sets", "N=1"],
        ["translate"],
        ["translate", "run", "--beam", "wide"],
        ["score", "a"],
        ["average", "run", "--last", "0"],
        ["info", "run", "more"],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_a_status_of_its_own(arguments: list[str], cli: CommandLine) -> None:
    result = cli(*arguments)
    assert result.status == 2
    assert result.stdout == ""
    assert re.search("Usage: .*transduce|requires an argument", result.stderr)
    assert "Traceback" not in result.stderr


def test_a_command_that_is_given_nothing_shows_its_examples(cli: CommandLine) -> None:
    assert "transduce train train.en train.de --out runs/en-de" in cli("train").stderr


def test_the_version_is_that_of_the_package(cli: CommandLine) -> None:
    result = cli("--version")
    assert (result.status, result.stdout) == (0, f"transduce {version('transduce')}\n")


COMMANDS = (
    *("demo", "train", "translate", "score", "average", "info", "plot", "watch", "serve", "bench"),
    *("export", "import", "look", "settings"),
)


def test_help_shows_every_command_and_without_arguments_too(cli: CommandLine) -> None:
    for arguments in (["--help"], ["-h"], []):
        result = cli(*arguments)
        for command in COMMANDS:
            assert re.search(rf"\b{command}\b", result.stdout + result.stderr)


# Translating.


def lines_of(output: str) -> list[str]:
    """Cut an output into lines as `text.read_lines` does: at line feeds and nowhere else."""
    *lines, rest = output.split("\n")
    assert rest == ""
    return lines


def numbered(output: str) -> list[tuple[int, float, str]]:
    rows = [line.split("\t") for line in lines_of(output)]
    return [(int(number), float(score), text) for number, score, text in rows]


def test_line_n_of_the_output_translates_line_n_of_the_input(
    cli: CommandLine, tiny_run: Path
) -> None:
    lines = [SENTENCES[2], "", SENTENCES[0], "   ", *SENTENCES, ""]
    command: list[str | Path] = ["translate", tiny_run, "--nbest", "1", "--quantize", "none"]
    together = cli(*command, input="\n".join(lines) + "\n")
    assert together.status == 0
    rows = numbered(together.stdout)
    assert [number for number, _, _ in rows] == list(range(1, len(lines) + 1))
    scores: dict[str, float] = {}
    for line, (_, score, text) in zip(lines, rows, strict=True):
        if not line.strip():
            assert (score, text) == (0.0, "")
        else:
            ((_, expected, same),) = numbered(cli(*command, input=line).stdout)
            assert score == pytest.approx(expected, abs=2e-4)
            assert text == same
            scores[line] = score
    assert len(set(scores.values())) == len(SENTENCES)  # or the order would not be seen


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", 0), ("\n", 1), ("a dog", 1), ("a dog\n\n", 2), ("\na dog", 2), ("a\r\ndog\r\n", 2)],
)
def test_as_many_lines_come_out_as_went_in(
    text: str, lines: int, cli: CommandLine, tiny_run: Path
) -> None:
    result = cli("translate", tiny_run, "--beam", "1", input=text)
    assert result.status == 0
    assert result.stdout.count("\n") == lines
    assert not result.stdout or result.stdout.endswith("\n")
    assert re.fullmatch(r"engine: .+\n", result.stderr)


def test_a_file_is_translated_as_the_same_text_through_a_pipe(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "text.en"
    lines = [*SENTENCES[:2], "", *SENTENCES[2:], " "]
    path.write_text("\n".join(lines), encoding="utf-8")
    command: list[str | Path] = ["translate", tiny_run, "--quantize", "none"]
    piped = cli(*command, input=path.read_bytes())
    assert cli(*command, path).stdout == piped.stdout
    assert cli(*command, "-", "--batch", "1", input=path.read_bytes()) == piped
    translator = Translator.load(tiny_run, quantize="none")
    expected = [one.text for one in translator.translate(lines)]
    assert (expected[2], expected[-1]) == ("", "")
    assert lines_of(piped.stdout) == expected


def test_the_best_are_written_with_line_number_and_score(cli: CommandLine, tiny_run: Path) -> None:
    text = f"{SENTENCES[0]}\n\n{SENTENCES[1]}\n"
    result = cli("translate", tiny_run, "--nbest", "3", "--beam", "5", input=text)
    assert all(
        re.fullmatch(r"\d+\t-?\d+\.\d{4}\t[^\t\n]*", line) for line in lines_of(result.stdout)
    )
    rows = numbered(result.stdout)
    assert [number for number, _, _ in rows] == [1, 1, 1, 2, 3, 3, 3]
    for number in (1, 3):
        scores = [score for other, score, _ in rows if other == number]
        assert scores == sorted(scores, reverse=True)
        assert len({text for other, _, text in rows if other == number}) > 1
    narrow = cli("translate", tiny_run, "--nbest", "1", "--beam", "1", input=text)
    assert numbered(narrow.stdout)[0][1] <= rows[0][1]


def test_the_length_penalty_is_heard(cli: CommandLine, tiny_run: Path) -> None:
    best = [
        numbered(
            cli("translate", tiny_run, "--nbest", "1", "--alpha", alpha, input=SENTENCES[0]).stdout
        )[0][1]
        for alpha in ("0", "0.6", "1")
    ]
    assert best[0] < best[1] < best[2]  # a log-probability over a larger and larger penalty


def test_given_translations_are_scored_line_by_line(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    source, target = write_pairs(tmp_path, "given", [*tiny_pairs(5), ("", ""), ("a dog", "")])
    result = cli("translate", tiny_run, source, "--given", target)
    assert result.status == 0, result.stderr
    rows = [line.split("\t") for line in lines_of(result.stdout)]
    targets = target.read_text(encoding="utf-8").split("\n")[:-1]
    assert [text for _, text in rows] == targets
    pairs = list(zip(source.read_text(encoding="utf-8").split("\n")[:-1], targets, strict=True))
    expected = [one.score for one in Translator.load(tiny_run).score(pairs)]
    assert [float(score) for score, _ in rows] == pytest.approx(expected, abs=1e-4)
    assert len({score for score, _ in rows}) == len(rows)
    target.write_text("Hund\n", encoding="utf-8")
    assert "has 7 lines but " in cli("translate", tiny_run, source, "--given", target).error


def test_what_is_drawn_depends_on_the_seed_alone(cli: CommandLine, tiny_run: Path) -> None:
    def drawn(*more: str) -> str:
        result = cli("translate", tiny_run, "--sample", *more, input="\n".join(SENTENCES[:2] * 2))
        assert result.status == 0, result.stderr
        return result.stdout

    first = drawn("--seed", "3")
    assert drawn("--seed", "3", "--batch", "1") == first
    assert drawn("--seed", "4") != first
    assert len(set(lines_of(first))) == 4  # equal sources, but draws of their own
    greedy = cli("translate", tiny_run, "--beam", "1", input="\n".join(SENTENCES[:2] * 2)).stdout
    assert drawn("--top-k", "1") == greedy
    assert drawn("--seed", "3", "--temperature", "0.001") == greedy


def test_translations_begin_with_the_prefix(cli: CommandLine, tiny_run: Path) -> None:
    result = cli(
        "translate", tiny_run, "--prefix", "jeder Vogel", input="\n".join(SENTENCES) + "\n\n"
    )
    *translated, blank = lines_of(result.stdout)
    assert all(line.startswith("jeder Vogel") for line in translated)
    assert blank == ""


def test_a_reader_who_leaves_is_no_error(tiny_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    command = [*COMMAND, "translate", str(tiny_run), str(path), "--beam", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode in (0, 1)
    for word in ("Traceback", "Exception", "Error", "error"):
        assert word not in said


# Scores, averages, facts.


def test_scores_are_printed_with_their_signatures(cli: CommandLine, tiny_files: Files) -> None:
    result = cli("score", tiny_files[1], tiny_files[1])
    assert (result.status, result.stderr) == (0, "")
    lines = lines_of(result.stdout)
    assert [line.split(" = ")[0] for line in lines] == ["BLEU", "chrF2", "chrF2++", "TER"]
    assert all("nrefs:1|" in line and "|version:" in line for line in lines)
    assert lines[0].startswith("BLEU = 100.00")


def test_scores_are_written_as_json_if_asked(cli: CommandLine, tiny_files: Files) -> None:
    data = tiny_files[1].read_bytes()
    result = cli("score", "-", tiny_files[1], "--metric", "bleu", "--json", input=data)
    (bleu,) = json.loads(result.stdout)
    assert bleu["name"] == "BLEU"
    assert bleu["value"] == pytest.approx(100)
    assert "tok:13a" in bleu["signature"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--metric", "blue"], "there is no metric blue"),
        (["--confidence", "3"], "confidence = 3: expected"),
        (["--tokenize", "14a"], "there is no tokeniser 14a"),
        (["--paper", "--lowercase"], "--paper is a metric of its own"),
        (["--confidence", "100000000000"], "confidence = 100000000000: expected 0"),
        (["--samples", "100"], "--paired-ar and --samples compare systems"),
        (["--trees", "--lowercase"], "--trees takes no options of metrics"),
        (["--ref", "-", "--confidence", "100"], "--confidence and --paper score one system"),
        (["--ref", "missing.de", "--metric", "bleu"], "a system is given twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_score_that_cannot_be_counted_is_refused(
    arguments: list[str], expected: str, cli: CommandLine, tiny_files: Files
) -> None:
    assert cli("score", tiny_files[1], tiny_files[1], *arguments).error.startswith(expected)


def test_only_as_many_translations_as_references_are_scored(
    cli: CommandLine, tiny_files: Files
) -> None:
    error = cli("score", "-", tiny_files[1], input="ein Hund\n").error
    assert error.startswith(f"standard input has 1 line but {tiny_files[1]} has 300")


def test_averaging_more_checkpoints_than_there_are_is_refused_unless_it_is_the_default(
    cli: CommandLine, own_run: Path
) -> None:
    before = snapshot(own_run)
    error = cli("average", own_run, "--last", "50").error
    assert error.startswith(f"{own_run} has 4 checkpoints to average, not 50: --last 4 takes all")
    assert snapshot(own_run) == before
    assert "steps 5, 10, 15, 20" in cli("average", own_run).stderr


def test_systems_are_compared_with_the_first_one(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    right = lines_of(tiny_files[1].read_text(encoding="utf-8"))
    for name, lines in {
        "a.de": [line.replace("e", "o") for line in right],
        "b.de": [line if place % 2 else line.upper() for place, line in enumerate(right)],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files, ref = [tmp_path / "a.de", tmp_path / "b.de"], tiny_files[1]
    common: list[str | Path]
    common = [*files, "--ref", ref, "--metric", "bleu", "--samples", "100"]
    result = cli("score", *common)
    assert (result.status, result.stderr) == (0, "")
    head, first, second, signature = lines_of(result.stdout)
    assert head.split() == ["metric", "system", "score", "mean", "and", "95%", "interval", "p"]
    assert first.startswith(f"BLEU    {tmp_path / 'a.de'} (baseline)  ")
    assert second.startswith(f"BLEU    {tmp_path / 'b.de'}")
    assert second.endswith("*")
    assert signature.startswith("BLEU nrefs:1|bs:100|seed:12345|")
    (found,) = json.loads(cli("score", *common, "--json").stdout)
    assert [one["system"] for one in found["systems"]] == list(map(str, files))
    assert f"{found['systems'][1]['value']:.2f}" in second
    two = cli("score", *common, "--ref", tmp_path / "b.de", "--paired-ar").stdout
    assert "BLEU nrefs:2|ar:100|" in two
    assert "interval" not in two
    (alone,) = lines_of(cli("score", files[0], "--ref", ref, "--metric", "chrf++").stdout)
    assert alone.startswith("chrF2++ = ")
    error = cli("score", "-", "--ref", "-", input="a\n").error
    assert error.startswith("- stands for two files")


def test_trees_are_scored_as_evalb_does(cli: CommandLine, tmp_path: Path) -> None:
    gold = "(TOP (S (NP (PRP We)) (VP (VBD gave) (PRT (RP up))) (. .)))"
    guesses = [
        "(S (NP-SBJ (PRP We)) (VP (VBD gave) (ADVP (RP up)) (. .)))",  # 4 brackets of 4 right
        "",
        "(S (X (PRP We) (VBD gave)) (RB up) (. .))",  # 1 of 2 right, 4 in gold
    ]
    (tmp_path / "gold").write_text(f"{gold}\n" * 3)
    (tmp_path / "parsed").write_text("".join(f"{line}\n" for line in guesses))
    result = cli("score", "--trees", tmp_path / "parsed", tmp_path / "gold")
    assert (result.status, result.stderr) == (0, "")
    row = lines_of(result.stdout)[1].split()
    assert row == ["all", "3", "0", "1", "83.33", "62.50", "71.43", "50.00", "50.00", "83.33"]
    found = json.loads(
        cli("score", "--trees", tmp_path / "parsed", tmp_path / "gold", "--json").stdout
    )
    assert found["all"]["f1"] == pytest.approx(500 / 7)
    error = cli("score", "--trees", "-", tmp_path / "gold", input=guesses[0]).error
    assert error.startswith("standard input has 1 tree but ")


def test_settings_are_listed_with_defaults_and_meanings(cli: CommandLine) -> None:
    result = cli("settings")
    rows = [line.split() for line in lines_of(result.stdout)]
    assert [row[:3] for row in rows if row[:1] == ["P_drop"]] == [["P_drop", "0.1", "5.4"]]
    assert [row[0] for row in rows if row and row[0].endswith(":")] == [
        "Model:",
        "Training:",
        "Search:",
    ]
    names = {one["name"] for one in json.loads(cli("settings", "--json").stdout)}
    assert {"N", "eps_ls", "warmup", "beam"} <= names & {row[0] for row in rows if row}


def test_one_setting_is_shown_by_its_name_or_alias(cli: CommandLine) -> None:
    shown = cli("settings", "P_drop").stdout
    assert shown.startswith("P_drop   dropout on every sub-layer's output")
    assert "aliases  dropout, " in shown
    assert cli("settings", "dropout").stdout == shown
    assert json.loads(cli("settings", "dropout", "--json").stdout)["name"] == "P_drop"
    assert "Did you mean P_drop?" in cli("settings", "p_drop").error
    assert "set lr_scale" in cli("settings", "lr").error


def test_an_alias_in_set_is_reported_in_one_line(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    result = cli("train", *tiny_files, "--out", tmp_path / "run", "--set", "dropout=2")
    assert result.status == 1
    note, error = lines_of(result.stderr)[0], lines_of(result.stderr)[-1]
    assert note == f"--set dropout is called P_drop here: {all_settings()['P_drop'].meaning}"
    assert error.startswith("error: P_drop = 2.0: expected")
    assert not (tmp_path / "run").exists()


def test_averaging_makes_the_mean_the_model_that_translates(
    cli: CommandLine, own_run: Path
) -> None:
    result = cli("average", own_run, "--last", "2")
    assert result.status == 0
    assert "mean of the checkpoints at steps 15, 20" in result.stderr
    folders = [own_run / "checkpoints" / f"step-00000{step}" for step in (15, 20)]
    mean = average([load_tensors(folder / "weights.safetensors") for folder in folders])
    found = load_tensors(own_run / "model.safetensors")
    assert found.keys() == mean.keys()
    assert all(torch.equal(found[name], mean[name]) for name in mean)
    assert RunConfig.load(own_run).weights == "mean of the checkpoints at steps 15, 20"
    assert "steps 15, 20" in cli("info", own_run).stdout


def test_info_tells_what_a_run_holds(cli: CommandLine, tiny_run: Path) -> None:
    result = cli("info", tiny_run)
    assert (result.status, result.stderr) == (0, "")
    for words in (
        "languages    en to de",
        "N 1, d_model 32, d_ff 64, h 2, d_k 16, d_v 16",
        "step 20, loss ",
        "mean of the checkpoints at steps 5, 10, 15, 20",
        "checkpoints  5, 10, 15, 20",
    ):
        assert words in result.stdout
    facts = json.loads(cli("info", tiny_run, "--json").stdout)
    model = Transformer(ModelConfig.from_json(facts["model"]))
    assert facts["parameters"] == sum(tensor.numel() for tensor in weights_of(model).values())
    assert facts["train"]["batch_tokens"] == 400
    assert facts["checkpoints"] == [5, 10, 15, 20]
    assert facts["last"]["step"] == facts["validation"]["step"] == 20


def test_info_of_a_run_that_has_just_begun(cli: CommandLine, tmp_path: Path) -> None:
    RunConfig(model=ModelConfig().replace(**SMALL), train=TrainConfig()).save(tmp_path)
    result = cli("info", tmp_path)
    assert result.status == 0, result.stderr
    for words in ("nothing logged yet", "none yet", "checkpoints  none"):
        assert words in result.stdout


# Training again.


def test_a_finished_run_is_said_to_be_and_left_as_it_is(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    before = snapshot(own_run)
    result = cli(*train_command(tiny_files, own_run))
    assert result.status == 0
    assert snapshot(own_run) == before
    said = result.stderr.replace(str(own_run), "RUN")
    assert re.search(r"finished|ended|already|nothing (is )?left", said), said


def test_a_finished_run_keeps_the_average_that_was_chosen(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    assert cli("average", own_run, "--last", "2").status == 0
    before = snapshot(own_run)
    assert cli(*train_command(tiny_files, own_run)).status == 0
    assert snapshot(own_run) == before


def test_more_steps_go_on_with_a_finished_run(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    result = cli(*train_command(tiny_files, own_run, TINY | {"steps": "25"}))
    assert result.status == 0, result.stderr
    assert "going on from step 20" in result.stderr
    assert RunConfig.load(own_run).weights.endswith("steps 5 to 25, every 5")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--set", "d_ff=128"], "was begun with d_ff = 64, not 128"),
        (["--set", "batch_tokens=500"], "was begun with batch_tokens = 400, not 500"),
        (["--seed", "2"], "was begun with seed = 1, not 2"),
        (["--preset", "small"], "was begun with the preset tiny, not small"),
        (["--preset", "smal"], "there is no preset smal. Did you mean small?"),
        (["--set", "d_f=128"], "there is no setting d_f. Did you mean d_ff?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_settings_are_refused_by_name(
    more: list[str], expected: str, cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    before = snapshot(own_run)
    assert expected in cli(*train_command(tiny_files, own_run), *more).error
    assert snapshot(own_run) == before


def test_another_text_or_validation_text_is_refused(
    cli: CommandLine, tiny_files: Files, own_run: Path, tmp_path: Path
) -> None:
    before = snapshot(own_run)
    other = write_pairs(tmp_path, "other", tiny_pairs(200, seed=9))
    longer = TINY | {"steps": "30"}
    assert str(own_run) in cli(*train_command(other, own_run, longer)).error
    valid = [*train_command(tiny_files, own_run, longer), "--valid", *map(str, other)]
    assert str(own_run) in cli(*valid).error
    after = snapshot(own_run)
    assert {name: after[name] for name in before if name != "config.json"} == {
        name: before[name] for name in before if name != "config.json"
    }


def test_what_is_set_by_options_is_set(cli: CommandLine, tiny_files: Files, tmp_path: Path) -> None:
    settings = {name: value for name, value in SHORT.items() if name != "steps"}
    command = train_command(tiny_files, tmp_path / "run", settings)
    result = cli(*command, "--epochs", "1", "--time", "20s", "--seed", "7", "--languages", "x-y")
    assert result.status == 0, result.stderr
    config = RunConfig.load(tmp_path / "run")
    assert (config.train.steps, config.train.epochs) == (None, 1)
    assert (config.train.seconds, config.train.seed) == (20.0, 7)
    assert config.languages == ("x", "y")
    assert f"transduce translate {tmp_path / 'run'}" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"source_vocabulary": "500", "target_vocabulary": "500"},
        {"joint": "false"},
        {"N_decoder": "2", "positions": "learned", "tie": "none", "attention_bias": "yes"},
        {"subwords": "wordpiece", "vocabulary": "600", "max_len": "40", "accumulate": "2"},
    ],
    ids=" ".join,
)
def test_what_a_run_begins_with_it_goes_on_with(
    settings: dict[str, str], cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    arguments = train_command(tiny_files, tmp_path / "run", SHORT | settings)
    first = cli(*arguments)
    if first.status:
        assert next(iter(settings)) in first.error
    else:
        assert cli(*arguments).status == 0
        assert cli("translate", tmp_path / "run", "--beam", "1", input="a dog\n").status == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1h1m1s", 3661)],
        *[("3min", 180), ("3 mins", 180), ("1.5h", 5400), ("2 hours", 7200), ("5 m", 300)],
        *[("1 hour 30 minutes", 5400), ("45 sec", 45), ("1d", 86_400), ("2 Days 1H", 176_400)],
    ],
)
def test_a_length_of_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "soon", "-3m", "3m1h", "10ms", "1h30", "1e3s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"^--time {text}: expected a length of time"):
        parse_time(text)


def test_a_time_without_a_unit_is_refused_and_the_units_are_named() -> None:
    with pytest.raises(BadInput, match=r"^--time 5: 5 what\? Write 5s, 5m or 5h: seconds, minutes"):
        parse_time(" 5 ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--valid", "one.file", "--out", "x"], "'--valid': it takes 2 values, but after one.file"),
        (["--out", "--preset", "tiny"], "'-o': it takes 1 value, but after it comes the option"),
        (
            ["--out", "x", "--seed", "9" * 30],
            "'--seed': expected at most 9,223,372,036,854,775,807",
        ),
    ],
)
def test_a_value_that_no_option_can_mean_is_a_usage_error(
    arguments: list[str], expected: str, cli: CommandLine, tiny_files: Files
) -> None:
    result = cli("train", *tiny_files, *arguments)
    assert result.status == 2
    assert expected in result.stderr
    assert "Missing option" not in result.stderr


@pytest.mark.parametrize(
    ("started", "on_path", "expected"),
    [
        (".venv/bin/transduce", "", ".venv/bin/transduce"),
        ("my tools/transduce", "", "'my tools/transduce'"),
        ("BIN/transduce", "BIN", "transduce"),
        ("lib/transduce/__main__.py", "", "PYTHON -m transduce"),
        ("OTHER/transduce", "BIN", "OTHER/transduce"),
    ],
)
def test_a_printed_command_works_when_it_is_pasted(
    started: str,
    on_path: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "transduce").write_text("#!/bin/sh\n")
    (tmp_path / "transduce").chmod(0o755)
    monkeypatch.setattr(sys, "argv", [started.replace("BIN", str(tmp_path))])
    monkeypatch.setenv("PATH", on_path.replace("BIN", str(tmp_path)))
    program = expected.replace("PYTHON", sys.executable)
    assert written("look", Path("my run"), "Two dogs") == f"{program} look 'my run' 'Two dogs'"


def test_a_probability_mass_that_float32_rounds_to_0_leaves_the_likeliest_word(
    cli: CommandLine, tiny_run: Path
) -> None:
    drawn, greedy = (
        cli("translate", tiny_run, "--engine", "torch", *arguments, input="a dog\n").stdout
        for arguments in (["--sample", "--top-p", "1e-320"], ["--beam", "1"])
    )
    assert drawn == greedy


def test_pairs_may_come_through_a_pipe(cli: CommandLine, tmp_path: Path) -> None:
    text = "".join(f"{source}\t{target}\n" for source, target in tiny_pairs(100))
    run = tmp_path / "run"
    arguments = ["train", "-", "--out", str(run), "--preset", "tiny", *options(SHORT)]
    result = cli(*arguments, input=text)
    assert result.status == 0, result.stderr
    assert (run / "model.safetensors").exists()
    before = snapshot(run)
    assert cli(*arguments, input=text).status == 0
    assert snapshot(run) == before


# Interruptions.


@pytest.fixture(scope="module")
def uninterrupted(tiny_files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A longer run that nothing disturbed."""
    from conftest import threads_kept

    from transduce.training.train import train

    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    with threads_kept():
        train(*tiny_files, out=run, settings=LONG, preset="tiny", device="cpu")
    return run


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]
)
def test_stopped_by_a_signal_the_same_command_ends_with_the_same_bytes(
    number: signal.Signals,
    cli: CommandLine,
    tiny_files: Files,
    uninterrupted: Path,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    arguments = train_command(tiny_files, run, LONG)
    with subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 40: validation"):
                break
        time.sleep(random.uniform(0, 0.1))
        process.send_signal(number)
        said = process.stderr.read()
    assert "Traceback" not in said
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        newest = checkpoints(run)[-1]  # the step that was just made, not the last scheduled one
        assert newest.scheduled == (newest.step % 7 == 0)
        assert said.splitlines()[-1] == (
            f"stopped after step {newest.step}; everything is saved in {run}: "
            "the same command goes on from here"
        )
    assert not (run / "model.safetensors").exists()
    result = cli(*arguments)
    assert result.status == 0, result.stderr
    assert re.search(r"going on from step \d+", result.stderr)
    for name in ("model.safetensors", "best.safetensors"):
        assert (run / name).read_bytes() == (uninterrupted / name).read_bytes()
    assert {one.step for one in checkpoints(run)} == {91, 98, 105, 112, 119}


@pytest.mark.parametrize("at", [1, 14, 19, 20])
def test_interrupted_at_any_step_even_the_last_it_ends_with_the_same_bytes(
    at: int, cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TINY | {"save_every": "7", "validate_bleu": "0"}
    assert cli(*train_command(tiny_files, tmp_path / "whole", settings)).status == 0
    update = Trainer.update

    def signalled(self: Trainer) -> None:
        update(self)
        if self.state.step == at:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", signalled)
        assert cli(*train_command(tiny_files, tmp_path / "run", settings)).status == 130
    assert cli(*train_command(tiny_files, tmp_path / "run", settings)).status == 0
    for name in ("model.safetensors", "best.safetensors", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_what_a_killed_process_left_half_made_is_cleared_away(
    cli: CommandLine, tiny_files: Files, own_run: Path
) -> None:
    half_made = [
        leave_unfinished(own_run / "checkpoints", "step-0000023") / "new" / "weights.safetensors",
        leave_unfinished(own_run / "checkpoints", "step-0000020", restore=True) / "old" / "weights",
        leave_unfinished(own_run, "corpus") / "new" / "train.source.tokens",
        leave_unfinished(own_run, "model.safetensors") / "new",
    ]
    for path in half_made:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    result = cli(*train_command(tiny_files, own_run, TINY | {"steps": "25"}))
    assert result.status == 0, result.stderr
    assert [path for path in half_made if path.exists()] == []


def test_interrupted_while_the_text_is_prepared_it_says_so_and_leaves_nothing(
    cli: CommandLine, tiny_files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

    monkeypatch.setattr("transduce.subwords.Subwords.learn", interrupt)
    result = cli(*train_command(tiny_files, tmp_path / "run"))
    assert result.status == 130
    assert result.stderr.strip(), "nothing was said"
    assert "Traceback" not in result.stderr
    assert snapshot(tmp_path / "run") == {}


def test_an_interrupted_translation_is_no_traceback(
    cli: CommandLine, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("transduce.translation.translator.Translator.stream", interrupt)
    result = cli("translate", tiny_run, "--engine", "torch", input="a dog\n")
    assert result.status == 130
    assert "Traceback" not in result.stderr


# From end to end, each command a process of its own.


def test_two_text_files_become_a_translator(
    run_cli: CommandLine, tiny_files: Files, tiny_run: Path, tmp_path: Path
) -> None:
    trained = run_cli(*train_command(tiny_files, tmp_path / "run"))
    assert trained.status == 0, trained.stderr
    assert trained.stdout == ""
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tiny_run / "model.safetensors"
    ).read_bytes()
    translated = run_cli("translate", tmp_path / "run", "--beam", "1", input="a dog\n\na man")
    assert translated.status == 0, translated.stderr
    assert len(lines_of(translated.stdout)) == 3
    scored = run_cli("score", "-", tiny_files[1], input=translated.stdout)
    assert scored.error.startswith(f"standard input has 3 lines but {tiny_files[1]} has 300")
