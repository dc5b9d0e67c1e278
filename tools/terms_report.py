"""Tables of what `measure_terms` measured: BLEU and its differences, terms, spans, seconds."""

import importlib.util
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean, stdev
from typing import Any

from transduce.evaluation.bootstrap import (
    LineStatistics,
    bleu_statistics,
    bootstrap_samples,
    percentile_interval,
)
from transduce.experiments.statistics import T_95
from transduce.glossary import Glossary, missing
from transduce.markup.protected import protect
from transduce.markup.spans import BUILT_IN

SAMPLES = 1000
Output = tuple[str, int, str]  # condition, seed, variant
# What costs BLEU: the name, and the condition and variant that are compared with others.
DIFFERENCES = {
    "glossary": ("glossary", "plain"),
    "required alone": ("required", "plain"),
    "placed instead of required": ("glossary", "required"),
    "protection": ("spans", "plain"),
    "glossary, protected": ("spans+glossary", "spans"),
}
TRAININGS = {"spans": "plain", "terms": "spans"}


def report(
    gathered: Mapping[str, Any], protected: Mapping[str, bool]
) -> tuple[list[str], dict[str, Any]]:
    """Return the lines of the tables, and all figures. `protected` says it of each variant."""
    runs = gathered["runs"]
    glossary = Glossary.of([tuple(term) for term in gathered["terms"]])
    terms = count_terms(gathered, glossary, protected)
    bleu: dict[str, Any] = {"scores": [], "differences": []}
    if importlib.util.find_spec("sacrebleu"):
        bleu = score_bleu(gathered)
    counts = [
        {
            "condition": run["condition"],
            "seed": run["seed"],
            "variant": name,
            **{key: value for key, value in variant.items() if key != "outputs"},
        }
        for run in runs
        for name, variant in run["variants"].items()
    ]
    figures: dict[str, Any] = {"plan": gathered["plan"], "pairs": len(gathered["pairs"])}
    figures |= {"glossary": len(glossary), "terms": terms, **bleu, "counts": counts}
    figures["trained"] = [[run["condition"], run["seed"], run["seconds"]] for run in runs]
    plan = gathered["plan"]
    head = (
        f"{len(gathered['pairs']):,} sentences ({plan['test_name']}), {len(glossary)} terms, "
        f"preset {plan['preset']}, {plan['steps']:,} steps; means over seeds (95%, Student's t)"
    )
    lines = [
        head,
        *(bleu_table(bleu) if bleu["scores"] else ["no sacrebleu: use --report for BLEU"]),
        *terms_table(terms, counts),
        *spans_table(counts),
    ]
    return lines, figures


def score_bleu(gathered: Mapping[str, Any]) -> dict[str, Any]:
    """Return BLEU of all outputs, and the differences with their bootstrap intervals."""
    references = [reference for _, reference in gathered["pairs"]]
    language = gathered["plan"]["languages"].split("-")[1]
    statistics: dict[Output, LineStatistics] = {
        (run["condition"], run["seed"], name): bleu_statistics(
            variant["outputs"], references, language
        )
        for run in gathered["runs"]
        for name, variant in run["variants"].items()
    }
    scores = {key: float(each.total().score) for key, each in statistics.items()}
    draws = list(bootstrap_samples(len(references), SAMPLES))
    samples = {key: [each.score(times) for times in draws] for key, each in statistics.items()}
    differences = []
    for name, changed, base in _comparisons(scores):
        deltas = [a - b for a, b in zip(samples[changed], samples[base], strict=True)]
        low, high = percentile_interval(deltas)
        differences.append(
            {
                "what": name,
                "condition": changed[0],
                "seed": changed[1],
                "difference": scores[changed] - scores[base],
                "low": low,
                "high": high,
            }
        )
    return {
        "scores": [[*key, value] for key, value in scores.items()],
        "differences": differences,
    }


def _comparisons(scores: Mapping[Output, float]) -> Iterable[tuple[str, Output, Output]]:
    """Yield what is compared: a name, the output and the one that it is compared with."""
    for condition, seed in dict.fromkeys(key[:2] for key in scores):
        for name, (variant, base) in DIFFERENCES.items():
            if {(condition, seed, variant), (condition, seed, base)} <= scores.keys():
                yield name, (condition, seed, variant), (condition, seed, base)
        other = TRAININGS.get(condition)
        for variant in ("plain", "spans", "spans+glossary"):
            if other and (other, seed, variant) in scores:
                name = f"training {condition} instead of {other}, translated {variant}"
                yield name, (condition, seed, variant), (other, seed, variant)
        if condition != "plain" and ("plain", seed, "plain") in scores:
            name = f"training {condition} and protecting, instead of neither"
            yield name, (condition, seed, "spans"), ("plain", seed, "plain")


