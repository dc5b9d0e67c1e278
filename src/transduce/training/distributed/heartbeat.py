"""Heartbeats: each process increments a counter in a store that all of them share.

When a process dies, its connections are closed, and the others notice at once. A process that hangs
(it was stopped, or its machine lost power) keeps them open, and the others would wait forever.
Therefore each process checks the counters of the others. A process that has been silent too long is
killed by those on its machine; if that does not help, they exit. A process is killed only if its
start time is the registered one, because its pid may have been reused.
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
ENDED = "ended"  # the last beat of a process that exits normally
SILENT = 3  # missed beats after which a process counts as gone, once an operation has failed
RESUME = (
    "the last checkpoint is intact; run the same command to resume, with any number of processes"
)


def patience() -> float:
    """Return the number of seconds for which a process may be silent."""
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text or PATIENCE)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadSetting(f"{VARIABLE} = {text!r} in the environment: expected seconds, such as 600")
    return seconds


class Heartbeat:
    """Sends the heartbeat of this process and checks the others, in a thread."""

    def __init__(
        self,
        store: "Store",
        rank: int,
        world: int,
        seconds: float,
        reports_first: Callable[[], bool],
    ) -> None:
        """Register this process; `reports_first` returns whether it should report an error."""
        self.store, self.rank, self.reports_first = store, rank, reports_first
        self.seconds = seconds
        self.every = min(1.0, seconds / 10)
        self.allowed = round(seconds / self.every)  # beats that may be missed
        self.peers = [peer for peer in range(world) if peer != rank]
        self.last = dict.fromkeys(self.peers, "")
        self.missed = dict.fromkeys(self.peers, 0)  # by this process's clock
        self.hung: set[int] = set()
        self.ended = threading.Event()
        self.store.set(_key("who", rank), f"{os.getpid()} {socket.gethostname()}")
        self.store.set(_key("identity", rank), identity(os.getpid()))
        self.store.set(_key("beat", rank), "0")
        self.thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the heartbeat, after all processes have registered."""
        self.thread.start()

    def stop(self) -> None:
        """Stop the heartbeat, and record that this process exits and does not hang."""
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()
        with contextlib.suppress(RuntimeError):  # the store is gone
            self.store.set(_key("beat", self.rank), ENDED)

    def lost_ranks(self) -> set[int]:
        """Return the processes that hang, have ended or are silent, after waiting a few beats."""
        for _ in range(2 * SILENT):
            gone = self.hung or {
                peer
                for peer in self.peers
                if self.missed[peer] >= SILENT or self.last[peer] == ENDED
            }
            if gone:
                return gone
            time.sleep(self.every)
        return set()

    def describe_lost(self) -> str:
        """Describe which processes are gone."""
        names = " and ".join(self._name(peer) for peer in sorted(self.lost_ranks()))
        if self.hung:
            return f"{names} gave no sign of life for {self.seconds:g} s and was ended"
        return f"{names or 'another process'} has ended or cannot be reached"

    def _work(self) -> None:
        count = 0
        with contextlib.suppress(RuntimeError):  # the store is gone, and the run with it
            while not self.ended.wait(self.every):
                count += 1
                self.store.set(_key("beat", self.rank), str(count))
                self._check_peers()

    def _check_peers(self) -> None:
        beats = self.store.multi_get([_key("beat", peer) for peer in self.peers])
        for peer, beat in zip(self.peers, map(bytes.decode, beats), strict=True):
            alive = beat == ENDED or beat != self.last[peer]
            self.last[peer] = beat
            self.missed[peer] = 0 if alive else self.missed[peer] + 1
            if self.missed[peer] >= self.allowed:
                self._give_up(peer)

    def _give_up(self, peer: int) -> None:
        """Kill a process that hangs, if it is on this machine; later, end this process."""
        pid, host = self._who(peer)
        if host == socket.gethostname() and peer not in self.hung:  # once: the pid may be reused
            registered = self.store.get(_key("identity", peer)).decode()
            if registered and identity(pid) == registered:
                with contextlib.suppress(OSError):
                    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows: SIGTERM
        self.hung.add(peer)
        if self.missed[peer] >= 2 * self.allowed:  # killing it was impossible, or did not help
            if self.reports_first():
                sys.__stderr__.write(f"error: {self.describe_lost()}: {RESUME}\n")  # type: ignore[union-attr]
            os._exit(1)

    def _who(self, rank: int) -> tuple[int, str]:
        pid, _, host = self.store.get(_key("who", rank)).decode().partition(" ")
        return int(pid), host

    def _name(self, rank: int) -> str:
        try:
            pid, host = self._who(rank)
        except RuntimeError:
            return f"the process of rank {rank}"
        return f"the process of rank {rank} (pid {pid} on {host})"


def identity(pid: int) -> str:
    """Return a string that identifies a process uniquely, or "" if there is no such process.

    On Linux, it consists of the boot id, the pid namespace and the start time. Other systems have
    no /proc: there no process is killed, and each exits on its own.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").readlink()
        # The name is in parentheses and may contain spaces; the start time is field 20 after it.
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = status.rpartition(")")[2].split()
        return f"{boot} {space} {fields[19]}"
    except (OSError, IndexError):
        return ""


def _key(kind: str, rank: int) -> str:
    return f"{kind} {rank}"
