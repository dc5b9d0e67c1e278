"""Whether the other processes of a run are alive: each beats in a store that all of them share.

One that dies closes its connections, which the others notice at once. One that hangs, such as one
that was stopped or whose machine has lost its power, does not: they would wait for it for ever. So
each looks whether the others still beat. One that has not for too long is killed by those on its
machine, and is then as dead as any; where that is of no avail, they end themselves. A process is
killed only if its start time is the one it reported: its pid may belong to another process by now.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import BadSetting

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

VARIABLE = "TRANSDUCE_PATIENCE"  # seconds
PATIENCE = 600.0
ENDED = "ended"  # the last beat of a process that ends by itself
SILENT = 3  # beats that fail to come where one is known to be gone
GOES_ON = (
    "what was saved is whole, and the same command goes on from there, with as many processes as "
    "you like"
)


def patience() -> float:
    """Return for how many seconds a process may give no sign of life."""
    told = os.environ.get(VARIABLE, "")
    try:
        seconds = float(told or PATIENCE)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadSetting(f"{VARIABLE} = {told!r} in the environment: expected seconds, such as 600")
    return seconds


class Heartbeat:
    """Beats for this process, and listens to the others, in a thread of its own."""

    def __init__(
        self, store: "Store", rank: int, world: int, seconds: float, speaks: Callable[[], bool]
    ) -> None:
        """`speaks` tells whether it is for this process to say why they end."""
        self.store, self.rank, self.speaks = store, rank, speaks
        self.every = min(1.0, seconds / 10)
        self.most = round(seconds / self.every)  # beats that may fail to come
        self.seconds = seconds
        self.others = [other for other in range(world) if other != rank]
        self.last = dict.fromkeys(self.others, "")
        self.missed = dict.fromkeys(self.others, 0)  # looks since the last beat, of our own clock
        self.hung: set[int] = set()
        self.ended = threading.Event()
        self.store.set(_key("who", rank), f"{os.getpid()} {socket.gethostname()}")
        self.store.set(_key("identity", rank), identity(os.getpid()))
        self.store.set(_key("beat", rank), "0")
        self.thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Beat from now on; all have told who they are."""
        self.thread.start()

    def stop(self) -> None:
        """Beat no more, and say so: whoever has ended has not hung."""
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()
        with contextlib.suppress(RuntimeError):  # the store is gone
            self.store.set(_key("beat", self.rank), ENDED)

    def lost(self) -> str:
        """Say in words which processes are gone: those that have hung, or that beat no more."""
        gone = self.hung
        for _ in range(2 * SILENT):
            gone = gone or {
                one for one in self.others if self.missed[one] >= SILENT or self.last[one] == ENDED
            }
            if gone:
                break
            time.sleep(self.every)
        names = " and ".join(self._name(one) for one in sorted(gone)) or "another process"
        if self.hung:
            return f"{names} gave no sign of life for {self.seconds:g} s and was ended"
        return f"{names} has ended or cannot be reached"

    def _work(self) -> None:
        count = 0
        with contextlib.suppress(RuntimeError):  # the store is gone, and with it the run
            while not self.ended.wait(self.every):
                count += 1
                self.store.set(_key("beat", self.rank), str(count))
                self._listen()

    def _listen(self) -> None:
        beats = self.store.multi_get([_key("beat", other) for other in self.others])
        for other, beat in zip(self.others, beats, strict=True):
            heard = beat.decode() != self.last[other]
            self.last[other] = beat.decode()
            heard = heard or self.last[other] == ENDED
            self.missed[other] = 0 if heard else self.missed[other] + 1
            if self.missed[other] >= self.most:
                self._give_up(other)

    def _give_up(self, other: int) -> None:
        number, host = self._who(other)
        if host == socket.gethostname() and other not in self.hung:  # later it may be another's
            known = self.store.get(_key("identity", other)).decode()
            if known and identity(number) == known:
                with contextlib.suppress(OSError):
                    os.kill(number, getattr(signal, "SIGKILL", signal.SIGTERM))  # for Windows
        self.hung.add(other)
        if self.missed[other] >= 2 * self.most:  # nobody there could end it, or nobody has noticed
            if self.speaks():
                sys.__stderr__.write(f"error: {self.lost()}: {GOES_ON}\n")  # type: ignore[union-attr]
            os._exit(1)

    def _who(self, rank: int) -> tuple[int, str]:
        number, _, host = self.store.get(_key("who", rank)).decode().partition(" ")
        return int(number), host

    def _name(self, rank: int) -> str:
        try:
            number, host = self._who(rank)
        except RuntimeError:
            return f"the process of rank {rank}"
        return f"the process of rank {rank} (pid {number} on {host})"


def identity(number: int) -> str:
    """Return what tells a process from any other of its pid, or "" if there is no such process.

    On Linux: the boot of the machine, the pid namespace and the start time. Other systems have no
    /proc: no process is killed there, and each ends by itself.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").readlink()
        # The name, in parentheses, may hold spaces; the start time is the 20th field after it.
        status = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
        fields = status.rpartition(")")[2].split()
        return f"{boot} {space} {fields[19]}"
    except (OSError, IndexError):
        return ""


def _key(kind: str, rank: int) -> str:
    return f"{kind} {rank}"
