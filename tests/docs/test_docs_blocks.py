"""What README and docs say works as written: their commands and their Python are run.

A page is one test, in a folder of its own in which the names of the texts are real.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import LEARNT, CommandLine, options, threads_kept, tiny_pairs, write_pairs

from doc_blocks import ELSEWHERE, PAGES, ROOT, RUN, SHOWN, Block, Stage, blocks, stages
from opus import write_opus
from pages import commands
from treebank import trees, write

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
pytest.importorskip("matplotlib")
pytest.importorskip("fastapi")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries

SMALL = {"N": "2", "d_model": "32", "d_ff": "64", "h": "4", "d_k": "8", "d_v": "8"}
FEW = {"batch_tokens": "400", "log_every": "2", "threads": "1"}
LEARNED = {"vocabulary": "300"}  # of a text of 300 lines
TEXTS = ["--device", "cpu", *options(SMALL | FEW | LEARNED)]
CLAIM = ["--pairs", "200", "--held", "30", "--steps", "2", *TEXTS]
BUDGETS = {"--steps", "--epochs", "--time"}  # of which one is enough
# What makes commands short: these options take the place of their own.
QUICK = {
    "train": ["--steps", "2", *TEXTS],
    "train --from": ["--steps", "2", "--device", "cpu", *options(FEW)],
    "train --recipe": ["--steps", "2", *TEXTS],
    "distill": ["--steps", "2", *TEXTS],
    "demo": ["--time", "2s", "--pairs", "1000"],
    "average": ["--last", "1"],  # of so short a run there is one checkpoint
    "bench train": ["--steps", "1", "--rounds", "1", "--peer", "none", *TEXTS],
    "bench translate": ["--rounds", "1", "--single", "1", "--engine", "torch", "--peer", "none"],
    "paper table1": ["--n", "8..16", "--d", "16", "--batch", "1", "--seconds", "0.01"],
    "paper table2": ["--systems", "tiny", "--time", "1s", *TEXTS],
    "paper table3": ["--rows", "base", "--steps", "2", "--shrink", "16", *TEXTS],
    "paper table4": ["--steps", "2", *TEXTS],
    "paper scaling": ["--widths", "4", "--d-k", "16", *CLAIM],
    "paper positions": ["--longest", "8", "--most", "5", *CLAIM],
    "paper smoothing": ["--eps", "0,0.3", "--seeds", "1", *CLAIM],
}
# What other programs do is theirs; these are run as they stand.
PROGRAMS = (
    *("cat", "echo", "printf", "head", "tail", "wc", "sort", "paste", "cut", "diff", "ls", "cp"),
    *("awk", "sed", "grep", "tr", "shuf", "seq", "tee", "mv", "rm", "zcat"),
    *("gzip", "xz", "chmod", "mkdir", "python3", "curl"),
)
INSTALLING = ("git", "cd", "source", ".", "python3 -m venv", "python -m venv")  # of a new reader
EVERY = [block for page in PAGES for block in blocks(page)]
FOLLOWED = [block for block in EVERY if block.language in RUN and not block.reason]
DEFAULT = "127.0.0.1:8000"
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
    """A run with as many heads as the pages speak of, which writes words and comes to an end."""
    from transduce import train

    out = tmp_path_factory.mktemp("pages") / "en-de"
    with threads_kept():
        train(*tiny_files, out=out, settings=LEARNT | SMALL, preset="tiny", device="cpu")
    return out


@pytest.fixture
def here(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the names of the texts are real."""
    for name in ("en-de", "de-en", "seed-2"):
        shutil.copytree(run, tmp_path / "runs" / name)
    for stem in ("train", "val", "test", "law", "begin", "book", "a", "b"):
        write_pairs(tmp_path, stem, tiny_pairs(300 if stem in ("train", "law") else 3))
    (tmp_path / "book.de").unlink()  # a page has it made, and nothing is overwritten
    pairs = tiny_pairs(300)
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    (tmp_path / "begin.de").write_text("der\nder\nder\n", encoding="utf-8")
    for stem, count in (("train", 60), ("dev", 4), ("test", 4)):
        write(tmp_path / f"{stem}.trees", trees(count))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Reader:
    """Somebody who does what a page says, in one folder."""

    def __init__(self, cli: CommandLine, here: Path, address: Callable[[], str]) -> None:
        self.cli, self.here, self.address = cli, here, address
        self.names: dict[str, Any] = {"__name__": "page"}
        self.given = {*(here / "runs").iterdir(), here / "paper" / "t4" / "parser"}

    def follow(self, block: Block) -> None:
        """Do what a block says, all of which must work."""
        if block.language == "python":
            text = block.text.replace(DEFAULT, self.address()) if block.service else block.text
            exec(compile(text, block.where, "exec"), self.names)
        for line in block.commands() if block.language == "console" else ():
            written = ""
            for stage in stages(line.replace(DEFAULT, self.address()) if block.service else line):
                read = (self.here / stage.read).read_text() if stage.read else None
                given = read if read is not None else written if stage.piped else None
                written = self.run(stage, given, f"{block.where}: {line}")
                if stage.write:
                    (self.here / stage.write).write_text(written, encoding="utf-8")

    def run(self, stage: Stage, given: str | None, where: str) -> str:
        """Run one program; return what it wrote."""
        name, *words = stage.command
        if name == "transduce":
            if "--out" in words:
                self._make_room(words[words.index("--out") + 1])
            typed = given or "the dog sees a man.\n"
            done = self.cli(*shortened(words), input=typed, env=stage.environment)
            assert done.status == 0, f"{where}: {done.stderr}"
            self._require_made(words, where)
            return done.stdout
        if name in ("pip", "make"):
            check_installing(name, words, where)
        elif not " ".join(stage.command).startswith(INSTALLING):
            assert name in PROGRAMS, f"{where}: say why it is not run, or let the test know {name}"
            command = [sys.executable if name == "python3" else name, *words]
            ran = subprocess.run(
                command, input=given or "", capture_output=True, text=True, check=False, timeout=60
            )
            assert ran.returncode == 0, f"{where}: {ran.stderr}"
            return ran.stdout
        return ""

    def shortly(self, trains: Callable[..., Path]) -> Callable[..., Path]:
        """Return what trains as shortly as the commands do."""

        def train(*texts: Any, settings: dict[str, str] | None = None, **how: Any) -> Path:
            self._make_room(how["out"])
            few = FEW | {"steps": "2"} if "start" in how else SMALL | FEW | LEARNED | {"steps": "2"}
            return trains(*texts, settings={**(settings or {}), **few}, **how)

        return train

    def _make_room(self, out: str | Path) -> None:
        """Take away a run that a page makes itself: it is here for the pages that have it."""
        folder = self.here / out
        for given in [one for one in self.given if folder in (one, one.parent)]:
            self.given.discard(given)
            shutil.rmtree(given, ignore_errors=True)

    def _require_made(self, words: list[str], where: str) -> None:
        if "--out" in words:
            out = self.here / words[words.index("--out") + 1]
            assert out.exists(), where
            if out.suffix in (".svg", ".png", ".pdf", ".html"):
                assert out.stat().st_size > 1000, where


