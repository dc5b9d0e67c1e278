"""`transduce translate --shard` and `--resume`: parts of files, and outputs that are continued."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest
from conftest import CommandLine

from transduce.checkpoints.checkpoint import load_tensors, save_model
from transduce.cli import bulk
from transduce.cli.bulk import Shard
from transduce.errors import BadInput
from transduce.runs.folder import RunConfig
from transduce.system import files
from transduce.system.locks import locked
from transduce.translation.translator import Translator

TEXT = "".join(f"{line}\n" for line in ("the dog sees a man.", "one bird!", "", "a fish") * 5)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.en"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize(("total", "count"), [(0, 3), (2, 3), (100, 7), (5, 5), (10**10, 16)])
def test_shards_have_all_lines_once_and_in_order(total: int, count: int) -> None:
    parts = [Shard(number, count).lines(total) for number in range(1, count + 1)]
    assert parts[0].start == 0
    assert all(one.stop == other.start for one, other in pairwise(parts))
    assert parts[-1].stop == total
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_names_of_shards_sort_in_order() -> None:
    names = [Shard(number, 12).path(Path("out.de")).name for number in range(1, 13)]
    assert names == sorted(names)
    assert names[2] == "out.de.03-of-12"


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "a/b", "1/0", "-1/3", "1/2/3", ""])
def test_other_shards_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="expected a number from 1 and a count"):
        Shard.parse(text)


@pytest.mark.parametrize(
    ("environment", "shard"),
    [
        ({"RANK": "2", "WORLD_SIZE": "4"}, Shard(3, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, Shard(1, 2)),
        (
            {
                "SLURM_ARRAY_TASK_ID": "12",
                "SLURM_ARRAY_TASK_MIN": "10",
                "SLURM_ARRAY_TASK_COUNT": "8",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
            },
            Shard(3, 8),
        ),
    ],
)
def test_the_launcher_numbers_the_shards(environment: dict[str, str], shard: Shard) -> None:
    assert Shard.parse("auto", environment) == shard


def test_without_a_launcher_auto_is_refused() -> None:
    with pytest.raises(BadInput, match="neither SLURM nor torchrun"):
        Shard.parse("auto", {})


@pytest.mark.parametrize("options", [(), ("--nbest", "2"), ("--sample", "--seed", "3")])
def test_shards_together_are_the_whole_output(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    out = tmp_path / "out.de"
    whole = cli("translate", tiny_run, source, *options).stdout
    for number in (2, 1, 3):
        cli("translate", tiny_run, source, "--out", out, "--shard", f"{number}/3", *options)
    parts = sorted(tmp_path.glob("out.de.*"))
    assert [part.name for part in parts] == [f"out.de.{n}-of-3" for n in (1, 2, 3)]
    assert "".join(part.read_text(encoding="utf-8") for part in parts) == whole


def test_a_killed_translation_continues_to_the_same_file(
    cli: CommandLine,
    tiny_run: Path,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever was written after the last record is written again."""
    out = tmp_path / "out.jsonl"
    arguments = ("translate", tiny_run, source, "--out", out, "--resume", "--json", "--batch", "1")
    monkeypatch.setattr(bulk, "WINDOW", 3)
    whole = cli("translate", tiny_run, source, "--json", "--batch", "1").stdout
    killed = 0
    append = bulk._Partial.append
    for after in (0, 2, 3):

        def fail(self: bulk._Partial, *given: object, after: int = after) -> None:
            nonlocal killed
            if self.record.lines >= 3 * after:
                with (self.folder / "output").open("ab") as file:
                    file.write(b'{"line": 99, "te')
                killed += 1
                raise KeyboardInterrupt
            append(self, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(bulk._Partial, "append", fail)
        stopped = cli(*arguments)
        assert stopped.status == 130
        assert "the same command continues after them" in stopped.stderr
        assert not out.exists()
    monkeypatch.setattr(bulk._Partial, "append", append)
    searched = []
    search = Translator.stream

    def counted(self: Translator, texts: list[str], **options: object) -> object:
        searched.extend(texts)
        return search(self, texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "stream", counted)
    result = cli(*arguments)
    assert killed == 3
    assert "after 9 lines" in result.stderr
    assert len(searched) == 20 - 9
    assert out.read_text(encoding="utf-8") == whole
    assert {path.name for path in tmp_path.iterdir()} == {"text.en", "out.jsonl"}
    again = cli(*arguments)
    assert f"{out} is complete" in again.stderr


def test_lines_of_a_shard_keep_their_numbers(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    cli("translate", tiny_run, source, "--out", out, "--shard", "4/5", "--json")
    lines = out.with_name("out.jsonl.4-of-5").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["line"] for line in lines] == [13, 14, 15, 16]


def begun(
    cli: CommandLine, run: Path, source: Path, out: Path, *options: str | Path
) -> tuple[str | Path, ...]:
    """Leave an output half written; return the command."""
    arguments = ("translate", run, source, "--out", out, "--resume", "--batch", "1", *options)
    append = bulk._Partial.append

    def fail(self: bulk._Partial, *given: object) -> None:
        append(self, *given)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "WINDOW", 3)
        patch.setattr(bulk._Partial, "append", fail)
        assert cli(*arguments).status == 130
    return arguments


