"""Sentences longer than any in training: sinusoidal versus learned positions (paper 3.5)."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.datasets.pocket.files import write_pairs
from transduce.errors import BadInput
from transduce.experiments.claims import TEXTS, Trial, train_variants
from transduce.experiments.drawing import add_pictures, log_y_axis, panels, plot_estimates
from transduce.experiments.findings import Finding, Table
from transduce.experiments.rows import Data
from transduce.experiments.statistics import Estimate, Resampled
from transduce.experiments.teacher_forcing import perplexity, score_tokens
from transduce.inspection.style import QUIET
from transduce.system.progress import Progress
from transduce.text.reading import read_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pair = tuple[str, str]
Files = tuple[Path, Path]

SINUSOIDAL, LEARNED, CONTROL = "sinusoidal", "learned", "all-lengths"
HELD_OUT = 20  # every 20th training pair is held out if no test text is given
LEAST_SENTENCES = 10  # minimum per measured length
BOUNDARIES = (0.5, 1.0, 1.25, 1.5, 2.0)  # between lengths, relative to the longest in training
SAID = (
    "Learned positions do nearly as well as sinusoids (Table 3 (E)); sinusoids were chosen because "
    "they may allow the model to extrapolate to sequences longer than any it was trained on (3.5)."
)
ABOUT_CONTROL = (
    "The control was trained on as many pairs of all lengths: it shows how hard long sentences are "
    "in themselves. Its subwords differ, so its perplexity is not comparable."
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Test sentences of similar length."""

    shortest: int  # words of the longer side
    longest: int
    seen: bool  # whether such lengths occur in training
    indices: tuple[int, ...]  # of its sentences in the test set

    @property
    def name(self) -> str:
        """The lengths in words."""
        return f"{self.shortest} to {self.longest}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The scores of all models on one bucket."""

    bucket: Bucket
    beyond: float  # share of target subwords at positions that do not occur in training
    perplexity: dict[str, Estimate]
    bleu: dict[str, Estimate]
    difference: tuple[float, float]  # 95% interval of BLEU, sinusoidal minus learned

    def to_json(self) -> dict[str, object]:
        """Return the numbers."""
        return {
            "words": [self.bucket.shortest, self.bucket.longest],
            "seen": self.bucket.seen,
            "sentences": len(self.bucket.indices),
            "beyond": self.beyond,
            "perplexity": {name: estimate.value for name, estimate in self.perplexity.items()},
            "bleu": {name: estimate.value for name, estimate in self.bleu.items()},
        }


def positions(trial: Trial, data: Data, longest: int, most: int, progress: Progress) -> Finding:
    """Train on short sentences only, and measure at training lengths and beyond.

    `longest` is the maximum number of words per side in training; `most` is the maximum number of
    test sentences per length. A third model is trained on all lengths, as a control.
    """
    if longest < 2:
        raise BadInput(f"--longest {longest}: expected 2 words or more to train on")
    train, test, all_lengths = _write_texts(trial, data, longest, most)
    languages = "-".join(data.pair())
    short = Data(train=train, test=test, languages=languages)
    variants = {SINUSOIDAL: {"positions": "sinusoidal"}, LEARNED: {"positions": "learned"}}
    trained, results = train_variants("positions", trial, short, variants, progress)
    whole = Data(train=all_lengths, test=test, languages=languages)
    control, _ = train_variants(
        "positions", trial, whole, {CONTROL: {}}, progress, folder="control"
    )
    pairs = trained.test_pairs()
    token_scores = {
        name: score_tokens(trained.folder / name, pairs, trial.device, progress) for name in results
    }
    translations = {name: trained.translations(name) for name in results}
    translations[CONTROL] = control.translations(CONTROL)
    trained_to = trained.corpus().manifest.train.target_longest
    measured = []
    for bucket in _buckets(pairs, longest):
        lines = {name: [texts[i] for i in bucket.indices] for name, texts in translations.items()}
        bleu = Resampled(lines, [pairs[i][1] for i in bucket.indices], data.pair()[1])
        scores = {name: [every[i] for i in bucket.indices] for name, every in token_scores.items()}
        tokens = [len(sentence.nll) for sentence in scores[SINUSOIDAL]]
        measured.append(
            Measured(
                bucket=bucket,
                beyond=sum(max(0, count - trained_to) for count in tokens) / sum(tokens),
                perplexity={name: perplexity(sentences) for name, sentences in scores.items()},
                bleu={name: bleu.estimate(name) for name in bleu.whole},
                difference=bleu.difference(SINUSOIDAL, LEARNED),
            )
        )
    machine = next(iter(results.values())).machine
    return _finding(trial, longest, measured, trained_to, machine)


def _write_texts(trial: Trial, data: Data, longest: int, most: int) -> tuple[Files, Files, Files]:
    """Write short pairs, test pairs and, for the control, equally many pairs of all lengths."""
    given = data.test or data.valid
    held_out: list[Pair] = []
    training: list[Pair] = []
    if given is not None:
        held_out = [pair for pair in read_pairs(*given) if all(pair)]
    for number, pair in enumerate(read_pairs(*data.train)):
        hold = given is None and number % HELD_OUT == 0 and all(pair)
        (held_out if hold else training).append(pair)
    short = [pair for pair in training if 0 < _length(pair) <= longest]
    lengths = [_length(pair) for pair in held_out]
    if not short or not lengths or not min(lengths) <= longest < max(lengths):
        raise BadInput(
            f"--longest {longest}: expected sentences of up to {longest} words to train on, and "
            "shorter and longer ones to test with; choose another length, or another text"
        )
    buckets = _buckets(held_out, longest, least=1)
    chosen = sorted(i for bucket in buckets for i in bucket.indices[:most])
    languages, folder = data.pair(), trial.out / TEXTS
    return (
        write_pairs(folder, "short", short, languages),
        write_pairs(folder, "lengths", [held_out[i] for i in chosen], languages),
        write_pairs(folder, "all", training[: len(short)], languages),
    )


