"""All checks of one translation."""

from transduce.text.languages import language_code
from transduce.translation.guard.copying import find_copy
from transduce.translation.guard.flags import PROTECTED, Flag
from transduce.translation.guard.lengths import find_length
from transduce.translation.guard.numbers import find_numbers
from transduce.translation.guard.repetition import find_repetition
from transduce.translation.guard.scripts import find_script

# Mean log-probability per token below which a model doubts its output.
MIN_CONFIDENCE = -2.2


def check(
    source: str,
    output: str,
    *,
    log_probability: float,
    tokens: int,
    languages: tuple[str, str],
) -> tuple[Flag, ...]:
    """Return the reasons to doubt a translation; mostly there are none.

    `log_probability` is that of the whole output, and `tokens` the number of tokens in it, </s>
    included; 0 tokens say that it is unknown. Protected spans (private-use characters from U+F0000
    on) are ignored in both texts.
    """
    source, output = _visible(source), _visible(output)
    flags: list[Flag] = []
    if detail := find_repetition(source, output):
        flags.append(Flag("repetition", detail))
    if (detail := find_copy(source, output)) and not _same_language(languages):
        flags.append(Flag("copy", detail))
    if detail := find_length(source, output, languages):
        flags.append(Flag("length", detail))
    if detail := find_script(source, output, languages[1]):
        flags.append(Flag("script", detail))
    if detail := find_numbers(source, output):
        flags.append(Flag("numbers", detail))
    if detail := find_doubt(log_probability, tokens):
        flags.append(Flag("confidence", detail))
    return tuple(flags)


def _same_language(languages: tuple[str, str]) -> bool:
    """Whether only region or script differ, so that most words stay."""
    return language_code(languages[0]) == language_code(languages[1])


def _visible(text: str) -> str:
    """Return a text without protected spans."""
    return text if text.isascii() else PROTECTED.sub(" ", text)


def find_doubt(log_probability: float, tokens: int) -> str | None:
    """Describe a low mean log-probability per token."""
    if tokens <= 0:
        return None
    mean = log_probability / tokens
    if mean >= MIN_CONFIDENCE:
        return None
    return f"mean log-probability {mean:.2f} per token: expected {MIN_CONFIDENCE:.2f} or more"
