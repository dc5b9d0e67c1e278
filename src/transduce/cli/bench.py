"""`transduce bench`."""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.train import parse_settings
from transduce.web.limits import Limits

EXAMPLES_TRAIN = """
[bold]Examples[/bold]

transduce bench train train.en train.de

transduce bench train train.en train.de --preset base --batch-tokens 4000 --steps 5

transduce bench train pairs.tsv --set d_model=128 --set d_k=32 --set d_v=32 --json

transduce bench train --random mixed --peer huggingface --peer torch

transduce bench train --random mixed --preset base --preset B-dk16 --preset big --peer none

transduce bench train train.en train.de --preset B-dk16 --peer none --corpus bench-corpus

transduce bench train --random mixed --preset base --peer none --deterministic
"""

EXAMPLES_TRANSLATE = """
[bold]Examples[/bold]

transduce bench translate runs/en-de test.en test.de

transduce bench translate runs/en-de test.en test.de --engine ctranslate2:int8 --peer ctranslate2

transduce bench translate runs/en-de test.en --lines 100 --rounds 5 --json
"""

EXAMPLES_SERVE = """
[bold]Examples[/bold]

transduce bench serve runs/en-de test.en

transduce bench serve runs/en-de test.en --engine ctranslate2:int8 --clients 8 --json

transduce bench serve runs/en-de test.en --seconds 300 --clients 64

transduce bench serve runs/en-de test.en --overload --seconds 900
"""

OVERLOAD_SECONDS = 60.0  # unless it is said for how long

EXAMPLES_PAGE = """
[bold]Examples[/bold]

transduce bench page runs/en-de test.en

transduce bench page runs/en-de test.en --words 10 --sentences 50 --json
"""

app = typer.Typer(help="Measure, side by side with peers.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure, side by side with peers."""


@app.command(epilog=EXAMPLES_TRAIN)
def train(
    source: Annotated[
        str | None, typer.Argument(help="Source text (plain, gz, xz, zst), or a TSV; - is stdin.")
    ] = None,
    target: Annotated[str | None, typer.Argument(help="Target text; none for a TSV.")] = None,
    *,
    random: Annotated[
        str | None,
        typer.Option(help="Random words instead of a text, in sentences of mixed or equal length."),
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="tiny, small, base, big or a row of Table 3; may stand several times. "
            "Default: small."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set any field of the configuration."),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="huggingface, torch or none; may stand several times. "
            "Default: huggingface where it is installed."
        ),
    ] = None,
    peer_as_it_comes: Annotated[
        bool, typer.Option("--peer-as-it-comes", help="On a GPU leave peers cuDNN's attention.")
    ] = False,
    steps: Annotated[int, typer.Option(help="Steps of a round.", min=1)] = 10,
    rounds: Annotated[int, typer.Option(help="Rounds of each side, by turns.", min=1)] = 3,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="Measure what the setting deterministic costs, too."),
    ] = False,
    saving: Annotated[
        bool, typer.Option("--saving", help="Measure what checkpoints cost, too.")
    ] = False,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a batch, a side. Default: the preset's.")
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Subwords to learn, or random words.")] = 8000,
    corpus: Annotated[
        Path | None,
        typer.Option(help="Keep the prepared text here, to be found the next time."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Annotated[
        bool,
        typer.Option("--json", help="Write JSON, with every round; a list of several presets."),
    ] = False,
) -> None:
    """Measure how many target tokens a second a model trains on here, and peers beside it.

    The peers are Hugging Face's MarianMTModel and torch.nn.Transformer, of the same shape and on
    the same text. The sides take turns, each in a process of its own; padding does not count.
    """
    from transduce.bench.results import report
    from transduce.bench.training import compare
    from transduce.progress import for_people

    settings = {"vocabulary": str(vocabulary)} | parse_settings(set_ or [])
    if batch_tokens is not None:
        settings["batch_tokens"] = str(batch_tokens)
    found = compare(
        source,
        target,
        random=random,
        presets=preset or ["small"],
        settings=settings,
        peers=peer,
        as_it_comes=peer_as_it_comes,
        deterministic=deterministic,
        saves=saving,
        steps=steps,
        rounds=rounds,
        device=device,
        corpus=corpus,
        progress=for_people(),
    )
    if json:
        facts = [one.to_json() for one in found]
        typer.echo(json_module.dumps(facts[0] if len(facts) == 1 else facts, indent=2))
    else:
        typer.echo(report(found))


@app.command(epilog=EXAMPLES_TRANSLATE)
def translate(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    source: Annotated[str, typer.Argument(help="Text to translate (plain, gz, xz, zst).")],
    reference: Annotated[
        str | None, typer.Argument(help="Its translation by people, for BLEU.")
    ] = None,
    *,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help="torch, ctranslate2, ctranslate2:int8 …; may stand several times. "
            "Default: those that are installed."
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="huggingface, ctranslate2, ctranslate2:int8 … or none; may stand several times. "
            "Default: huggingface where it is installed."
        ),
    ] = None,
    lines: Annotated[int | None, typer.Option(help="Of the text. Default: all.", min=1)] = None,
    single: Annotated[
        int, typer.Option(help="Lines that are translated one by one too.", min=0)
    ] = 50,
    rounds: Annotated[int, typer.Option(help="Rounds of each side, by turns.", min=1)] = 3,
    beam: Annotated[int | None, typer.Option(help="Width of the search. Default: 4.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Length penalty. Default: 0.6.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Sentences side by side. Default: what suits each side.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Write JSON, with every round.")] = False,
) -> None:
    """Measure how fast a model translates here: its engines, and peers on the same weights.

    Sentences a second, the time of a single sentence, memory, and the time from the start of a
    process to its first translation; with BLEU beside them. The sides take turns, each in a process
    of its own.
    """
    from transduce.bench.translation import compare
    from transduce.progress import for_people

    asked = {"beam": beam, "alpha": alpha}
    found = compare(
        run,
        source,
        reference,
        engines=engine,
        peers=peer,
        lines=lines,
        single=single,
        rounds=rounds,
        batch=batch,
        settings={name: value for name, value in asked.items() if value is not None},
        device=device,
        progress=for_people(),
    )
    typer.echo(json_module.dumps(found.to_json(), indent=2) if json else found.report())


