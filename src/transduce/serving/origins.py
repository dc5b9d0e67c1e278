"""Who asks, as browsers tell it: the name that was asked for, and the site whose page asks."""

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from starlette.types import Scope

from transduce.errors import BadInput
from transduce.serving.problems import Problem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
EVERY = "*"
ORIGIN = re.compile(r"https?://[a-z0-9.\-]+(:\d+)?|https?://\[[0-9a-f:]+\](:\d+)?")
OWN = (b"same-origin", b"none")  # Sec-Fetch-Site of our own pages, and of what people type

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a service answers to: these and, where it is said, every bare address.

    A page of another site, whose name its owner has led to this machine, asks for that name. No
    such page can ask for a bare address.
    """

    names: frozenset[str]
    addresses: bool = False

    def __contains__(self, name: str) -> bool:
        return name in self.names or EVERY in self.names or (self.addresses and _is_address(name))


def names_of(listening: socket.socket, host: str, allowed: Iterable[str] = ()) -> Names:
    """Return the names to answer to: where others can connect, bare addresses and this machine's.

    `allowed` are further ones, as people write them.
    """
    address = listening.getsockname()[0]
    known = {*LOOPBACK, *(f"[{one}]" if ":" in one else one for one in (host, address))}
    local = ipaddress.ip_address(address).is_loopback
    if not local:
        known.add(socket.gethostname())
    for one in allowed:
        name = _without_port(one.rpartition("//")[2].rstrip("/").lower())
        if not name or "/" in name:
            raise BadInput(f"--allow-host {one}: expected a name such as mt.example.org")
        known.add(name)
    return Names(frozenset(one.lower() for one in known), addresses=not local)


def origins_of(given: Iterable[str]) -> frozenset[str]:
    """Return origins as browsers write them; none stands for all: each is to be named."""
    found = frozenset(one.lower().rstrip("/") for one in given)
    for one in found:
        if not ORIGIN.fullmatch(one):
            raise BadInput(
                f"--allow-origin {one}: expected a site such as https://example.org or "
                "http://localhost:3000; there is no sign for all of them"
            )
    return found


class Sites:
    """Checks of names and of other sites' pages, and what is said to the pages that may ask."""

    def __init__(self, names: Names | Collection[str], origins: Iterable[str] = ()) -> None:
        """Answer to these names, or to all where there are none, and to pages of these origins."""
        self.names = names
        self.origins = frozenset(one.encode() for one in origins)

    def check(self, scope: Scope) -> Headers:
        """Refuse a request that asks for another name or comes from another site's page.

        Return the headers that the answer is to have.
        """
        host = origin = site = mode = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
            elif name == b"sec-fetch-mode":
                mode = value
        if self.names:
            self._check_name(host)
        if origin is not None and origin.lower() in self.origins:
            return [(b"access-control-allow-origin", origin), *ALLOWED]
        is_link = mode == b"navigate" and scope["method"] == "GET"
        if not is_link and _is_foreign(host, origin, site):
            raise Problem(
                403,
                "a page of another site has asked: this service answers to its own pages and to "
                "programs alone; start it with --allow-origin to let others ask",
            )
        return [(b"vary", b"origin")] if self.origins else []

    def _check_name(self, host: bytes | None) -> None:
        name = _without_port((host or b"localhost").decode("latin-1").lower())
        if name not in self.names:
            raise Problem(
                400,
                f"this service does not answer to {name[:60]}: ask for localhost or its address, "
                "or start it with --allow-host NAME",
            )


ALLOWED: Headers = [
    (b"access-control-expose-headers", b"retry-after"),
    (b"vary", b"origin"),
]
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, content-type, x-api-key",
    "Access-Control-Max-Age": "600",
}


def is_preflight(scope: Scope) -> bool:
    """Tell whether a browser asks for leave to ask."""
    return scope["method"] == "OPTIONS" and any(
        name == b"access-control-request-method" for name, _ in scope["headers"]
    )


def _is_foreign(host: bytes | None, origin: bytes | None, site: bytes | None) -> bool:
    """Tell whether a page of another site asks; programs say nothing of the kind.

    A browser's word on the site counts first: behind a proxy the host may have another name.
    """
    if site is not None:
        return site not in OWN
    if origin is None:
        return False
    return host is None or origin.lower().partition(b"//")[2] != host.lower()


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdecimal() or not port) else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
