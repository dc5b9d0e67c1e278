"""Run folders with wrong content are refused in one sentence, and nothing is lost."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, CommandLine, options, snapshot

import hostile_files
from transduce.cli.info import gather
from transduce.corpus.token_files import open_corpus
from transduce.errors import BadRun, TransduceError, printable
from transduce.runs.folder import RunConfig, checkpoints, last_checkpoint
from transduce.runs.state import State
from transduce.serving.runs import Board
from transduce.subwords import Codec
from transduce.system.files import checksum

WRONG: tuple[Any, ...] = (None, "x", 5, -1, 1e308, True, [], ["x"], [[1]], {}, {"x": "x"}, 10**400)
ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b1m\nerror: spoofed\r\u202e"


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer, for example because it waits for a pipe."""

    def stop(number: int, frame: Any) -> None:
        raise AssertionError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fields_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every field of an object; only the first items of long lists."""
    if isinstance(value, dict):
        for name in list(value)[:30]:
            yield (*path, name)
            yield from fields_of(value[name], (*path, name))
    elif isinstance(value, list):
        for index, item in list(enumerate(value))[:2]:
            yield (*path, index)
            yield from fields_of(item, (*path, index))


def with_wrong_types(path: Path) -> Iterator[str]:
    """Set each field of a checksummed file to each wrong value in turn, and yield its name."""
    whole = path.read_bytes()
    content = json.loads(whole)
    del content["sha256"]
    for field in fields_of(content):
        for wrong in WRONG:
            changed = json.loads(json.dumps(content))
            inner = changed
            for name in field[:-1]:
                inner = inner[name]
            inner[field[-1]] = wrong
            path.write_text(json.dumps({"sha256": checksum(changed), **changed}))
            yield f"{field} = {wrong!r:.20}"
    path.write_bytes(whole)


def summaries(run: Path) -> None:
    Board([run]).summaries()


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("config.json", RunConfig.load),
        ("config.json", gather),
        ("config.json", summaries),
        ("subwords.json", lambda run: Codec.load(run / "subwords.json")),
        ("corpus/manifest.json", lambda run: open_corpus(run / "corpus")),
        ("checkpoints", lambda run: State.from_json(checkpoints(run)[-1].state())),
        ("checkpoints", lambda run: checkpoints(run)[-1].verified("weights.safetensors")),
    ],
    ids=["config", "info", "watch", "subwords", "corpus", "state", "weights"],
)
def test_a_field_of_the_wrong_type_is_refused_in_one_sentence(
    name: str, read: Callable[[Path], object], own_run: Path
) -> None:
    newest = last_checkpoint(own_run)
    assert newest is not None
    path = newest.path / "state.json" if name == "checkpoints" else own_run / name
    complaints = [error_of(read, own_run, field) for field in with_wrong_types(path)]
    assert not [complaint for complaint in complaints if "\n" in complaint]
    assert read is summaries or sum(map(bool, complaints)) > 30


def error_of(read: Callable[[Path], object], run: Path, field: str) -> str:
    """Return the error of reading a run, or an empty string; it must be one of our errors."""
    try:
        read(run)
    except TransduceError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"{field}: {error!r}") from error
    return ""


@pytest.mark.parametrize("origin", ["x", ["x"], 5, {"run": 1, "subwords": "x"}, {"run": "x"}])
def test_one_bad_run_does_not_hide_the_others(origin: Any, own_run: Path, tiny_run: Path) -> None:
    hostile_files.reseal(own_run / "config.json", origin=origin)
    with pytest.raises(BadRun, match=r"config.json is damaged: "):
        RunConfig.load(own_run)
    bad, good = Board([own_run, tiny_run]).summaries()
    assert (bad["state"], bad["preset"]) == ("stopped", None)
    assert (good["state"], good["preset"]) == ("finished", "tiny")


def test_an_unexpected_error_of_one_run_does_not_hide_the_others(
    own_run: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RunConfig.load

    def load(run: Path) -> RunConfig:
        return original(run) if run != own_run else 1 / 0  # type: ignore[return-value]

    monkeypatch.setattr(RunConfig, "load", load)
    bad, good = Board([own_run, tiny_run]).summaries()
    assert (bad["state"], good["state"]) == ("damaged", "finished")


def obstruct(path: Path, kind: str) -> None:
    """Put a pipe, or a link to an endless device, in the place of a file."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "name",
    [
        *("config.json", "metrics.jsonl", "samples.jsonl", "subwords.json", ".lock"),
        *("model.safetensors", "corpus/manifest.json", "corpus/train.source.tokens"),
        "checkpoints/LAST/state.json",
    ],
)
def test_a_pipe_or_a_device_in_a_run_neither_hangs_nor_fills_memory(
    name: str, kind: str, own_run: Path, tiny_files: tuple[Path, Path], cli: CommandLine
) -> None:
    last = last_checkpoint(own_run)
    assert last is not None
    obstruct(own_run / name.replace("LAST", last.path.name), kind)
    train: list[str | Path] = [
        "train",
        *tiny_files,
        "--out",
        own_run,
        "--device",
        "cpu",
        "--preset",
        "tiny",
    ]
    more = options(TINY | {"steps": "25", "select": "best"})
    with within(30):
        Board([own_run]).summaries()
        for command in (["info", own_run], ["average", own_run], [*train, *more]):
            done = cli(*map(str, command))
            assert "Traceback" not in done.stderr
            assert done.status == 0 or done.error
    assert not (own_run / name).is_file() or name == "model.safetensors"


