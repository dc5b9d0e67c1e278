"""`transduce train`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from transduce.errors import BadInput, BadSetting

EXAMPLES = """
[bold]Examples[/bold]

transduce train train.en train.de --out runs/en-de

transduce train pairs.tsv --out run --valid dev.en dev.de --time 30m

transduce train train.en train.de --out run --preset small --set d_ff=2048 --set P_drop=0.2

transduce train law.en law.de --out runs/law --from runs/en-de

torchrun --nproc-per-node 4 -m transduce train train.en train.de --out run

The same command again goes on where it was stopped.
"""


def train(
    source: Annotated[
        str, typer.Argument(help="Source text (plain, gz, xz, zst), or a TSV; - is stdin.")
    ],
    target: Annotated[str | None, typer.Argument(help="Target text; none for a TSV.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder.")],
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Begin with the weights, model and subwords of a trained run; a preset then "
            "chooses the training alone.",
        ),
    ] = None,
    valid: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="Validation text, both sides. Default: 1% held out, at most 2,000 pairs."
        ),
    ] = None,
    valid_tsv: Annotated[str | None, typer.Option(help="Validation text, one TSV.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="tiny, small, base, big, a fast one (tiny-3-1, small-4-1, base-12-1), a row of "
            "Table 3, or a baseline (recurrent, convs2s, bytenet; each with -small and -tiny). "
            "Default: by data and machine."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set any field of the configuration."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS|auto",
            help="Tokens of an update, a side; auto: the preset's, in as few pieces as fit into "
            "the GPU's memory.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Updates to make.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data to make.")] = None,
    time: Annotated[str | None, typer.Option(help="Time to train: 90s, 30m, 1h30m.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random. Default: 1.")] = None,
    languages: Annotated[
        str | None, typer.Option(metavar="en-de", help="Default: from the files' endings.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="The same bits each time on one GPU, a little slower; a CPU gives them anyway.",
        ),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard's files too.")
    ] = False,
) -> None:
    """Train a translator from two text files, line n translating line n.

    Subwords, model, schedule, averaging and search are the paper's; what is not set is chosen from
    the size of the data and the machine, and said. Ctrl-C saves.
    """
    from transduce import training
    from transduce.progress import for_people

    settings = parse_settings(set_ or [])
    for name, value in (("steps", steps), ("epochs", epochs), ("seed", seed)):
        if value is not None:
            settings[name] = str(value)
    if deterministic:
        settings["deterministic"] = "true"
    if batch is not None:
        settings |= {"accumulate": "none"} if batch == "auto" else {"batch_tokens": batch}
    if time is not None:
        settings["seconds"] = str(parse_time(time))
    if valid and valid_tsv:
        raise BadInput("--valid and --valid-tsv name two validation sets: give one")
    progress = for_people()
    run = training.train(
        source,
        target,
        out=out,
        start=from_,
        valid=(valid_tsv, None) if valid_tsv else valid,
        languages=languages,
        preset=preset,
        settings=settings,
        device=device,
        tensorboard=tensorboard,
        progress=progress,
    )
    progress.say(f"translate with: transduce translate {run} FILE")


def parse_settings(texts: list[str]) -> dict[str, str]:
    """Read NAME=VALUE several times."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadSetting(f"--set {text}: expected NAME=VALUE, such as --set d_ff=4096")
        settings[name.strip()] = value.strip()
    return settings


def parse_time(text: str) -> float:
    """Read a length of time such as 90s, 30m or 1h30m as seconds."""
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", text.strip())
    seconds = (
        sum(int(part) * unit for part, unit in zip(match.groups("0"), (3600, 60, 1), strict=True))
        if match
        else 0
    )
    if not seconds:
        raise BadInput(f"--time {text}: expected a length of time such as 90s, 30m or 1h30m")
    return float(seconds)
