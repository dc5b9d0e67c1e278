"""The errors that users meet.

TransduceError          one clear sentence for a person; the command line prints it and exits with 1
├── BadInput            a text, a file or an argument that cannot be used as it is
│   └── UnsupportedFormat  a document in a format that is not read yet
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
import unicodedata
from collections.abc import Iterable


class TransduceError(Exception):
    """Anything that a user can mend; the message is for people."""


class BadInput(TransduceError):
    """A text, a file or an argument cannot be used as it is."""


class UnsupportedFormat(BadInput):
    """A document is not plain text, and its format is not read yet."""

    def __init__(self, message: str, *, binary: bool = False) -> None:
        super().__init__(message)
        self.binary = binary  # its bytes cannot be taken for lines of text


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

    def __init__(self, what: str, library: str, extra: str, otherwise: str = "") -> None:
        """`otherwise` says what to do without the library."""
        super().__init__(what, library, extra, otherwise)  # args, so that it can be pickled

    def __str__(self) -> str:
        what, library, extra, otherwise = self.args
        return (
            f"{what} needs {library}, which is not installed: pip install 'transduce[{extra}]'"
            f"{otherwise and ', or ' + otherwise}"
        )


def printable(text: str) -> str:
    r"""Return a text on one line that a terminal shows as it is.

    Control characters, line ends and marks that reverse the direction of text become escapes such
    as \x1b: whoever wrote a model's files must not steer the reader's terminal.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(letter: str) -> str:
    kept = letter.isprintable() or unicodedata.category(letter) in ("Zs", "Co", "Cn", "Cs")
    harmless = letter in "\u200c\u200d"  # joiners, which many scripts need
    return letter if kept or harmless else letter.encode("unicode_escape").decode()


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return a hint such as " Did you mean d_model?", or nothing where no name is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]}?" if near else ""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory did not suffice, which torch says in words alone on a CPU."""
    full = re.search("can't allocate memory|out of memory", str(error), re.IGNORECASE)
    return isinstance(error, MemoryError) or full is not None


def summarize_error(error: BaseException) -> str:
    """Return the type of an error and the last line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[-1] if lines else ''}"
