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
DEFAULTS = Limits()
limit_option = panel("Limits")

Names = Annotated[
    list[str] | None,
    typer.Option("--name", help="Name of a model, once for each; default: its folder's name."),
]
Queue = Annotated[int, limit_option(min=1, help="Maximum of waiting sentences, of all requests.")]
Characters = Annotated[int, limit_option(min=1, help="Maximum of characters per request.")]
Texts = Annotated[int, limit_option(min=1, help="Maximum of texts in a request to /translate.")]
Timeout = Annotated[float, limit_option(min=0.1, max=86_400, help="Seconds for an answer.")]
Remember = Annotated[int, limit_option(min=0, help="Sentences whose translations are cached.")]
Wait = Annotated[
    float, limit_option(min=0.1, help="Answer 503 if a request would wait longer for its turn.")
]
Rate = Annotated[
    int | None,
    limit_option(
        min=0,
        help="Requests per minute and client; 0: no limit. "
        f"Default: {RATE}, on this machine no limit.",
    ),
]
PerClient = Annotated[
    int | None,
    limit_option(
        min=0,
        help="Concurrent requests per client, which may fill half of the queue; 0: no limit. "
        f"Default: {PER_CLIENT}, on this machine no limit.",
    ),
]
Connections = Annotated[
    int,
    limit_option(
        min=1, help="Concurrent requests of all clients. Idle connections above it are closed."
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
    bool, access_option("--log-texts", help="Write the texts of clients to the log.")
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
    queue: Queue = DEFAULTS.queue,
    characters: Characters = DEFAULTS.characters,
    texts: Texts = DEFAULTS.texts,
    timeout: Timeout = DEFAULTS.timeout,
    remember: Remember = DEFAULTS.remember,
    wait: Wait = DEFAULTS.wait,
    rate: Rate = None,
    per_client: PerClient = None,
    connections: Connections = DEFAULTS.connections,
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

    The page shows every attention head; /docs describes the API, which clients of LibreTranslate
    can use too. Concurrent requests are translated together. Ctrl-C stops the service.
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
    load = partial(_load, runs, names or (), device, engine, quantize)
    trained = [run for run in runs if (run / "metrics.jsonl").is_file()]
    access = AccessOptions(
        key_file, allow_host, allow_origin, trusted_proxy, access_log, log_texts, examples
    )
    start_service("serving", host, port, load, trained, limits, access, browser=browser)


def _load(
    runs: list[Path],
    names: Sequence[str],
    device: str,
    engine: str,
    quantize: str,
    progress: Progress,
) -> "list[ServedModel]":
    """Load the models one by one, and report the languages and engine of each."""
    from transduce.serving.models import ServedModel, choose_names

    models = []
    for name, run in zip(choose_names(runs, names), runs, strict=True):
        model = ServedModel.load(run, name, device=device, engine=engine, quantize=quantize)
        progress.say(f"{name}: {' to '.join(model.languages)}, {model.translator.engine.name}")
        models.append(model)
    return models


class AccessOptions(NamedTuple):
    """The options about access, as the command line gives them."""

    key_file: Path | None
    hosts: list[str] | None
    origins: list[str] | None
    proxies: list[str] | None
    log_requests: bool
    log_texts: bool = False
    show_examples: bool = True


def start_service(
    what: str,
    host: str,
    port: int,
    load: "Callable[[Progress], Sequence[ServedModel]]",
    watched: list[Path],
    limits: Limits,
    options: AccessOptions,
    *,
    browser: bool,
) -> None:
    """Bind the port, load the models, and serve them and the curves of runs until a signal."""
    from transduce.errors import MissingExtra
    from transduce.system.progress import console_progress

    try:
        from transduce.serving.access import Access
        from transduce.serving.server import bind, run_server
    except ImportError as error:
        library = (error.name or "fastapi").partition(".")[0]
        if library == "transduce":
            raise
        raise MissingExtra(what, library, "web") from None

    progress = console_progress()

    def on_ready(url: str) -> None:
        progress.say(f"{url}  (Ctrl-C stops it)")
        if browser and _has_screen():
            import webbrowser

            webbrowser.open(url)

    with bind(host, port) as listening:
        access = Access.from_options(listening, host, progress.say, **options._asdict())
        models = load(progress)
        on_end = partial(progress.say, "stopped")
        run_server(listening, models, watched, limits, access, on_ready, on_end)


def _has_screen() -> bool:
    """Return whether a person at a screen has typed the command."""
    if not sys.stderr.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
