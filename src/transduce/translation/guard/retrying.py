"""Other searches for a flagged output, and the choice among its candidates."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from transduce.config import SearchConfig
from transduce.translation.guard.flags import Flag, Kind
from transduce.translation.guard.lengths import TOO_LONG

# How bad a flag is: the reader of an empty or looping text has no translation at all.
SEVERITY: dict[Kind, float] = {
    "repetition": 3.0,
    "copy": 3.0,
    "script": 3.0,
    "length": 2.0,
    "numbers": 2.0,
    "confidence": 1.0,
}
MAX_BEAM = 12
LONGER_ALPHA = 1.0  # raises the score of longer outputs
SHORTER_ALPHA = 0.2


@dataclass(frozen=True, slots=True)
class Attempt:
    """One output for a source, with its flags."""

    text: str
    score: float  # log-probability divided by the length penalty; higher is better
    flags: tuple[Flag, ...]

    @property
    def severity(self) -> float:
        """The sum over its flags; an output without flags has 0."""
        return sum(SEVERITY[flag.kind] for flag in self.flags)


def retry_settings(flags: Iterable[Flag], config: SearchConfig) -> list[SearchConfig]:
    """Return the searches to try for an output with these flags, in this order.

    A sampled output is searched with a beam first. Then the beam is doubled, up to `MAX_BEAM`, and
    the length penalty changed: less for an output too long or repetitive, else more. The last is
    greedy, because a wide beam prefers empty outputs and copies at times. None of them is the
    search that gave the output.
    """
    flags = tuple(flags)
    if not flags:
        return []
    search = replace(config, sample=False, nbest=1, beam=max(config.beam, SearchConfig().beam))
    wider = replace(search, beam=max(search.beam, min(2 * search.beam, MAX_BEAM)))
    too_long = any(flag.kind == "repetition" or _is_too_long(flag) for flag in flags)
    alpha = min(SHORTER_ALPHA, config.alpha / 2) if too_long else max(LONGER_ALPHA, config.alpha)
    tries = [search, wider, replace(wider, alpha=alpha), replace(search, beam=1)]
    return [attempt for attempt in dict.fromkeys(tries) if attempt != replace(config, nbest=1)]


def _is_too_long(flag: Flag) -> bool:
    return flag.kind == "length" and flag.detail.startswith(TOO_LONG)


def better(candidates: Iterable[Attempt]) -> Attempt:
    """Return the candidate with the least severe flags; then the highest score; then the first."""
    return min(candidates, key=lambda attempt: (attempt.severity, -attempt.score))
