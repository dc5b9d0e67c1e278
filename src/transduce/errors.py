"""The errors that users meet.

TransduceError          one clear sentence for a person; the command line prints it and exits with 1
├── BadInput            a text, a file or an argument that cannot be used as it is
├── BadSetting          a setting or preset that does not exist or does not fit
├── BadData             a data set that cannot be had, or is not what it should be
├── BadRun              a run folder, checkpoint or corpus that is missing, foreign or damaged
├── Diverged            training whose loss is no longer a number
├── LostProcess         another process of a run that has ended
├── MissingExtra        an optional library that is not installed
└── Interrupted         work that was stopped from outside, after saving; exits with 130

A message says what was found, where, what was expected and what to do.
"""

import difflib
import re
from collections.abc import Iterable


class TransduceError(Exception):
    """Anything that a user can mend; the message is for people."""


class BadInput(TransduceError):
    """A text, a file or an argument cannot be used as it is."""


class BadSetting(TransduceError):
    """A setting or preset does not exist, or its value does not fit."""


class BadData(TransduceError):
    """A data set cannot be downloaded or unpacked, or is not what it should be."""


class BadRun(TransduceError):
    """A run folder, a checkpoint or a corpus is missing, foreign or damaged."""


class Diverged(TransduceError):
    """The loss is no longer a number."""


class LostProcess(TransduceError):
    """Another process of the same run has ended."""


class Interrupted(TransduceError):
    """The work was stopped from outside, and what was done is saved."""


class MissingExtra(TransduceError):
    """An optional library is needed and not installed."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(what, library, extra)  # so that it may go to another process

    def __str__(self) -> str:
        what, library, extra = self.args
        return f"{what} needs {library}, which is not installed: pip install 'transduce[{extra}]'"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint such as " Did you mean d_model?", or nothing where no name is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""


def out_of_memory(error: BaseException) -> bool:
    """Tell whether memory did not suffice, which torch says in words alone on a CPU."""
    full = re.search("can't allocate memory|out of memory", str(error), re.IGNORECASE)
    return isinstance(error, MemoryError) or full is not None


def in_one_line(error: BaseException) -> str:
    """Return the type of an error and the last line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[-1] if lines else ''}"