def test_another_command_does_not_continue(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    arguments = begun(cli, tiny_run, source, tmp_path / "out.de")
    error = cli(*arguments, "--beam", "2").error
    assert "was begun with" in error
    assert "beam" in error


def test_a_changed_text_is_not_continued(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    arguments = begun(cli, tiny_run, source, tmp_path / "out.de")
    source.write_text(TEXT.replace("dog", "cat"), encoding="utf-8")
    assert "has changed since" in cli(*arguments).error


def test_files_of_others_are_left_alone(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.de"
    arguments = ("translate", tiny_run, source, "--out", out, "--resume")
    (tmp_path / "out.de.partial").mkdir()
    (tmp_path / "out.de.partial" / "mine.txt").write_text("mine", encoding="utf-8")
    assert "was not made by" in cli(*arguments).error
    assert (tmp_path / "out.de.partial" / "mine.txt").read_text(encoding="utf-8") == "mine"
    out.write_text("mine\n", encoding="utf-8")
    (tmp_path / "out.de.partial" / "mine.txt").unlink()
    (tmp_path / "out.de.partial").rmdir()
    assert "exists and has 1 line, but 20" in cli(*arguments).error
    assert out.read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--resume",), "name one with --out"),
        (("--out", "o", "--resume", "--overwrite"), "leave out --overwrite"),
        (("--out", "o", "--shard", "9/3"), "expected a number from 1"),
        (("--out", "o.gz", "--resume"), "output is not compressed"),
        (("--out", "o.xz", "--shard", "1/3"), "output is not compressed"),
        (("--out", "o", "--resume", "--prefixes", "p"), "exclude --prefixes"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    cli: CommandLine, tiny_run: Path, source: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in cli("translate", tiny_run, source, *options).error


def test_standard_input_has_no_shards(cli: CommandLine, tiny_run: Path, tmp_path: Path) -> None:
    result = cli("translate", tiny_run, "--out", tmp_path / "o", "--resume", input="a\n")
    assert "standard input cannot be read twice" in result.error


def test_the_record_can_be_read(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    begun(cli, tiny_run, source, tmp_path / "out.de")
    record = json.loads((tmp_path / "out.de.partial" / "progress.json").read_text("utf-8"))
    output = (tmp_path / "out.de.partial" / "output").read_bytes()
    assert (record["lines"], record["bytes"]) == (3, len(output))
    assert len(list(islice(output.splitlines(), 4))) == 3


def test_shards_of_a_folder_share_its_documents(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "texts", tmp_path / "out"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"{'dog ' * number}.\n", encoding="utf-8")
    for number, count in ((1, 3), (2, 5)):
        cli("translate", tiny_run, folder, "--out", out, "--shard", f"{number}/2")
        assert len(list(out.iterdir())) == count
    result = cli("translate", tiny_run, folder, "--out", out, "--resume")
    assert "5 documents translated already" in result.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_kill_before_any_file_operation_is_continued(tmp_path: Path) -> None:
    """The output is the same; the kills include those while the record is written first."""
    script = Path(__file__).parents[1] / "support" / "bulk_kills.py"
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


def test_an_output_that_lost_bytes_is_not_continued(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    arguments = begun(cli, tiny_run, source, tmp_path / "out.de")
    output = tmp_path / "out.de.partial" / "output"
    os.truncate(output, 1)
    assert "has 1 bytes, expected" in cli(*arguments).error
    assert output.stat().st_size == 1


def test_a_record_of_another_version_is_reported(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    arguments = begun(cli, tiny_run, source, tmp_path / "out.de")
    record = tmp_path / "out.de.partial" / "progress.json"
    record.write_text('{"made_by": "transduce", "blocks": 3}', encoding="utf-8")
    assert "cannot be continued: delete the folder to begin again" in cli(*arguments).error


@pytest.mark.parametrize("option", ["--glossary", "--keep-list", "--memory"])
def test_a_changed_file_of_an_option_is_not_continued(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path, option: str
) -> None:
    file = tmp_path / "more.tsv"
    file.write_text("dog\tHund\n", encoding="utf-8")
    arguments = begun(cli, tiny_run, source, tmp_path / "out.de", option, file)
    file.write_text("dog\tKatze\n", encoding="utf-8")
    error = cli(*arguments).error
    assert f"was begun with content of {file}" in error


def test_other_weights_of_any_model_are_not_continued(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    second = shutil.copytree(tiny_run, tmp_path / "second")
    arguments = begun(cli, tiny_run, source, tmp_path / "out.de", "--with", second)
    config = RunConfig.load(second)
    tensors = {k: v * 1.01 for k, v in load_tensors(second / "model.safetensors").items()}
    save_model(second, config, tensors, config.weights or "")  # with the same description
    assert "was begun with weights" in cli(*arguments).error


def test_an_output_with_more_lines_is_not_complete(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.de"
    arguments = ("translate", tiny_run, source, "--out", out, "--resume")
    out.write_text("mine\n" * 21, encoding="utf-8")
    assert "exists and has 21 lines, but 20" in cli(*arguments).error
    assert "is complete" in cli(*arguments, "--nbest", "2").stderr
    assert out.read_text(encoding="utf-8") == "mine\n" * 21


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_an_output_that_is_a_pipe_is_refused(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    error = cli("translate", tiny_run, source, "--out", tmp_path / "pipe", "--resume").error
    assert "expected a regular file" in error


def test_an_output_that_another_process_completed_is_left_alone(
    cli: CommandLine, tiny_run: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = begun(cli, tiny_run, source, tmp_path / "out.de")

    @contextlib.contextmanager
    def locked_late(folder: Path) -> Iterator[None]:
        (folder / "output").replace(tmp_path / "out.de")
        with locked(folder):
            yield

    monkeypatch.setattr(bulk, "locked", locked_late)
    before = (tmp_path / "out.de.partial" / "output").read_bytes()
    assert "out.de is complete" in cli(*arguments).stderr
    assert (tmp_path / "out.de").read_bytes() == before
    assert not (tmp_path / "out.de.partial").exists()


def test_documents_are_continued_in_files_only(
    cli: CommandLine, tiny_run: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>a dog</p>", encoding="utf-8")
    for option in (("--resume",), ("--shard", "1/2")):
        assert "name one with --out" in cli("translate", tiny_run, page, *option).error


def test_a_killed_folder_of_documents_is_continued(
    cli: CommandLine, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document appears when it is complete; the others are translated by the same command."""
    folder, out = tmp_path / "texts", tmp_path / "out"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.html").write_text(f"<p>{'dog ' * number}.</p>", encoding="utf-8")
    arguments = ("translate", tiny_run, folder, "--out")
    cli(*arguments, tmp_path / "whole")
    sync = files.sync

    def fail(path: Path) -> None:
        if (out / "1.html").exists():
            raise KeyboardInterrupt
        sync(path)

    monkeypatch.setattr(files, "sync", fail)
    assert cli(*arguments, out, "--resume").status == 130
    monkeypatch.setattr(files, "sync", sync)
    before = {path.name for path in out.iterdir()}
    assert {"0.html"} <= before < {f"{number}.html" for number in range(4)}
    assert "translated already" in cli(*arguments, out, "--resume").stderr
    for path in (tmp_path / "whole").iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes()


def test_each_process_of_a_machine_has_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for seen, device in ((4, "cuda:2"), (2, "cuda:0"), (1, "auto"), (0, "auto")):
        monkeypatch.setattr("torch.cuda.device_count", lambda seen=seen: seen)
        assert bulk.own_device("auto", {"LOCAL_RANK": "2"}) == device
    assert bulk.own_device("cpu", {"LOCAL_RANK": "2"}) == "cpu"
    assert bulk.own_device("auto", {}) == "auto"
