"""Windows is simulated on Linux by removing the modules and names that it lacks."""

import ast
import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import TINY, environment, options, tiny_pairs, write_pairs

import transduce
from transduce.errors import BadRun
from transduce.system import files, locks, streams
from transduce.system.locks import in_use, locked
from transduce.text.reading import read_lines, read_pairs

ROOT = Path(transduce.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))

# Only Unix has these modules and names. Our dependencies are imported before they are removed,
# because the installed builds are for Unix.
WITHOUT_UNIX = """
import os, signal, sys
import numpy, sacrebleu, safetensors.torch, tokenizers, torch, typer
for name in ("fcntl", "resource", "termios", "tty", "pwd", "grp", "uvloop", "readline"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGPIPE"):
    delattr(signal, name)
for name in ("fork", "sched_getaffinity", "getuid", "geteuid", "O_NOFOLLOW", "killpg", "uname"):
    delattr(os, name)
import transduce.system.files
transduce.system.files.WINDOWS = True
"""


def run_without_unix(code: str, *args: str | Path) -> str:
    """Run code without the features of Unix and with a code page; return its output."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", WITHOUT_UNIX + code, *map(str, args)],
        capture_output=True,
        env=environment() | {"LC_ALL": "C", "PYTHONIOENCODING": "cp1252"},
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8")


def test_every_module_can_be_imported_on_windows() -> None:
    """Except the Triton kernels; the libraries of the service are imported first."""
    names = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in SOURCES]
    late = ("transduce.model.ops.triton.", "transduce.__main__")
    chosen = [name.removesuffix(".__init__") for name in names if not name.startswith(late)]
    code = "import fastapi, prometheus_client, uvicorn\n"
    code += "\n".join(f"import {name}" for name in chosen)
    assert run_without_unix(code + "\nprint(len(sys.modules))")


def test_training_and_translation_work_on_windows(tmp_path: Path) -> None:
    source, target = write_pairs(tmp_path, "train", tiny_pairs(200, seed=7))
    for path in (source, target):  # Windows line ends
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    lines, run = tmp_path / "lines.en", tmp_path / "run"
    lines.write_bytes("Fähre.\r\n\r\na dog sees the man.\r\n".encode())
    training = ["train", str(source), str(target), "--out", str(run), "--device", "cpu"]
    settings = TINY | {"steps": "3", "validate_every": "3", "validate_bleu": "0"}
    commands = [
        [*training, *options(settings)],
        [*training, "--steps", "4"],
        ["translate", str(run), str(lines), "--device", "cpu", "--beam", "1"],
    ]
    code = """
import json
from transduce.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["transduce", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
"""
    output = run_without_unix(code, json.dumps(commands))
    assert output.count("\n") == 3
    assert output.split("\n")[1] == ""
    assert "\r" not in output
    for path in run.rglob("*"):
        if path.suffix in (".json", ".jsonl"):
            assert b"\r" not in path.read_bytes(), path


def test_a_windows_lock_is_exclusive_and_leaves_the_process_number_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: set[tuple[int, int]] = set()  # inode and position

    def locking(number: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        place = os.stat(number).st_ino, os.lseek(number, 0, os.SEEK_CUR)
        if place in held:
            raise PermissionError(errno.EACCES, "locked")
        held.add(place)

    windows = SimpleNamespace(locking=locking, LK_NBLCK=2)
    monkeypatch.setattr(locks, "_module", {"msvcrt": windows}.get)
    assert not in_use(tmp_path)
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text(encoding="utf-8") == f"{os.getpid()}\n"
        assert in_use(tmp_path)
        with pytest.raises(BadRun, match=f"in use by process {os.getpid()}$"), locked(tmp_path):
            pass
    ((_, place),) = held
    assert place > 1 << 20  # not where the process number is


def test_folders_are_not_opened_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Path, int]] = []
    system = os.open

    def noted(path: Path, flags: int, mode: int = 0o777) -> int:
        opened.append((path, flags & os.O_RDWR))
        return system(path, flags, mode)

    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(os, "open", noted)
    monkeypatch.setattr(files, "WINDOWS", True)
    files.sync(tmp_path)
    files.sync(tmp_path / "file")
    assert opened == [(tmp_path / "file", os.O_RDWR)]


def test_standard_output_has_line_feeds_on_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stdout, encoding="cp1252", newline="\r\n"))
    streams.secure()
    sys.stdout.write("Fähre ✓\n")
    sys.stdout.flush()
    assert stdout.getvalue() == "Fähre ✓\n".encode()


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"\xef\xbb\xbfOne.\r\nTwo.\r\n\r\nFour.")
    (tmp_path / "a.de").write_bytes(b"Eins.\nZwei.\n\nVier.\n")
    assert [*read_lines(tmp_path / "a.en")] == ["One.", "Two.", "", "Four."]
    pairs = [*read_pairs(tmp_path / "a.en", tmp_path / "a.de")]
    assert pairs[1] == ("Two.", "Zwei.")


def calls(path: Path) -> list[tuple[str, ast.Call]]:
    """Return the names of called functions and the calls of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            func = node.func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            found.append((name, node))
    return found


def mode_of(call: ast.Call) -> str:
    """Return the mode in which a file is opened."""
    values = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    texts = [value.value for value in values if isinstance(value, ast.Constant)]
    modes = (text for text in texts if isinstance(text, str) and set(text) <= set("rwab+x"))
    return next(modes, "r")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_files_are_opened_as_utf8_with_line_feeds(path: Path) -> None:
    for name, call in calls(path):
        named = {word.arg for word in call.keywords}
        func = ast.unparse(call.func)
        opens = func == "open" or (name == "open" and ("encoding" in named or "b" in mode_of(call)))
        if opens and "b" in mode_of(call):
            continue
        if name in ("read_text", "write_text") or opens:
            assert "encoding" in named, f"line {call.lineno}: {ast.unparse(call)}"
        if name == "write_text" or (opens and set("wax") & set(mode_of(call))):
            assert "newline" in named, f"line {call.lineno}: {ast.unparse(call)}"
