"""How long each connection has been idle.

uvicorn has no timeout for the head of a request, and its `limit_concurrency` does not tell clients
apart: a single client with silent connections could lock out all others.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping

from starlette.types import Scope

from transduce.serving.clients import group

Address = tuple[str, int]


class IdleConnections:
    """The time of the last request on each connection, by the client's address and port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._idle_since: dict[Address, float] = {}  # infinity while a request is in progress
        self.requests = 0  # in progress

    def begin(self, scope: Scope) -> None:
        """Record the start of a request."""
        self.requests += 1
        if scope.get("client"):
            self._idle_since[tuple(scope["client"])] = math.inf

    def end(self, scope: Scope) -> None:
        """Record the end of a request."""
        self.requests -= 1
        if scope.get("client"):
            self._idle_since[tuple(scope["client"])] = self._clock()

    def expired(self, timeouts: Mapping[Address, float], limit: int) -> list[Address]:
        """Return which of the open connections to close, given the idle timeout of each.

        If more than `limit` are open, idle ones are closed early: first those of the client with
        the most connections, longest idle first. So one client cannot use up all connections.
        """
        now = self._clock()
        idle_since = {address: self._idle_since.get(address, now) for address in timeouts}
        self._idle_since = idle_since
        count = Counter(group(host) for host, _ in idle_since)
        idle = sorted(
            (address for address in idle_since if idle_since[address] <= now),
            key=lambda address: (-count[group(address[0])], idle_since[address]),
        )
        excess = max(0, len(idle_since) - limit)
        timed_out = [
            address for address in idle[excess:] if now - idle_since[address] > timeouts[address]
        ]
        return idle[:excess] + timed_out
