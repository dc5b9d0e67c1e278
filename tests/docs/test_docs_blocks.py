"""The commands and the Python of README, docs and docstrings are run as written.

A page is one test, in a folder that has the files that the texts name.
"""

import doctest
import inspect
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import LEARNT, CommandLine, threads_kept, tiny_pairs, write_pairs
from doc_reader import FEW, SMALL, Reader
from three_languages import write_two_pairs

import transduce
from doc_blocks import ELSEWHERE, PAGES, ROOT, RUN, SHOWN, Block, blocks, stages
from opus import write_opus
from pages import api, commands
from treebank import trees, write

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
pytest.importorskip("matplotlib")
pytest.importorskip("fastapi")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries

EVERY = [block for page in PAGES for block in blocks(page)]
FOLLOWED = [block for block in EVERY if block.language in RUN and not block.reason]
PARSER = SMALL | FEW | {"vocabulary": "300", "max_len": "80", "steps": "2", "average": "1"}


@pytest.fixture(scope="session")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny parser."""
    from transduce import train_parser

    folder = tmp_path_factory.mktemp("parser")
    files = write(folder / "train.trees", trees(60)), write(folder / "dev.trees", trees(4, 2))
    with threads_kept():
        train_parser(files[0], out=folder / "parser", valid=files[1], settings=PARSER, device="cpu")
    return folder / "parser"


@pytest.fixture(scope="session")
def run(tiny_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with as many heads as the pages mention, trained until its output ends."""
    from transduce import train

    out = tmp_path_factory.mktemp("pages") / "en-de"
    with threads_kept():
        train(*tiny_files, out=out, settings=LEARNT | SMALL, preset="tiny", device="cpu")
    return out


