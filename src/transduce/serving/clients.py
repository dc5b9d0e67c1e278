"""Limits per client: request rate, concurrent requests, and share of the queue.

A client is identified by its key if keys are in use, otherwise by its IP address. For IPv6 it is
the /64 network, because one machine may use all addresses in it. Only the most recent clients are
kept.
"""

import functools
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from starlette.types import Scope

from transduce.errors import BadInput
from transduce.serving.keys import Keys
from transduce.serving.limits import Limits
from transduce.serving.problems import Problem, retry_later

MAX_CLIENTS = 10_000
ATTEMPTS = 10  # wrong keys per minute and address
NETWORK = 64  # prefix length in bits of the IPv6 network that one customer is given
UNKNOWN = "unknown"  # the client of a socket without an address

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TokenBucket:
    """A rate limit that allows bursts of up to one minute's requests."""

    __slots__ = ("_per_minute", "_time", "_tokens")

    def __init__(self, per_minute: float, now: float) -> None:
        self._per_minute = self._tokens = per_minute
        self._time = now

    def wait(self, now: float) -> float:
        """Return the seconds until a token is available."""
        refill = (now - self._time) * self._per_minute / 60
        self._tokens = min(self._per_minute, self._tokens + refill)
        self._time = now
        return max(0.0, 1 - self._tokens) * 60 / self._per_minute

    def take(self) -> None:
        """Take a token."""
        self._tokens -= 1


@dataclass(eq=False, slots=True)
class Client:
    """The current usage by one client."""

    rate: TokenBucket | None
    attempts: TokenBucket  # rate limit for wrong keys
    max_requests: int  # concurrent; 0: no limit
    requests: int = 0  # in progress
    sentences: int = 0  # waiting or being searched
    inspections: int = 0  # likewise
    documents: int = 0  # in progress


class Admission:
    """The client of a request in progress."""

    __slots__ = ("_address", "_authenticated", "_clients", "client")

    def __init__(self, clients: "Clients", address: str) -> None:
        self._clients, self._address = clients, address
        self._authenticated = False  # true also if no key is needed
        self.client: Client | None = None

    def admit(self, key: bytes | None, *, free: bool) -> None:
        """Admit or refuse the request; a `free` one needs no key or sends it in its body."""
        self.client = self._clients.admit(self._address, key, free=free)
        self._authenticated = not free or self._clients.keys is None

    def show_key(self, key: bytes) -> None:
        """Check the key in the body of a request that had none in its headers."""
        if not self._authenticated:
            client = self._clients.admit(self._address, key, free=False)
            self.end()
            self.client, self._authenticated = client, True

    def require_admin(self, key: bytes | None) -> None:
        """Refuse a request without an administrator's key."""
        self._clients.require_admin(self._address, key)

    def end(self) -> None:
        """End the request."""
        if self.client is not None:
            self.client.requests -= 1


class Clients:
    """The recent clients of a service."""

    def __init__(
        self,
        limits: Limits,
        keys: Keys | None = None,
        proxies: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        admin_keys: Keys | None = None,
    ) -> None:
        self.limits, self.keys, self.proxies = limits, keys, frozenset(proxies)
        self.admin_keys = admin_keys
        self._clock = clock
        self._recent: OrderedDict[str, Client] = OrderedDict()  # the most recent last

    def admission(self, scope: Scope) -> Admission:
        """Return the admission of a request, not yet admitted."""
        return Admission(self, self.address(scope))

    def address(self, scope: Scope) -> str:
        """Return the client's address; behind proxies, the last forwarded untrusted address."""
        client = scope.get("client")
        host = normalize(client[0]) if client else UNKNOWN
        if host not in self.proxies:
            return group(host)
        forwarded = b",".join(v for k, v in scope["headers"] if k == b"x-forwarded-for")
        for part in reversed(forwarded.decode("latin-1").split(",")):
            address = parse_address(part.strip())
            if address is None:
                break  # earlier entries are not trustworthy
            if str(address) not in self.proxies:
                return group(str(address))
        return UNKNOWN  # the proxy does not forward an address

    def admit(self, address: str, key: bytes | None, *, free: bool) -> Client:
        """Count a request from the client with this address or key, or refuse it."""
        now = self._clock()
        name = address
        if self.keys is not None and not free:
            name = self._authenticate(self.keys, address, key, now)
        client = self._client(name, address, now)
        if 0 < client.max_requests <= client.requests:
            raise too_many(f"{client.requests} of your requests are in progress", seconds=1)
        if client.rate is not None:
            if (wait := client.rate.wait(now)) > 0:
                raise too_many("rate limit exceeded", wait)
            client.rate.take()
        client.requests += 1
        return client

    def require_admin(self, address: str, key: bytes | None) -> None:
        """Refuse anything but an administrator's key."""
        if self.admin_keys is None:
            raise Problem(
                403, "this service has no administrator's key: start it with --admin-key-file"
            )
        self._authenticate(self.admin_keys, address, key, self._clock())

    def _authenticate(self, keys: Keys, address: str, key: bytes | None, now: float) -> str:
        """Return the name of a key's client, or refuse the key; wrong keys are rate-limited."""
        if not key:
            raise unauthorized("this service needs a key: send it as Authorization: Bearer KEY")
        attempts = self._client(address, address, now).attempts
        if (wait := attempts.wait(now)) > 0:
            raise too_many("too many wrong keys from your address", wait)
        index = keys.find(key)
        if index is None:
            attempts.take()
            raise unauthorized("this key is unknown: check it")
        return f"key {index} {'local' if is_local(address) else 'remote'}"

    def _client(self, name: str, address: str, now: float) -> Client:
        client = self._recent.get(name)
        if client is None:
            rate, max_requests = self.limits.for_client(local=is_local(address))
            bucket = TokenBucket(rate, now) if rate else None
            client = Client(bucket, TokenBucket(ATTEMPTS, now), max_requests)
            self._recent[name] = client
            if len(self._recent) > MAX_CLIENTS:
                self._recent.popitem(last=False)
        else:
            self._recent.move_to_end(name)
        return client


def proxy_addresses(proxies: Iterable[str]) -> frozenset[str]:
    """Return the normalized addresses of trusted proxies."""
    addresses = set()
    for proxy in proxies:
        address = parse_address(proxy)
        if address is None:
            raise BadInput(f"--trusted-proxy {proxy}: expected an address such as 10.0.0.1")
        addresses.add(str(address))
    return frozenset(addresses)


@functools.lru_cache(1024)
def normalize(address: str) -> str:
    """Return an address in its canonical form; IPv4-mapped IPv6 becomes IPv4."""
    return str(parse_address(address) or address)


@functools.lru_cache(1024)
def group(address: str) -> str:
    """Return an IPv4 address as it is, and an IPv6 address as its network."""
    parsed = parse_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, NETWORK), strict=False))
    return address if parsed is None else str(parsed)


@functools.lru_cache(1024)
def is_local(group: str) -> bool:
    """Return whether a client is on this machine."""
    parsed = parse_address(group.partition("/")[0])
    return parsed is not None and (parsed.is_loopback or group == f"::/{NETWORK}")


def too_many(message: str, seconds: float) -> Problem:
    """Return 429 with Retry-After."""
    return retry_later(429, message, max(1, math.ceil(seconds)))


def unauthorized(message: str) -> Problem:
    """Return 401."""
    return Problem(401, message, {"WWW-Authenticate": 'Bearer realm="transduce"'})


def parse_address(text: str) -> Address | None:
    """Return an IP address, which may be in brackets; None if the text is not one."""
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
