"""Doubts about translations: pure functions of source and output, without a model.

In reading order: `checking` (all checks of one translation), `flags` (what is reported),
`repetition`, `copying`, `lengths`, `scripts`, `numbers`, `number_words` (a check each), `retrying`
(other searches for a flagged output, and which output to keep). docs/guard.md has what each check
finds and misses, as measured by tools/measure_guard.py.
"""

from transduce.translation.guard.checking import check
from transduce.translation.guard.flags import KINDS, Flag, Kind
from transduce.translation.guard.retrying import Attempt, better, retry_settings

__all__ = ["KINDS", "Attempt", "Flag", "Kind", "better", "check", "retry_settings"]
