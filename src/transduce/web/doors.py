"""The connections that are open: so many of all clients, and so many of each."""

import contextlib
from collections import Counter
from collections.abc import Collection

from transduce.web.clients import group, is_local, plain

PART = 4  # of all connections, one address may have one part in so many
SPARE = 100  # files that a process needs beside its connections


class Doors:
    """Counts connections. Those of this machine and of trusted proxies are no one client's."""

    def __init__(self, most: int, proxies: Collection[str] = ()) -> None:
        self.most = min(most, files() - SPARE)
        self.ceiling = self.most + max(8, self.most // PART)  # with those that are only told so
        self.open = 0
        self._proxies = frozenset(proxies)
        self._of: Counter[str] = Counter()  # by address

    def enter(self, address: str) -> str:
        """Count one more, and return why it may not stay, or nothing where it may."""
        self.open += 1
        whose = self._whose(address)
        if whose:
            self._of[whose] += 1
        if self.open > self.most:
            return f"{self.most:,} connections are open already"
        if whose and self._of[whose] > max(1, self.most // PART):
            return f"{self._of[whose] - 1:,} connections of yours are open already"
        return ""

    def leave(self, address: str) -> None:
        """Count one less."""
        self.open -= 1
        whose = self._whose(address)
        if whose:
            self._of[whose] -= 1
            if not self._of[whose]:
                del self._of[whose]

    def _whose(self, address: str) -> str:
        """Return the client of an address; nothing where many may stand behind it."""
        found = group(address)
        return "" if is_local(found) or plain(address) in self._proxies else found


def files() -> int:
    """Return how many files this process may have open, as many as it can be given."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 1 << 16
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if most == resource.RLIM_INFINITY else min(most, 8192)
    if now != resource.RLIM_INFINITY and now < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            now = wanted
    return max(2 * SPARE, 1 << 16 if now == resource.RLIM_INFINITY else now)