def shortened(words: list[str]) -> list[str]:
    """Return a command with the options that make it short in the place of its own."""
    short = QUICK.get(" ".join(words[:2]), QUICK.get(words[0], []))
    for option in ("--from", "--recipe"):
        if words[0] == "train" and option in words:
            short = QUICK[f"train {option}"]
    own = {word for word in short if word.startswith("--") and word != "--set"}
    own |= BUDGETS if own & BUDGETS else set()
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in own:
            next(rest)
        else:
            kept.append(word)
    return kept + short


def check_installing(name: str, words: list[str], where: str) -> None:
    """Require that what is to be installed or made is there to be."""
    if name == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        target = next(word for word in words if "=" not in word)
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), where
    else:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        for extras in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
            for extra in extras.split(","):
                assert extra in project["project"]["optional-dependencies"], f"{where}: {extra}"


@pytest.fixture
def service(here: Path) -> Iterator[Callable[[], str]]:
    """The address of a service of runs/en-de, which is started when it is first asked for."""
    from serving import listening
    from transduce.serving.app import create_app
    from transduce.serving.models import ServedModel

    @contextmanager
    def started() -> Iterator[str]:
        served = ServedModel.load(
            here / "runs" / "en-de", "en-de", device="cpu", engine="ctranslate2"
        )
        with listening(create_app([served])) as (host, port):
            yield f"{host}:{port}"

    begun: list[Any] = []

    def address() -> str:
        if not begun:
            context = started()
            begun.extend((context, context.__enter__()))
        return str(begun[1])

    yield address
    if begun:
        begun[0].__exit__(None, None, None)


