"""Run folders and output folders that hold what they should not: refused, and nothing is lost."""

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
from transduce.experiments.findings import Finding
from transduce.runs.folder import Origin, RunConfig, checkpoints, last_checkpoint
from transduce.runs.state import State
from transduce.serving.runs import Board
from transduce.settings.types import dataclass_from_json, fits
from transduce.subwords import Codec
from transduce.system.files import checksum
from transduce.workflows.distillation import FIELDS as OF_STUDENT

WRONG: tuple[Any, ...] = (None, "x", 5, -1, 1e308, True, [], ["x"], [[1]], {}, {"x": "x"}, 10**400)
ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b1m\nerror: spoofed\r\u202e"


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer, as it does when it waits for a pipe."""

    def stop(number: int, frame: Any) -> None:
        raise AssertionError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every field of an object, but not far into lists and vocabularies."""
    if isinstance(value, dict):
        for name in list(value)[:30]:
            yield (*path, name)
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for place, one in list(enumerate(value))[:2]:
            yield (*path, place)
            yield from places(one, (*path, place))


def with_wrong_types(path: Path) -> Iterator[str]:
    """Give each field of a sealed file a value of each wrong type in turn, and yield its name."""
    whole = path.read_bytes()
    content = json.loads(whole)
    del content["sha256"]
    for way in places(content):
        for wrong in WRONG:
            changed = json.loads(json.dumps(content))
            inner = changed
            for name in way[:-1]:
                inner = inner[name]
            inner[way[-1]] = wrong
            path.write_text(json.dumps({"sha256": checksum(changed), **changed}))
            yield f"{way} = {wrong!r:.20}"
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
    complaints = [complaint(read, own_run, field) for field in with_wrong_types(path)]
    assert not [one for one in complaints if "\n" in one]
    assert read is summaries or sum(map(bool, complaints)) > 30


def complaint(read: Callable[[Path], object], run: Path, field: str) -> str:
    """Return how a run is refused, or nothing where it is not; no other error may come."""
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


