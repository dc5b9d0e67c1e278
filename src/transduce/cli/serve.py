"""`transduce serve`."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from transduce.cli.options import (
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
    access_option,
    panel,
)
from transduce.serving.limits import PER_CLIENT, RATE, Limits
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from transduce.serving.models import ServedModel

EXAMPLES = """
[bold]Examples[/bold]

transduce serve runs/en-de

transduce serve runs/en-de runs/de-en --port 9000

transduce serve runs/en-de --quantize int8 --no-open

transduce serve runs/en-de --host 0.0.0.0 --key-file keys.txt --allow-host translate.example.org

curl 127.0.0.1:8000/api/translate --json '{"text": "Two dogs run."}'
"""

DEFAULT_PORT = 8000
USUAL = Limits()
of_limits = panel("Limits")

Names = Annotated[
    list[str] | None,
    typer.Option("--name", help="A model's name, once for each; by default its folder's."),
]
Queue = Annotated[int, of_limits(min=1, help="Sentences that may wait, of all requests.")]
Characters = Annotated[int, of_limits(min=1, help="Of the text of a request.")]
Texts = Annotated[int, of_limits(min=1, help="In a list that one request sends to /translate.")]
Timeout = Annotated[float, of_limits(min=0.1, max=86_400, help="Seconds for an answer.")]
Remember = Annotated[
    int,
    of_limits(
        min=0, help="Sentences whose translations are kept, so that they are not searched again."
    ),
]
Wait = Annotated[float, of_limits(min=0.1, help="Seconds to wait for a turn, before it is 503.")]
Rate = Annotated[
    int | None,
    of_limits(
        min=0,
        help=f"Requests a minute of one client; 0: any. Default: {RATE}, on this machine any.",
    ),
]
PerClient = Annotated[
    int | None,
    of_limits(
        min=0,
        help="Requests of one client at the same time, which may fill half of the queue; "
        f"0: any. Default: {PER_CLIENT}, on this machine any.",
    ),
]
Connections = Annotated[
    int,
    of_limits(
        min=1,
        help="With requests in progress, of all clients. Of more, idle ones are closed.",
    ),
]
Examples = Annotated[
    bool,
    access_option(
        "--examples/--no-examples",
        help="Show validation sentences of the runs on the pages: some to try, and the samples of "
        "each validation.",
    ),
]
LogTexts = Annotated[
    bool, access_option("--log-texts", help="Write what clients ask for to the log.")
]


def serve(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="The run folders of trained models.")
    ],
    *,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    names: Names = None,
    browser: Browser = True,
    queue: Queue = USUAL.queue,
    characters: Characters = USUAL.characters,
    texts: Texts = USUAL.texts,
    timeout: Timeout = USUAL.timeout,
    remember: Remember = USUAL.remember,
    wait: Wait = USUAL.wait,
    rate: Rate = None,
    per_client: PerClient = None,
    connections: Connections = USUAL.connections,
    key_file: KeyFile = None,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    trusted_proxy: TrustedProxy = None,
    access_log: AccessLog = False,
    log_texts: LogTexts = False,
    examples: Examples = True,
    device: Device = "auto",
    engine: EngineName = "auto",
    quantize: Quantize = "none",
) -> None:
    """Serve models: a page that translates as you type, and an API for programs.

    The page shows every attention head; /docs describes the API, which LibreTranslate's clients can
    use too. Requests that come together are translated together. Ctrl-C ends it.
    """
    from transduce.runs.folder import RunConfig

    for run in runs:
        RunConfig.load(run).require("translation", run)  # before anything that takes long
    limits = Limits(
        queue=queue,
        characters=characters,
        texts=texts,
        timeout=timeout,
        remember=remember,
        wait=wait,
        rate=rate,
        per_client=per_client,
        connections=connections,
    )
    load = partial(_loaded, runs, names or (), device, engine, quantize)
    trained = [run for run in runs if (run / "metrics.jsonl").is_file()]
    who = Who(key_file, allow_host, allow_origin, trusted_proxy, access_log, log_texts, examples)
    open_doors("serving", host, port, load, trained, limits, who, browser=browser)


def _loaded(
    runs: list[Path],
    names: Sequence[str],
    device: str,
    engine: str,
    quantize: str,
    progress: Progress,
) -> "list[ServedModel]":
    """Load the models one by one, and say what each translates and with what."""
    from transduce.serving.models import ServedModel, names_of

    served = []
    for name, run in zip(names_of(runs, names), runs, strict=True):
        one = ServedModel.load(run, name, device=device, engine=engine, quantize=quantize)
        progress.say(f"{name}: {' to '.join(one.languages)}, {one.translator.engine.name}")
        served.append(one)
    return served


class Who(NamedTuple):
    """Who may come in, and what is written down of them, as the options of access say."""

    key_file: Path | None
    hosts: list[str] | None
    origins: list[str] | None
    proxies: list[str] | None
    log_requests: bool
    log_texts: bool = False
    show_examples: bool = True


def open_doors(
    what: str,
    host: str,
    port: int,
    load: "Callable[[Progress], Sequence[ServedModel]]",
    watched: list[Path],
    limits: Limits,
    who: Who,
    *,
    browser: bool,
) -> None:
    """Listen, load the models, and serve them and the curves of runs until somebody ends it."""
    from transduce.errors import MissingExtra
    from transduce.system.progress import console_progress

    try:
        from transduce.serving.access import Access
        from transduce.serving.server import bound, serve_on
    except ImportError as error:
        library = (error.name or "fastapi").partition(".")[0]
        if library == "transduce":
            raise
        raise MissingExtra(what, library, "web") from None

    progress = console_progress()

    def ready(address: str) -> None:
        progress.say(f"{address}  (Ctrl-C ends it)")
        if browser and _has_screen():
            import webbrowser

            webbrowser.open(address)

    with bound(host, port) as listening:
        access = Access.of(listening, host, progress.say, **who._asdict())
        served = load(progress)
        serve_on(listening, served, watched, limits, access, ready, lambda: progress.say("ended"))


def _has_screen() -> bool:
    """Tell whether a person at a screen has typed the command."""
    if not sys.stderr.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
