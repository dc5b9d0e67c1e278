"""What `transduce look` prints: what words look at, and which heads have a job."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from transduce.cli.options import command
from transduce.errors import BadInput, printable
from transduce.inspection.head_jobs import Found, find
from transduce.inspection.inspector import Inspection, Inspector
from transduce.inspection.matrices import AttentionMatrices
from transduce.system.formatting import pluralize
from transduce.system.progress import Progress
from transduce.text import reading as text

TOGETHER = 16  # sentences that are translated at once
STRIKING = 2.0  # times the share of a head that looks at everything alike: what is worth a line


def words(inspection: Inspection, kind: str, layer: int | None, heads: Sequence[int]) -> None:
    """Print the translation, how sure the model was, and what each word looks at most."""
    view = AttentionMatrices.of(inspection, kind, words=True)
    weights = view.mean(layer, heads)
    rows: list[list[str]] = []
    for query, row in zip(view.queries, weights, strict=True):
        best = row.argsort(kind="stable")[::-1][:2]
        most = [(view.keys[key], f"{row[key]:.0%}") for key in best]
        rows.append([query, *itertools.chain.from_iterable(most)])
    names = ["word", "looks most at", "share", "then at", "share"]
    if kind != "encoder":
        names = ["to write", "probability", "it looks most at", "share", "then at", "share"]
        for cells, sure in zip(rows, _sure(inspection), strict=True):
            cells.insert(1, sure)
    which = view.which(view.layer(layer), view.some(heads), mean=True)
    console = _console()
    console.print(Text(printable(inspection.sentences[1]), style="bold"))
    console.print(_table(names, rows, right={"share"}))
    console.print(Text(f"{kind} attention, {which}", style="dim"))


def _sure(inspection: Inspection) -> Iterator[str]:
    """Write the probability of each word: of each of its pieces where there are several."""
    steps = zip(
        inspection.target_words, inspection.target, inspection.probabilities.tolist(), strict=True
    )
    for _, same in itertools.groupby(steps, key=lambda step: step[0]):
        pieces = [(piece.strip(), probability) for _, piece, probability in same]
        if len(pieces) == 1:
            yield f"{pieces[0][1]:.0%}"
        else:
            yield "  ".join(f"{piece} {probability:.0%}" for piece, probability in pieces)


def heads(run: Path, file: str, most: int, progress: Progress) -> None:
    """Print the head that does each job best, over the first sentences of a text."""
    lines = text.read_lines(file)
    inspector = Inspector.load(run)
    sentences = [line for line in itertools.islice(lines, most) if inspector.fits(line)]
    if not sentences:
        raise BadInput(f"{text.display_name(file)} has no sentence that can be looked at")
    with progress.track("looking", len(sentences), "sentences") as advance:

        def followed() -> Iterator[Inspection]:
            for begin in range(0, len(sentences), TOGETHER):
                some = sentences[begin : begin + TOGETHER]
                yield from inspector.inspect_all(some)
                advance(len(some))

        found = [one for one in find(followed()) if one.share >= STRIKING * one.baseline]
    if not found:
        raise BadInput(f"no head of {run} has a job that can be named")
    console = _console()
    rows = [
        [
            one.job,
            one.kind,
            str(one.layer),
            str(one.head),
            f"{one.share:.0%}",
            f"{one.baseline:.0%}",
        ]
        for one in found
    ]
    names = ["looks at", "kind", "layer", "head", "share", "by chance"]
    console.print(_table(names, rows, right={*names[2:]}))
    progress.say(f"over {pluralize(len(sentences), 'sentence')}; to see the first of these heads:")
    progress.say(_command(run, found[0], sentences))


def _command(run: Path, found: Found, sentences: Sequence[str]) -> str:
    which = ["--kind", found.kind, "--layer", str(found.layer), "--head", str(found.head)]
    return command("look", run, sentences[found.example], *which, "--words", "--out", "head.svg")


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, right: set[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*map(Text, map(printable, row)))
    return table
