"""Follow a documentation page as a reader would: run its commands and its Python in one folder.

Training commands are shortened: `QUICK` replaces options that would make them long.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import CommandLine, options

from doc_blocks import ROOT, Block, Stage, stages

SMALL = {"N": "2", "d_model": "32", "d_ff": "64", "h": "4", "d_k": "8", "d_v": "8"}
FEW = {"batch_tokens": "400", "log_every": "2", "threads": "1"}
LEARNED = {"vocabulary": "300"}  # for a text of 300 lines
TEXTS = ["--device", "cpu", *options(SMALL | FEW | LEARNED)]
CLAIM = ["--pairs", "200", "--held", "30", "--steps", "2", *TEXTS]
BUDGETS = {"--steps", "--epochs", "--time"}
# Options that replace a command's own, so that it ends soon.
QUICK = {
    "train": ["--steps", "2", *TEXTS],
    "train --from": ["--steps", "2", "--device", "cpu", *options(FEW)],
    "train --recipe": ["--steps", "2", *TEXTS],
    "sweep": ["--steps", "2", "--device", "cpu"],
    "distill": ["--steps", "2", *TEXTS],
    "demo": ["--time", "2s", "--pairs", "1000"],
    "average": ["--last", "1"],  # so short a run has one checkpoint
    "bench train": ["--steps", "1", "--rounds", "1", "--peer", "none", *TEXTS],
    "bench translate": ["--rounds", "1", "--single", "1", "--engine", "torch", "--peer", "none"],
    "paper table1": ["--n", "8..16", "--d", "16", "--batch", "1", "--seconds", "0.01"],
    "paper table2": ["--systems", "tiny", "--time", "1s", *TEXTS],
    "paper table3": ["--rows", "base", "--steps", "2", "--shrink", "16", *TEXTS],
    "paper table4": ["--steps", "2", *TEXTS],
    "paper scaling": ["--widths", "4", "--d-k", "16", *CLAIM],
    "paper positions": ["--longest", "8", "--most", "5", *CLAIM],
    "paper smoothing": ["--eps", "0,0.3", "--seeds", "1", *CLAIM],
    "paper training": ["--warmups", "1", "--dropouts", "0.3", "--most", "20", *CLAIM],
    "paper memory": ["--hops", "1,2", "--seeds", "2", "--steps", "2", "--stories", "70"],
}
# Other programs are run unchanged.
PROGRAMS = (
    *("cat", "echo", "printf", "head", "tail", "wc", "sort", "paste", "cut", "diff", "ls", "cp"),
    *("awk", "sed", "grep", "tr", "shuf", "seq", "tee", "mv", "rm", "zcat"),
    *("gzip", "xz", "chmod", "mkdir", "python3", "curl"),
)
INSTALLING = ("git", "cd", "source", ".", "python3 -m venv", "python -m venv")  # not repeated here
DEFAULT = "127.0.0.1:8000"


class Reader:
    """Runs the blocks of a page in one folder."""

    def __init__(self, cli: CommandLine, folder: Path, address: Callable[[], str]) -> None:
        self.cli, self.folder, self.address = cli, folder, address
        self.names: dict[str, Any] = {"__name__": "page"}
        self.provided = {*(folder / "runs").iterdir(), folder / "paper" / "t4" / "parser"}

    def follow(self, block: Block) -> None:
        """Run a block; every command must succeed."""
        if block.language == "python":
            text = block.text.replace(DEFAULT, self.address()) if block.service else block.text
            exec(compile(text, block.where, "exec"), self.names)
        for line in block.commands() if block.language == "console" else ():
            output = ""
            for stage in stages(line.replace(DEFAULT, self.address()) if block.service else line):
                file = (self.folder / stage.read).read_text() if stage.read else None
                stdin = file if file is not None else output if stage.piped else None
                output = self.run(stage, stdin, f"{block.where}: {line}")
                if stage.write:
                    (self.folder / stage.write).write_text(output, encoding="utf-8")

    def run(self, stage: Stage, stdin: str | None, where: str) -> str:
        """Run one program and return its standard output."""
        name, *words = stage.command
        if name == "transduce":
            if "--out" in words:
                self._delete_provided(words[words.index("--out") + 1])
            typed = stdin or "the dog sees a man.\n"
            done = self.cli(*shorten(words), input=typed, env=stage.environment)
            assert done.status == 0, f"{where}: {done.stderr}"
            self._require_output(words, where)
            return done.stdout
        if name in ("pip", "make"):
            check_installing(name, words, where)
        elif not " ".join(stage.command).startswith(INSTALLING):
            assert name in PROGRAMS, f"{where}: say why it is not run, or let the test know {name}"
            command = [sys.executable if name == "python3" else name, *words]
            ran = subprocess.run(
                command, input=stdin or "", capture_output=True, text=True, check=False, timeout=60
            )
            assert ran.returncode == 0, f"{where}: {ran.stderr}"
            return ran.stdout
        return ""

    def shortened(self, function: Callable[..., Path]) -> Callable[..., Path]:
        """Return a training function that is as short as the commands."""

        def train(*texts: Any, settings: dict[str, str] | None = None, **how: Any) -> Path:
            self._delete_provided(how["out"])
            few = FEW | {"steps": "2"} if "start" in how else SMALL | FEW | LEARNED | {"steps": "2"}
            return function(*texts, settings={**(settings or {}), **few}, **how)

        return train

    def _delete_provided(self, out: str | Path) -> None:
        """Delete a provided run before the page makes its own at the same path."""
        folder = self.folder / out
        for run in [run for run in self.provided if folder in (run, run.parent)]:
            self.provided.discard(run)
            shutil.rmtree(run, ignore_errors=True)

    def _require_output(self, words: list[str], where: str) -> None:
        if "--out" in words:
            out = self.folder / words[words.index("--out") + 1]
            assert out.exists(), where
            if out.suffix in (".svg", ".png", ".pdf", ".html"):
                assert out.stat().st_size > 500, where


def shorten(words: list[str]) -> list[str]:
    """Return a command with its options replaced by those of QUICK."""
    short = QUICK.get(" ".join(words[:2]), QUICK.get(words[0], []))
    for option in ("--from", "--recipe"):
        if words[0] == "train" and option in words:
            short = QUICK[f"train {option}"]
    if words[:2] == ["paper", "training"] and "--run" in words:  # it trains nothing
        short = ["--most", "20"]
    replaced = {word for word in short if word.startswith("--") and word != "--set"}
    replaced |= BUDGETS if replaced & BUDGETS else set()
    result: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word in replaced:
            next(remaining)
        else:
            result.append(word)
    return result + short


def check_installing(name: str, words: list[str], where: str) -> None:
    """Check that a make target or an extra exists."""
    if name == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        target = next(word for word in words if "=" not in word)
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), where
    else:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        for extras in re.findall(r"\[([\w,-]+)\]", " ".join(words)):
            for extra in extras.split(","):
                assert extra in project["project"]["optional-dependencies"], f"{where}: {extra}"
