"""A student learns the translations of its teacher, and resumes after a stop at any point."""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    CommandLine,
    environment,
    options,
    snapshot,
    threads_kept,
    tiny_pairs,
    write_pairs,
)
from distilling import BLOCK, LINES, NAMES, SETTINGS, run, train_teacher, write_sentences

from transduce.checkpoints.checkpoint import average_checkpoints, save_model
from transduce.config import ModelConfig
from transduce.errors import BadInput, BadRun, BadSetting, Interrupted
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig
from transduce.subwords import Codec
from transduce.system.files import sha256
from transduce.training.trainer import Trainer
from transduce.translation.translator import Translator
from transduce.workflows import distillation
from transduce.workflows.distillation import choose_student, distill


class Killed(Exception):
    """Simulates kill -9: nothing is saved or cleaned up after it."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(distillation, "BLOCK", BLOCK)
    monkeypatch.setattr("transduce.translation.engines.pytorch.cores", lambda: 1)
    with threads_kept():
        yield


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(tmp_path_factory.mktemp("teacher"))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sentences(tmp_path_factory.mktemp("text") / "mono.en")


@pytest.fixture(scope="module")
def student(teacher: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch, threads_kept():
        patch.setattr(distillation, "BLOCK", BLOCK)
        patch.setattr("transduce.translation.engines.pytorch.cores", lambda: 1)
        return run(teacher, text, tmp_path_factory.mktemp("student") / "run")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_a_student_learns_from_the_translations_of_its_teacher(
    student: Path, teacher: Path, text: Path
) -> None:
    sources, targets = (lines_of(student / "distilled" / name) for name in NAMES)
    assert sources == lines_of(text)
    translator = Translator.load(teacher, device="cpu")
    expected = translator.translate(sources, beam=2, split=False)  # line by line, not split
    assert expected != translator.translate(sources, beam=2)
    assert targets == [translation.text for translation in expected]
    assert targets[3] == ""
    assert sum(map(bool, targets)) > LINES / 2
    config = RunConfig.load(student)
    assert config.languages == ("en", "de")
    assert Translator.load(student, device="cpu")("A dog sees the man.") is not None
    assert not (student / "distilled" / "blocks").exists()


def test_a_student_has_its_own_subwords_unless_it_takes_the_teachers(
    student: Path, teacher: Path, text: Path, tmp_path: Path
) -> None:
    theirs = Codec.load(teacher / "subwords.json")
    assert RunConfig.load(student).model.target_vocabulary == 290 < len(theirs.target)
    without = {name: value for name, value in SETTINGS.items() if name != "vocabulary"}
    out = distill(
        *(teacher, text),
        out=tmp_path / "run",
        teacher_subwords=True,
        preset="tiny-3-1",
        settings=without,
        device="cpu",
    )
    assert Codec.load(out / "subwords.json").sha256 == theirs.sha256


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_run_killed_while_translating_resumes_at_the_same_block(
    at: int,
    student: Path,
    teacher: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, blocks = Translator.stream, list[list[str]]()

    def dying(self: Translator, texts: list[str], **named: Any) -> Iterator[Any]:
        blocks.append(texts)
        for number, one in enumerate(stream(self, texts, **named)):
            if number == 5 and len(blocks) == at + 1:
                raise Killed
            yield one

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "stream", dying)
        with pytest.raises(Killed):
            run(teacher, text, tmp_path / "run")
        assert len(list((tmp_path / "run" / "distilled" / "blocks").glob("*.txt"))) == at
        patch.setattr(distillation, "BLOCK", BLOCK + 3)  # of another version; the run keeps its own
        run(teacher, text, tmp_path / "run")
    assert len(blocks) == LINES // BLOCK + 1  # the incomplete block was translated twice
    assert all(len(block) == BLOCK for block in blocks)
    assert snapshot(tmp_path / "run" / "distilled").keys() == {"manifest.json", *NAMES}
    for name in (*(f"distilled/{name}" for name in NAMES), "model.safetensors"):
        assert sha256(tmp_path / "run" / name) == sha256(student / name), name


@pytest.mark.parametrize("at", range(4))
def test_a_run_killed_while_texts_are_joined_gives_the_same_result(
    at: int,
    student: Path,
    teacher: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the first text, before the second, before the blocks are gone, before training."""
    write, left = distillation._write, [at]

    def dying(path: Path, lines: Any) -> None:
        if path.name in NAMES:
            left[0] -= 1
            if left[0] == -1:
                raise Killed
        write(path, lines)

    def never(*args: Any, **named: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(distillation, "_write", dying)
        if at == 2:
            patch.setattr(shutil, "rmtree", never)
        patch.setattr(distillation, "train", never)
        with pytest.raises(Killed):
            run(teacher, text, tmp_path / "run")
    run(teacher, text, tmp_path / "run")
    for name in NAMES:
        assert sha256(tmp_path / "run/distilled" / name) == sha256(student / "distilled" / name)


def test_the_command_resumes_after_sigkill_while_translating(
    cli: CommandLine, student: Path, teacher: Path, text: Path, tmp_path: Path
) -> None:
    out, program = tmp_path / "run", tmp_path / "slow.py"
    program.write_text(
        "import time, transduce.workflows.distillation as distillation\n"
        "from transduce.cli import main\n"
        f"distillation.BLOCK = {BLOCK}\n"
        "write = distillation._write\n"
        "def slow(path, lines):\n"
        "    write(path, lines)\n"
        "    time.sleep(0.5)\n"
        "distillation._write = slow\n"
        "main()\n"
    )
    words: list[str | Path] = [
        "distill",
        teacher,
        text,
        "--out",
        out,
        "--beam",
        "2",
        "--preset",
        "tiny",
    ]
    words += ["--device", "cpu", *options(SETTINGS)]
    process = subprocess.Popen(
        [sys.executable, str(program), *map(str, words)],
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    while not list((out / "distilled" / "blocks").glob("0*.txt")):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "distilled" / "target.txt").exists()
    left = len(list((out / "distilled" / "blocks").glob("0*.txt")))
    done = cli(*words)
    assert done.status == 0, done.stderr
    assert f", from line {left * BLOCK + 1} on\n" in done.stderr
    for name in NAMES:
        assert sha256(out / "distilled" / name) == sha256(student / "distilled" / name)


def test_a_run_killed_while_training_resumes_without_translating_again(
    student: Path, teacher: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any, **named: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", never)
        with pytest.raises(Killed):
            run(teacher, text, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "load", never)
        run(teacher, text, tmp_path / "run")
    assert sha256(tmp_path / "run/model.safetensors") == sha256(student / "model.safetensors")


def test_ctrl_c_while_translating_says_how_to_resume(
    teacher: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*args: Any, **named: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Translator, "stream", pressed)
    with pytest.raises(Interrupted, match="the same command continues"):
        run(teacher, text, tmp_path / "run")


def test_human_translations_are_learned_too(
    teacher: Path, text: Path, student: Path, tmp_path: Path
) -> None:
    theirs = write_pairs(tmp_path, "theirs", tiny_pairs(10))
    valid = write_pairs(tmp_path, "valid", tiny_pairs(5, seed=2))
    out = run(teacher, text, tmp_path / "run", pairs=theirs, valid=valid)
    for name, path in zip(NAMES, theirs, strict=True):
        distilled = lines_of(student / "distilled" / name)
        assert lines_of(out / "distilled" / name) == distilled + lines_of(path)
    with pytest.raises(BadSetting, match="was started with human translations"):
        run(teacher, text, out, valid=valid)
    with pytest.raises(BadInput, match="need validation text"):
        run(teacher, text, tmp_path / "new", pairs=theirs)


def test_compressed_text_is_read(teacher: Path, text: Path, student: Path, tmp_path: Path) -> None:
    packed = tmp_path / "mono.en.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    out = run(teacher, packed, tmp_path / "run")
    assert sha256(out / "distilled/target.txt") == sha256(student / "distilled/target.txt")


def test_another_search_or_text_or_teacher_is_refused_by_name(
    teacher: Path, text: Path, student: Path, tmp_path: Path
) -> None:
    before = snapshot(student)
    with pytest.raises(BadSetting, match=r"started with beam = 2, not 3: use the same"):
        run(teacher, text, student, beam=3)
    with pytest.raises(BadSetting, match=r"started with alpha = 0.6, not 1.0"):
        run(teacher, text, student, alpha=1.0)
    other = tmp_path / "other.en"
    other.write_text("A dog.\n")
    with pytest.raises(BadRun, match=r"other.en is another text than .*mono.en"):
        run(teacher, other, student)
    changed = Path(shutil.copytree(teacher, tmp_path / "teacher"))
    run(changed, text, student)  # a moved teacher is the same
    save_model(changed, RunConfig.load(changed), *average_checkpoints(changed, 1))
    with pytest.raises(BadRun, match=r"started with the teacher .* has other weights"):
        run(changed, text, student)
    assert snapshot(student) == before


def test_text_that_cannot_be_used_is_refused_before_anything_is_translated(
    cli: CommandLine, teacher: Path, tmp_path: Path
) -> None:
    def error(content: bytes | None) -> str:
        path = tmp_path / "text"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        return cli("distill", teacher, path, "--out", tmp_path / "run").error

    assert "does not exist" in error(None)
    assert "is empty: expected text for the teacher" in error(b"")
    assert "only 3 blank lines" in error(b"\n \n\n")
    assert "has a NUL byte" in error(b"one\n\0\1\2\n")
    assert "is not UTF-8" in error(b"one\n\xff\xfa\n")
    for path in ("-", tmp_path, "/dev/null"):
        found = cli("distill", teacher, path, "--out", tmp_path / "run").error
        assert "is not a regular file: expected a text file that can be read again" in found
    assert not (tmp_path / "run" / "distilled").exists()


def test_a_teacher_without_weights_is_refused(own_run: Path, text: Path, tmp_path: Path) -> None:
    (own_run / "model.safetensors").unlink()
    shutil.rmtree(own_run / "checkpoints")
    with pytest.raises(BadRun, match=r"model\.safetensors is missing: put it back"):
        run(own_run, text, tmp_path / "run")
    with pytest.raises(BadRun, match="there is no run folder"):
        run(tmp_path / "nobody", text, tmp_path / "run")


def test_wrong_settings_are_refused_before_anything_is_translated(
    teacher: Path, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadSetting, match="there is no preset tinny"):
        run(teacher, text, tmp_path / "run", preset="tinny")
    with pytest.raises(BadSetting, match="there is no setting d_fff"):
        run(teacher, text, tmp_path / "run", settings={"d_fff": "3"})
    with pytest.raises(BadSetting, match=r"^vocabulary = 290: expected 400"):
        run(teacher, text, tmp_path / "run", teacher_subwords=True)
    missing = tmp_path / "valid.en"
    with pytest.raises(BadInput, match="does not exist"):
        run(teacher, text, tmp_path / "run", valid=(missing, missing))
    assert not (tmp_path / "run" / "distilled").exists()


def test_an_over_long_line_is_translated_in_parts_and_the_rest_learned(
    teacher: Path, text: Path, tmp_path: Path
) -> None:
    long = tmp_path / "long.en"
    long.write_text(text.read_text() + "a dog sees the man " * 200 + "\n")
    out = run(teacher, long, tmp_path / "run")
    assert len(lines_of(out / "distilled/target.txt")) == LINES + 1


def test_a_run_without_a_teacher_is_left_alone(
    teacher: Path, text: Path, own_run: Path, tmp_path: Path
) -> None:
    before = snapshot(own_run)
    with pytest.raises(BadRun, match="is not a distilled run"):
        run(teacher, text, own_run)
    assert snapshot(own_run) == before


def test_a_damaged_block_is_named(
    teacher: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        work = distillation._Distillation
        patch.setattr(work, "join", lambda self: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            run(teacher, text, tmp_path / "run")
    path = tmp_path / "run" / "distilled" / "blocks" / "0000001.txt"
    path.write_text("cut short\n")
    with pytest.raises(BadRun, match=r"0000001.txt is damaged: it has 1 line, expected 8"):
        run(teacher, text, tmp_path / "run")
    path.unlink()
    run(teacher, text, tmp_path / "run")


def test_several_processes_do_not_translate_but_may_train(
    teacher: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadSetting, match="the teacher translates in one process"):
        run(teacher, text, tmp_path / "run")


def test_a_student_is_chosen_by_the_size_of_its_teacher() -> None:
    assert choose_student(find_preset("small").model) == "small-4-1"
    assert choose_student(ModelConfig()) == "base-12-1"


def test_the_command_shows_where_it_is(
    cli: CommandLine, teacher: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.system.progress.PLAIN_EVERY", 0.0)
    done = cli(
        *("distill", teacher, text, "--out", tmp_path / "run", "--beam", "1"),
        *("--device", "cpu", "--steps", "2", "--seed", "3"),
        *options({name: value for name, value in SETTINGS.items() if name != "steps"}),
    )
    assert done.status == 0, done.stderr
    assert f"translating {text} with {teacher} (mean of" in done.stderr
    assert "beam 1\n" in done.stderr
    assert f" of {LINES} (" in done.stderr
    assert "lines/s, " in done.stderr
    assert "preset small-4-1" in done.stderr
    assert RunConfig.load(tmp_path / "run").train.seed == 3
