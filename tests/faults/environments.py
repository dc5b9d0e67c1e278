"""Unusual environments: a command gives the same result there."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faults.fork_server import ForkServer, environment
from faults.interruptions import Instant, Interrupter, Task, difference, fresh
from faults.tally import Tally

NAME = "a b'c\"d é漢\n*x"
LATIN = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SHORT = {"steps": "12", "validate_bleu": "4"}
LINES = 12  # translated in each environment


@dataclass(frozen=True)
class Environment:
    """Changed variables (None: unset), odd file names, or a shell command that runs before."""

    environment: Mapping[str, str | None] = field(default_factory=dict)
    name: str = "usual"
    shell: str = ""
    has_output: bool = True


ENVIRONMENTS = {
    "locale C": Environment(LATIN),
    "locale C and odd names": Environment(LATIN, NAME),
    "odd names": Environment(name=NAME),
    "no HOME": Environment({"HOME": None, "USER": None, "LOGNAME": None}),
    "a missing HOME": Environment({"HOME": "/nonexistent"}),
    "a HOME that is not writable": Environment(
        {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/x"}
    ),
    "no folder for temporary files": Environment(
        dict.fromkeys(("TMPDIR", "TEMP", "TMP"), "/nonexistent")
    ),
    "no environment at all": Environment(dict.fromkeys(os.environ, None)),
    "64 open files": Environment(shell="ulimit -n 64"),
    "standard input closed": Environment(shell="exec 0<&-"),
    "all streams closed": Environment(shell="exec 0<&- 1>&- 2>&-", has_output=False),
    "a umask that hides all": Environment(shell="umask 077"),
}


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Train in every environment, and disturb a run from another process."""
    task = Task.make(fresh(folder / "places"), changes=SHORT)
    usual = train_and_translate(task, "usual", Environment())
    odd = Tally("unusual environments: a command gives the same result", seed)
    for name, setup in list(ENVIRONMENTS.items())[: max(0, count - len(DISTURBANCES))]:
        hold_or_fail(
            odd, name, difference_from_usual(train_and_translate(task, name, setup), usual, setup)
        )
    disturbed = Tally("disturbed by another process: refused or unharmed", seed)
    for what in DISTURBANCES:
        hold_or_fail(disturbed, what.__name__.replace("_", " "), what(task))
    return [odd, disturbed]


def hold_or_fail(count: Tally, name: str, wrong: str) -> None:
    count.fail(f"{name}: {wrong}") if wrong else count.hold(name)


@dataclass(frozen=True)
class Done:
    """A training and a translation in one environment."""

    run: Path
    statuses: tuple[int, int]
    translated: bytes
    stderr: str


def train_and_translate(task: Task, name: str, setup: Environment) -> Done:
    """Train and translate in an environment."""
    directory = fresh(task.folder / name.replace(" ", "-") / setup.name)
    texts = []
    for text in task.texts:
        texts.append(directory / f"{setup.name}{text.name}")
        texts[-1].hardlink_to(text)
    prefixes = directory / "begins"
    prefixes.write_text("über\n" * LINES, encoding="utf-8")
    few = directory / "few.en"
    lines = texts[2].read_text(encoding="utf-8").splitlines(keepends=True)[:LINES]
    few.write_text("".join(lines), encoding="utf-8")
    run = directory / "run"
    trained = command(setup, *Task(task.folder, texts, task.settings, "tiny").command(run))
    translating = ("translate", run, few, "--prefixes", prefixes, "--beam", "2")
    translated = command(setup, *translating)
    statuses = trained.returncode, translated.returncode
    stderr = (trained.stderr + translated.stderr).decode("utf-8", "replace")
    return Done(run, statuses, translated.stdout, stderr)


def difference_from_usual(done: Done, usual: Done, setup: Environment) -> str:
    """Return how a result differs from that in the usual environment."""
    expected = (0, 0) if setup.has_output else (0, 1)  # output that cannot be written is an error
    if done.statuses != expected or "Traceback" in done.stderr:
        return f"ended with {done.statuses}: {done.stderr[-800:]}"
    for name in ("model.safetensors", "best.safetensors", "subwords.json"):
        if (done.run / name).read_bytes() != (usual.run / name).read_bytes():
            return f"{done.run} differs in {name}"
    if setup.has_output and done.translated != usual.translated:
        return f"{done.run} translates differently"
    return "" if "ü".encode() in usual.translated else "no non-ASCII character was translated"


