"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

MACHINE, ACCESS = "Machine", "Access"

Device = Annotated[
    str, typer.Option(rich_help_panel=MACHINE, help="auto, cpu, cuda, cuda:1 or mps.")
]
EngineName = Annotated[
    str,
    typer.Option(
        rich_help_panel=MACHINE, help="auto, torch or ctranslate2; auto: the fastest there is."
    ),
]
Quantize = Annotated[
    str,
    typer.Option(
        rich_help_panel=MACHINE,
        help="How ctranslate2 holds matrices: none, int8 …, or auto for this processor.",
    ),
]
Host = Annotated[
    str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")]
Browser = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=ACCESS,
        metavar="FILE",
        help="Keys, one on each line, of which every request needs one; or set TRANSDUCE_KEY. "
        "Never an argument: every user of a machine sees those of all its programs.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=ACCESS,
        metavar="NAME",
        help="A further name that is answered to, such as translate.example.org; * is any.",
    ),
]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=ACCESS,
        metavar="ORIGIN",
        help="Another site whose pages may ask, such as https://example.org.",
    ),
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=ACCESS,
        metavar="ADDRESS",
        help="A proxy whose X-Forwarded-For tells the address of a client.",
    ),
]
AccessLog = Annotated[
    bool,
    typer.Option("--access-log", rich_help_panel=ACCESS, help="Write a line for each request."),
]
