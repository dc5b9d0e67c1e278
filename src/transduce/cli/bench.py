"""`transduce bench`."""

from pathlib import Path

import typer

from transduce.cli.declaring import add_command, argument, flag, option, option_group
from transduce.cli.options import Set, TrainedRun, parse_settings, without_none
from transduce.cli.tables import print_json

EXAMPLES_TRAIN = """
transduce bench train train.en train.de
transduce bench train train.en train.de --preset base --batch-tokens 4000 --steps 5
transduce bench train pairs.tsv --set d_model=128 --set d_k=32 --set d_v=32 --json
transduce bench train --random mixed --peer huggingface --peer torch
transduce bench train --random mixed --preset base --preset B-dk16 --preset big --peer none
transduce bench train train.en train.de --preset B-dk16 --peer none --corpus bench-corpus
transduce bench train --random mixed --preset base --peer none --deterministic
"""

EXAMPLES_TRANSLATE = """
transduce bench translate runs/en-de test.en test.de
transduce bench translate runs/en-de test.en test.de --engine ctranslate2:int8 --peer ctranslate2
transduce bench translate runs/en-de test.en --lines 100 --rounds 5 --json
"""

app = typer.Typer(help="Compare training and translation speed with peers.", no_args_is_help=True)


@option_group()
class TrainOptions:
    """Options of `transduce bench train`."""

    random: str | None = option(
        "Random words instead of a text, in sentences of mixed or equal length."
    )
    preset: list[str] | None = option(
        "tiny, small, base, big or a row of Table 3; repeatable. Default: small."
    )
    set_: Set = None
    peer: list[str] | None = option(
        "huggingface, torch or none; repeatable. Default: huggingface if installed."
    )
    peer_as_it_comes: bool = flag(
        "Keep cuDNN's attention for the peers on a GPU.", "--peer-as-it-comes"
    )
    steps: int = option("Steps per round.", default=10, min=1)
    rounds: int = option("Rounds of each side; the sides alternate.", default=3, min=1)
    deterministic: bool = flag("Also measure with the setting deterministic.", "--deterministic")
    saving: bool = flag("Also measure the cost of checkpoints.", "--saving")
    batch_tokens: int | None = option("Tokens per side of a batch. Default: the preset's.")
    vocabulary: int = option("Number of subwords, or of random words.", default=8000)
    corpus: Path | None = option("Keep the prepared text in this folder and reuse it.")
    device: str = option("auto, cpu or cuda.", default="auto")
    json: bool = flag("Write JSON with every round; a list for several presets.", "--json")


def train(
    source: str | None = argument(
        "Source text (plain, gz, xz, zst), or a TSV; - is stdin.", default=None
    ),
    target: str | None = argument("Target text; none for a TSV.", default=None),
    *,
    options: TrainOptions,
) -> None:
    """Measure the training speed on this machine, in target tokens per second, against peers.

    The peers are Hugging Face's MarianMTModel and torch.nn.Transformer, of the same shape and on
    the same text. The sides take turns, each in a process of its own; padding does not count.
    """
    from transduce.bench.results import report
    from transduce.bench.training import Plan, TrainingText, compare
    from transduce.system.progress import console_progress

    settings = {"vocabulary": str(options.vocabulary)} | parse_settings(options.set_ or [])
    if options.batch_tokens is not None:
        settings["batch_tokens"] = str(options.batch_tokens)
    plan = Plan(
        presets=options.preset or ["small"],
        settings=settings,
        peers=options.peer,
        as_it_comes=options.peer_as_it_comes,
        deterministic=options.deterministic,
        saves=options.saving,
        steps=options.steps,
        rounds=options.rounds,
        device=options.device,
    )
    text = TrainingText(source=source, target=target, random=options.random, corpus=options.corpus)
    comparisons = compare(text, plan, console_progress())
    if options.json:
        facts = [comparison.to_json() for comparison in comparisons]
        print_json(facts[0] if len(facts) == 1 else facts)
    else:
        typer.echo(report(comparisons))


@option_group()
class TranslateOptions:
    """Options of `transduce bench translate`."""

    engine: list[str] | None = option(
        "torch, ctranslate2, ctranslate2:int8 …; repeatable. Default: all installed."
    )
    peer: list[str] | None = option(
        "huggingface, ctranslate2, ctranslate2:int8 … or none; repeatable. "
        "Default: huggingface if installed."
    )
    lines: int | None = option("Lines of the text. Default: all.", min=1)
    single: int = option("Lines that are also translated one by one.", default=50, min=0)
    rounds: int = option("Rounds of each side; the sides alternate.", default=3, min=1)
    beam: int | None = option("Beam width. Default: 4.")
    alpha: float | None = option("Length penalty. Default: 0.6.")
    to: str | None = option(
        "Target language, of a model that translates to several: it has no peers.",
        metavar="LANGUAGE",
    )
    batch: int | None = option("Sentences per batch. Default: the best for each side.")
    device: str = option("auto, cpu or cuda.", default="auto")
    json: bool = flag("Write JSON with every round.", "--json")


def translate(
    run: TrainedRun,
    source: str = argument("Text to translate (plain, gz, xz, zst)."),
    reference: str | None = argument("Reference translation, for BLEU.", default=None),
    *,
    options: TranslateOptions,
) -> None:
    """Measure the translation speed of a model: our engines, and peers with the same weights.

    Sentences per second, latency of a single sentence, memory, time from the start of a process to
    its first translation, and BLEU. The sides take turns, each in a process of its own.
    """
    from transduce.bench.translation import compare
    from transduce.system.progress import console_progress

    result = compare(
        run,
        source,
        reference,
        engines=options.engine,
        peers=options.peer,
        lines=options.lines,
        single=options.single,
        rounds=options.rounds,
        batch=options.batch,
        to=options.to,
        settings=without_none(beam=options.beam, alpha=options.alpha),
        device=options.device,
        progress=console_progress(),
    )
    if options.json:
        print_json(result.to_json())
    else:
        typer.echo(result.report())


add_command(app, train, EXAMPLES_TRAIN)
add_command(app, translate, EXAMPLES_TRANSLATE)
