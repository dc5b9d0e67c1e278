"""How long each connection has been without a request in progress."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping

from starlette.types import Scope

from transduce.serving.clients import group

Address = tuple[str, int]


class Idle:
    """The time since the last request of each connection, by the client's address and port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Address, float] = {}  # infinity while a request is in progress
        self.requests = 0  # in progress

    def begin(self, scope: Scope) -> None:
        """Note that a request is in progress."""
        self.requests += 1
        if scope.get("client"):
            self._since[tuple(scope["client"])] = math.inf

    def end(self, scope: Scope) -> None:
        """Note that a request is answered."""
        self.requests -= 1
        if scope.get("client"):
            self._since[tuple(scope["client"])] = self._clock()

    def expired(self, patience: Mapping[Address, float], most: int) -> list[Address]:
        """Return the open connections to close, given how many seconds each may be idle.

        If more than `most` are open, idle ones are closed early: first those of the client with
        the most connections, longest idle first. So one client cannot use up all connections.
        """
        now = self._clock()
        self._since = since = {one: self._since.get(one, now) for one in patience}
        count = Counter(group(host) for host, _ in since)
        idle = sorted(
            (one for one in since if since[one] <= now),
            key=lambda one: (-count[group(one[0])], since[one]),
        )
        excess = max(0, len(since) - most)
        late = [one for one in idle[excess:] if now - since[one] > patience[one]]
        return idle[:excess] + late
