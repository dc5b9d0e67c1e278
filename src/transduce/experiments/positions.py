"""Sentences longer than any in training: sinusoidal positions against learned ones (paper 3.5)."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.datasets.pocket import write_pairs
from transduce.errors import BadInput
from transduce.experiments.claims import TEXTS, Trained, Trial, trained
from transduce.experiments.drawing import logarithmic, pictures
from transduce.experiments.findings import Finding, Table
from transduce.experiments.rows import Data
from transduce.experiments.statistics import Resampled
from transduce.experiments.teacher_forcing import Estimate, Forced, forced, perplexity
from transduce.system.progress import Progress
from transduce.text.reading import read_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pairs = list[tuple[str, str]]
Files = tuple[Path, Path]

SINUSOIDAL, LEARNED, CONTROL = "sinusoidal", "learned", "all-lengths"
EVERY = 20  # of the short pairs, one is held out where no test text is given
FEWEST = 10  # sentences of a length that are worth a line
# Where the lengths are cut, in parts of the longest that is trained on.
CUTS = (0.5, 1.0, 1.25, 1.5, 2.0)
SAID = (
    "Learned positions do nearly as well as sinusoids (Table 3 (E)); sinusoids were chosen because "
    "they may allow the model to extrapolate to sequences longer than any it was trained on (3.5)."
)
CONTROLLED = (
    "The model that trained on all lengths, as many pairs of them, tells how hard the long "
    "sentences are by themselves; its subwords are its own, so its perplexity is not beside."
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Test sentences of similar length, and what the models make of them."""

    shortest: int  # words of the longer side
    longest: int
    seen: bool  # whether such lengths were trained on
    places: tuple[int, ...]  # of the sentences

    @property
    def name(self) -> str:
        """The lengths in words."""
        return f"{self.shortest} to {self.longest}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What the models make of one length."""

    bucket: Bucket
    beyond: float  # part of the target's subwords at positions that no training sentence had
    perplexity: dict[str, Estimate]
    bleu: dict[str, Estimate]
    difference: tuple[float, float]  # in BLEU, sinusoidal less learned, as an interval

    def brief(self) -> dict[str, object]:
        """Return the figures."""
        return {
            "words": [self.bucket.shortest, self.bucket.longest],
            "seen": self.bucket.seen,
            "sentences": len(self.bucket.places),
            "beyond": self.beyond,
            "perplexity": {name: one.value for name, one in self.perplexity.items()},
            "bleu": {name: one.value for name, one in self.bleu.items()},
        }


def positions(trial: Trial, data: Data, longest: int, most: int, progress: Progress) -> Finding:
    """Train on short sentences alone, and measure at lengths seen and beyond.

    `longest` is the number of words of either side that is trained on; `most` is how many test
    sentences a length has at most. A third model trains on all lengths, to tell what is hard in
    long sentences themselves.
    """
    if longest < 2:
        raise BadInput(f"--longest {longest}: expected 2 words or more to train on")
    train, test, everything = _texts(trial, data, longest, most)
    languages = "-".join(data.pair())
    short = Data(train=train, test=test, languages=languages)
    variants = {SINUSOIDAL: {"positions": "sinusoidal"}, LEARNED: {"positions": "learned"}}
    done = trained("positions", trial, short, variants, progress)
    whole = Data(train=everything, test=test, languages=languages)
    control = trained("positions", trial, whole, {CONTROL: {}}, progress, folder="control")
    pairs = done.test()
    judged = {name: forced(done.run(name), pairs, trial.device, progress) for name in done.results}
    translations = {
        name: one.experiment.translations(row)
        for one in (done, control)
        for name, row in one.rows.items()
    }
    trained_to = done.corpus().manifest.train.target_longest
    measured = []
    for bucket in _buckets(pairs, longest):
        own = {name: [lines[i] for i in bucket.places] for name, lines in translations.items()}
        bleu = Resampled(own, [pairs[i][1] for i in bucket.places], data.pair()[1])
        measured.append(_measured(bucket, judged, bleu, trained_to))
    return _finding(trial, done, longest, measured, trained_to)


def _texts(trial: Trial, data: Data, longest: int, most: int) -> tuple[Files, Files, Files]:
    """Write the short pairs, the test pairs and, for the control, as many of all lengths."""
    given = data.test or data.valid
    held = [] if given is None else [pair for pair in read_pairs(*given) if all(pair)]
    every: Pairs = []
    for number, pair in enumerate(read_pairs(*data.train)):
        (held if given is None and number % EVERY == 0 and all(pair) else every).append(pair)
    short = [pair for pair in every if 0 < _length(pair) <= longest]
    lengths = [_length(pair) for pair in held]
    if not short or not lengths or not min(lengths) <= longest < max(lengths):
        raise BadInput(
            f"--longest {longest}: expected sentences of up to {longest} words to train on, and "
            "shorter and longer ones to test with; choose another length, or another text"
        )
    taken = [i for bucket in _buckets(held, longest, fewest=1) for i in bucket.places[:most]]
    languages, folder = data.pair(), trial.out / TEXTS
    return (
        write_pairs(folder, "short", short, languages),
        write_pairs(folder, "lengths", [held[i] for i in sorted(taken)], languages),
        write_pairs(folder, "all", every[: len(short)], languages),
    )


def _length(pair: tuple[str, str]) -> int:
    return max(len(side.split()) for side in pair)


def _buckets(
    pairs: Sequence[tuple[str, str]], longest: int, *, fewest: int = FEWEST
) -> Iterator[Bucket]:
    """Sort sentences by length: up to what was trained, and beyond."""
    lengths = [_length(pair) for pair in pairs]
    ends = [0, *(math.floor(cut * longest) for cut in CUTS), max(lengths)]
    for before, end in itertools.pairwise(ends):
        places = tuple(i for i, length in enumerate(lengths) if before < length <= end)
        if places and len(places) >= fewest:
            own = [lengths[i] for i in places]
            yield Bucket(min(own), max(own), max(own) <= longest, places)


