"""`transduce demo`."""

import time as clock
from pathlib import Path

import typer

from transduce.cli.declaring import option
from transduce.cli.options import command, parse_time
from transduce.errors import BadInput

EXAMPLES = """
transduce demo
transduce demo --time 90s --out runs/short-demo
"""

SHOWN = 8  # translations on the screen
MAX_PAIRS, MAX_TEST = 10_000_000, 100_000  # bounded because pairs are generated in memory
RESERVE = 10.0  # seconds for translating and scoring

# The run is very short: small batches, no dropout (each pair is seen once or twice, so the model
# cannot overfit), and the last weights instead of an average with much older ones. docs/log.md
# lists the alternatives that were tried.
SETTINGS = {
    "vocabulary": 4000,
    "batch_tokens": 1000,
    "P_drop": 0.0,
    "average": 1,
    "save_every": 500,
    "validate_every": 1000,
    "validate_bleu": 0,
}


def demo(
    *,
    out: Path = option("The run folder.", "--out", "-o", default=Path("runs/demo")),
    time: str = option("Total time for data, training and test.", default="3m45s"),
    pairs: int = option("Sentence pairs to train on.", default=100_000, min=1000, max=MAX_PAIRS),
    test: int = option(
        "Unseen sentences to translate at the end.", default=500, min=1, max=MAX_TEST
    ),
    seed: int = option("The random seed.", default=1),
) -> None:
    """Train a small English-German translator and show its translations of unseen sentences.

    A built-in grammar generates the sentences, so nothing is downloaded. Two cores are enough. Run
    again, the command continues a stopped run or shows a finished one.
    """
    started = clock.monotonic()
    from transduce.datasets import pocket
    from transduce.datasets.pocket.files import write
    from transduce.runs.folder import RunConfig
    from transduce.runs.locks import require_run_folder
    from transduce.system.formatting import format_duration
    from transduce.system.progress import console_progress
    from transduce.training import train as training
    from transduce.translation.translator import Translator

    progress = console_progress()
    budget = parse_time(time)
    if not out.name:
        raise BadInput(f"--out {out}: expected a folder for the run, such as runs/demo")
    data = out.with_name(out.name + "-data")
    require_run_folder(out)
    before = RunConfig.load(out) if (out / "config.json").exists() else None
    progress.say(f"writing {pairs:,} English-German sentence pairs to {data}")
    files = write(data, pairs, test, seed, overwrite=before is None)
    remaining = max(1.0, budget - RESERVE - (clock.monotonic() - started))
    if before is not None:  # keep the time limit of the first command
        remaining = before.train.seconds or remaining
    training.train(
        *files["train"],
        out=out,
        valid=files["valid"],
        preset="tiny",
        settings=SETTINGS | {"seconds": round(remaining, 1), "seed": seed},
        device="cpu",
        progress=progress,
    )
    translator = Translator.load(out, device="cpu")
    unseen = pocket.pairs(test, "test", seed)
    sources, references = [source for source, _ in unseen], [target for _, target in unseen]
    with progress.track("translating", test, "sentences") as advance:
        translations = translator.stream(sources, split=False, advance=advance)
        outputs = [translation.text for translation in translations]
    _show(sources, references, outputs)
    progress.say(f"done in {format_duration(clock.monotonic() - started)}. Now try:")
    for line in _suggestions(out, data, sources[0]):
        progress.say(line)


def _suggestions(out: Path, data: Path, sentence: str) -> list[str]:
    """Return commands to try next, ready to paste."""
    score_command = command("score", "-", data / "test.de")
    return [
        f"  {command('translate', out, sentence)}",
        f"  {command('translate', out, data / 'test.en', '--no-split')} | {score_command}",
        f"  {command('look', out, sentence)}",
        f"  {command('serve', out)}        (a web page; needs pip install 'transduce[web]')",
        f"or your own text: {command('train', 'YOUR.en', 'YOUR.de', '--out', 'runs/mine')}",
    ]


def _show(sources: list[str], references: list[str], outputs: list[str]) -> None:
    """Print the first translations, and how many are exactly right."""
    from transduce.evaluation.scores import score
    from transduce.system.formatting import pluralize

    for source, reference, output in list(zip(sources, references, outputs, strict=True))[:SHOWN]:
        typer.echo(f"  en   {source}")
        typer.echo(f"  de   {output}")
        typer.echo("" if output == reference else f"  not  {reference}\n")
    exact = sum(a == b for a, b in zip(outputs, references, strict=True))
    (bleu,) = score(outputs, references, metrics=("bleu",), language="de")
    typer.echo(
        f"on {pluralize(len(sources), 'unseen sentence')}: {exact / len(sources):.1%} exactly right"
    )
    typer.echo(str(bleu))