def test_an_import_of_a_folder_with_a_pipe_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "config.json").write_text("{}")
    os.mkfifo(theirs / "pytorch_model.bin")
    with within(10):
        error = cli("import", theirs, "--out", tmp_path / "run").error
    assert "pytorch_model.bin is a pipe or a device" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("output_format", ["settings", "json"])
def test_text_in_a_run_cannot_control_the_terminal(
    output_format: str, own_run: Path, cli: CommandLine
) -> None:
    origin = {"run": ESCAPES, "subwords": ESCAPES, "weights": ESCAPES}
    hostile_files.reseal(
        own_run / "config.json",
        **dict.fromkeys(("preset", "device", "weights", "chosen"), ESCAPES),
        languages=[ESCAPES, ESCAPES],
        versions={ESCAPES: ESCAPES},
        origin=origin,
    )
    done = cli("info", own_run, *(["--json"] if output_format == "json" else []))
    assert done.status == 0, done.stderr
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert "spoofed" in done.stdout
    if output_format == "json":
        assert json.loads(done.stdout)["preset"] == ESCAPES
    else:
        assert len(done.stdout.splitlines()) == 11
    (own_run / "config.json").write_text(json.dumps({ESCAPES: 1, "sha256": "0", "format": ESCAPES}))
    assert cli("info", own_run).error.isprintable()


def test_text_for_terminals_keeps_letters_and_escapes_control_characters() -> None:
    assert printable("größer 漢字 हिन्दी\u200d \u00a0") == "größer 漢字 हिन्दी\u200d \u00a0"
    assert printable("a\x1b[2Jb\nc\x9b") == r"a\x1b[2Jb\nc\x9b"


@pytest.mark.parametrize("name", ["checkpoints", "corpus", "checkpoints/LAST"])
def test_a_link_in_the_place_of_a_folder_of_a_run_is_refused(
    name: str, own_run: Path, tiny_files: tuple[Path, Path], tmp_path: Path, cli: CommandLine
) -> None:
    """`train` deletes old checkpoints; through a link these could be foreign folders."""
    last = last_checkpoint(own_run)
    assert last is not None
    path = own_run / name.replace("LAST", last.path.name)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    for step in range(100, 105):  # so many that old ones would be deleted
        (elsewhere / f"step-{step:07}").mkdir()
        (elsewhere / f"step-{step:07}" / "state.json").touch()
    path.symlink_to(elsewhere)
    before = snapshot(elsewhere)
    train: list[str | Path] = [
        "train",
        *tiny_files,
        "--out",
        own_run,
        "--device",
        "cpu",
        "--preset",
        "tiny",
    ]
    error = cli(*train, *options(TINY | {"steps": "25"})).error
    assert "is a link: expected" in error
    assert snapshot(elsewhere) == before
