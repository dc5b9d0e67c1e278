"""Who may use a service, and what is written down of it."""

import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.serving.clients import trusted
from transduce.serving.keys import VARIABLE, Keys, read_keys
from transduce.serving.origins import EVERY, Names, names_of, origins_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """The doors of a service; by default all are open, and nothing is written down."""

    names: Names | Collection[str] = ()  # that it answers to; none: to all
    origins: Collection[str] = ()  # of other sites whose pages may ask
    keys: Keys | None = None  # of which each request needs one
    proxies: Collection[str] = ()  # whose word on a client's address counts
    log_requests: bool = False
    log_texts: bool = False
    show_examples: bool = True  # validation sentences of the runs, on the pages

    @classmethod
    def of(
        cls,
        listening: socket.socket,
        host: str,
        say: Callable[[str], None],
        *,
        key_file: Path | None = None,
        hosts: Sequence[str] | None = None,
        origins: Sequence[str] | None = None,
        proxies: Sequence[str] | None = None,
        log_requests: bool = False,
        log_texts: bool = False,
        show_examples: bool = True,
    ) -> "Access":
        """Return who may use what listens here, as people have set it; `say` hears warnings."""
        keys, warning = read_keys(key_file)
        if warning:
            say(f"warning: {warning}")
        if keys is None and not ipaddress.ip_address(listening.getsockname()[0]).is_loopback:
            say(
                "warning: whoever can reach this machine can use this: "
                f"--key-file or {VARIABLE} sets a key"
            )
        if EVERY in (hosts or ()):
            say("warning: pages of other sites can reach this by a name that they lead here")
        if log_texts:
            say("warning: the texts of all clients are written to this log")
        return cls(
            names=names_of(listening, host, hosts or ()),
            origins=origins_of(origins or ()),
            keys=keys,
            proxies=trusted(proxies or ()),
            log_requests=log_requests,
            log_texts=log_texts,
            show_examples=show_examples,
        )
