"""What each client may take, so that none can take all: its rate, its work, its part of the queue.

A client is a key where there are keys, else an address; of IPv6 the network, as one machine may
have all addresses of it. What is known of clients is bounded: the last ones that asked.
"""

import functools
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable

from starlette.types import Scope

from transduce.errors import BadInput
from transduce.serving.keys import Keys
from transduce.serving.limits import Limits
from transduce.serving.problems import Problem

KNOWN = 10_000  # clients
ATTEMPTS = 10  # with wrong keys in a minute, of one address
NETWORK = 64  # bits of an IPv6 address that one customer is given
UNKNOWN = "unknown"  # the client of a socket that has no address

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Bucket:
    """So many in a minute: all at once, or one by one."""

    __slots__ = ("_left", "_per_minute", "_seen")

    def __init__(self, per_minute: float, now: float) -> None:
        self._per_minute = self._left = per_minute
        self._seen = now

    def wait(self, now: float) -> float:
        """Return the seconds until there is one to take."""
        self._left = min(self._per_minute, self._left + (now - self._seen) * self._per_minute / 60)
        self._seen = now
        return max(0.0, 1 - self._left) * 60 / self._per_minute

    def take(self) -> None:
        """Take one."""
        self._left -= 1


class Client:
    """What one client has taken."""

    __slots__ = ("attempts", "inspections", "most", "rate", "requests", "sentences")

    def __init__(self, rate: Bucket | None, most: int, attempts: Bucket) -> None:
        self.rate, self.attempts = rate, attempts
        self.most = most  # requests at the same time; 0: without limit
        self.requests = 0  # that are being answered
        self.sentences = 0  # that wait or are searched
        self.inspections = 0  # likewise


class Visitor:
    """A request on its way, and whose it is."""

    __slots__ = ("_address", "_clients", "_known", "client")

    def __init__(self, clients: "Clients", address: str) -> None:
        self._clients, self._address = clients, address
        self._known = False  # it has shown a key, or needs none
        self.client: Client | None = None

    def enter(self, key: bytes | None, *, free: bool) -> None:
        """Let a client in, or refuse it; what is `free` needs no key, or is shown one later."""
        self.client = self._clients.let_in(self._address, key, free=free)
        self._known = not free or self._clients.keys is None

    def show(self, key: bytes) -> None:
        """Let a client stay that had no key in its headers, where this is one."""
        if not self._known:
            client = self._clients.let_in(self._address, key, free=False)
            self.leave()
            self.client, self._known = client, True

    def leave(self) -> None:
        """End the request."""
        if self.client is not None:
            self.client.requests -= 1


class Clients:
    """All clients of a service, as far as they are remembered."""

    def __init__(
        self,
        limits: Limits,
        keys: Keys | None = None,
        proxies: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits, self.keys, self.proxies = limits, keys, frozenset(proxies)
        self._clock = clock
        self._known: OrderedDict[str, Client] = OrderedDict()  # the last one seen last

    def visitor(self, scope: Scope) -> Visitor:
        """Return who sends a request."""
        return Visitor(self, self.address(scope))

    def address(self, scope: Scope) -> str:
        """Return a request's address: the last that no trusted proxy has, as they tell it."""
        client = scope.get("client")
        found = plain(client[0]) if client else UNKNOWN
        if found not in self.proxies:
            return group(found)
        told = b",".join(v for k, v in scope["headers"] if k == b"x-forwarded-for")
        for one in reversed(told.decode("latin-1").split(",")):
            address = _address(one.strip())
            if address is None:
                break  # nobody vouches for what stands before it
            found = str(address)
            if found not in self.proxies:
                return group(found)
        return UNKNOWN  # a proxy that does not say for whom it asks

    def let_in(self, address: str, key: bytes | None, *, free: bool) -> Client:
        """Return the client of an address or of its key, with one request more; or refuse it."""
        now = self._clock()
        name = address
        if self.keys is not None and not free:
            name = self._named(self.keys, address, key, now)
        client = self._client(name, address, now)
        if 0 < client.most <= client.requests:
            raise too_many(
                f"{client.requests} requests of yours are being answered already", seconds=1
            )
        if client.rate is not None:
            if (wait := client.rate.wait(now)) > 0:
                raise too_many("these are more requests than one client may send", wait)
            client.rate.take()
        client.requests += 1
        return client

    def _named(self, keys: Keys, address: str, key: bytes | None, now: float) -> str:
        """Return the name of a key's client, or refuse what is no key; few attempts are free."""
        if not key:
            raise unauthorized("this service needs a key: send it as Authorization: Bearer KEY")
        attempts = self._client(address, address, now).attempts
        if (wait := attempts.wait(now)) > 0:
            raise too_many("there were too many wrong keys from here", wait)
        place = keys.find(key)
        if place is None:
            attempts.take()
            raise unauthorized("the key is not one that this service knows: check it")
        return f"key {place} {'here' if is_local(address) else 'elsewhere'}"

    def _client(self, name: str, address: str, now: float) -> Client:
        found = self._known.get(name)
        if found is None:
            rate, most = self.limits.of_client(local=is_local(address))
            bucket = Bucket(rate, now) if rate else None
            found = self._known[name] = Client(bucket, most, Bucket(ATTEMPTS, now))
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(name)
        return found


def trusted(proxies: Iterable[str]) -> frozenset[str]:
    """Return the addresses of proxies as requests name them."""
    found = set()
    for one in proxies:
        address = _address(one)
        if address is None:
            raise BadInput(f"--trusted-proxy {one}: expected an address such as 10.0.0.1")
        found.add(str(address))
    return frozenset(found)


@functools.lru_cache(1024)
def plain(address: str) -> str:
    """Write an address in the one way that we compare."""
    return str(_address(address) or address)


@functools.lru_cache(1024)
def group(address: str) -> str:
    """Return what stands for an address: itself, or the network of one of IPv6."""
    found = _address(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, NETWORK), strict=False))
    return address if found is None else str(found)


@functools.lru_cache(1024)
def is_local(group: str) -> bool:
    """Tell whether a client is on this machine."""
    found = _address(group.partition("/")[0])
    return found is not None and (found.is_loopback or group == f"::/{NETWORK}")


def too_many(what: str, seconds: float) -> Problem:
    """Return the answer to a client that takes too much."""
    whole = max(1, math.ceil(seconds))
    sentence = f"{what}: try again in {whole} second{'s' * (whole > 1)}"
    return Problem(429, sentence, {"Retry-After": str(whole)})


def unauthorized(sentence: str) -> Problem:
    """Return the answer to a client without a key that is known."""
    return Problem(401, sentence, {"WWW-Authenticate": 'Bearer realm="transduce"'})


def _address(text: str) -> Address | None:
    """Read an address; one of IPv4 in the clothes of IPv6 is one of IPv4."""
    try:
        found = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
