"""Checks on requests from browsers: the Host header, and the site of the requesting page.

Starlette's TrustedHostMiddleware cannot allow all bare addresses, and its CORSMiddleware adds
headers but refuses nothing; so both checks are done here. CORS headers come from Starlette.
"""

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from starlette.types import Scope

from transduce.errors import BadInput
from transduce.serving.clients import parse_address
from transduce.serving.problems import SHOWN, Problem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
ANY = "*"
ORIGIN = re.compile(r"https?://[a-z0-9.\-]+(:\d+)?|https?://\[[0-9a-f:]+\](:\d+)?")
SAME_SITE = (b"same-origin", b"none")  # Sec-Fetch-Site of our own pages, and of typed addresses


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names that a service answers to: these and, if `addresses`, every bare IP address.

    This prevents DNS rebinding, in which another site makes its own name resolve to this machine.
    Requests from its pages then carry that name, never a bare address.
    """

    names: frozenset[str]
    addresses: bool = False

    def __contains__(self, name: str) -> bool:
        return (
            name in self.names
            or ANY in self.names
            or (self.addresses and parse_address(name) is not None)
        )


def host_names(listening: socket.socket, host: str, allowed: Iterable[str] = ()) -> HostNames:
    """Return the names to answer to: the allowed ones and those of this machine.

    If other machines can connect, bare addresses are included.
    """
    address = listening.getsockname()[0]
    names = {*LOOPBACK, *(f"[{name}]" if ":" in name else name for name in (host, address))}
    local = ipaddress.ip_address(address).is_loopback
    if not local:
        names.add(socket.gethostname())
    for given in allowed:
        name = _without_port(given.rpartition("//")[2].rstrip("/").lower())
        if not name or "/" in name:
            raise BadInput(f"--allow-host {given}: expected a name such as mt.example.org")
        names.add(name)
    return HostNames(frozenset(name.lower() for name in names), addresses=not local)


def parse_origins(given: Iterable[str]) -> frozenset[str]:
    """Return origins as browsers write them. There is no wildcard."""
    origins = frozenset(origin.lower().rstrip("/") for origin in given)
    for origin in origins:
        if not ORIGIN.fullmatch(origin):
            raise BadInput(
                f"--allow-origin {origin}: expected a site such as https://example.org or "
                "http://localhost:3000; there is no wildcard"
            )
    return origins


class OriginCheck:
    """Refuses requests to other host names and from pages of other sites."""

    def __init__(self, names: HostNames | Collection[str], origins: Iterable[str] = ()) -> None:
        """Allow these host names (none: all) and pages of these origins."""
        self.names = names
        self.origins = frozenset(origin.encode() for origin in origins)

    def check(self, scope: Scope) -> None:
        """Raise a Problem for a request that is not allowed."""
        headers = dict(scope["headers"])
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if self.names:
            self._check_host(host)
        if origin is not None and origin.lower() in self.origins:
            return
        is_link = headers.get(b"sec-fetch-mode") == b"navigate" and scope["method"] == "GET"
        if not is_link and _is_foreign(host, origin, headers.get(b"sec-fetch-site")):
            raise Problem(
                403,
                "request from a page of another site: only this service's own pages and programs "
                "are answered; start it with --allow-origin to allow a site",
            )

    def _check_host(self, host: bytes | None) -> None:
        name = _without_port((host or b"localhost").decode("latin-1").lower())
        if name not in self.names:
            raise Problem(
                400,
                f"this service does not answer to the name {name[:SHOWN]}: use localhost or its "
                "address, or start it with --allow-host NAME",
            )


def _is_foreign(host: bytes | None, origin: bytes | None, site: bytes | None) -> bool:
    """Return whether a request comes from a page of another site; programs send neither header.

    Sec-Fetch-Site takes precedence: behind a proxy, Host may differ from the origin.
    """
    if site is not None:
        return site not in SAME_SITE
    if origin is None:
        return False
    return host is None or origin.lower().partition(b"//")[2] != host.lower()


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdecimal() or not port) else host
