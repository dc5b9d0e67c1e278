"""The tables of a sweep: means of each combination of settings with 95% intervals over seeds.

The standard deviation between seeds is estimated from all combinations together, so intervals by
Student's t are useful with two or three seeds. The best mean is marked only if its
difference from every other one is larger than the 95% interval of that difference.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from transduce.experiments.statistics import T_95
from transduce.system.files import write_json, write_text_file

LOWER_IS_BETTER = ("valid loss", "TER")
NAME = "table"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured of a run: values by name, or why it failed."""

    values: Mapping[str, float]
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measurement of one combination."""

    mean: float
    half_width: float | None  # of the 95% interval; None if no combination has two seeds
    best: bool = False

    def __str__(self) -> str:
        shown = f"{self.mean:.3f}"
        if self.half_width is not None:
            shown += f" ± {self.half_width:.3f}"
        return f"{shown} *" if self.best else shown


def summarize(groups: Mapping[Any, Sequence[float]], *, lower: bool) -> dict[Any, Cell]:
    """Return the mean and interval of each group, and mark the best if it is beyond doubt."""
    means = {key: fmean(values) for key, values in groups.items() if values}
    freedom = sum(len(groups[key]) - 1 for key in means)
    if not freedom:
        return {key: Cell(mean=mean, half_width=None) for key, mean in means.items()}
    squares = sum((value - means[key]) ** 2 for key in means for value in groups[key])
    scale = T_95[min(freedom, len(T_95)) - 1] * math.sqrt(squares / freedom)
    best = min(means, key=lambda key: means[key] if lower else -means[key])
    others = [key for key in means if key != best]
    beyond = all(
        abs(means[best] - means[key])
        > scale * math.sqrt(1 / len(groups[best]) + 1 / len(groups[key]))
        for key in others
    )
    return {
        key: Cell(
            mean=mean,
            half_width=scale / math.sqrt(len(groups[key])),
            best=bool(others) and beyond and key == best,
        )
        for key, mean in means.items()
    }


def write_tables(out: Path, runs: Sequence[Mapping[str, Any]], total: int) -> Path:
    """Write table.md, table.csv and table.json; return the path of the first."""
    keys = list(dict.fromkeys(tuple(run["settings"].items()) for run in runs))
    names = list(dict.fromkeys(name for run in runs for name in run["values"]))
    cells = {name: _cells(name, keys, runs) for name in names}
    counts = {key: sum(_key(run) == key and not run["failure"] for run in runs) for key in keys}
    failed = {key: sum(_key(run) == key and bool(run["failure"]) for run in runs) for key in keys}
    settings = [name for name, _ in keys[0]]
    several_failed = any(failed.values())
    head = [*settings, "seeds", *(["diverged"] if several_failed else []), *names]
    body = [
        [
            *(value for _, value in key),
            str(counts[key]),
            *([str(failed[key])] if several_failed else []),
            *(str(cells[name].get(key, "")) for name in names),
        ]
        for key in keys
    ]
    lines = [head, ["---"] * len(head), *body]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    note = "Means and 95% intervals over seeds; * marks the best if it is beyond the intervals.\n"
    missing = f"{len(runs):,} of {total:,} runs have finished.\n" if len(runs) < total else ""
    write_text_file(out / f"{NAME}.md", f"{text}\n{note}{missing}")
    write_text_file(out / f"{NAME}.csv", _csv(settings, names, keys, counts, cells))
    rows = [
        {
            "settings": dict(key),
            "seeds": counts[key],
            "diverged": failed[key],
            "metrics": {name: vars(cells[name][key]) for name in names if key in cells[name]},
        }
        for key in keys
    ]
    write_json(out / f"{NAME}.json", {"table": rows, "runs": list(runs), "planned": total})
    return out / f"{NAME}.md"


def _key(run: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(run["settings"].items())


def _cells(name: str, keys: Sequence[Any], runs: Sequence[Mapping[str, Any]]) -> dict[Any, Cell]:
    groups = {
        key: [run["values"][name] for run in runs if _key(run) == key and name in run["values"]]
        for key in keys
    }
    return summarize(groups, lower=name in LOWER_IS_BETTER)


def _csv(
    settings: Sequence[str],
    names: Sequence[str],
    keys: Sequence[Any],
    counts: Mapping[Any, int],
    cells: Mapping[str, Mapping[Any, Cell]],
) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    both = [column for name in names for column in (name, f"{name} ±")]
    writer.writerow([*settings, "seeds", *both])
    for key in keys:
        numbers: list[object] = []
        for name in names:
            cell = cells[name].get(key)
            numbers += ["", ""] if cell is None else [cell.mean, cell.half_width]
        writer.writerow([*(value for _, value in key), counts[key], *numbers])
    return text.getvalue()
