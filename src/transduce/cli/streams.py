"""Standard streams that are not there: closed from the start, or a terminal that has gone."""

import errno
import io
import os
import sys
from typing import Any, TextIO

from transduce.system.files import WINDOWS


def secure() -> None:
    """Have three streams whatever a command was started with.

    One that is closed is opened to nothing: else the next file that is opened would take its
    number, and what was meant for people would be written into it. Of standard input and output it
    is the wrong end, so that text that is read or written there is an error, not lost. Text is
    UTF-8 whatever the locale, as that which is read is, and lines end alike everywhere; file names
    stay as they are.
    """
    ends = (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
    for name, end in ends:
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            number = os.open(os.devnull, end)  # the lowest that is free, so most likely its own
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors, newline="\n")
    if sys.stderr.isatty() and not WINDOWS:  # whose terminals take letters, not bytes
        sys.stderr = _until_it_goes(sys.stderr)


def _until_it_goes(terminal: TextIO) -> io.TextIOWrapper:
    """Write to a terminal as long as it is there: work need not end because nobody sees it."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Terminal(terminal.fileno(), "w", closefd=False)),
        encoding=terminal.encoding,
        errors=terminal.errors,
        line_buffering=True,
    )


class _Terminal(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:  # what a terminal says that has been closed
                raise
            return len(data)
