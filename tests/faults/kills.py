"""Repeated `kill -9` of training: the same command resumes and ends with the same bits."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults.fork_server import ForkServer, environment, several
from faults.interruptions import Instant, Interrupter, Task, difference, draw_instant, fresh
from faults.tally import Tally
from transduce.interop.export.ctranslate2 import STAMP
from transduce.runs.arrays import Arrays, digest, load_arrays
from transduce.system.files import read_json, sha256

COUNT = 200
IN_A_ROW = 8  # kills of one run before it may finish


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Kill trainings until so many kills have interrupted."""
    task = Task.make(fresh(folder / "kills"))
    killed = Tally("kills survived: the same command ends with the same bits", seed)
    interrupt_in_parallel(kill_repeatedly, task, count, count // IN_A_ROW, seed, killed)
    averaged = Tally("kills of average and export: existing files are intact", seed)
    with several(task.folder, 1) as (fork_server,):
        kill_averaging(fork_server, task, max(2, count // 5), seed, averaged)
    return [killed, averaged]


Strike = Callable[[ForkServer, Task, int, int, int, Tally], None]


def interrupt_in_parallel(
    strike: Strike, task: Task, times: int, most: int, seed: int, count: Tally
) -> None:
    """Interrupt trainings `times` times on all cores, at most `most` at once."""
    workers = max(1, min(len(os.sched_getaffinity(0)), most))
    share = [times // workers + (i < times % workers) for i in range(workers)]
    with several(task.folder, workers) as fork_server, ThreadPoolExecutor(workers) as pool:
        operations = train_uninterrupted(fork_server[0], task, count)
        for future in [
            pool.submit(strike, fork_server[i], task, operations, share[i], seed + i, count)
            for i in range(workers)
        ]:
            future.result()


def train_uninterrupted(fork_server: ForkServer, task: Task, count: Tally) -> int:
    """Train without interruption, with a real command; return the number of file operations.

    A forked command must give the same bits, or the trials would prove nothing.
    """
    command = [sys.executable, "-m", "transduce", *map(str, task.command(task.whole))]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    forked = Interrupter(fork_server, task).run(task.folder / "forked", None, signal.SIGKILL)
    assert forked.ended.status == 0, forked.ended.stderr
    if differing := difference(task.folder / "forked", task.whole):
        count.fail(f"a forked command and a real one differ in {differing}")
    shutil.rmtree(task.folder / "forked")
    return forked.operations


def kill_repeatedly(
    fork_server: ForkServer, task: Task, operations: int, kills: int, seed: int, count: Tally
) -> None:
    """Kill each run several times, let it finish, and compare it with the uninterrupted run."""
    chance = random.Random(seed)
    interrupter = Interrupter(fork_server, task)
    done = number = 0
    while done < kills:
        run = task.folder / f"run-{seed}-{number}"
        number += 1
        history: list[str] = []
        phases: list[str] = []
        while len(phases) < min(IN_A_ROW, kills - done):
            instant = draw_instant(chance, operations)
            interrupted = interrupter.run(run, instant, signal.SIGKILL)
            history.append(f"{instant}: {interrupted.phase}, {interrupted.ended.status}")
            if interrupted.ended.status != -signal.SIGKILL:
                break
            phases.append(interrupted.phase)
        last = interrupter.run(run, None, signal.SIGKILL)
        done += len(phases)
        if last.ended.status != 0 or "Traceback" in last.ended.stderr:
            what = f"ended with {last.ended.status}: {last.ended.last_line}"
        elif differing := difference(run, task.whole):
            what = f"differs in {differing}"
        else:
            what = ""
        for phase in phases:
            count.fail(f"{run} {what} ({'; '.join(history)})") if what else count.hold(phase)
        if not what:
            shutil.rmtree(run)


def kill_averaging(
    fork_server: ForkServer, task: Task, kills: int, seed: int, count: Tally
) -> None:
    """Kill `average` and `export` while they write: the old or the new model is there, complete."""
    chance = random.Random(seed)
    interrupter = Interrupter(fork_server, task)
    run, out = task.folder / "averaged", task.folder / "exported"
    average: list[str | Path] = ["average", run, "--last", "2"]
    export: list[str | Path] = ["export", run, out, "--to", "ctranslate2"]
    shutil.copytree(task.whole, run)
    old = load_arrays(run / "model.safetensors")
    operations = {
        name: interrupter.run(run, None, 0, command=command).operations
        for name, command in (("average", average), ("export", export))
    }
    new = load_arrays(run / "model.safetensors")
    for _ in range(kills):
        name, command = chance.choice([("average", average), ("export", export)])
        shutil.rmtree(run)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(task.whole, run)
        instant = Instant(operation=chance.randint(1, operations[name]))
        interrupted = interrupter.run(run, instant, signal.SIGKILL, command=command)
        current = load_arrays(run / "model.safetensors")
        wrong = (
            "" if same(current, old) or same(current, new) else "the model is neither old nor new"
        )
        if not out.exists() or name == "average":
            again = interrupter.run(run, None, 0, command=command).ended
            wrong = wrong or (again.stderr if again.status else "")
        if name == "average":
            now = load_arrays(run / "model.safetensors")
            wrong = wrong or ("" if same(now, new) else "the average differs")
        else:
            wrong = wrong or ("" if is_whole(out) else "the export is incomplete")
        description = f"{name} {instant}, {interrupted.ended.status}: {wrong}"
        count.fail(description) if wrong else count.hold(name)


def same(left: Arrays, right: Arrays) -> bool:
    return digest(left) == digest(right)


def is_whole(export: Path) -> bool:
    """Return whether the files of an export match its stamp."""
    files = read_json(export / STAMP)["files"]
    return all(sha256(export / name) == known for name, known in files.items())