@app.command(epilog=EXAMPLES_SERVE)
def serve(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    source: Annotated[str, typer.Argument(help="Text to translate (plain, gz, xz, zst).")],
    *,
    clients: Annotated[int, typer.Option(help="That ask at the same time.", min=1)] = 32,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Load it for so long with texts of mixed lengths, and watch its memory.", min=1
        ),
    ] = None,
    overload: Annotated[
        bool,
        typer.Option("--overload", help="Ask for twice of what it can take, for --seconds."),
    ] = False,
    engine: Annotated[
        str,
        typer.Option(help="auto, torch, ctranslate2, ctranslate2:int8 …; auto: the fastest."),
    ] = "auto",
    lines: Annotated[int | None, typer.Option(help="Of the text. Default: all.", min=1)] = None,
    single: Annotated[
        int, typer.Option(help="Lines that a single client sends, alone.", min=0)
    ] = 50,
    rounds: Annotated[int, typer.Option(help="Rounds of each side, by turns.", min=1)] = 3,
    queue: Annotated[
        int, typer.Option(help="Sentences that may wait in the service.", min=1)
    ] = Limits().queue,
    beam: Annotated[int | None, typer.Option(help="Width of the search. Default: 4.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Length penalty. Default: 0.6.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Write JSON, with every round.")] = False,
) -> None:
    """Measure how fast a service answers many clients at once, beside translate --split.

    Sentences a second of both on the same lines, by turns; how long an answer takes, under load and
    to a single client; and what service and clients cost. Every answer is compared with what
    translate writes. With --seconds the service is loaded for so long, and its memory is watched;
    with --overload by twice of what it can take, and it is told how soon it recovers.
    """
    from transduce.bench import overload as overloading
    from transduce.bench import serving
    from transduce.bench.served import Comparison, Endurance, Overload
    from transduce.progress import for_people

    asked = {"beam": beam, "alpha": alpha}
    settings = {name: value for name, value in asked.items() if value is not None}
    progress = for_people()
    found: Comparison | Endurance | Overload
    if overload:
        found = overloading.overload(
            run,
            source,
            seconds=seconds or OVERLOAD_SECONDS,
            engine=engine,
            clients=clients,
            lines=lines,
            settings=settings,
            queue=queue,
            device=device,
            progress=progress,
        )
    elif seconds is None:
        found = serving.compare(
            run,
            source,
            engine=engine,
            clients=clients,
            lines=lines,
            single=single,
            rounds=rounds,
            settings=settings,
            queue=queue,
            device=device,
            progress=progress,
        )
    else:
        found = serving.endure(
            run,
            source,
            seconds=seconds,
            engine=engine,
            clients=clients,
            lines=lines,
            settings=settings,
            queue=queue,
            device=device,
            progress=progress,
        )
    typer.echo(json_module.dumps(found.to_json(), indent=2) if json else found.report())


@app.command(epilog=EXAMPLES_PAGE)
def page(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    source: Annotated[str, typer.Argument(help="Text to type (plain, gz, xz, zst).")],
    *,
    words: Annotated[int, typer.Option(help="Of a line that is typed, about.", min=1)] = 20,
    sentences: Annotated[int, typer.Option(help="Lines that are typed.", min=1)] = 20,
    visits: Annotated[int, typer.Option(help="Of the page.", min=1)] = 10,
    engine: Annotated[
        str,
        typer.Option(help="auto, torch, ctranslate2, ctranslate2:int8 …; auto: the fastest."),
    ] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Write JSON, with every visit.")] = False,
) -> None:
    """Measure the page in a real browser: until it can be typed in, and until it has translated.

    It needs Chromium and playwright. Every visit is a first one; what is typed is new to the
    service.
    """
    from transduce.bench.page import measure
    from transduce.progress import for_people

    found = measure(
        run,
        source,
        engine=engine,
        words=words,
        sentences=sentences,
        visits=visits,
        progress=for_people(),
    )
    typer.echo(json_module.dumps(found.to_json(), indent=2) if json else found.report())
