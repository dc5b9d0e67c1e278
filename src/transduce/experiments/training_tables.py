"""Tables and sentences about training runs that are compared with each other or alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from transduce.experiments.checkpoint_means import Averaged, describe_gain
from transduce.experiments.findings import Table
from transduce.experiments.paper_numbers import TABLE_3
from transduce.experiments.statistics import Estimate, Interval
from transduce.experiments.training_rates import (
    PAPER,
    PAPERS_D_MODEL,
    Rate,
    Recorded,
    equation_3,
    peak,
)

PAPERS_ROWS = {0.0: "D-drop0", 0.1: "base", 0.2: "D-drop0.2"}  # by P_drop
END = 0.1  # of a run, over which the training loss at its end is averaged


@dataclass(frozen=True, slots=True)
class Fit:
    """Perplexity without dropout: on text that the model was trained on, and on other text."""

    training: Estimate
    validation: Estimate

    @property
    def gap(self) -> float:
        """The difference in nats per subword."""
        return math.log(self.validation.value / self.training.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """A training run and what was measured of it."""

    name: str
    run: Recorded
    rates: Sequence[Rate]
    fit: Fit | None = None
    bleu: Estimate | None = None  # of the test set
    difference: Interval | None = None  # of BLEU, minus the preset's
    averaged: Averaged | None = None

    @property
    def dropout(self) -> float:
        """P_drop of the run."""
        return self.run.config.model.P_drop

    @property
    def warmup(self) -> int:
        """The warm-up of the run."""
        return self.run.train.warmup

    def final(self, logged: str) -> float | None:
        """Return the last value of a validation."""
        values = self.run.history.curve(logged, None).y
        return values[-1] if values else None

    @property
    def training_loss(self) -> float:
        """The mean training loss over the end of the run."""
        curve = self.run.history.curve("loss", None)
        begin = (1 - END) * self.run.last_step
        later = [y for x, y in zip(curve.x, curve.y, strict=True) if x >= begin]
        return fmean(later or curve.y[-1:] or [math.nan])

    def to_json(self) -> dict[str, Any]:
        """Return the numbers."""
        return {
            "warmup": self.warmup,
            "P_drop": self.dropout,
            "settings": self.run.train.to_json(),
            "peak": [peak(self.rates).step, peak(self.rates).recorded],
            "deviation": max(rate.deviation for rate in self.rates),
            "training_loss": self.training_loss,
            "validations": [row for row in self.run.history.rows if "valid_loss" in row],
            "bleu": self.bleu.value if self.bleu else None,
            "gap": self.fit.gap if self.fit else None,
            "averaged": self.averaged.to_json() if self.averaged else None,
        }


def make_tables(trained: Sequence[Trained]) -> tuple[Table, ...]:
    """Return the tables: the runs, their learning rates, and means of checkpoints."""
    tables = [_runs_table(trained), _rates_table(trained)]
    tables += [_means_table(each, each.averaged) for each in trained if each.averaged]
    return tuple(tables)


def _runs_table(trained: Sequence[Trained]) -> Table:
    several = len(trained) > 1
    columns = (
        *("run", "warm-up", "P_drop", "training loss", "validation loss"),
        *("PPL training text", "PPL validation text", "gap (nats)", "BLEU greedy"),
        *(("BLEU test", "to preset") if several else ()),
        *("paper: PPL", "paper: BLEU"),
    )
    rows = []
    for each in trained:
        # The paper varies dropout, but not the warm-up.
        same_warmup = each.warmup == trained[0].warmup
        paper = TABLE_3.get(PAPERS_ROWS.get(each.dropout, "")) if same_warmup else None
        low, high = each.difference or (math.nan, math.nan)
        compared = (
            each.bleu.show(1) if each.bleu else "",
            f"{low:+.2f} to {high:+.2f}" if each.difference else "",
        )
        fit = each.fit
        rows.append(
            (
                *(each.run.name, f"{each.warmup:,}", f"{each.dropout:g}"),
                *(f"{each.training_loss:.3f}", _number(each.final("valid_loss"), 3)),
                *((fit.training.show(2), fit.validation.show(2)) if fit else ("", "")),
                *(f"{fit.gap:+.3f}" if fit else "", _number(each.final("valid_bleu"), 1)),
                *(compared if several else ()),
                *((f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}") if paper else ("", "")),
            )
        )
    return Table("At the end of training, with 95% intervals", columns, tuple(rows))


def _rates_table(trained: Sequence[Trained]) -> Table:
    columns = (
        *("run", "d_model", "warm-up", "peak of Eq. 3", "highest recorded", "at step"),
        *("recorded steps", "largest deviation"),
    )
    papers = equation_3(PAPER.warmup, PAPERS_D_MODEL, PAPER.warmup)
    rows = [
        (
            *("the paper's base", f"{PAPERS_D_MODEL}", f"{PAPER.warmup:,}", f"{papers:.3e}"),
            *("", "", "", ""),
        )
    ]
    for each in trained:
        run, highest = each.run, peak(each.rates)
        worst = max(rate.deviation for rate in each.rates)
        rows.append(
            (
                *(run.name, str(run.d_model), f"{each.warmup:,}"),
                f"{equation_3(each.warmup, run.d_model, each.warmup):.3e}",
                *(f"{highest.recorded:.3e}", f"{highest.step:,}", f"{len(each.rates):,}"),
                f"{worst:.1g}" if worst else "0",
            )
        )
    return Table("Learning rates: Eq. 3, and what was recorded", columns, tuple(rows))


def _means_table(trained: Trained, averaged: Averaged) -> Table:
    """Return BLEU of single checkpoints and of means."""
    rows = [
        (f"step {step:,}", estimate.show(2), "", "") for step, estimate in averaged.single.items()
    ]
    for count, estimate in averaged.means.items():
        low, high = averaged.differences[count]
        gain = estimate.value - averaged.last.value
        rows.append(
            (
                f"mean of the last {count}",
                *(estimate.show(2), f"{gain:+z.2f}", f"{low:+.2f} to {high:+.2f}"),
            )
        )
    columns = ("weights", "BLEU", "to the last checkpoint", "95% interval")
    title = f"Checkpoints of {trained.run.name}, {averaged.sentences:,} validation sentences"
    return Table(title, columns, tuple(rows))


def verdicts(trained: Sequence[Trained]) -> list[str]:
    """Describe what warm-up, dropout and means of checkpoints did."""
    first = trained[0]
    sentences = []
    if warm := [each for each in trained if each.warmup != first.warmup]:
        chosen = sorted([first, *warm], key=lambda each: each.warmup)
        parts = [
            f"{each.warmup:,} steps (peak {peak(each.rates).recorded:.1e}): {_end(each)}"
            for each in chosen
        ]
        sentences.append(f"Warm-up, which also sets the peak of Eq. 3: {'; '.join(parts)}.")
    if dropped := [each for each in trained if each.dropout != first.dropout]:
        chosen = sorted([first, *dropped], key=lambda each: each.dropout)
        parts = [
            f"{each.dropout:g}: {_end(each)}"
            + (f", gap to the training text {each.fit.gap:+.3f} nats" if each.fit else "")
            for each in chosen
        ]
        sentences.append(f"P_drop: {'; '.join(parts)}.")
    gains = [describe_gain(each.run.name, each.averaged) for each in trained if each.averaged]
    if gains:
        sentences.append(f"Checkpoints averaged: {'; '.join(gains)}.")
    return sentences


def _end(trained: Trained) -> str:
    """Describe how a run ended."""
    loss = trained.final("valid_loss")
    parts = [] if loss is None else [f"validation loss {loss:.3f}"]
    if trained.bleu is not None:
        parts.append(f"BLEU {trained.bleu.value:.1f}")
    return ", ".join(parts) or f"training loss {trained.training_loss:.3f}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
