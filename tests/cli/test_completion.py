"""Shell completion of commands, options, values and run folders, and its speed."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment

import transduce
from transduce import config
from transduce.cli import completion
from transduce.interop.export.ctranslate2 import QUANTIZATIONS
from transduce.presets import PRESETS, find_preset
from transduce.translation.engines.selection import ENGINES

PROGRAM = "import sys; sys.argv = ['transduce', *sys.argv[1:]]; from transduce.cli import main; "
MODULES = "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
SHELLS = ["bash", "zsh", "fish"]


def completed(line: str, folder: Path, shell: str = "bash") -> list[str]:
    """Return the completions that a shell offers at the end of a line."""
    words = line.split(" ")
    variables = {"_TRANSDUCE_COMPLETE": f"complete_{shell}", "COMP_WORDS": line}
    variables |= {"COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    variables |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    variables |= {"PYTHONPATH": str(Path(transduce.__file__).parents[1])}  # from another folder
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + MODULES + "main()"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment() | variables,
        check=False,
    )
    heavy = {"torch", "numpy", "tokenizers", "sacrebleu"} & set(done.stderr.split())
    assert not heavy, heavy
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("transduce tra", ["train", "translate"]),
        ("transduce paper table", ["table1", "table2", "table3", "table4"]),
        ("transduce train --see", ["--seed"]),
        ("transduce train --preset B-", [name for name in PRESETS if name.startswith("B-")]),
        ("transduce train --set d_m", ["d_model=512"]),
        ("transduce serve runs --device c", ["cpu", "cuda"]),
        ("transduce translate r --quantize int8_", ["int8_float32", "int8_float16"]),
        ("transduce export --to h", ["huggingface"]),
    ],
)
def test_bash_completes(line: str, expected: list[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_as_well(shell: str, tmp_path: Path) -> None:
    shown = "\n".join(completed("transduce train --preset tiny-", tmp_path, shell))
    assert "tiny-3-1" in shown
    assert "big" not in shown


def test_run_folders_are_completed_but_not_the_folders_in_them(tmp_path: Path) -> None:
    for run in ("runs/en-de", "runs/en-de/teacher", "runs/old/en-fr", "other"):
        (tmp_path / run).mkdir(parents=True)
        for name in ("config.json", "subwords.json"):
            (tmp_path / run / name).write_text("{}", encoding="utf-8")
    (tmp_path / "runs" / "no-run").mkdir()
    runs = [os.path.join("runs", "en-de"), os.path.join("runs", "old", "en-fr")]  # noqa: PTH118
    assert completed("transduce translate ", tmp_path) == ["other", *runs]
    assert completed("transduce translate runs/e", tmp_path) == runs[:1]
    assert not any(completed("transduce translate nowhere/", tmp_path))
    assert completed("transduce plot other ru", tmp_path) == runs


def test_completed_values_are_accepted() -> None:
    assert completion.ENGINES == ENGINES
    assert ("auto", *QUANTIZATIONS) == completion.QUANTIZATIONS
    base = find_preset("base")
    for setting in completion.settings(""):
        name, _, value = setting.partition("=")
        model, train = config.apply_settings({name: value}, base.model, base.train)
        assert (model, train) == (base.model, base.train)


def test_completion_is_fast(tmp_path: Path) -> None:
    """It takes 0.2 s on an idle core; the limit allows for a busy machine."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        completed("transduce train --preset ", tmp_path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < (2.0 if "COVERAGE_PROCESS_CONFIG" in os.environ else 0.5)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_completion_script_of_a_shell_is_valid(shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + "main()", "--show-completion", shell],
        capture_output=True,
        text=True,
        env=environment() | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        check=True,
    )
    assert "_TRANSDUCE_COMPLETE" in done.stdout
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.stdout, encoding="utf-8")
        subprocess.run([shell, "-n", script], check=True)


def test_the_script_is_installed_where_bash_finds_it(tmp_path: Path) -> None:
    variables = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + "main()", "--install-completion", "bash"],
        capture_output=True,
        text=True,
        env=environment() | variables,
        check=True,
    )
    assert "installed" in done.stdout
    (script,) = (tmp_path / ".bash_completions").iterdir()
    assert str(script) in (tmp_path / ".bashrc").read_text(encoding="utf-8")
    assert "_TRANSDUCE_COMPLETE" in script.read_text(encoding="utf-8")