def _length(pair: Pair) -> int:
    return max(len(side.split()) for side in pair)


def _buckets(
    pairs: Sequence[Pair], longest: int, *, least: int = LEAST_SENTENCES
) -> Iterator[Bucket]:
    """Sort sentences into buckets of similar length."""
    lengths = [_length(pair) for pair in pairs]
    ends = [0, *(math.floor(boundary * longest) for boundary in BOUNDARIES), max(lengths)]
    for before, end in itertools.pairwise(ends):
        indices = tuple(i for i, length in enumerate(lengths) if before < length <= end)
        if indices and len(indices) >= least:
            inside = [lengths[i] for i in indices]
            yield Bucket(min(inside), max(inside), max(inside) <= longest, indices)


def _finding(
    trial: Trial,
    longest: int,
    measured: Sequence[Measured],
    trained_to: int,
    machine: Mapping[str, object],
) -> Finding:
    rows = tuple(
        (
            *(row.bucket.name, "seen" if row.bucket.seen else "longer"),
            *(str(len(row.bucket.indices)), f"{row.beyond:.0%}"),
            *(f"{row.perplexity[name].value:.2f}" for name in (SINUSOIDAL, LEARNED)),
            *(row.bleu[name].show(1) for name in (SINUSOIDAL, LEARNED)),
            f"{row.bleu[CONTROL].value:.1f}",
        )
        for row in measured
    )
    columns = (
        *("words", "in training", "sentences", "subwords beyond any position trained"),
        *("PPL sinusoidal", "PPL learned", "BLEU sinusoidal", "BLEU learned"),
        "BLEU trained on all lengths",
    )
    caption = (
        "Perplexity and BLEU by length; whiskers are 95% intervals, and the dotted line is where "
        "training ended."
    )
    untrained = (
        f"Training had target positions up to {trained_to}. Learned positions beyond that are "
        "still random vectors; sinusoids are defined for all."
    )
    scale = f"{trial.describe_scale()}; one seed."
    finding = Finding(
        name="positions",
        title="Longer than any sentence in training: sinusoidal and learned positions",
        said=SAID,
        tables=(Table(f"Trained on sentences of up to {longest} words", columns, rows),),
        notes=(*_verdict(measured), untrained, ABOUT_CONTROL, scale),
        data={
            "longest": longest,
            "lengths": [row.to_json() for row in measured],
            "machine": machine,
        },
    )
    return add_pictures(finding, {caption: lambda: draw(measured, longest)})


def _verdict(measured: Sequence[Measured]) -> list[str]:
    """Compare the longest test sentences with the longest lengths seen in training."""
    trained_lengths = [row for row in measured if row.bucket.seen]
    longer = [row for row in measured if not row.bucket.seen]
    if not trained_lengths or not longer:
        return [f"Too few sentences to compare: a length needs {LEAST_SENTENCES}."]
    near, far = trained_lengths[-1], longer[-1]
    changes = [
        f"{name} {near.perplexity[name].value:.2f} to {far.perplexity[name].value:.2f} in "
        f"perplexity and {near.bleu[name].value:.1f} to {far.bleu[name].value:.1f} in BLEU"
        for name in (SINUSOIDAL, LEARNED)
    ]
    low, high = far.difference
    if low > 0:
        better = "sinusoids are ahead"
    elif high < 0:
        better = "learned positions are ahead"
    else:
        better = "the difference between the two is not significant"
    lost, control = (near.bleu[name].value - far.bleu[name].value for name in (SINUSOIDAL, CONTROL))
    extrapolation = (
        "Sinusoids lose far more there than a model that saw such lengths "
        f"({lost:.1f} against {control:.1f} BLEU): they do not extrapolate here."
        if lost > 2 * max(control, 1.0)
        else f"Sinusoids lose {lost:.1f} BLEU there, a model that saw such lengths {control:.1f}."
    )
    comparison = (
        f"From {near.bucket.name} words (seen) to {far.bucket.name} (longer): "
        f"{'; '.join(changes)}. "
        f"At the longest {better} in BLEU ({low:+.1f} to {high:+.1f})."
    )
    return [comparison, extrapolation]


def draw(measured: Sequence[Measured], longest: int) -> "Figure":
    """Draw perplexity and BLEU by length."""
    figure, (left, right) = panels(2, 11, 4.2)
    lengths = [(row.bucket.shortest + row.bucket.longest) / 2 for row in measured]
    labels = {SINUSOIDAL: "sinusoidal", LEARNED: "learned", CONTROL: "trained on all lengths"}
    for name, label in labels.items():
        if name != CONTROL:
            plot_estimates(left, lengths, [row.perplexity[name] for row in measured], label)
        plot_estimates(right, lengths, [row.bleu[name] for row in measured], label)
    for axes in (left, right):
        axes.axvline(longest + 0.5, color=QUIET, linestyle=":")
        axes.set_xlabel("words of the longer side")
    log_y_axis(left)
    left.set_title("Perplexity, down is better (logarithmic)")
    right.set_title("BLEU, up is better")
    right.set_ylim(bottom=0)
    right.legend()
    return figure