def _measured(
    bucket: Bucket, judged: Mapping[str, Sequence[Forced]], bleu: Resampled, trained_to: int
) -> Measured:
    """Put together what the models make of one length."""
    own = {name: [found[i] for i in bucket.places] for name, found in judged.items()}
    tokens = [len(one.nll) for one in own[SINUSOIDAL]]
    return Measured(
        bucket=bucket,
        beyond=sum(max(0, count - trained_to) for count in tokens) / sum(tokens),
        perplexity={name: perplexity(found) for name, found in own.items()},
        bleu={name: Estimate(bleu.whole[name], *bleu.interval(name)) for name in bleu.whole},
        difference=bleu.difference(SINUSOIDAL, LEARNED),
    )


def _finding(
    trial: Trial, done: Trained, longest: int, measured: Sequence[Measured], trained_to: int
) -> Finding:
    rows = tuple(
        (
            *(one.bucket.name, "seen" if one.bucket.seen else "longer"),
            *(str(len(one.bucket.places)), f"{one.beyond:.0%}"),
            *(f"{one.perplexity[name].value:.2f}" for name in (SINUSOIDAL, LEARNED)),
            *(one.bleu[name].show(1) for name in (SINUSOIDAL, LEARNED)),
            f"{one.bleu[CONTROL].value:.1f}",
        )
        for one in measured
    )
    columns = (
        *("words", "in training", "sentences", "subwords beyond any position trained"),
        *("PPL sinusoidal", "PPL learned", "BLEU sinusoidal", "BLEU learned"),
        "BLEU trained on all lengths",
    )
    picture = pictures(
        "Perplexity and BLEU by length; whiskers are 95% intervals, and the dotted line is where "
        "training ended.",
        lambda: draw(measured, longest),
    )
    result = next(iter(done.results.values()))
    random = (
        f"Trained positions end at {trained_to} subwords of the target. Those learned beyond are "
        "still the random vectors that they began with; the sinusoids are defined for all."
    )
    return Finding(
        name="positions",
        title="Longer than any sentence in training: sinusoidal and learned positions",
        said=SAID,
        tables=(Table(f"Trained on sentences of up to {longest} words", columns, rows),),
        pictures=picture.pictures,
        notes=(
            *_verdict(measured),
            random,
            CONTROLLED,
            f"{trial.said()}; one seed.",
            *picture.notes,
        ),
        data={"longest": longest, "lengths": [one.brief() for one in measured]}
        | {"machine": result.machine},
    )


def _verdict(measured: Sequence[Measured]) -> list[str]:
    """Say what came of the longest sentences, beside those of lengths seen."""
    seen = [one for one in measured if one.bucket.seen]
    longer = [one for one in measured if not one.bucket.seen]
    if not seen or not longer:
        return [f"Too few sentences to compare: a length needs {FEWEST}."]
    near, far = seen[-1], longer[-1]
    said = [
        f"{name} {near.perplexity[name].value:.2f} to {far.perplexity[name].value:.2f} in "
        f"perplexity and {near.bleu[name].value:.1f} to {far.bleu[name].value:.1f} in BLEU"
        for name in (SINUSOIDAL, LEARNED)
    ]
    low, high = far.difference
    better = (
        "sinusoids are ahead"
        if low > 0
        else "learned positions are ahead"
        if high < 0
        else "the two are not told apart"
    )
    lost = near.bleu[SINUSOIDAL].value - far.bleu[SINUSOIDAL].value
    control = near.bleu[CONTROL].value - far.bleu[CONTROL].value
    extrapolate = (
        "Sinusoids lose far more there than a model that saw such lengths "
        f"({lost:.1f} against {control:.1f} BLEU): they do not extrapolate here."
        if lost > 2 * max(control, 1.0)
        else f"Sinusoids lose {lost:.1f} BLEU there, a model that saw such lengths {control:.1f}."
    )
    compared = (
        f"From {near.bucket.name} words (seen) to {far.bucket.name} (longer): {'; '.join(said)}. "
        f"At the longest {better} in BLEU ({low:+.1f} to {high:+.1f})."
    )
    return [compared, extrapolate]


def draw(measured: Sequence[Measured], longest: int) -> "Figure":
    """Draw perplexity and BLEU by length."""
    from matplotlib.figure import Figure

    from transduce.inspection.style import COLOURS, MARKERS, QUIET

    figure = Figure(figsize=(11, 4.2), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    at = [(one.bucket.shortest + one.bucket.longest) / 2 for one in measured]
    words = {SINUSOIDAL: "sinusoidal", LEARNED: "learned", CONTROL: "trained on all lengths"}
    for place, (name, label) in enumerate(words.items()):
        for axes, kind in ((left, "perplexity"), (right, "bleu")):
            found: list[Estimate] = [
                getattr(one, kind)[name] for one in measured if name in getattr(one, kind)
            ]
            if found:
                axes.errorbar(
                    at,
                    [one.value for one in found],
                    [
                        [one.value - one.low for one in found],
                        [one.high - one.value for one in found],
                    ],
                    color=COLOURS[place],
                    marker=MARKERS[place],
                    capsize=3,
                    label=label,
                )
    for axes in (left, right):
        axes.axvline(longest + 0.5, color=QUIET, linestyle=":")
        axes.set_xlabel("words of the longer side")
    logarithmic(left)
    left.set_title("Perplexity, down is better (logarithmic)")
    right.set_title("BLEU, up is better")
    right.set_ylim(bottom=0)
    right.legend()
    return figure