def count_terms(
    gathered: Mapping[str, Any], glossary: Glossary, protected: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """Count the terms of the sources and those in each output, in any form and as they are.

    A term in a protected span is none, as in the translator.
    """
    sources = [source for source, _ in gathered["pairs"]]
    matches = {
        keep: [
            glossary.find(protect(source, BUILT_IN if keep else None).text) for source in sources
        ]
        for keep in (False, True)
    }
    outputs: dict[Output, Sequence[str]] = {
        ("reference", 0, "plain"): [reference for _, reference in gathered["pairs"]],
    }
    for run in gathered["runs"]:
        for name, variant in run["variants"].items():
            outputs[run["condition"], run["seed"], name] = variant["outputs"]
    rows = []
    for (condition, seed, name), lines in outputs.items():
        pairs = list(zip(matches[protected[name]], lines, strict=True))
        total = sum(len(found) for found, _ in pairs)
        lost = sum(len(missing(found, line)) for found, line in pairs)
        exact = sum(_exact([each.entry.target for each in found], line) for found, line in pairs)
        rows.append(
            {
                "condition": condition,
                "seed": seed,
                "variant": name,
                "terms": total,
                "found": total - lost,
                "exact": exact,
            }
        )
    return rows


def _exact(targets: Sequence[str], line: str) -> int:
    """Count the terms that a line has without ending; case does not matter."""
    found = 0
    for target in dict.fromkeys(targets):
        pattern = rf"(?<!\w){re.escape(target)}(?!\w)"
        found += min(targets.count(target), len(re.findall(pattern, line, re.IGNORECASE)))
    return found


def mean(values: Sequence[float], digits: int = 2) -> str:
    """Write a mean with its interval."""
    if len(values) < 2:
        return f"{fmean(values):.{digits}f}"
    half = T_95[min(len(values) - 1, len(T_95)) - 1] * stdev(values) / math.sqrt(len(values))
    return f"{fmean(values):.{digits}f} (± {half:.{digits}f})"


def bleu_table(bleu: Mapping[str, Any]) -> list[str]:
    """Return BLEU by condition and variant, and the differences."""
    by_condition: dict[str, dict[str, list[float]]] = {}
    for condition, _, variant, value in bleu["scores"]:
        by_condition.setdefault(condition, {}).setdefault(variant, []).append(value)
    variants = list(next(iter(by_condition.values())))
    lines = ["", _row("BLEU, trained", *variants)]
    for condition, values in by_condition.items():
        lines.append(_row(condition, *(mean(values[variant]) for variant in variants)))
    lines += ["", "difference in BLEU; then each seed with its paired bootstrap interval"]
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in bleu["differences"]:
        rows.setdefault((each["condition"], each["what"]), []).append(each)
    for (condition, what), group in rows.items():
        name = what if what.startswith("training") else f"{condition}: {what}"
        seeds = ", ".join(
            f"{each['difference']:+.2f} ({each['low']:+.2f} to {each['high']:+.2f})"
            for each in group
        )
        lines.append(f"{name}: {mean([each['difference'] for each in group])}; {seeds}")
    return lines


def terms_table(
    terms: Sequence[Mapping[str, Any]], counts: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the accuracy of terms and what it took."""
    heads = ("terms, %", "any form", "as they are", "number", "sentences again", "placed")
    lines = ["", _row(*heads, "required", "seconds")]
    for condition, variant in dict.fromkeys((row["condition"], row["variant"]) for row in terms):
        rows = [r for r in terms if (r["condition"], r["variant"]) == (condition, variant)]
        took = [c for c in counts if (c["condition"], c["variant"]) == (condition, variant)]
        shares = [
            mean([100 * row[key] / max(1, row["terms"]) for row in rows])
            for key in ("found", "exact")
        ]
        cells = [*shares, str(rows[0]["terms"])]
        if took:
            cells += [f"{fmean(each['again'] for each in took):.1f}"]
            for how in ("placed", "required"):
                cells += [f"{fmean(each['searches'].get(how, 0) for each in took):.1f}"]
            cells += [f"{fmean(each['seconds'] for each in took):.1f}"]
        name = condition if condition == "reference" else f"{condition}: {variant}"
        lines.append(_row(name, *cells))
    return lines


def spans_table(counts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how many spans are in the outputs as often as in the sources."""
    lines = ["", _row("spans exact, %; lost", "all", "copied", "aligned", "unprotected")]
    for condition, variant in dict.fromkeys((row["condition"], row["variant"]) for row in counts):
        rows = [r for r in counts if (r["condition"], r["variant"]) == (condition, variant)]
        cells = []
        kinds = ("copied", "aligned", "unprotected")
        for group in (kinds, *((kind,) for kind in kinds)):
            total, exact, lost = (
                sum(row["spans"].get(f"{kind}, {key}", 0) for row in rows for kind in group)
                for key in ("all", "exact", "lost")
            )
            share = 100 * exact / total if total else 100
            cells.append(f"{share:.2f} of {total / len(rows):.0f}, {lost} lost" if total else "-")
        lines.append(_row(f"{condition}: {variant}", *cells))
    return lines


def _row(*cells: str) -> str:
    return "".join(chain([f"{cells[0]:27}"], (f" {cell:>20}" for cell in cells[1:])))
