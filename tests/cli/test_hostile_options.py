"""Every option of every command with absurd values: a clear error, no traceback."""

import inspect
import os
import shutil
import signal
import time
import types
import typing
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from conftest import TINY, CommandLine, options
from tiny_recipes import write_recipe
from typer.models import ArgumentInfo, OptionInfo

from transduce.cli import app, serve

pytest.importorskip("fastapi")
pytest.importorskip("matplotlib")

SECONDS = 10.0  # per command, on a busy machine too; most take a twentieth of that
MANY = 2  # texts tried for each option; a hash of its name chooses which

# As a float, 400 digits are infinite; as an int they are beyond any float, and 5,000 beyond int().
HUGE = ["9" * 30, "9" * 400]
NOT_AN_INTEGER = [*HUGE, "9" * 5_000, "", "nan"]
NOT_A_FLOAT = ["nan", "-inf", "9" * 400, ""]
REAL = ["-1", "1e-320", "1e-40", "1e308"]
TEXTS = ["", "\udcff", "a" * 5_000, "http://[", "9" * 400, "\U0001f994\u2028"]
TIMES = ["", "5", f"{'9' * 400}h", "nan", "0.0s"]

TINIEST = {name: value for name, value in TINY.items() if name != "steps"}
SMALL = options(TINIEST | {"validate_bleu": "0", "save_every": "1", "log_every": "1"})
TRAINS = ["--preset", "tiny", *SMALL, "--set", "seconds=0.01"]
# A quick call of each command; RUN, EN, DE, TREES and OUT are paths.
USES = {
    "recipes show": ["pocket"],
    "data list": [],
    "data get": ["pocket", "--out", "OUT"],
    "data terms": ["EN", "DE", "--out", "OUT"],
    "data check": ["EN", "DE"],
    "data clean": ["EN", "DE", "--out-tsv", "OUT.tsv"],
    "bench train": ["EN", "DE", "--peer", "none"],
    "bench translate": ["RUN", "EN", "--peer", "none"],
    "paper table1": ["--n", "16", "--d", "16"],
    "paper table2": ["EN", "DE", "--out", "OUT"],
    "paper table3": ["EN", "DE", "--out", "OUT"],
    "paper table4": ["TREES", "--valid", "TREES", "--test", "TREES", "--out", "OUT"],
    "paper figures": ["RUN", "a dog", "--out", "OUT"],
    "paper scaling": ["EN", "DE", "--out", "OUT"],
    "paper positions": ["EN", "DE", "--out", "OUT"],
    "paper smoothing": ["EN", "DE", "--out", "OUT"],
    "paper training": ["EN", "DE", "--out", "OUT"],
    "paper memory": ["--out", "OUT"],
    "paper all": ["EN", "DE", "--out", "OUT", "--time", "1h"],
    "paper report": ["OUT"],
    "demo": ["--out", "OUT"],
    "train": ["EN", "DE", "--out", "OUT", *TRAINS],
    "distill": ["RUN", "EN", "--out", "OUT", "--beam", "1", *TRAINS],
    "translate": ["RUN", "--engine", "torch", "--sample"],
    "serve": ["RUN", "--port", "0"],
    "parse": ["RUN", "a dog"],
    "score": ["EN", "DE"],
    "average": ["RUN"],
    "info": ["RUN"],
    "look": ["RUN", "a dog", "--out", "OUT.svg"],
    "plot": ["RUN", "--out", "OUT.svg"],
    "watch": ["RUN", "--port", "0"],
    "export": ["RUN", "OUT", "--to", "ctranslate2"],
    "import": ["RUN", "--out", "OUT"],
    "convert": ["TREES"],
    "sweep": ["RECIPE", "--out", "OUT", "--set", "seconds=0.01"],
    "settings": [],
}
# These run for long once they accept everything, so they only get values that must be refused.
LONG_WORK = ("bench ", "paper ", "demo")
ACCEPT_ANY_TEXT = {"out", "corpus"}
NOT_A_NAME = ["\udcff", "9" * 400]


class Case(NamedTuple):
    """An option, or an argument, and its value."""

    command: str
    name: str
    words: list[str]  # replace the option's words in USES
    refused: bool  # whether the value can never be accepted


