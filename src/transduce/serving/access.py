"""Who may use a service, and what is logged."""

import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.serving.clients import proxy_addresses
from transduce.serving.keys import ADMIN_VARIABLE, VARIABLE, Keys, read_keys
from transduce.serving.logs import logger
from transduce.serving.origins import ANY, HostNames, host_names, parse_origins


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Access rules; by default everybody is answered and nothing is logged."""

    names: HostNames | Collection[str] = ()  # host names of the service; empty: any
    origins: Collection[str] = ()  # other sites whose pages may send requests
    keys: Keys | None = None  # each request needs one
    admin_keys: Keys | None = None  # reloading needs one; None: it is refused
    proxies: Collection[str] = ()  # whose X-Forwarded-For is trusted
    log_requests: bool = False
    log_texts: bool = False
    show_examples: bool = True  # show validation sentences of the runs on the pages
    say: Callable[[str], None] = logger.info  # prints what administrators need to know

    @classmethod
    def from_options(
        cls,
        listening: socket.socket,
        host: str,
        say: Callable[[str], None],
        *,
        key_file: Path | None = None,
        admin_key_file: Path | None = None,
        hosts: Sequence[str] | None = None,
        origins: Sequence[str] | None = None,
        proxies: Sequence[str] | None = None,
        log_requests: bool = False,
        log_texts: bool = False,
        show_examples: bool = True,
    ) -> "Access":
        """Return the rules that the command-line options set; `say` prints warnings."""
        keys, warning = read_keys(key_file)
        admin_keys, admin_warning = read_keys(
            admin_key_file, option="--admin-key-file", variable=ADMIN_VARIABLE
        )
        for text in filter(None, (warning, admin_warning)):
            say(f"warning: {text}")
        if keys is None and not ipaddress.ip_address(listening.getsockname()[0]).is_loopback:
            say(
                "warning: everybody who can reach this machine can use the service: "
                f"--key-file or {VARIABLE} sets a key"
            )
        if ANY in (hosts or ()):
            say("warning: --allow-host * gives up the check against DNS rebinding")
        if log_texts:
            say("warning: the texts of all clients are written to this log")
        return cls(
            names=host_names(listening, host, hosts or ()),
            origins=parse_origins(origins or ()),
            keys=keys,
            admin_keys=admin_keys,
            proxies=proxy_addresses(proxies or ()),
            log_requests=log_requests,
            log_texts=log_texts,
            show_examples=show_examples,
            say=say,
        )
