"""`transduce bench`."""

import json as json_module
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from transduce.cli.options import Set, TrainedRun, parse_settings, without_none

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

app = typer.Typer(help="Measure, side by side with peers.", no_args_is_help=True)

Source = Annotated[str, typer.Argument(help="Text to translate (plain, gz, xz, zst).")]
Preset = Annotated[
    list[str] | None,
    typer.Option(
        help="tiny, small, base, big or a row of Table 3; may stand several times. Default: small."
    ),
]
Lines = Annotated[int | None, typer.Option(help="Of the text. Default: all.", min=1)]
Rounds = Annotated[int, typer.Option(help="Rounds of each side, by turns.", min=1)]
Beam = Annotated[int | None, typer.Option(help="Width of the search. Default: 4.")]
Alpha = Annotated[float | None, typer.Option(help="Length penalty. Default: 0.6.")]
Engine = Annotated[
    str, typer.Option(help="auto, torch, ctranslate2, ctranslate2:int8 …; auto: the fastest.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, with every round.")]


class Found(Protocol):
    """What was measured."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""

    def report(self) -> str:
        """Return it for people."""


def write(found: Found, *, json: bool) -> None:
    """Write what was measured, for programs or for people."""
    typer.echo(json_module.dumps(found.to_json(), indent=2) if json else found.report())


@app.callback()
def bench() -> None:
    """Measure, side by side with peers."""


TrainSource = Annotated[
    str | None, typer.Argument(help="Source text (plain, gz, xz, zst), or a TSV; - is stdin.")
]
TrainTarget = Annotated[str | None, typer.Argument(help="Target text; none for a TSV.")]
Random = Annotated[
    str | None,
    typer.Option(help="Random words instead of a text, in sentences of mixed or equal length."),
]
TrainPeer = Annotated[
    list[str] | None,
    typer.Option(
        help="huggingface, torch or none; may stand several times. "
        "Default: huggingface where it is installed."
    ),
]
PeerAsItComes = Annotated[
    bool, typer.Option("--peer-as-it-comes", help="On a GPU leave peers cuDNN's attention.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Measure what the setting deterministic costs, too.")
]
Saving = Annotated[bool, typer.Option("--saving", help="Measure what checkpoints cost, too.")]
BatchTokens = Annotated[
    int | None, typer.Option(help="Tokens of a batch, a side. Default: the preset's.")
]
Vocabulary = Annotated[int, typer.Option(help="Subwords to learn, or random words.")]
CorpusFolder = Annotated[
    Path | None, typer.Option(help="Keep the prepared text here, to be found the next time.")
]
JsonOfPresets = Annotated[
    bool, typer.Option("--json", help="Write JSON, with every round; a list of several presets.")
]


@app.command(epilog=EXAMPLES_TRAIN)
def train(
    source: TrainSource = None,
    target: TrainTarget = None,
    *,
    random: Random = None,
    preset: Preset = None,
    set_: Set = None,
    peer: TrainPeer = None,
    peer_as_it_comes: PeerAsItComes = False,
    steps: Annotated[int, typer.Option(help="Steps of a round.", min=1)] = 10,
    rounds: Rounds = 3,
    deterministic: Deterministic = False,
    saving: Saving = False,
    batch_tokens: BatchTokens = None,
    vocabulary: Vocabulary = 8000,
    corpus: CorpusFolder = None,
    device: Device = "auto",
    json: JsonOfPresets = False,
) -> None:
    """Measure how many target tokens a second a model trains on here, and peers beside it.

    The peers are Hugging Face's MarianMTModel and torch.nn.Transformer, of the same shape and on
    the same text. The sides take turns, each in a process of its own; padding does not count.
    """
    from transduce.bench.results import report
    from transduce.bench.training import Plan, Text, compare
    from transduce.system.progress import console_progress

    settings = {"vocabulary": str(vocabulary)} | parse_settings(set_ or [])
    if batch_tokens is not None:
        settings["batch_tokens"] = str(batch_tokens)
    plan = Plan(
        presets=preset or ["small"],
        settings=settings,
        peers=peer,
        as_it_comes=peer_as_it_comes,
        deterministic=deterministic,
        saves=saving,
        steps=steps,
        rounds=rounds,
        device=device,
    )
    text = Text(source=source, target=target, random=random, corpus=corpus)
    found = compare(text, plan, console_progress())
    if json:
        facts = [one.to_json() for one in found]
        typer.echo(json_module.dumps(facts[0] if len(facts) == 1 else facts, indent=2))
    else:
        typer.echo(report(found))


@app.command(epilog=EXAMPLES_TRANSLATE)
def translate(
    run: TrainedRun,
    source: Source,
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
    lines: Lines = None,
    single: Annotated[
        int, typer.Option(help="Lines that are translated one by one too.", min=0)
    ] = 50,
    rounds: Rounds = 3,
    beam: Beam = None,
    alpha: Alpha = None,
    batch: Annotated[
        int | None, typer.Option(help="Sentences side by side. Default: what suits each side.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Measure how fast a model translates here: its engines, and peers on the same weights.

    Sentences a second, the time of a single sentence, memory, and the time from the start of a
    process to its first translation; with BLEU beside them. The sides take turns, each in a process
    of its own.
    """
    from transduce.bench.translation import compare
    from transduce.system.progress import console_progress

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
        settings=without_none(beam=beam, alpha=alpha),
        device=device,
        progress=console_progress(),
    )
    write(found, json=json)
