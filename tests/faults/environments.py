"""Odd places to work in: what a command does there is what it does anywhere."""

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
from faults.interruptions import Instant, Striker, Task, difference, fresh
from faults.tally import Tally

NAME = "a b'c\"d é漢\n*x"
LATIN = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SHORT = {"steps": "12", "validate_bleu": "4"}
LINES = 12  # translated in each place


@dataclass(frozen=True)
class Place:
    """What is odd: the environment (None: unset), the names, or what the shell does before."""

    environment: Mapping[str, str | None] = field(default_factory=dict)
    name: str = "usual"
    shell: str = ""
    speaks: bool = True


PLACES = {
    "locale C": Place(LATIN),
    "locale C and odd names": Place(LATIN, NAME),
    "odd names": Place(name=NAME),
    "no HOME": Place({"HOME": None, "USER": None, "LOGNAME": None}),
    "a HOME that is not there": Place({"HOME": "/nonexistent"}),
    "a HOME that cannot be written": Place({"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/x"}),
    "no folder for temporary files": Place(
        dict.fromkeys(("TMPDIR", "TEMP", "TMP"), "/nonexistent")
    ),
    "no environment at all": Place(dict.fromkeys(os.environ, None)),
    "64 open files": Place(shell="ulimit -n 64"),
    "standard input closed": Place(shell="exec 0<&-"),
    "all streams closed": Place(shell="exec 0<&- 1>&- 2>&-", speaks=False),
    "a umask that hides all": Place(shell="umask 077"),
}


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Work in every place, and disturb a run from beside."""
    task = Task.make(fresh(folder / "places"), changes=SHORT)
    usual = at(task, "usual", Place())
    odd = Tally("odd places: a command does there what it does anywhere", seed)
    for name, place in list(PLACES.items())[: max(0, count - len(DISTURBED))]:
        hold_or_fail(odd, name, unlike(at(task, name, place), usual, place))
    beside = Tally("disturbed from beside: refused or unharmed", seed)
    for what in DISTURBED:
        hold_or_fail(beside, what.__name__.replace("_", " "), what(task))
    return [odd, beside]


def hold_or_fail(count: Tally, name: str, wrong: str) -> None:
    count.fail(f"{name}: {wrong}") if wrong else count.hold(name)


@dataclass(frozen=True)
class Done:
    """A training and a translation in some place."""

    run: Path
    statuses: tuple[int, int]
    translated: bytes
    said: str


def at(task: Task, name: str, place: Place) -> Done:
    """Train in a place, and translate there."""
    home = fresh(task.folder / name.replace(" ", "-") / place.name)
    texts = []
    for text in task.texts:
        texts.append(home / f"{place.name}{text.name}")
        texts[-1].hardlink_to(text)
    begins = home / "begins"
    begins.write_text("über\n" * LINES, encoding="utf-8")
    few = home / "few.en"
    lines = texts[2].read_text(encoding="utf-8").splitlines(keepends=True)[:LINES]
    few.write_text("".join(lines), encoding="utf-8")
    run = home / "run"
    trained = command(place, *Task(task.folder, texts, task.settings, "tiny").command(run))
    translating = ("translate", run, few, "--prefixes", begins, "--beam", "2")
    translated = command(place, *translating)
    statuses = trained.returncode, translated.returncode
    said = (trained.stderr + translated.stderr).decode("utf-8", "replace")
    return Done(run, statuses, translated.stdout, said)


def unlike(done: Done, usual: Done, place: Place) -> str:
    """Say what differs from the usual place."""
    expected = (0, 0) if place.speaks else (0, 1)  # translations that nobody can read are an error
    if done.statuses != expected or "Traceback" in done.said:
        return f"ended with {done.statuses}: {done.said[-800:]}"
    for name in ("model.safetensors", "best.safetensors", "subwords.json"):
        if (done.run / name).read_bytes() != (usual.run / name).read_bytes():
            return f"{done.run} differs in {name}"
    if place.speaks and done.translated != usual.translated:
        return f"{done.run} translates otherwise"
    return "" if "ü".encode() in usual.translated else "no letter beyond ASCII was translated"


def command(place: Place, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run a real command in a place."""
    real = [sys.executable, "-m", "transduce", *map(str, arguments)]
    changed = environment() | dict(place.environment)
    needed = {name: environment()[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS")}
    kept = {name: value for name, value in changed.items() if value is not None}
    return subprocess.run(
        ["/bin/sh", "-c", f'{place.shell or ":"}; exec "$@"', "sh", *real],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=kept | needed,
        check=False,
    )


# From beside.


@contextlib.contextmanager
def training(task: Task, run: Path) -> Iterator[subprocess.Popen[str]]:
    """A training that is just making its steps; it is killed at the end."""
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
    """Start a second process on a run, then take over from the first when that is killed."""
    run = fresh(task.folder / "two") / "run"
    with training(task, run) as first:
        for arguments in (task.command(run), ["average", run]):
            second = command(Place(), *arguments)
            expected = f"error: {run} is in use by process {first.pid}\n"
            if second.returncode != 1 or second.stderr.decode() != expected:
                return f"{arguments[0]} was not refused: {second.stderr.decode()!r}"
    (run / ".lock").write_bytes(b"\xff\xfe rubbish " * 9)
    after = command(Place(), *task.command(run), "--steps", "12")
    if after.returncode:
        return f"was not taken over: {after.stderr.decode()[-400:]}"
    return ""


def a_reader_that_goes(task: Task) -> str:
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
        said = process.stderr.read().decode()
    quiet = all(one.startswith(("engine: ", "translating")) for one in said.splitlines())
    return "" if line and quiet and process.returncode == 1 else f"{process.returncode}: {said}"


def an_output_that_is_full(task: Task) -> str:
    """Write translations to a disk without room."""
    done = command(Place(shell="exec >/dev/full"), "info", whole(task))
    said = done.stderr.decode()
    fine = done.returncode == 1 and said.startswith("error: no space") and said.count("\n") == 1
    return "" if fine else f"{done.returncode}: {said}"


def a_clock_that_goes_backwards(task: Task) -> str:
    """Turn the clock back at every look at it, and once more when the run goes on."""
    run = fresh(task.folder / "clock") / "run"
    with ForkServer(task.folder / "warm") as warm:
        striker = Striker(warm, task, first="faults.environments:turn_back_the_clock")
        struck = striker.run(run, Instant(phase="saving", nth=2), signal.SIGKILL)
        if struck.ended.status != -signal.SIGKILL:
            return f"was not killed: {struck.ended.stderr[-400:]}"
        last = striker.run(run, None, 0)
    if last.ended.status:
        return f"ended with {last.ended.status}: {last.ended.stderr[-400:]}"
    return difference(run, whole(task))


def turn_back_the_clock(notes: str, run: str, at: int, number: int, times: int) -> None:
    """Be a child whose clock goes backwards by an hour at every look."""
    from faults.interruptions import watch

    began, looks = time.time(), 0

    def earlier() -> float:
        nonlocal looks
        looks += 1
        return began - 3600.0 * (looks + os.getpid() % 100)

    time.time = earlier
    time.time_ns = lambda: int(earlier() * 1e9)
    watch(notes, run, at, number, times)


def whole(task: Task) -> Path:
    """Return the run of the task that nothing disturbed."""
    if not (task.whole / "model.safetensors").exists():
        command(Place(), *task.command(task.whole))
    return task.whole


DISTURBED: tuple[Callable[[Task], str], ...] = (
    a_clock_that_goes_backwards,
    two_on_one_folder,
    a_reader_that_goes,
    an_output_that_is_full,
)
COUNT = len(PLACES) + len(DISTURBED)