def test_a_run_that_cannot_be_summed_up_does_not_hide_the_others(
    own_run: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with it, even what nobody has thought of."""
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


@pytest.mark.parametrize("of", ["settings", "json"])
def test_what_a_models_author_wrote_cannot_steer_the_terminal(
    of: str, own_run: Path, cli: CommandLine
) -> None:
    origin = {"run": ESCAPES, "subwords": ESCAPES, "weights": ESCAPES}
    hostile_files.reseal(
        own_run / "config.json",
        **dict.fromkeys(("preset", "device", "weights", "chosen"), ESCAPES),
        languages=[ESCAPES, ESCAPES],
        versions={ESCAPES: ESCAPES},
        origin=origin,
    )
    done = cli("info", own_run, *(["--json"] if of == "json" else []))
    assert done.status == 0, done.stderr
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert "spoofed" in done.stdout
    if of == "json":
        assert json.loads(done.stdout)["preset"] == ESCAPES
    else:
        assert len(done.stdout.splitlines()) == 11
    (own_run / "config.json").write_text(json.dumps({ESCAPES: 1, "sha256": "0", "format": ESCAPES}))
    assert cli("info", own_run).error.isprintable()


def test_text_for_terminals_keeps_all_letters_and_shows_the_rest() -> None:
    assert printable("größer 漢字 हिन्दी\u200d \u00a0") == "größer 漢字 हिन्दी\u200d \u00a0"
    assert printable("a\x1b[2Jb\nc\x9b") == r"a\x1b[2Jb\nc\x9b"


@pytest.mark.parametrize("name", ["checkpoints", "corpus", "checkpoints/LAST"])
def test_a_link_in_the_place_of_a_folder_of_a_run_is_refused(
    name: str, own_run: Path, tiny_files: tuple[Path, Path], tmp_path: Path, cli: CommandLine
) -> None:
    """`train` deletes old checkpoints: through a link, those of somebody else."""
    last = last_checkpoint(own_run)
    assert last is not None
    path = own_run / name.replace("LAST", last.path.name)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    for step in range(100, 105):  # as many as would be deleted
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


def test_getting_data_deletes_nothing_that_only_looks_like_its_own(
    cli: CommandLine, tmp_path: Path
) -> None:
    project, other = tmp_path / "proj", tmp_path / "other"
    mine = [
        *("sub/.data.old-2019/results.csv", ".notes.writing-7", ".x.spool-1/a", ".tmpAbCd12"),
        *("sub/.tmpAbCd12", "sub/.a.removing-1/b", ".transduce-0123456789abcdef/c"),
    ]
    for folder in (project, other):
        for name in mine:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("mine")
    (project / "linked").symlink_to(other)
    before = snapshot(tmp_path)
    assert cli("data", "get", "pocket", "--out", project).status == 0
    after = snapshot(tmp_path)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize("name", ["data.json", "archives/mine.tgz"])
def test_getting_data_does_not_overwrite_files_of_others(
    name: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = snapshot(tmp_path)
    assert "which transduce did not write" in cli("data", "get", "pocket", "--out", tmp_path).error
    assert snapshot(tmp_path) == before


def test_averaging_deletes_nothing_that_only_looks_like_its_own(
    cli: CommandLine, own_run: Path
) -> None:
    mine = ["checkpoints/.mine.old-2019/file", ".a.writing-1", "corpus/.tmpAbCd12"]
    for name in mine:
        (own_run / name).parent.mkdir(parents=True, exist_ok=True)
        (own_run / name).write_text("mine")
    assert cli("average", own_run, "--last", "1").status == 0
    assert [(own_run / name).read_text() for name in mine] == ["mine"] * 3


@pytest.mark.parametrize("name", ["train.en", "notes.txt", "data.json"])
def test_the_demo_does_not_write_into_a_folder_of_others(
    name: str, cli: CommandLine, tmp_path: Path
) -> None:
    data = tmp_path / "mt-data"
    data.mkdir()
    (data / name).write_text("mine")
    done = cli("demo", "--out", tmp_path / "mt", "--pairs", "1000", "--test", "5", "--time", "1s")
    assert f"mt-data holds {name}, which transduce did not write" in done.error
    assert snapshot(tmp_path) == {f"mt-data/{name}": snapshot(tmp_path)[f"mt-data/{name}"]}
    assert not (tmp_path / "mt").exists()


def test_the_texts_of_the_demo_are_written_again_only_as_they_were_left(tmp_path: Path) -> None:
    from transduce.datasets.pocket.files import write

    first = write(tmp_path / "data", 1000, 5)
    before = snapshot(tmp_path)
    write(tmp_path / "data", 1000, 5)
    assert snapshot(tmp_path) == before
    with pytest.raises(TransduceError, match="a run has begun to learn from them"):
        write(tmp_path / "data", 1100, 5, overwrite=False)
    write(tmp_path / "data", 1100, 5)
    assert len(first["train"][0].read_text().splitlines()) == 1100
    (tmp_path / "data" / "notes.txt").touch()
    first["train"][0].write_text("changed by hand\n")
    with pytest.raises(TransduceError, match=r"holds train.en, which transduce did not write"):
        write(tmp_path / "data", 1000, 5)
    assert first["train"][0].read_text() == "changed by hand\n"
    # Versions before kept no record of what they wrote.
    write(tmp_path / "older", 1000, 5)
    (tmp_path / "older" / "data.json").unlink()  # older versions had none
    write(tmp_path / "older", 1000, 5)


@pytest.mark.parametrize("name", ["subwords.json", "recipe.toml", "notes.txt", ".lock"])
def test_training_does_not_write_into_a_folder_of_others(
    name: str, cli: CommandLine, tiny_files: tuple[Path, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text("mine")
    (run / "lexicon.json").write_text("mine")
    before = snapshot(tmp_path)
    assert "holds something else" in cli("train", *tiny_files, "--out", run).error
    assert snapshot(tmp_path) == before


def test_a_command_that_is_refused_leaves_nothing_behind(
    cli: CommandLine, tiny_files: tuple[Path, Path], tiny_run: Path, tmp_path: Path
) -> None:
    source, target = tiny_files
    (tmp_path / "short").write_text("one line\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.toml").write_text('[data]\nsource = "short"\ntarget = "trees"\n')
    (tmp_path / "trees").write_text("(no tree\n\n")
    before = sorted(map(str, tmp_path.rglob("*")))
    out = ["--out", tmp_path / "deep" / "run"]
    for command in (
        ["train", source, tmp_path / "short", *out],
        ["train", source, tmp_path / "short", "--out", tmp_path / "empty"],
        ["train", source, target, *out, "--set", "vocabulary=5"],
        ["train", "--recipe", tmp_path / "bad.toml", *out],
        [
            "distill",
            tiny_run,
            tmp_path / "short",
            "--with",
            source,
            tmp_path / "short",
            "--valid",
            source,
            target,
            *out,
        ],
        ["data", "get", "pocket", *out, "--from", tmp_path / "missing"],
        ["paper", "table3", source, target, "--set", "d_modell=5", "--steps", "5", *out],
        ["paper", "scaling", "--set", "d_modell=5", *out],
        [
            "paper",
            "table4",
            tmp_path / "trees",
            "--valid",
            tmp_path / "trees",
            "--test",
            tmp_path / "trees",
            *out,
        ],
        ["import", tmp_path / "empty", *out],
        ["export", tmp_path / "empty", tmp_path / "deep" / "run", "--to", "ctranslate2"],
        ["average", tmp_path / "empty"],
    ):
        assert cli(*map(str, command)).error, command
        assert sorted(map(str, tmp_path.rglob("*"))) == before, command


def test_a_foreign_picture_is_not_overwritten_and_our_own_is(
    cli: CommandLine, own_run: Path, tmp_path: Path
) -> None:
    for ending in ("png", "svg", "pdf"):
        picture = tmp_path / f"curves.{ending}"
        picture.write_text("mine")
        error = cli("plot", own_run, "--out", picture).error
        assert "was not made by transduce" in error
        assert picture.read_text() == "mine"
        picture.unlink()
        for _ in range(2):
            assert cli("plot", own_run, "--out", picture).status == 0
    page = tmp_path / "page.html"
    page.write_text("mine")
    look: list[str | Path] = ["look", own_run, "a dog sees a cat", "--out", page]
    assert "was not made by transduce" in cli(*look).error
    assert page.read_text() == "mine"
    page.unlink()
    for _ in range(2):
        assert cli(*look).status == 0


@pytest.mark.parametrize("name", ["table1.json", "table1.svg", "table1-2.svg"])
def test_a_finding_does_not_overwrite_files_of_others(
    name: str, cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("mine")
    assert cli("paper", "table1", "--out", tmp_path).error
    assert (tmp_path / name).read_text() == "mine"
    page = tmp_path / "report.html"
    page.write_text("mine")
    Finding(name="table2", title="T", said="S").save(tmp_path / "own")
    Finding(name="table2", title="T", said="S").save(tmp_path / "own")  # which it may replace
    report = ("paper", "report", tmp_path / "own", "--out", page)
    assert "was not made by transduce" in cli(*report).error
    page.unlink()
    for _ in range(2):
        assert cli(*report).status == 0


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True),
        (True, int, False),
        (1, float, True),
        (float("nan"), float, False),
        (1e308, float, False),
        (None, str | None, True),
        (["a", "b"], tuple[str, str], True),
        (["a"], tuple[str, str], False),
        (["a", 1], list[str], False),
        ({"a": [1]}, dict[str, list[int]], True),
        ({"a": 1}, dict[str, list[int]], False),
        ("x", dict[str, Any], False),
        ("x", list[str], False),
        ({}, OF_STUDENT["teacher"], True),
    ],
)
def test_the_type_of_a_json_value_is_told(value: Any, hint: Any, expected: bool) -> None:
    assert fits(value, hint) is expected


def test_a_dataclass_is_made_of_known_fields_of_the_right_types() -> None:
    assert dataclass_from_json(Origin, {"run": "a", "subwords": "b"}) == Origin(
        run="a", subwords="b"
    )
    for wrong in ({"run": "a"}, {"run": 1, "subwords": "b"}, {"run": "a", "subwords": "b", "z": 1}):
        with pytest.raises(TypeError):
            dataclass_from_json(Origin, wrong)