@pytest.fixture
def folder(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the runs and files that the pages name."""
    for name in ("en-de", "de-en", "seed-2"):
        shutil.copytree(run, tmp_path / "runs" / name)
    for stem in ("train", "val", "test", "law", "begin", "book", "a", "b"):
        write_pairs(tmp_path, stem, tiny_pairs(300 if stem in ("train", "law") else 3))
    (tmp_path / "book.de").unlink()  # a page writes it, and nothing is overwritten
    write_two_pairs(tmp_path, 60)
    pairs = tiny_pairs(300)
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    (tmp_path / "begin.de").write_text("der\nder\nder\n", encoding="utf-8")
    for stem, count in (("train", 60), ("dev", 4), ("test", 4)):
        write(tmp_path / f"{stem}.trees", trees(count))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def service(folder: Path) -> Iterator[Callable[[], str]]:
    """Return the address of a service of runs/en-de, which is started on the first call."""
    from serving import listening
    from transduce.serving.app import create_app
    from transduce.serving.models import ServedModel

    with ExitStack() as stack:
        addresses: list[str] = []

        def address() -> str:
            if not addresses:
                run = folder / "runs" / "en-de"
                served = ServedModel.load(run, "en-de", device="cpu")
                host, port = stack.enter_context(listening(create_app([served])))
                addresses.append(f"{host}:{port}")
            return addresses[0]

        yield address


@pytest.fixture
def reader(
    cli: CommandLine, folder: Path, service: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Reader:
    """A reader of pages: servers end at once, and training functions are short."""
    from transduce.serving import server

    bind = server.bind

    def ready_and_ended(*arguments: Any) -> None:
        *_, ready, ended = arguments
        ready("http://127.0.0.1")
        ended()

    monkeypatch.setattr(server, "run_server", ready_and_ended)
    monkeypatch.setattr(server, "bind", lambda host, port: bind("127.0.0.1", 0))
    reader = Reader(cli, folder, service)
    for name in ("train", "distill", "train_parser"):
        short = reader.shortened(getattr(transduce, name))
        monkeypatch.setattr(transduce, name, short, raising=False)
    return reader


@pytest.mark.parametrize(
    "page", {block.page: None for block in FOLLOWED}, ids=lambda page: page.name
)
def test_the_blocks_of_a_page_run(
    page: Path, reader: Reader, folder: Path, request: pytest.FixtureRequest
) -> None:
    followed = [block for block in FOLLOWED if block.page == page]
    text = "".join(block.text for block in followed)
    if "paper/t4/parser" in text:
        shutil.copytree(request.getfixturevalue("parser"), folder / "paper" / "t4" / "parser")
    if "opus-mt-en-de" in text:  # readers have downloaded it
        write_opus(folder / "opus-mt-en-de")
    for block in followed:
        reader.follow(block)


def assert_can_be_parsed(words: list[str]) -> None:
    """Parse words as the command line does, and run nothing; raise where it would refuse them."""
    command, name = commands.tree(), "transduce"
    while getattr(command, "commands", None):
        words = [word for word in words if word != "--debug"]
        if words and words[0] in ("--version", "--help", "--install-completion"):
            return
        if not words and command.invoke_without_command:
            return
        assert words, f"{name}: a command is missing"
        name, *words = words
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    if "--help" not in words:
        command.make_context(name, list(words)).close()


@pytest.mark.parametrize("block", EVERY, ids=lambda block: block.where)
def test_a_block_is_run_or_says_why_not(block: Block) -> None:
    assert block.language in RUN + SHOWN or block.reason, f"{block.where}: {block.language}"
    assert not (block.reason and block.service), block.where
    if block.language == "console":
        assert block.commands(), f"{block.where}: no line begins with '$ '"
    if block.language in SHOWN and not block.reason:
        assert not list(block.ours()), f"{block.where}: a command is not in a console block"
    if block.language == "toml":
        tomllib.loads(block.text)


@pytest.mark.parametrize(
    "block", [block for block in EVERY if block.reason], ids=lambda block: block.where
)
def test_commands_that_are_not_run_can_be_parsed(block: Block) -> None:
    if block.language == "python":
        compile(block.text, block.where, "exec")
    for words in block.ours():
        assert_can_be_parsed(words)


def test_few_blocks_are_not_run() -> None:
    marked = [block for block in EVERY if block.reason and block.reason != ELSEWHERE]
    assert len(marked) <= len([block for block in EVERY if block.language in RUN]) / 3


@pytest.mark.parametrize("words", [words for words, _ in commands.walk()], ids=" ".join)
def test_the_examples_of_the_help_can_be_parsed(words: tuple[str, ...]) -> None:
    page = commands.page(words, dict(commands.walk())[words])
    for line in re.findall(r"^\$ (.*)$", page, re.MULTILINE):
        for stage in stages(line):
            if "transduce" in stage.words:
                assert_can_be_parsed(stage.words[stage.words.index("transduce") + 1 :])


def examples() -> dict[str, str]:
    """Return the docstrings with examples in the reference of the Python API, by name."""
    names = [*api.NAMES, *transduce.__all__]
    things: dict[str, Any] = {"transduce": transduce}
    for name in names:
        thing = api.resolve(name)
        members = api.members(thing) if inspect.isclass(thing) else []
        things |= {name: thing, **{f"{name}.{member}": value for member, value in members}}
    return {name: thing.__doc__ for name, thing in things.items() if ">>>" in (thing.__doc__ or "")}


class IgnoreOutput(doctest.OutputChecker):
    """Accepts any output: a translation depends on the training data."""

    def check_output(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize(("name", "doc"), examples().items(), ids=examples())
def test_the_example_of_a_docstring_runs(
    name: str, doc: str, reader: Reader, folder: Path, request: pytest.FixtureRequest
) -> None:
    if "runs/parser" in doc:
        shutil.copytree(request.getfixturevalue("parser"), folder / "runs" / "parser")
    names = {public: getattr(transduce, public) for public in transduce.__all__}
    names[name.rpartition(".")[2]] = api.resolve(name) if name in api.NAMES else None
    test = doctest.DocTestParser().get_doctest(doc, names, name, None, 0)
    checker = IgnoreOutput() if "runs/en-de" in doc or "runs/parser" in doc else None
    result = doctest.DocTestRunner(checker, optionflags=doctest.ELLIPSIS).run(test)
    assert result.attempted > 0
    assert result.failed == 0
