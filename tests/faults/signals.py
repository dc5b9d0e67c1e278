"""Signals that stop training: it saves, says how to resume, and resumes to the same bits."""

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
from faults.interruptions import (
    Instant,
    InterruptedRun,
    Interrupter,
    Task,
    difference,
    draw_instant,
    fresh,
)
from faults.kills import interrupt_in_parallel
from faults.tally import Tally

COUNT = 120
IN_A_ROW = 6
KINDS = {  # signal and number of times it is sent
    "SIGTERM": (signal.SIGTERM, 1),
    "SIGINT": (signal.SIGINT, 1),
    "SIGINT twice": (signal.SIGINT, 2),
    "SIGHUP": (signal.SIGHUP, 1),
}
HOW_TO_RESUME = "the same command "
# What `--preset small` is on a corpus that leaves it no time to end, saved as seldom as by default.
SMALL = {"steps": "100000", "validate_every": "12"}


def inject(count: int, seed: int, folder: Path) -> list[Tally]:
    """Send `count` signals to trainings; then measure how long a larger model takes to stop."""
    task = Task.make(fresh(folder / "signals"))
    signalled = Tally("signals obeyed: saved, reported, and resumed to the same bits", seed)
    interrupt_in_parallel(signal_repeatedly, task, count, count // IN_A_ROW, seed, signalled)
    small = Task.make(fresh(folder / "small"), pairs={"train": 20_000, "valid": 1000}, small=SMALL)
    return [signalled, time_to_end(small, max(3, count // 6), seed), hang_up(task, 2, seed)]


def signal_repeatedly(
    fork_server: ForkServer, task: Task, operations: int, signals: int, seed: int, count: Tally
) -> None:
    """Interrupt each run several times, let it finish, and compare it with the reference."""
    chance = random.Random(seed)
    interrupter = Interrupter(fork_server, task)
    done = number = 0
    while done < signals:
        run = task.folder / f"run-{seed}-{number}"
        number += 1
        outcomes: list[str] = []
        history: list[str] = []
        broken = ""
        while len(outcomes) < min(IN_A_ROW, signals - done) and not broken:
            kind = chance.choice(list(KINDS))
            instant = draw_instant(chance, operations)
            interrupted = interrupter.run(run, instant, *KINDS[kind])
            history.append(f"{kind} {instant}: {interrupted.phase}, {interrupted.ended.status}")
            if interrupted.ended.status == 0:
                break
            outcomes.append(f"{kind} in {interrupted.phase}")
            broken = misbehaviour(interrupted, KINDS[kind][0])
        last = interrupter.run(run, None, 0)
        if not broken and last.ended.status != 0:
            broken = f"ended with {last.ended.status}: {last.ended.last_line}"
        if not broken and (differing := difference(run, task.whole)):
            broken = f"differs in {differing}"
        done += len(outcomes)
        for outcome in outcomes:
            count.fail(f"{run} {broken} ({'; '.join(history)})") if broken else count.hold(outcome)
        if not broken:
            shutil.rmtree(run)


def misbehaviour(run: InterruptedRun, number: int) -> str:
    """Return what a command that was stopped by a signal did wrong."""
    if "Traceback" in run.ended.stderr:
        return f"showed a traceback: {run.ended.stderr[-600:]}"
    if run.ended.status == -number and run.phase in ("starting", "ended"):
        return ""  # before or after its work
    if run.ended.status != 130:
        return f"ended with {run.ended.status}: {run.ended.last_line}"
    if run.phase not in ("starting", "ended") and HOW_TO_RESUME not in run.ended.last_line:
        return f"did not say how to resume: {run.ended.last_line}"
    return ""


def time_to_end(task: Task, times: int, seed: int) -> Tally:
    """Measure the time from SIGTERM to the end of a real command with a model of realistic size."""
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
            stderr = process.stderr.read()
            process.wait()
            took.append(time.monotonic() - began)
        fine = process.returncode == 130 and "everything is saved" in stderr and took[-1] < 3
        words = f"{took[-1]:.2f} s, status {process.returncode}, stderr {stderr[-200:]!r}"
        count.hold("saved") if fine else count.fail(words)
    count.figures["model"] = "--preset small on all cores, validating 1,000 pairs every 12 steps"
    count.figures["median seconds"] = round(statistics.median(took), 2)
    count.figures["most seconds"] = round(max(took), 2)
    return count


def hang_up(task: Task, times: int, seed: int) -> Tally:
    """Close the terminal of a training: everything is saved."""
    count = Tally("a terminal that closes: saved, and resumed to the same bits", seed)
    for number in range(times):
        run = task.folder / f"terminal-{number}"
        command = [sys.executable, "-m", "transduce", *map(str, task.command(run))]
        pid, terminal = pty.fork()
        if not pid:
            os.execvpe(command[0], command, environment(TERM="xterm"))
        output = b""
        while b"step 9:" not in output:
            output += os.read(terminal, 1000)
        os.close(terminal)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        stopped = sorted(path.name for path in (run / "checkpoints").iterdir())[-1]
        subprocess.run(command, check=True, capture_output=True, env=environment())
        differing = difference(run, task.whole)
        if status == 130 and not differing:
            count.hold(f"after {stopped}")
        else:
            count.fail(
                f"{run} ended with {status} after {stopped}, differs in {differing or 'none'}"
            )
    return count


def ignore_hang_ups(notes: str, run: str, at: int, number: int, times: int) -> None:
    """Set up a child as nohup does."""
    from faults.interruptions import watch

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watch(notes, run, at, number, times)


def hang_up_under_nohup(fork_server: ForkServer, task: Task, at: Instant) -> InterruptedRun:
    """Send SIGHUP to a training that was started with nohup."""
    interrupter = Interrupter(fork_server, task, first="faults.signals:ignore_hang_ups")
    return interrupter.run(task.folder / "nohup", at, signal.SIGHUP)
