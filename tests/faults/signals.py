"""Signals that ask a training to end: it saves, says how to go on, and goes on to the same bits."""

import os
import pty
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from faults.fork_server import ForkServer, environment
from faults.interruptions import Instant, Striker, Struck, Task, difference, drawn, fresh
from faults.kills import strike_side_by_side
from faults.tally import Tally

COUNT = 120
IN_A_ROW = 6
KINDS = {  # the signal, and how often it is sent
    "SIGTERM": (signal.SIGTERM, 1),
    "SIGINT": (signal.SIGINT, 1),
    "SIGINT twice": (signal.SIGINT, 2),
    "SIGHUP": (signal.SIGHUP, 1),
}
GOES_ON = "the same command goes on from"
# What `--preset small` is on a corpus that leaves it no time to end, saved as seldom as by default.
SMALL = {"steps": "100000", "validate_every": "12"}


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Send trainings so many signals; then measure how long a model of a real size takes."""
    task = Task.make(fresh(folder / "signals"))
    asked = Tally("signals obeyed: saved, said, and resumed to the same bits", seed)
    strike_side_by_side(ask_again_and_again, task, count, count // IN_A_ROW, seed, asked)
    small = Task.make(fresh(folder / "small"), pairs={"train": 20_000, "valid": 1000}, small=SMALL)
    return [asked, time_to_end(small, max(3, count // 6), seed), hang_up(task, 2, seed)]


def ask_again_and_again(
    warm: ForkServer, task: Task, touches: int, asks: int, seed: int, count: Tally
) -> None:
    """Interrupt runs, each several times, and compare what they end with."""
    chance = random.Random(seed)
    striker = Striker(warm, task)
    done = number = 0
    while done < asks:
        run = task.folder / f"run-{seed}-{number}"
        number += 1
        struck: list[str] = []
        told: list[str] = []
        broken = ""
        while len(struck) < min(IN_A_ROW, asks - done) and not broken:
            kind = chance.choice(list(KINDS))
            instant = drawn(chance, touches)
            one = striker.run(run, instant, *KINDS[kind])
            told.append(f"{kind} {instant}: {one.phase}, {one.ended.status}")
            if one.ended.status == 0:
                break
            struck.append(f"{kind} in {one.phase}")
            broken = misbehaved(one, KINDS[kind][0])
        last = striker.run(run, None, 0)
        if not broken and last.ended.status != 0:
            broken = f"ended with {last.ended.status}: {last.ended.last_line}"
        if not broken and (unlike := difference(run, task.whole)):
            broken = f"differs in {unlike}"
        done += len(struck)
        for what in struck:
            count.fail(f"{run} {broken} ({'; '.join(told)})") if broken else count.hold(what)
        if not broken:
            shutil.rmtree(run)


def misbehaved(one: Struck, number: int) -> str:
    """Say what a command that a signal has ended did wrong."""
    if "Traceback" in one.ended.stderr:
        return f"showed a traceback: {one.ended.stderr[-600:]}"
    if one.ended.status == -number and one.phase in ("starting", "ended"):
        return ""  # before it had begun its work, or after that was done
    if one.ended.status != 130:
        return f"ended with {one.ended.status}: {one.ended.last_line}"
    if one.phase not in ("starting", "ended") and GOES_ON not in one.ended.last_line:
        return f"did not say how to go on: {one.ended.last_line}"
    return ""


def time_to_end(task: Task, times: int, seed: int) -> Tally:
    """Measure the time from SIGTERM to the end of a real command with a model of a real size."""
    chance = random.Random(seed)
    count = Tally("time from SIGTERM to the end: everything saved in less than 3 s", seed)
    took = []
    run = task.folder / "run"
    for _ in range(times):
        command = [sys.executable, "-m", "transduce", *map(str, task.command(run))]
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment(OMP_NUM_THREADS="")
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("computing on"):
                    break
            time.sleep(chance.uniform(0, 12))
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            said = process.stderr.read()
            process.wait()
            took.append(time.monotonic() - began)
        fine = process.returncode == 130 and "everything is saved" in said and took[-1] < 3
        words = f"{took[-1]:.2f} s, status {process.returncode}, said {said[-200:]!r}"
        count.hold("saved") if fine else count.fail(words)
    count.figures["model"] = "--preset small on all cores, validating 1,000 pairs every 12 steps"
    count.figures["median seconds"] = round(statistics.median(took), 2)
    count.figures["most seconds"] = round(max(took), 2)
    return count


def hang_up(task: Task, times: int, seed: int) -> Tally:
    """Close the terminal of a training: nothing can be said, and all is saved."""
    count = Tally("a terminal that closes: saved, and resumed to the same bits", seed)
    for number in range(times):
        run = task.folder / f"terminal-{number}"
        command = [sys.executable, "-m", "transduce", *map(str, task.command(run))]
        pid, terminal = pty.fork()
        if not pid:
            os.execvpe(command[0], command, environment(TERM="xterm"))
        seen = b""
        while b"step 9:" not in seen:
            seen += os.read(terminal, 1000)
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        stopped = sorted(path.name for path in (run / "checkpoints").iterdir())[-1]
        subprocess.run(command, check=True, capture_output=True, env=environment())
        unlike = difference(run, task.whole)
        if status == 130 and not unlike:
            count.hold(f"after {stopped}")
        else:
            count.fail(f"{run} ended with {status} after {stopped}, differs in {unlike or 'none'}")
    return count


def ignoring_hang_ups(notes: str, run: str, at: int, number: int, times: int) -> None:
    """Be a child that nohup has started."""
    from faults.interruptions import watch

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch(notes, run, at, number, times)


def goes_on_under_nohup(warm: ForkServer, task: Task, at: Instant) -> Struck:
    """Hang up on a training that nohup has started."""
    striker = Striker(warm, task, first="faults.signals:ignoring_hang_ups")
    return striker.run(task.folder / "nohup", at, signal.SIGHUP)
