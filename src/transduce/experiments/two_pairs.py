"""Table 2 for two pairs of languages, side by side, as in the paper."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import BadInput, BadRun
from transduce.experiments.comparison import REFERENCES, TRANSLATIONS
from transduce.experiments.experiment_folder import EXPERIMENT, FORMAT, RESULT, read_result
from transduce.experiments.findings import Table
from transduce.experiments.paper_numbers import TABLE_2, System, papers_pair
from transduce.experiments.rows import Result
from transduce.experiments.statistics import Resampled
from transduce.system.files import read_checksummed, require_regular
from transduce.text.reading import read_lines

TRANSFORMER = "transformer"
PAPERS_TRANSFORMER = next(system for system in TABLE_2 if system.name == "Transformer, base")


@dataclass(frozen=True, slots=True)
class Side:
    """The finished rows of Table 2 for one pair of languages."""

    languages: tuple[str, str]
    results: Mapping[str, Result]
    resampled: Resampled

    @property
    def name(self) -> str:
        """The pair, such as en-de."""
        return "-".join(self.languages)

    def distance(self, row: str, base: str | None) -> tuple[str, str]:
        """Return BLEU minus that of another row, and its 95% interval; "" for that row itself."""
        if base in (None, row) or row not in self.results:
            return "", ""
        low, high = self.resampled.difference(row, str(base))
        lead = self.resampled.whole[row] - self.resampled.whole[str(base)]
        return f"{lead:+z.2f}", f"{low:+.2f} to {high:+.2f}"


def reference(ours: Side, theirs: Side) -> str | None:
    """Return the first of our Transformers that both pairs have."""
    both = (row for row in ours.results if row in theirs.results)
    return next((row for row in both if _architecture(ours.results[row]) == TRANSFORMER), None)


def read_side(folder: Path, languages: Sequence[str]) -> Side:
    """Read the finished rows of another Table 2; refuse one in the same languages."""
    if not (folder / EXPERIMENT).is_file():
        raise BadInput(
            f"--beside {folder}: expected the folder of another Table 2, which "
            "`transduce paper table2 … --out FOLDER` writes"
        )
    experiment = read_checksummed(folder / EXPERIMENT, FORMAT, "an experiment", {"experiment": str})
    if experiment["experiment"] != "table2":
        raise BadRun(f"--beside {folder}: it holds {experiment['experiment']}, not table2")
    theirs = (str(experiment["languages"][0]), str(experiment["languages"][1]))
    if theirs == tuple(languages):
        raise BadInput(
            f"--beside {folder}: it is {'-'.join(theirs)} too; expected another pair of languages"
        )
    rows = sorted(path.parent for path in folder.glob(f"*/{RESULT}"))
    finished = [row for row in rows if (row / TRANSLATIONS).exists()]
    if not finished:
        raise BadRun(f"--beside {folder}: none of its rows is finished")
    results = {row.name: read_result(row, Result) for row in finished}
    translations = {
        row.name: list(read_lines(require_regular(row / TRANSLATIONS))) for row in finished
    }
    references = list(read_lines(require_regular(folder / REFERENCES)))
    return Side(theirs, results, Resampled(translations, references, theirs[1]))


def beside_table(ours: Side, theirs: Side, papers: Callable[[Result], System]) -> Table:
    """Return BLEU and the distance to the Transformer for both pairs, beside the paper's."""
    sides, base = _sorted(ours, theirs), reference(ours, theirs)
    pairs = [pair for side in sides if (pair := papers_pair(side.languages))]
    columns = ["system"]
    for side in sides:
        distance = f"{side.name}: to {base}" if base else f"{side.name}: to the Transformer"
        columns += [f"{side.name}: BLEU", distance, "95% interval"]
    for pair in pairs:
        columns += [f"paper: {pair.name}", f"paper: to its Transformer, {pair.name}"]
    rows = []
    for row in dict.fromkeys([*ours.results, *theirs.results]):
        cells = [row]
        for side in sides:
            bleu = side.resampled.whole.get(row)
            cells += ["" if bleu is None else f"{bleu:.2f}", *side.distance(row, base)]
        system = papers(ours.results.get(row) or theirs.results[row])
        for pair in pairs:
            bleu, of_base = pair.bleu(system), pair.bleu(PAPERS_TRANSFORMER)
            gap = f"{bleu - of_base:+.2f}" if bleu and of_base and bleu != of_base else ""
            cells += ["" if bleu is None else f"{bleu:g}", gap]
        rows.append(tuple(cells))
    title = f"{sides[0].name} beside {sides[1].name}"
    return Table(title, tuple(columns), tuple(rows))


def describe_beside(ours: Side, theirs: Side) -> list[str]:
    """Rank the systems of each pair, and say how their training differs."""
    sides = _sorted(ours, theirs)
    ranks = [
        f"{side.name}: {', '.join(sorted(side.results, key=lambda row: -side.results[row].bleu))}"
        for side in sides
    ]
    budgets = {
        side.name: sorted({round(result.seconds) for result in side.results.values()})
        for side in sides
    }
    spent = "; ".join(
        f"{name} {seconds[0]:,} to {seconds[-1]:,} s" for name, seconds in budgets.items()
    )
    compared = (
        "the distances to the Transformer can."
        if reference(ours, theirs)
        else "no Transformer is finished in both."
    )
    note = (
        f"By BLEU, best first: {'; '.join(ranks)}. Time in steps: {spent} per system. BLEU in two "
        f"languages cannot be compared; {compared}"
    )
    return [note]


def _sorted(ours: Side, theirs: Side) -> list[Side]:
    """Return the sides in the paper's order: German, then French."""
    return sorted([ours, theirs], key=lambda side: side.name)


def _architecture(result: Result) -> str:
    return str(result.model.get("architecture", TRANSFORMER))
