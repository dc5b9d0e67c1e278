"""All errors that users can fix themselves.

TransduceError          the command line prints its message and exits with 1
├── BadInput            a text, file or argument cannot be used
│   └── UnsupportedFormat  a document is not plain text
├── BadSetting          a setting or preset does not exist, or its value is invalid
├── BadData             a data set cannot be downloaded or unpacked, or is not the expected one
├── BadRun              a run folder, checkpoint or corpus is missing, damaged or not ours
├── Diverged            the training loss is not finite
├── LostProcess         another process of the same run has ended
├── MissingExtra        an optional library is not installed
└── Interrupted         the work was stopped by a signal, after saving; exits with 130

A message says what was found, where, what was expected and what to do.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable


class TransduceError(Exception):
    """Base class: every error that a user can fix. The message is written for people.

    >>> from transduce import TransduceError, Translator
    >>> try:
    ...     Translator.load("runs/missing")
    ... except TransduceError as error:
    ...     print(error)
    there is no run folder runs/missing...
    """


class BadInput(TransduceError):
    """A text, file or argument cannot be used."""


class UnsupportedFormat(BadInput):
    """A document is not plain text, and its format is not supported."""

    def __init__(self, message: str, *, binary: bool = False, document: str = "") -> None:
        super().__init__(message)
        self.binary = binary  # not readable as lines of text
        self.document = document  # its name for `transduce translate --format`


class BadSetting(TransduceError):
    """A setting or preset does not exist, or its value is invalid."""


class BadData(TransduceError):
    """A data set cannot be downloaded or unpacked, or is not the expected one."""


class BadRun(TransduceError):
    """A run folder, checkpoint or corpus is missing, damaged or not ours."""


class Diverged(TransduceError):
    """The training loss is not finite."""


class LostProcess(TransduceError):
    """Another process of the same run has ended."""


class Interrupted(TransduceError):
    """The work was stopped by a signal, after saving."""


class MissingExtra(TransduceError):
    """A required optional library is not installed."""

    def __init__(self, what: str, library: str, extra: str, otherwise: str = "") -> None:
        """Create the error; `otherwise` says what to do without the library."""
        super().__init__(what, library, extra, otherwise)  # pickle restores errors from args

    def __str__(self) -> str:
        what, library, extra, otherwise = self.args
        return (
            f"{what} needs {library}, which is not installed: pip install 'transduce[{extra}]'"
            f"{otherwise and ', or ' + otherwise}"
        )


def printable(text: str) -> str:
    r"""Escape characters that could control a terminal, because text may be untrusted.

    Control characters, line ends and direction marks become escapes such as \x1b.
    """
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(letter: str) -> str:
    harmless = letter.isprintable() or unicodedata.category(letter) in ("Zs", "Co", "Cn", "Cs")
    joiner = letter in "\u200c\u200d"  # needed in many scripts
    return letter if harmless or joiner else letter.encode("unicode_escape").decode()


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return a hint such as " Did you mean d_model?", or "" if no known name is similar."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {matches[0]}?" if matches else ""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory is exhausted.

    torch has an exception type for this only on a GPU. On the CPU and in CUDA's driver it raises a
    RuntimeError that can be recognized only by its message.
    """
    message = re.search("can't allocate memory|out of memory", str(error), re.IGNORECASE)
    return isinstance(error, MemoryError) or message is not None


def summarize_error(error: BaseException) -> str:
    """Return the type of an error and the last line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[-1] if lines else ''}"