def commands(group: typer.Typer, *before: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the name and the function of every command."""
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        assert inner.name
        yield from commands(inner.typer_instance, *before, inner.name)
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield " ".join([*before, name]), command.callback


def kind_of(hint: Any) -> tuple[Any, int]:
    """Return the type of a value of a parameter, and how many it takes."""
    kind = typing.get_args(hint)[0]  # of Annotated
    if isinstance(kind, types.UnionType):
        kind = next(inner for inner in typing.get_args(kind) if inner is not type(None))
    if typing.get_origin(kind) is tuple:
        return typing.get_args(kind)[0], len(typing.get_args(kind))
    return (typing.get_args(kind)[0] if typing.get_origin(kind) is list else kind), 1


def values(command: str, name: str, kind: Any) -> Iterator[tuple[str, bool]]:
    """Yield values for an option of a type, and whether it must refuse them."""
    if name == "time":
        yield from ((text, True) for text in TIMES)
    elif kind is int:
        yield from ((text, True) for text in NOT_AN_INTEGER)
    elif kind is float:
        yield from ((text, True) for text in NOT_A_FLOAT)
        if not command.startswith(LONG_WORK):
            yield from ((text, False) for text in REAL)
    elif not command.startswith(LONG_WORK):
        first = zlib.crc32(f"{command} {name}".encode()) % len(TEXTS)
        yield from ((text, False) for text in islice([*TEXTS, *TEXTS], first, first + MANY))
    elif name not in ACCEPT_ANY_TEXT:
        yield from ((text, True) for text in NOT_A_NAME)


def cases() -> Iterator[Case]:
    """Yield a case for each option and each of its values."""
    for command, function in commands(app):
        for name, parameter in inspect.signature(function).parameters.items():
            (info,) = parameter.annotation.__metadata__
            kind, count = kind_of(parameter.annotation)
            if kind is bool or isinstance(info, ArgumentInfo):
                continue
            assert isinstance(info, OptionInfo)
            declared = [info.default, *(info.param_decls or ())]
            spelled = [text for text in declared if str(text).startswith("--")]
            option = str(spelled[0] if spelled else f"--{name.replace('_', '-')}")
            for text, refused in values(command, name, kind):
                yield Case(command, name, [option, *[text] * count], refused)


def with_value(use: Sequence[str], words: list[str]) -> list[str]:
    """Replace an option in a call, or add it."""
    arguments = list(use)
    if words[0] in arguments and words[0] != "--set":
        start = arguments.index(words[0])
        del arguments[start : start + len(words)]
    return [*arguments, *words]


@pytest.fixture
def paths(
    tiny_files: tuple[Path, Path], tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """An empty folder to work in, and the paths that USES names."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    run = shutil.copytree(tiny_run, tmp_path / "run")
    trees = tmp_path / "trees"
    trees.write_text("( (S (NP (NN Annexin)) (VP (VBZ binds) (NP (NN calcium))) (. .)) )\n" * 9)

    def interrupt() -> bool:
        """End a service as soon as it is ready, as Ctrl-C does."""
        os.kill(os.getpid(), signal.SIGINT)
        return False

    monkeypatch.setattr(serve, "_has_screen", interrupt)
    recipe = write_recipe(tmp_path / "recipe")
    source, target = map(str, tiny_files)
    return {
        "RUN": str(run),
        "EN": source,
        "DE": target,
        "TREES": str(trees),
        "OUT": "out",
        "RECIPE": str(recipe),
    }


def test_every_command_has_a_use() -> None:
    assert {command for command, _ in commands(app)} == USES.keys()


@pytest.mark.parametrize("command", USES)
def test_an_absurd_value_gives_a_clear_error(
    command: str, cli: CommandLine, paths: dict[str, str]
) -> None:
    for case in cases():
        if case.command != command:
            continue
        use = [paths.get(word, word) for word in with_value(USES[command], case.words)]
        shown = f"{command} {' '.join(word[:20] for word in case.words)!a}"
        begin = time.monotonic()
        result = cli(*command.split(), *use, input="a dog\n")
        assert "Traceback" not in result.stderr, shown
        assert result.status in ((1, 2) if case.refused else (0, 1, 2)), (shown, result)
        assert result.status != 0 or "nan" not in result.stdout, (shown, result)
        assert time.monotonic() - begin < SECONDS, shown
        for left in Path.cwd().iterdir():  # each case starts with an empty folder
            shutil.rmtree(left) if left.is_dir() else left.unlink()