@pytest.fixture
def reader(
    cli: CommandLine, here: Path, service: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Reader:
    """Somebody who reads a page here; servers end at once, and Python trains as shortly."""
    import transduce
    from transduce.serving import server

    bound = server.bound

    def ready_and_ended(*arguments: Any) -> None:
        *_, ready, ended = arguments
        ready("http://127.0.0.1")
        ended()

    monkeypatch.setattr(server, "serve_on", ready_and_ended)
    monkeypatch.setattr(server, "bound", lambda host, port: bound("127.0.0.1", 0))
    reading = Reader(cli, here, service)
    for name in ("train", "distill", "train_parser"):
        monkeypatch.setattr(
            transduce, name, reading.shortly(getattr(transduce, name)), raising=False
        )
    return reading


@pytest.mark.parametrize("page", {one.page: None for one in FOLLOWED}, ids=lambda page: page.name)
def test_what_a_page_says_works(
    page: Path, reader: Reader, here: Path, request: pytest.FixtureRequest
) -> None:
    found = [one for one in FOLLOWED if one.page == page]
    text = "".join(one.text for one in found)
    if "paper/t4/parser" in text:
        shutil.copytree(request.getfixturevalue("parser"), here / "paper" / "t4" / "parser")
    if "opus-mt-en-de" in text:  # which readers have from elsewhere
        write_opus(here / "opus-mt-en-de")
    for block in found:
        reader.follow(block)


def assert_can_be_typed(words: list[str]) -> None:
    """Read words as the command line would, and run nothing; raise where it would refuse them."""
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


@pytest.mark.parametrize("block", [one for one in EVERY if one.reason], ids=lambda one: one.where)
def test_commands_that_are_not_run_are_commands_all_the_same(block: Block) -> None:
    if block.language == "python":
        compile(block.text, block.where, "exec")
    for words in block.ours():
        assert_can_be_typed(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian", "a"], "there is no command trian"),
        (["train", "a", "b", "--out", "c", "--step", "3"], "No such option"),
        (["train", "a", "b"], "Missing"),
        (["paper", "table9"], "there is no command table9"),
        (["average", "a", "--last", "many"], "integer"),
    ],
)
def test_a_mistyped_command_is_found(words: list[str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        assert_can_be_typed(words)


def test_few_blocks_are_not_run() -> None:
    marked = [one for one in EVERY if one.reason and one.reason != ELSEWHERE]
    assert len(marked) <= len([one for one in EVERY if one.language in RUN]) / 3


@pytest.mark.parametrize("words", [words for words, _ in commands.walk()], ids=" ".join)
def test_the_examples_of_the_help_can_be_typed(words: tuple[str, ...]) -> None:
    page = commands.page(words, dict(commands.walk())[words])
    for line in re.findall(r"^\$ (.*)$", page, re.MULTILINE):
        for stage in stages(line):
            if "transduce" in stage.words:
                assert_can_be_typed(stage.words[stage.words.index("transduce") + 1 :])


def test_a_block_knows_its_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "1. One:\n\n   ```console\n   $ A=1 transduce x \\\n       --y > z\n   shown\n   ```\n"
        "<!-- not run: no -->\n```bash\nsrun torchrun -m transduce train\n```\n"
    )
    first, second = blocks(page)
    (stage,) = stages(first.commands()[0])
    assert (stage.command, stage.write) == (["transduce", "x", "--y"], "z")
    assert stage.environment == {"A": "1"}
    assert (first.reason, second.reason, list(second.ours())) == (None, "no", [["train"]])
