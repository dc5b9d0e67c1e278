"""`transduce bench`."""

import json as json_module
from pathlib import Path
from typing import Annotated

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

app = typer.Typer(help="Measure training and translation speed beside peers.", no_args_is_help=True)

Source = Annotated[str, typer.Argument(help="Text to translate (plain, gz, xz, zst).")]
Preset = Annotated[
    list[str] | None,
    typer.Option(help="tiny, small, base, big or a row of Table 3; repeatable. Default: small."),
]
Lines = Annotated[int | None, typer.Option(help="Lines of the text. Default: all.", min=1)]
Rounds = Annotated[int, typer.Option(help="Rounds of each side, by turns.", min=1)]
Beam = Annotated[int | None, typer.Option(help="Beam width. Default: 4.")]
Alpha = Annotated[float | None, typer.Option(help="Length penalty. Default: 0.6.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON with every round.")]


@app.callback()
def bench() -> None:
    """Measure training and translation speed beside peers."""


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
    typer.Option(help="huggingface, torch or none; repeatable. Default: huggingface if installed."),
]
PeerAsItComes = Annotated[
    bool, typer.Option("--peer-as-it-comes", help="Keep cuDNN's attention for the peers on a GPU.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Also measure with the setting deterministic.")
]
Saving = Annotated[bool, typer.Option("--saving", help="Also measure the cost of checkpoints.")]
BatchTokens = Annotated[
    int | None, typer.Option(help="Tokens per side of a batch. Default: the preset's.")
]
Vocabulary = Annotated[int, typer.Option(help="Number of subwords, or of random words.")]
CorpusFolder = Annotated[
    Path | None, typer.Option(help="Keep the prepared text in this folder and reuse it.")
]
JsonOfPresets = Annotated[
    bool, typer.Option("--json", help="Write JSON with every round; a list for several presets.")
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
    steps: Annotated[int, typer.Option(help="Steps per round.", min=1)] = 10,
    rounds: Rounds = 3,
    deterministic: Deterministic = False,
    saving: Saving = False,
    batch_tokens: BatchTokens = None,
    vocabulary: Vocabulary = 8000,
    corpus: CorpusFolder = None,
    device: Device = "auto",
    json: JsonOfPresets = False,
) -> None:
    """Measure the training speed on this machine, in target tokens per second, beside peers.

    The peers are Hugging Face's MarianMTModel and torch.nn.Transformer, of the same shape and on
    the same text. The sides take turns, each in a process of its own; padding does not count.
    """
    from transduce.bench.results import report
    from transduce.bench.training import Plan, TrainingText, compare
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
    text = TrainingText(source=source, target=target, random=random, corpus=corpus)
    comparisons = compare(text, plan, console_progress())
    if json:
        facts = [comparison.to_json() for comparison in comparisons]
        typer.echo(json_module.dumps(facts[0] if len(facts) == 1 else facts, indent=2))
    else:
        typer.echo(report(comparisons))


@app.command(epilog=EXAMPLES_TRANSLATE)
def translate(
    run: TrainedRun,
    source: Source,
    reference: Annotated[
        str | None, typer.Argument(help="Reference translation, for BLEU.")
    ] = None,
    *,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help="torch, ctranslate2, ctranslate2:int8 …; repeatable. Default: all installed."
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="huggingface, ctranslate2, ctranslate2:int8 … or none; repeatable. "
            "Default: huggingface if installed."
        ),
    ] = None,
    lines: Lines = None,
    single: Annotated[
        int, typer.Option(help="Lines that are also translated one by one.", min=0)
    ] = 50,
    rounds: Rounds = 3,
    beam: Beam = None,
    alpha: Alpha = None,
    batch: Annotated[
        int | None, typer.Option(help="Sentences per batch. Default: the best for each side.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Measure the translation speed of a model: our engines, and peers with the same weights.

    Sentences per second, time of a single sentence, memory, time from the start of a process to its
    first translation, and BLEU. The sides take turns, each in a process of its own.
    """
    from transduce.bench.translation import compare
    from transduce.system.progress import console_progress

    result = compare(
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
    typer.echo(json_module.dumps(result.to_json(), indent=2) if json else result.report())
