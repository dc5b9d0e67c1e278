"""Options that several commands have."""

from typing import Annotated

import typer

MACHINE = "Machine"

Device = Annotated[str, typer.Option(rich_help_panel=MACHINE, help="auto, cpu or cuda.")]
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
