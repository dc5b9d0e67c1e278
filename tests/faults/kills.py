"""`kill -9` of training, again and again: the same command goes on, and ends with the same bits."""

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
from faults.interruptions import Instant, Striker, Task, difference, drawn, fresh
from faults.tally import Tally
from transduce.interop.export.ctranslate2 import STAMP
from transduce.runs.arrays import Arrays, digest, load_arrays
from transduce.system.files import read_json, sha256

COUNT = 200
IN_A_ROW = 8  # kills of one run, before it is let go to its end


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Kill trainings until so many kills have struck."""
    task = Task.make(fresh(folder / "kills"))
    killed = Tally("kills survived: the same command ends with the same bits", seed)
    strike_side_by_side(kill_again_and_again, task, count, count // IN_A_ROW, seed, killed)
    averaged = Tally("kills of average and export: what was there before is whole", seed)
    with several(task.folder, 1) as (warm,):
        kill_averaging(warm, task, max(2, count // 5), seed, averaged)
    return [killed, averaged]


Strike = Callable[[ForkServer, Task, int, int, int, Tally], None]


def strike_side_by_side(
    strike: Strike, task: Task, times: int, most: int, seed: int, count: Tally
) -> None:
    """Strike trainings so many times on all cores, by at most so many at once."""
    workers = max(1, min(len(os.sched_getaffinity(0)), most))
    share = [times // workers + (i < times % workers) for i in range(workers)]
    with several(task.folder, workers) as warm, ThreadPoolExecutor(workers) as pool:
        touches = finish_whole(warm[0], task, count)
        for one in [
            pool.submit(strike, warm[i], task, touches, share[i], seed + i, count)
            for i in range(workers)
        ]:
            one.result()


def finish_whole(warm: ForkServer, task: Task, count: Tally) -> int:
    """Train without any disturbance, by a command of its own; return how often it touches files.

    A forked one must come to the same bits, or what follows would prove nothing.
    """
    command = [sys.executable, "-m", "transduce", *map(str, task.command(task.whole))]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    forked = Striker(warm, task).run(task.folder / "forked", None, signal.SIGKILL)
    assert forked.ended.status == 0, forked.ended.stderr
    if unlike := difference(task.folder / "forked", task.whole):
        count.fail(f"a forked command and a real one differ in {unlike}")
    shutil.rmtree(task.folder / "forked")
    return forked.touches


def kill_again_and_again(
    warm: ForkServer, task: Task, touches: int, kills: int, seed: int, count: Tally
) -> None:
    """Kill runs, each several times, and compare what they end with."""
    chance = random.Random(seed)
    striker = Striker(warm, task)
    done = number = 0
    while done < kills:
        run = task.folder / f"run-{seed}-{number}"
        number += 1
        told: list[str] = []
        phases: list[str] = []
        while len(phases) < min(IN_A_ROW, kills - done):
            instant = drawn(chance, touches)
            struck = striker.run(run, instant, signal.SIGKILL)
            told.append(f"{instant}: {struck.phase}, {struck.ended.status}")
            if struck.ended.status != -signal.SIGKILL:
                break
            phases.append(struck.phase)
        last = striker.run(run, None, signal.SIGKILL)
        done += len(phases)
        if last.ended.status != 0 or "Traceback" in last.ended.stderr:
            what = f"ended with {last.ended.status}: {last.ended.last_line}"
        elif unlike := difference(run, task.whole):
            what = f"differs in {unlike}"
        else:
            what = ""
        for phase in phases:
            count.fail(f"{run} {what} ({'; '.join(told)})") if what else count.hold(phase)
        if not what:
            shutil.rmtree(run)


def kill_averaging(warm: ForkServer, task: Task, kills: int, seed: int, count: Tally) -> None:
    """Kill `average` and `export` where they write: there is the old or the new, and no half."""
    chance = random.Random(seed)
    striker = Striker(warm, task)
    run, out = task.folder / "averaged", task.folder / "exported"
    average: list[str | Path] = ["average", run, "--last", "2"]
    export: list[str | Path] = ["export", run, out, "--to", "ctranslate2"]
    shutil.copytree(task.whole, run)
    old = load_arrays(run / "model.safetensors")
    touches = {
        name: striker.run(run, None, 0, command=command).touches
        for name, command in (("average", average), ("export", export))
    }
    new = load_arrays(run / "model.safetensors")
    for _ in range(kills):
        name, command = chance.choice([("average", average), ("export", export)])
        shutil.rmtree(run)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(task.whole, run)
        instant = Instant(touch=chance.randint(1, touches[name]))
        struck = striker.run(run, instant, signal.SIGKILL, command=command)
        found = load_arrays(run / "model.safetensors")
        wrong = "" if same(found, old) or same(found, new) else "the model is neither old nor new"
        if not out.exists() or name == "average":
            again = striker.run(run, None, 0, command=command).ended
            wrong = wrong or (again.stderr if again.status else "")
        if name == "average":
            now = load_arrays(run / "model.safetensors")
            wrong = wrong or ("" if same(now, new) else "the mean is another")
        else:
            wrong = wrong or ("" if is_whole(out) else "the export is not whole")
        told = f"{name} {instant}, {struck.ended.status}: {wrong}"
        count.fail(told) if wrong else count.hold(name)


def same(one: Arrays, other: Arrays) -> bool:
    return digest(one) == digest(other)


def is_whole(export: Path) -> bool:
    """Tell whether all files of an export are those that its stamp names."""
    files = read_json(export / STAMP)["files"]
    return all(sha256(export / name) == known for name, known in files.items())