def command(setup: Environment, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run a real command in an environment."""
    real = [sys.executable, "-m", "transduce", *map(str, arguments)]
    changed = environment() | dict(setup.environment)
    needed = {name: environment()[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS")}
    variables = {name: value for name, value in changed.items() if value is not None}
    return subprocess.run(
        ["/bin/sh", "-c", f'{setup.shell or ":"}; exec "$@"', "sh", *real],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=variables | needed,
        check=False,
    )


# Disturbances by another process.


@contextlib.contextmanager
def training(task: Task, run: Path) -> Iterator[subprocess.Popen[str]]:
    """A training in its steps; it is killed at the end."""
    real = [sys.executable, "-m", "transduce", *map(str, task.command(run))]
    with subprocess.Popen(
        [*real, "--steps", "100000"], stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 9:"):
                break
        yield process
        process.kill()
        process.stderr.read()


def two_on_one_folder(task: Task) -> str:
    """Start a second process on a run, then resume after the first was killed."""
    run = fresh(task.folder / "two") / "run"
    with training(task, run) as first:
        for arguments in (task.command(run), ["average", run]):
            second = command(Environment(), *arguments)
            expected = f"error: {run} is in use by process {first.pid}\n"
            if second.returncode != 1 or second.stderr.decode() != expected:
                return f"{arguments[0]} was not refused: {second.stderr.decode()!r}"
    (run / ".lock").write_bytes(b"\xff\xfe rubbish " * 9)
    after = command(Environment(), *task.command(run), "--steps", "12")
    if after.returncode:
        return f"was not resumed: {after.stderr.decode()[-400:]}"
    return ""


def a_reader_that_closes_its_pipe(task: Task) -> str:
    """Read one line of many, as `| head -1` does."""
    run = whole(task)
    real = [sys.executable, "-m", "transduce", "translate", str(run), str(task.texts[0])]
    with subprocess.Popen(
        [*real, "--beam", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        process.stdout.close()
        stderr = process.stderr.read().decode()
    quiet = all(line.startswith(("engine: ", "translating")) for line in stderr.splitlines())
    return "" if line and quiet and process.returncode == 1 else f"{process.returncode}: {stderr}"


def an_output_that_is_full(task: Task) -> str:
    """Write output to a full disk."""
    done = command(Environment(shell="exec >/dev/full"), "info", whole(task))
    stderr = done.stderr.decode()
    fine = done.returncode == 1 and stderr.startswith("error: no space") and stderr.count("\n") == 1
    return "" if fine else f"{done.returncode}: {stderr}"


def a_clock_that_goes_backwards(task: Task) -> str:
    """Turn the clock back at every reading, and again when the run is resumed."""
    run = fresh(task.folder / "clock") / "run"
    with ForkServer(task.folder / "fork_server") as fork_server:
        interrupter = Interrupter(
            fork_server, task, first="faults.environments:turn_back_the_clock"
        )
        interrupted = interrupter.run(run, Instant(phase="saving", nth=2), signal.SIGKILL)
        if interrupted.ended.status != -signal.SIGKILL:
            return f"was not killed: {interrupted.ended.stderr[-400:]}"
        last = interrupter.run(run, None, 0)
    if last.ended.status:
        return f"ended with {last.ended.status}: {last.ended.stderr[-400:]}"
    return difference(run, whole(task))


def turn_back_the_clock(notes: str, run: str, at: int, number: int, times: int) -> None:
    """Set up a child whose clock goes back by an hour at every reading."""
    from faults.interruptions import watch

    began, readings = time.time(), 0

    def earlier() -> float:
        nonlocal readings
        readings += 1
        return began - 3600.0 * (readings + os.getpid() % 100)

    time.time = earlier
    time.time_ns = lambda: int(earlier() * 1e9)
    watch(notes, run, at, number, times)


def whole(task: Task) -> Path:
    """Return the uninterrupted run of the task."""
    if not (task.whole / "model.safetensors").exists():
        command(Environment(), *task.command(task.whole))
    return task.whole


DISTURBANCES: tuple[Callable[[Task], str], ...] = (
    a_clock_that_goes_backwards,
    two_on_one_folder,
    a_reader_that_closes_its_pipe,
    an_output_that_is_full,
)
COUNT = len(ENVIRONMENTS) + len(DISTURBANCES)
