"""`transduce serve`."""

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import EngineOptions
from transduce.serving.limits import PER_CLIENT, RATE, Limits
from transduce.system.progress import Progress

if TYPE_CHECKING:
    from transduce.serving.models import ServedModel

EXAMPLES = """
transduce serve runs/en-de
transduce serve runs/en-de runs/de-en --port 9000
transduce serve runs/en-de --quantize int8 --no-open
transduce serve runs/en-de --glossary terms.tsv --glossary legal=contracts.tsv
transduce serve runs/en-de --host 0.0.0.0 --key-file keys.txt --allow-host translate.example.org
curl 127.0.0.1:8000/api/translate --json '{"text": "Two dogs run."}'
"""

DEFAULTS = Limits()


@option_group()
class ListenOptions:
    """The address to listen on, and whether to open the page."""

    host: str = option(
        "Address to listen on; 0.0.0.0 accepts connections from other machines.",
        default="127.0.0.1",
    )
    port: int = option("Port to listen on; 0 chooses a free one.", default=8000, min=0, max=65535)
    browser: bool = option("Open the page in a browser.", "--open/--no-open", default=True)


@option_group("Access")
class AccessOptions:
    """Who may use the service, and what is logged; named like `Access.from_options`'s arguments."""

    key_file: Path | None = option(
        "File of API keys, one per line; every request needs one. Or set TRANSDUCE_KEY. A key "
        "is never an argument, because other users of a machine can read those.",
        metavar="FILE",
    )
    hosts: list[str] | None = option(
        "Accept requests for this host name, such as translate.example.org; * for any.",
        "--allow-host",
        metavar="NAME",
    )
    origins: list[str] | None = option(
        "Accept requests from pages of this site (CORS), such as https://example.org.",
        "--allow-origin",
        metavar="ORIGIN",
    )
    proxies: list[str] | None = option(
        "Address of a reverse proxy whose X-Forwarded-For header is trusted.",
        "--trusted-proxy",
        metavar="ADDRESS",
    )
    log_requests: bool = flag("Log every request.", "--access-log")


@option_group("Access")
class ServeAccessOptions(AccessOptions):
    """Access options, and whether texts are logged or shown."""

    admin_key_file: Path | None = option(
        "File of administrators' keys, one per line: they may reload models with "
        "POST /api/reload. Or set TRANSDUCE_ADMIN_KEY.",
        metavar="FILE",
    )
    log_texts: bool = flag("Write the texts of clients to the log.", "--log-texts")
    show_examples: bool = option(
        "Show validation sentences of the runs on the pages: some to try, and the samples of "
        "each validation.",
        "--examples/--no-examples",
        default=True,
    )


@option_group("Limits")
class LimitOptions:
    """Limits of the service, named like the fields of `Limits`."""

    queue: int = option(
        "Maximum number of waiting sentences, over all requests.", default=DEFAULTS.queue, min=1
    )
    characters: int = option(
        "Maximum number of characters per request.", default=DEFAULTS.characters, min=1
    )
    texts: int = option(
        "Maximum number of texts in a request to /translate.", default=DEFAULTS.texts, min=1
    )
    timeout: float = option("Seconds for an answer.", default=DEFAULTS.timeout, min=0.1, max=86_400)
    remember: int = option(
        "Sentences whose translations are cached.", default=DEFAULTS.remember, min=0
    )
    wait: float = option(
        "Answer 503 if a request would wait longer for its turn.", default=DEFAULTS.wait, min=0.1
    )
    documents: int = option(
        "Maximum number of documents in progress.", default=DEFAULTS.documents, min=1
    )
    document_bytes: int = option(
        "Maximum size of a Word document; of other documents it follows from the number of "
        "characters. 0: no documents.",
        default=DEFAULTS.document_bytes,
        min=0,
    )
    rate: int | None = option(
        f"Requests per minute and client; 0: no limit. Default: {RATE}, on this machine no limit.",
        min=0,
    )
    per_client: int | None = option(
        "Concurrent requests per client, which may fill half of the queue; 0: no limit. "
        f"Default: {PER_CLIENT}, on this machine no limit.",
        min=0,
    )
    connections: int = option(
        "Concurrent requests of all clients. Idle connections above it are closed.",
        default=DEFAULTS.connections,
        min=1,
    )


def serve(
    runs: list[Path] = argument("The run folders of trained models.", metavar="RUN…"),
    *,
    listen: ListenOptions,
    name: list[str] | None = option("Name of a model, once for each; default: its folder's name."),
    limits: LimitOptions,
    access: ServeAccessOptions,
    machine: EngineOptions,
    glossary: list[str] | None = option(
        "Glossary that requests may use by its name; default: the file's. Repeatable.",
        metavar="[NAME=]FILE",
    ),
) -> None:
    """Serve models: a page that translates as you type, and an API for programs.

    The page shows every attention head; /docs describes the API, which clients of LibreTranslate
    can use too. Concurrent requests are translated together. SIGHUP loads the models again; Ctrl-C
    stops the service.
    """
    from transduce.runs.folder import RunConfig

    for run in runs:
        RunConfig.load(run).require("translation", run)  # before any slow step
    load = partial(_load, runs, name or (), glossary or (), machine)
    trained = [run for run in runs if (run / "metrics.jsonl").is_file()]
    start_service("serving", listen, load, trained, Limits(**dataclasses.asdict(limits)), access)


def _load(
    runs: list[Path],
    names: Sequence[str],
    glossaries: Sequence[str],
    machine: EngineOptions,
    progress: Progress,
) -> "list[ServedModel]":
    """Load the glossaries and the models; report the languages and engine of each model."""
    from transduce.serving.glossaries import load_glossaries
    from transduce.serving.models import ServedModel, choose_names

    loaded = load_glossaries(glossaries)
    models = []
    for name, run in zip(choose_names(runs, names), runs, strict=True):
        model = ServedModel.load(run, name, glossaries=loaded, **dataclasses.asdict(machine))
        pairs = ", ".join(map(" to ".join, model.pairs))
        progress.say(f"{name}: {pairs}, {model.translator.engine.name}")
        models.append(model)
    return models


def start_service(
    what: str,
    listen: ListenOptions,
    load: "Callable[[Progress], Sequence[ServedModel]]",
    watched: list[Path],
    limits: Limits,
    access: AccessOptions,
) -> None:
    """Bind the port, load the models, and serve them and the runs' curves until interrupted."""
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
        if listen.browser and _has_screen():
            import webbrowser

            webbrowser.open(url)

    with bind(listen.host, listen.port) as listening:
        rules = Access.from_options(
            listening, listen.host, progress.say, **dataclasses.asdict(access)
        )
        models = load(progress)
        on_end = partial(progress.say, "stopped")
        run_server(listening, models, watched, limits, rules, on_ready, on_end)


def _has_screen() -> bool:
    """Return whether the command was typed in a terminal on a machine with a screen."""
    if not sys.stderr.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
