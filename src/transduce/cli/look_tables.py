"""The tables printed by `transduce look`: what words attend to, and which heads have a job."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from transduce.cli.options import LanguageOptions, command
from transduce.errors import BadInput, printable
from transduce.inspection.head_jobs import BestHead, find
from transduce.inspection.inspector import Inspection, Inspector
from transduce.inspection.matrices import AttentionMatrices
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text import reading as text

BATCH = 16  # number of sentences to translate together
CLEAR = 2.0  # a head is listed if its share is at least this many times the baseline


def print_words(inspection: Inspection, kind: str, layer: int | None, heads: Sequence[int]) -> None:
    """Print the translation, its probabilities, and the words that each word attends to most."""
    attention = AttentionMatrices.of(inspection, kind, words=True)
    weights = attention.mean(layer, heads)
    rows: list[list[str]] = []
    for query, row in zip(attention.queries, weights, strict=True):
        best = row.argsort(kind="stable")[::-1][:2]
        most = [(attention.keys[key], f"{row[key]:.0%}") for key in best]
        rows.append([query, *itertools.chain.from_iterable(most)])
    names = ["word", "looks most at", "share", "then at", "share"]
    if kind != "encoder":
        names = ["to write", "probability", "it looks most at", "share", "then at", "share"]
        for cells, probability in zip(rows, _probabilities(inspection), strict=True):
            cells.insert(1, probability)
    chosen = attention.select_heads(heads)
    which = attention.describe(attention.layer(layer), chosen, mean=True)
    console = _console()
    console.print(Text(printable(inspection.sentences[1]), style="bold"))
    console.print(_table(names, rows, right={"share"}))
    console.print(Text(f"{kind} attention, {which}", style="dim"))


def _probabilities(inspection: Inspection) -> Iterator[str]:
    """Yield the probability of each word, or of each of its pieces if it has several."""
    steps = zip(
        inspection.target_words, inspection.target, inspection.probabilities.tolist(), strict=True
    )
    for _, group in itertools.groupby(steps, key=lambda step: step[0]):
        pieces = [(piece.strip(), probability) for _, piece, probability in group]
        if len(pieces) == 1:
            yield f"{pieces[0][1]:.0%}"
        else:
            yield "  ".join(f"{piece} {probability:.0%}" for piece, probability in pieces)


def print_heads(
    run: Path, languages: LanguageOptions, file: str, most: int, progress: Progress
) -> None:
    """Print the best head for each job, over the first sentences of a text."""
    lines = text.read_lines(file)
    inspector = Inspector.load(run).directed(to=languages.to, source=languages.from_)
    sentences = [line for line in itertools.islice(lines, most) if inspector.fits(line)]
    if not sentences:
        raise BadInput(f"{text.display_name(file)} has no sentence that can be inspected")
    with progress.track("inspecting", len(sentences), "sentences") as advance:

        def inspections() -> Iterator[Inspection]:
            for begin in range(0, len(sentences), BATCH):
                batch = sentences[begin : begin + BATCH]
                yield from inspector.inspect_all(batch)
                advance(len(batch))

        heads = [head for head in find(inspections()) if head.share >= CLEAR * head.baseline]
    if not heads:
        raise BadInput(f"no head of {run} has a job that can be named")
    rows = [
        [
            head.job,
            head.kind,
            str(head.layer),
            str(head.head),
            f"{head.share:.0%}",
            f"{head.baseline:.0%}",
        ]
        for head in heads
    ]
    names = ["looks at", "kind", "layer", "head", "share", "by chance"]
    _console().print(_table(names, rows, right={*names[2:]}))
    progress.say(f"over {pluralize(len(sentences), 'sentence')}; to see the first of these heads:")
    progress.say(_command(run, heads[0], sentences))


def _command(run: Path, head: BestHead, sentences: Sequence[str]) -> str:
    which = ["--kind", head.kind, "--layer", str(head.layer), "--head", str(head.head)]
    return command("look", run, sentences[head.example], *which, "--words", "--out", "head.svg")


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, right: set[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*map(Text, map(printable, row)))
    return table
