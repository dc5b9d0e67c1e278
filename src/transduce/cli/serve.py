"""`transduce serve`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import (
    ACCESS,
    AccessLog,
    AllowHost,
    AllowOrigin,
    Browser,
    Device,
    EngineName,
    Host,
    KeyFile,
    Port,
    Quantize,
    TrustedProxy,
)
from transduce.progress import Progress
from transduce.web.limits import PER_CLIENT, RATE, Limits

EXAMPLES = """
[bold]Examples[/bold]

transduce serve runs/en-de

transduce serve runs/en-de runs/de-en --port 9000

transduce serve runs/en-de --quantize int8 --no-open

transduce serve runs/en-de --host 0.0.0.0 --key-file keys.txt --allow-host translate.example.org

curl 127.0.0.1:8000/api/translate --json '{"text": "Two dogs run."}'
"""

LIMITS = "Limits"
DEFAULT_PORT = 8000
USUAL = Limits()


def serve(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="The run folders of trained models.")
    ],
    *,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="A model's name, once for each; by default its folder's."),
    ] = None,
    browser: Browser = True,
    queue: Annotated[
        int,
        typer.Option(
            min=1, rich_help_panel=LIMITS, help="Sentences that may wait, of all requests."
        ),
    ] = USUAL.queue,
    characters: Annotated[
        int, typer.Option(min=1, rich_help_panel=LIMITS, help="Of the text of a request.")
    ] = USUAL.characters,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, rich_help_panel=LIMITS, help="Seconds for an answer."),
    ] = USUAL.timeout,
    remember: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=LIMITS,
            help="Sentences whose translations are kept, so that they are not searched again.",
        ),
    ] = USUAL.remember,
    wait: Annotated[
        float,
        typer.Option(
            min=0.1, rich_help_panel=LIMITS, help="Seconds to wait for a turn, before it is 503."
        ),
    ] = USUAL.wait,
    rate: Annotated[
        int | None,
        typer.Option(
            min=0,
            rich_help_panel=LIMITS,
            help=f"Requests a minute of one client; 0: any. Default: {RATE}, on this machine any.",
        ),
    ] = None,
    per_client: Annotated[
        int | None,
        typer.Option(
            min=0,
            rich_help_panel=LIMITS,
            help="Requests of one client at the same time, which may fill half of the queue; "
            f"0: any. Default: {PER_CLIENT}, on this machine any.",
        ),
    ] = None,
    connections: Annotated[
        int,
        typer.Option(min=1, rich_help_panel=LIMITS, help="Open at the same time, of all clients."),
    ] = USUAL.connections,
    key_file: KeyFile = None,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    trusted_proxy: TrustedProxy = None,
    access_log: AccessLog = False,
    log_texts: Annotated[
        bool,
        typer.Option(
            "--log-texts", rich_help_panel=ACCESS, help="Write what clients ask for to the log."
        ),
    ] = False,
    device: Device = "auto",
    engine: EngineName = "auto",
    quantize: Quantize = "none",
) -> None:
    """Serve models: a page that translates as you type, and an API for programs.

    The page shows every attention head; /docs describes the API, which LibreTranslate's clients can
    use too. Requests that come together are translated together. Ctrl-C ends it.
    """
    from transduce.errors import MissingExtra
    from transduce.folder import RunConfig
    from transduce.progress import for_people

    try:
        from transduce.web.access import Access
        from transduce.web.served import Served, names_of
        from transduce.web.server import bound, serve_on
    except ImportError as error:
        library = (error.name or "fastapi").partition(".")[0]
        if library == "transduce":
            raise
        raise MissingExtra("serving", library, "web") from None

    progress = for_people()
    for run in runs:
        RunConfig.load(run).require("translation", run)  # before anything that takes long
    limits = Limits(
        queue=queue,
        characters=characters,
        timeout=timeout,
        remember=remember,
        wait=wait,
        rate=rate,
        per_client=per_client,
        connections=connections,
    )
    with bound(host, port) as listening:
        access = Access.of(
            listening,
            host,
            progress.say,
            key_file=key_file,
            hosts=allow_host or (),
            origins=allow_origin or (),
            proxies=trusted_proxy or (),
            log_requests=access_log,
            log_texts=log_texts,
        )
        served = []
        for name, run in zip(names_of(runs, names or ()), runs, strict=True):
            one = Served.load(run, name, device=device, engine=engine, quantize=quantize)
            progress.say(f"{name}: {' to '.join(one.languages)}, {one.translator.engine.name}")
            served.append(one)
        trained = [run for run in runs if (run / "metrics.jsonl").is_file()]
        ready = announcing(progress, browser=browser)
        serve_on(listening, served, trained, limits, access, ready, lambda: progress.say("ended"))


def announcing(progress: Progress, *, browser: bool) -> Callable[[str], None]:
    """Return what is to be called with the address of the page, once it can be opened."""

    def ready(address: str) -> None:
        progress.say(f"{address}  (Ctrl-C ends it)")
        if browser and _has_screen():
            import webbrowser

            webbrowser.open(address)

    return ready


def _has_screen() -> bool:
    """Tell whether a person at a screen has typed the command."""
    if not sys.stderr.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
